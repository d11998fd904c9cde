"""Tables that a job would write, from the releases of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.buffer.pseudonym import codes
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.evidence.outputs import Outputs
from crenel.evidence.sample import Sample
from crenel.evidence.setting import Setting
from crenel.operators.bounds import integer_bounds, within
from crenel.state.block import NO_TIME

_TYPES = {"INT": pa.int64(), "LONG": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "STRING": pa.string()}


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
    """Return tables of these outputs, in this order; columns as in ``docs/outputs.md``."""
    policy, reasons = sample.policy, setting.privacy.reasons
    releases = [part.releases for part in left]
    generalization = _generalization(sample, setting, releases)
    members = joined(np.repeat(np.arange(len(part)), part.tuples) for part in releases)
    offset = np.repeat(np.cumsum([0, *map(len, releases)])[:-1], [int(part.tuples.sum()) for part in releases])
    of_release = pa.array(members + offset.astype(np.int64))
    released = {name: column.take(of_release) for name, column in generalization.items()}
    released |= _members(sample, left)
    suppressed = pa.table(
        {
            "reason": _named(reasons, joined(part.suppressed_reason.astype(np.int64) for part in releases)),
            "shard": joined(np.full(len(part.suppressed_rows), part.shard) for part in left),
            "position": joined(part.suppressed_position for part in releases),
            "event_time": _times(joined(part.suppressed_event_time for part in releases)),
        }
    )
    further = {
        output.name: _further(output.columns, [row for part in left for row in part.further.get(output.name, ())])
        for output in setting.algorithm.outputs
    }
    audit = _audit(sample, setting, left) | generalization
    return Outputs(policy, pa.table(released), pa.table(audit), suppressed, _rejected(sample), further)


def joined(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Concatenate arrays of whole numbers; empty without any."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _audit(sample: Sample, setting: Setting, left: Sequence[Left]) -> dict[str, Any]:
    releases = [part.releases for part in left]
    columns: dict[str, Any] = {
        "release_id": joined(part.release_id for part in releases),
        "shard": joined(np.full(len(part.releases), part.shard) for part in left),
        "event_time": _times(joined(part.event_time for part in releases)),
        "kind": _named(KINDS, joined(part.kind.astype(np.int64) for part in releases)),
        "subjects": joined(part.subjects for part in releases),
        "tuples": joined(part.tuples for part in releases),
    }
    for i, name in enumerate(sample.policy.sensitive):
        columns[f"diversity_{name}"] = joined(part.diversity[:, i] for part in releases)
    columns["loss"] = _reals(part.loss for part in releases)
    if sample.policy.noised:
        columns["linkable"] = joined(part.linked for part in releases)
    for i, attribute in enumerate(sample.policy.noised):
        columns[f"noise_error_{attribute.name}"] = _reals(part.noise_error[:, i] for part in releases)
        columns[f"noise_expected_{attribute.name}"] = _reals(part.noise_expected[:, i] for part in releases)
    count, noise = len(columns["release_id"]), setting.sampling_and_noise
    in_force: dict[str, float | None] = {
        **setting.privacy.in_force,
        "sample_rate": None if noise is None else noise.sample_rate,
        "phi": None if noise is None else noise.phi,
    }
    for name, value in in_force.items():
        kind = pa.int64() if isinstance(value, int) else pa.float64()
        columns[name] = pa.nulls(count, kind) if value is None else pa.array(np.full(count, value), kind)
    return columns


def _generalization(sample: Sample, setting: Setting, releases: Sequence[Releases]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    numeric = categorical = 0
    one = setting.algorithm.representative(setting.parameters)
    for attribute in sample.policy.quasi_identifiers:
        name = attribute.name
        if isinstance(attribute, Numeric):
            lower = _reals(part.lower[:, numeric] for part in releases)
            upper = _reals(part.upper[:, numeric] for part in releases)
            numeric += 1
            if one:
                columns[name] = pa.array(lower)
                continue
            lower, upper = within(lower, upper, sample.extremes.get(name))
            if name in sample.integers:
                lower, upper = (np.array(end, np.float64) for end in integer_bounds(lower, upper))
            columns[f"{name}_min"], columns[f"{name}_max"] = pa.array(lower), pa.array(upper)
        else:
            columns[name] = _named(
                attribute.hierarchy.labels, joined(part.node[:, categorical].astype(np.int64) for part in releases)
            )
            categorical += 1
    return columns


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


def _rejected(sample: Sample) -> pa.Table:
    rejected = sample.rejected
    columns: dict[str, Any] = {
        "column": _named(sample.checked, rejected.column.astype(np.int64)),
        "reason": _named(REJECTIONS, rejected.reason.astype(np.int64)),
        "event_time": _times(rejected.event_time),
    }
    if sample.policy.reference is not None:
        columns["reference"] = pa.array(rejected.reference, pa.string())
    return pa.table(columns)


def _further(columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    values: Iterator[Any] = zip(*rows, strict=True) if rows else iter([()] * len(columns))
    return pa.table(
        {name: pa.array(list(of), _TYPES[kind]) for (name, kind), of in zip(columns.items(), values, strict=True)}
    )


def _named(names: Sequence[str | None], numbers: NDArray[np.int64]) -> pa.Array:
    return pa.array(list(names), pa.string()).take(pa.array(numbers))


def _times(times: NDArray[np.int64]) -> pa.Array:
    return pa.array(times, mask=times == NO_TIME)


def _reals(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *parts])
