"""Drive of the encoder in tests: rows in, tuples of its blocks out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.encode.columns import Read, members_schema
from crenel.operators.encode.encoder import Encoder
from crenel.operators.plan import AnonymizationPlan
from crenel.state.block import Block
from tests.support.layouts import encode_plan, layout_of

ODD = ('a "b", c', "line\nbreak", "it's; so", "Zürich", "東京 🏯", "", " ", "nan", "None")
AREA = from_paths([(label, f"group {i % 3}", "*") for i, label in enumerate(ODD)])
KEYS = tuple(range(100, 132))
NAN, INF = float("nan"), float("inf")

COLUMNS = {
    "age": "INT",
    "area": "STRING",
    "pay": "STRING",
    "speed": "DOUBLE",
    "income": "STRING",
    "bonus": "DOUBLE",
    "trip": "BIGINT",
    "ok": "BOOLEAN",
    "person": "STRING",
    "ts": "BIGINT",
    "line": "BIGINT",
}
POLICY = Policy(
    quasi_identifiers={
        "age": Numeric((0, 100)),
        "area": Categorical(AREA),
        "pay": Numeric(),
        "speed": Numeric((-1.5, 8)),
    },
    sensitive=("income", "bonus"),
    passthrough=("trip", "ok"),
    subject="person",
    event_time="ts",
    reference="line",
)
GOOD: dict[str, Any] = {
    "age": 40,
    "area": "Zürich",
    "pay": "1.5",
    "speed": 2.5,
    "income": "high",
    "bonus": 0.5,
    "trip": 7,
    "ok": True,
    "person": "ann",
    "ts": 1_700_000_000_000,
    "line": 12,
}


def plan_of(
    policy: Policy = POLICY, columns: dict[str, str] = COLUMNS, shards: Shards | None = None, key: bytes = b"secret"
) -> AnonymizationPlan:
    shards = shards or Shards(1)
    found = layout_of(policy, {name: columns[name] for name in policy.roles})
    return encode_plan(found, shards, KEYS[: shards.count], SubjectKey.of(key))


def without(*roles: str, **changed: Any) -> Policy:
    """``POLICY`` without the columns of some roles."""
    kept = {field: getattr(POLICY, field) for field in Policy.__dataclass_fields__ if field not in roles}
    return Policy(**{**kept, **changed})


def arguments(plan: AnonymizationPlan, rows: Sequence[dict[str, Any]]) -> list[pd.Series[Any]]:
    """Return the arguments that PyFlink calls the function with."""
    single = (plan.subject, plan.event_time, plan.reference)
    reads = [
        *plan.quasi_identifiers,
        *plan.sensitive,
        *plan.noised,
        *plan.passthrough,
        *(read for read in single if read is not None),
    ]
    series: dict[int, pd.Series[Any]] = {}
    for read in reads:
        series[read.value] = as_series(read, [row[read.name] for row in rows])
        if read.missing is not None:
            series[read.missing] = pd.Series([row[read.name] is None for row in rows], dtype=bool)
    if plan.watermark is not None:
        series[plan.watermark.value] = as_series(plan.watermark, [None] * len(rows))
    return [series[position] for position in range(len(series))]


def as_series(read: Read, values: list[Any]) -> pd.Series[Any]:
    match read.form:
        case "number":
            return pd.Series([NAN if value is None else float(value) for value in values], dtype=np.float64)
        case "integer":
            return pd.Series([0 if value is None else value for value in values], dtype=np.int64)
        case "time" | "watermark":
            times = pa.array(values, pa.timestamp("ms")).to_pandas()
            return times.dt.tz_localize("UTC")
        case "boolean":
            return pa.array(values, pa.bool_()).to_pandas().astype(object if None in values else bool)
        case _:
            return pa.array([None if value is None else str(value) for value in values], pa.string()).to_pandas()


@dataclass(frozen=True)
class Outcome:
    """Results of batches: the tuples of each shard in order, and the rejected rows."""

    tuples: dict[int, list[tuple[Any, ...]]]
    rejected: list[tuple[str, str, int, str | None]]


def blocks_of(plan: AnonymizationPlan, rows: Sequence[dict[str, Any]]) -> list[Block]:
    """Return the blocks of one batch, read back from their bytes."""
    keys, blobs = Encoder(plan).encode(*arguments(plan, rows))
    assert len(keys) == len(blobs) == len(rows)
    schema = members_schema(plan.sensitive + plan.noised + plan.passthrough)
    blocks = []
    for key, blob in zip(keys.tolist(), blobs, strict=True):
        if blob is None:
            assert key == 0
            continue
        block = Block.from_bytes(blob, schema)
        assert key == plan.keys[block.shard]
        blocks.append(block)
    assert len({block.shard for block in blocks}) == len(blocks)
    return blocks


def encoded(plan: AnonymizationPlan, batches: Iterable[Sequence[dict[str, Any]]]) -> Outcome:
    outcome = Outcome({}, [])
    for batch in batches:
        for block in blocks_of(plan, batch):
            outcome.tuples.setdefault(block.shard, []).extend(tuples_of(block))
            bad = block.rejected
            for i, (column, reason, time) in enumerate(
                zip(bad.column.tolist(), bad.reason.tolist(), bad.event_time.tolist(), strict=True)
            ):
                reference = bad.reference[i] if bad.reference else None
                outcome.rejected.append((plan.checked[column], REJECTIONS[reason], time, reference))
            assert block.shard == 0 or not len(bad.column)
    return Outcome({shard: tuples for shard, tuples in outcome.tuples.items() if tuples}, outcome.rejected)


def tuples_of(block: Block) -> list[tuple[Any, ...]]:
    members = [
        # repr: NaN is not equal to itself.
        tuple(repr(value) for value in row.values())
        for row in block.members.to_pylist()
    ] or [()] * len(block)
    subjects = [None] * len(block) if block.subject is None else block.subject.tolist()
    columns = (block.numeric, block.categorical, block.sensitive, block.event_time)
    return list(zip(*(map(repr, column.tolist()) for column in columns), subjects, members, strict=True))
