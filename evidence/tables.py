"""Tables that a job would write, from the releases of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Output
from crenel.anonymity.buffer.pseudonym import codes
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.evidence.outputs import Outputs
from crenel.evidence.sample import Sample
from crenel.evidence.setting import Setting
from crenel.operators.output_columns import (
    ARROW,
    SHARD,
    SUPPRESSED,
    Generalization,
    number_kind,
    own_columns,
    promised_numbers,
    rejected_columns,
    release_columns,
)
from crenel.state.block import NO_TIME


@dataclass(frozen=True)
class Left:
    """The output of a shard in one step.

    Attributes
    ----------
    after : the newest sample row
    rows : (members,) sample row of each member
    suppressed_rows : (suppressed,) sample row of each; -1 where it is unknown
    further : as of ``crenel.anonymity.algorithm.Step``
    random_key : of the shard
    """

    shard: int
    after: int
    releases: Releases
    rows: NDArray[np.int64]
    suppressed_rows: NDArray[np.int64]
    further: Mapping[str, Sequence[Sequence[Any]]]
    random_key: bytes


def outputs_of(sample: Sample, setting: Setting, left: Sequence[Left]) -> Outputs:
    """Return tables of these outputs, in this order."""
    releases = [part.releases for part in left]
    generalization = _generalization(sample, setting, releases)
    members = joined(np.repeat(np.arange(len(part)), part.tuples) for part in releases)
    offset = np.repeat(np.cumsum([0, *map(len, releases)])[:-1], [int(part.tuples.sum()) for part in releases])
    of_release = pa.array(members + offset.astype(np.int64))
    released = {name: column.take(of_release) for name, column in generalization.items()}
    suppressed = {
        "reason": _named(setting.privacy.reasons, joined(part.suppressed_reason for part in releases)),
        "shard": joined(np.full(len(part.suppressed_rows), part.shard) for part in left),
        "position": joined(part.suppressed_position for part in releases),
        "event_time": _times(joined(part.suppressed_event_time for part in releases)),
    }
    rejected = {
        "column": _named(sample.checked, sample.rejected.column),
        "reason": _named(REJECTIONS, sample.rejected.reason),
        "event_time": _times(sample.rejected.event_time),
        "reference": pa.array(sample.rejected.reference, pa.string()),
    }
    return Outputs(
        sample.policy,
        pa.table(released | _members(sample, left)),
        pa.table(_audit(sample, setting, left) | generalization),
        pa.table({column.name: suppressed[column.name] for column in SUPPRESSED}),
        pa.table({column.name: rejected[column.name] for column in rejected_columns(sample.policy)}),
        {output.name: _further(output, left) for output in setting.algorithm.outputs},
    )


def joined(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays of numbers; empty without any."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _audit(sample: Sample, setting: Setting, left: Sequence[Left]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for column in release_columns(sample.policy):
        if column is SHARD:
            columns[column.name] = joined(np.full(len(part.releases), part.shard) for part in left)
            continue
        values = joined(column.values(part.releases) for part in left)
        if column.name == "event_time":
            columns[column.name] = _times(values)
        elif column.name == "kind":
            columns[column.name] = _named(KINDS, values)
        else:
            columns[column.name] = pa.array(values, ARROW[column.kind])
    count = sum(len(part.releases) for part in left)
    for name, value in promised_numbers(setting.privacy, setting.sampling_and_noise).items():
        columns[name] = pa.array([value] * count, ARROW[number_kind(value)])
    return columns


def _generalization(sample: Sample, setting: Setting, releases: Sequence[Releases]) -> dict[str, pa.Array]:
    policy = sample.policy
    representative = setting.algorithm.representative(setting.parameters)
    published = Generalization(policy, representative, sample.integers, sample.extremes)
    lower, upper, node = (
        np.concatenate([np.zeros((0, len(of)), kind), *parts])
        for of, kind, parts in (
            (policy.numeric, np.float64, (part.lower for part in releases)),
            (policy.numeric, np.float64, (part.upper for part in releases)),
            (policy.categorical, np.int32, (part.node for part in releases)),
        )
    )
    return {
        # Ends are float64 also where those of a sink are whole; Arrow refuses whole numbers that float64 rounds.
        column.name: pa.array(values, pa.string())
        if column.kind == "STRING"
        else pa.array(np.array(values, np.float64))
        for column, values in zip(published.columns, published.values(lower, upper, node), strict=True)
    }


def _members(sample: Sample, left: Sequence[Left]) -> dict[str, Any]:
    """Return sensitive, noised and pass-through values as they are written, and pseudonyms."""
    policy, rows = sample.policy, pa.array(joined(part.rows for part in left))
    noised = {attribute.name: len(policy.sensitive) + i for i, attribute in enumerate(policy.noised)}
    columns: dict[str, Any] = {}
    for name in policy.members:
        if name in noised:
            # The core adds noise to these values, so they come from the release and not from the sample.
            values = [value for part in left for value in part.releases.members[noised[name]]]
            columns[name] = pa.array(values, sample.tuples.members.schema.field(name).type).cast(pa.string())
        else:
            columns[name] = sample.tuples.members.column(name).take(rows).cast(pa.string())
    if policy.pseudonym is not None:
        key = sample.subject_key.pseudonym_key
        found = [codes(policy.pseudonym, key, part.random_key, part.releases) for part in left]
        columns[policy.pseudonym.column] = pa.array([code for part in found for code in part], pa.string())
    return columns


def _further(output: Output, left: Sequence[Left]) -> pa.Table:
    columns = own_columns(output)
    rows = [row for part in left for row in part.further.get(output.name, ())]
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    return pa.table(
        {column.name: pa.array(list(of), ARROW[column.kind]) for column, of in zip(columns, values, strict=True)}
    )


def _named(names: Sequence[str | None], numbers: NDArray[Any]) -> pa.Array:
    return pa.array(list(names), pa.string()).take(pa.array(numbers))


def _times(times: NDArray[np.int64]) -> pa.Array:
    return pa.array(times, mask=times == NO_TIME)
