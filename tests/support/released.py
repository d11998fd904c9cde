"""Outputs of runs that never were, in which everything holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Pseudonym
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.spans import Guarantees

K, L, SHARDS = 3, 2, 2
TREE = from_paths([("oslo", "north", "all"), ("bergen", "north", "all"), ("rome", "south", "all")])
ILLNESSES = ("flu", "gout", "cold", "")
GENERALIZATION = [("age_min", pa.float64()), ("age_max", pa.float64()), ("town", pa.string())]
MEMBERS = [("illness", pa.string()), ("id", pa.string()), ("who", pa.string())]
AUDIT = [
    *((name, pa.int64()) for name in ("release_id", "shard", "event_time")),
    ("kind", pa.string()),
    *((name, pa.int64()) for name in ("subjects", "tuples", "diversity_illness")),
    ("loss", pa.float64()),
    *((name, pa.int64()) for name in ("k", "l")),
    *((name, pa.float64()) for name in ("alpha", "sample_rate", "phi")),
    *GENERALIZATION,
]
SUPPRESSED = [("reason", pa.string()), *((name, pa.int64()) for name in ("shard", "position", "event_time"))]
SUMMARY = [("shard", pa.int64()), ("name", pa.string()), ("amount", pa.float64())]
POLICY = Policy(
    {"age": Numeric((0, 99)), "town": Categorical(TREE)},
    sensitive=("illness",),
    passthrough=("id",),
)
PRIVACY = Privacy(K, L, models={"alpha": 0.8})
GUARANTEES = Guarantees(
    policy=POLICY,
    privacy=PRIVACY,
    in_force={"k": K, "l": L, "alpha": 0.8, "sample_rate": None, "phi": None},
    shards=SHARDS,
    generalizes=False,
    noise=False,
)

Row = dict[str, Any]


@dataclass
class Run:
    """Rows of each output, which a test may change before it makes them tables."""

    released: list[Row]
    audit: list[Row]
    suppressed: list[Row]
    summary: list[Row]
    pseudonym: bool
    subject: bool

    def outputs(self) -> RunOutputs:
        """Return the rows as tables."""
        policy = replace(
            POLICY,
            subject="person" if self.subject else None,
            pseudonym=Pseudonym("who", "stream", accept_linkable=True) if self.pseudonym else None,
        )
        columns = [*GENERALIZATION, *(MEMBERS if self.pseudonym else MEMBERS[:2])]
        rows = [{name: row[name] for name, _ in columns} for row in self.released]
        return RunOutputs(
            policy,
            pa.Table.from_pylist(rows, pa.schema(columns)),
            pa.Table.from_pylist(self.audit, pa.schema(AUDIT)),
            pa.Table.from_pylist(self.suppressed, pa.schema(SUPPRESSED)),
            None,
            {"summary": pa.Table.from_pylist(self.summary, pa.schema(SUMMARY))},
        )


def diversity(rows: Sequence[tuple[int, str]]) -> int:
    """Return the largest l that rows of persons keep, as docs/privacy/guarantees.md has the test."""
    persons = {who for who, _ in rows}
    held = sorted(
        (len({who for who, value in rows if value == one}) for one in {value for _, value in rows}), reverse=True
    )
    return max(least for least in range(1, len(held) + 1) if sum(held[: least - 1]) < len(persons))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Return some classes, rows that reuse them, and suppressed rows, over two shards."""
    subject = draw(st.booleans())
    pseudonym = subject and draw(st.booleans())
    run = Run([], [], [], [], pseudonym, subject)
    following: dict[int, int] = defaultdict(int)
    classes = draw(st.lists(st.lists(st.sampled_from(ILLNESSES), min_size=K, max_size=9), min_size=1, max_size=5))
    for number, values in enumerate(classes):
        persons = [draw(st.integers(0, len(values))) if subject else i for i in range(len(values))]
        rows = list(zip(persons, values, strict=True))
        found, count = diversity(rows), len(set(persons))
        commonest = max(Counter({value: len({who for who, one in rows if one == value}) for value in values}).values())
        assume(count >= K and found >= L and commonest <= 0.8 * count)
        generalization = {
            "age_min": float(number),
            "age_max": 50.0 + number,
            "town": draw(st.sampled_from(TREE.labels)),
        }
        shard = draw(st.integers(0, SHARDS - 1))
        statements = {"subjects": count, "diversity_illness": found}
        _release(run, following, shard, "cluster", statements, generalization, rows, number)
        for _ in range(draw(st.integers(0, 2)) if draw(st.booleans()) else 0):
            _release(run, following, shard, "reused", statements, generalization, [(100 + number, "gout")], number)
    for position in range(draw(st.integers(0, 2))):
        run.suppressed.append({"reason": "outlier", "shard": 0, "position": position, "event_time": None})
    for shard in range(SHARDS):
        of = [row for row in run.audit if row["shard"] == shard]
        counts = {"released": sum(row["tuples"] for row in of), "suppressed.outlier": 0}
        counts |= {f"releases.{kind}": sum(row["kind"] == kind for row in of) for kind in ("cluster", "reused")}
        if shard == 0:
            counts["suppressed.outlier"] = len(run.suppressed)
        run.summary += [{"shard": shard, "name": name, "amount": float(amount)} for name, amount in counts.items()]
    return run


def _release(
    run: Run,
    following: dict[int, int],
    shard: int,
    kind: str,
    statements: Row,
    generalization: Row,
    rows: Sequence[tuple[int, str]],
    number: int,
) -> None:
    row = dict.fromkeys(name for name, _ in AUDIT) | {"release_id": following[shard], "shard": shard, "kind": kind}
    row |= {"tuples": len(rows), "loss": 0.5, "k": K, "l": L, "alpha": 0.8, "event_time": 1000 * len(run.audit)}
    run.audit.append({**row, **statements, **generalization})
    following[shard] += 1
    for person, value in rows:
        member = {"illness": value, "id": str(len(run.released)), "who": f"{number}-{person}"}
        run.released.append({**generalization, **member})
