"""Tables that a job would write, from the outputs of shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Output, Shard, Step
from crenel.anonymity.buffer.releases import Releases, codes
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.operators.bounds import as_written
from crenel.operators.output_columns import (
    ARROW,
    SHARD,
    SUPPRESSED,
    OutputColumn,
    number_kind,
    own_columns,
    rejected_columns,
    release_columns,
)
from crenel.operators.plan import AnonymizationPlan
from crenel.state.block import NO_TIME, Rejected


@dataclass(frozen=True)
class ShardOutput:
    """The output of a shard in one step.

    Attributes
    ----------
    after : the newest sample row
    rows : (members,) sample row of each member
    suppressed_rows : (suppressed,) sample row of each
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

    @property
    def is_empty(self) -> bool:
        """Whether no tuple was released or suppressed, and no row of a further output written."""
        return not (len(self.releases) or len(self.releases.suppressed_reason) or self.further)

    @classmethod
    def of(cls, shard: Shard, step: Step, after: int = 0) -> ShardOutput:
        """Return the output of a step of a shard whose last published column is the row."""
        rows, suppressed = (
            np.array(members[-1] if members else [], np.int64)
            for members in (step.releases.members, step.releases.suppressed_members)
        )
        return cls(shard.number, after, step.releases, rows, suppressed, step.further, shard.random_key)


@dataclass(frozen=True)
class TableWriter:
    """Conversion of the outputs of shards to tables, with the columns of ``crenel.operators.output_columns``.

    Attributes
    ----------
    plan : of the shards
    event_time : type of event times; whole numbers are epoch milliseconds
    ends : type of the ends of the interval of some numeric quasi-identifiers; float64 for others. Days and timestamps
        are also the type of a representative
    """

    plan: AnonymizationPlan
    event_time: pa.DataType = field(default_factory=pa.int64)
    ends: Mapping[str, pa.DataType] = field(default_factory=dict)

    def generalized(self, parts: Sequence[ShardOutput]) -> dict[str, pa.Array]:
        """Return the published quasi-identifiers of each release."""
        policy, releases = self.plan.policy, [part.releases for part in parts]
        lower, upper, node = (
            np.concatenate([np.zeros((0, len(attributes)), kind), *ends])
            for attributes, kind, ends in (
                (policy.numeric, np.float64, (part.lower for part in releases)),
                (policy.numeric, np.float64, (part.upper for part in releases)),
                (policy.categorical, np.int32, (part.node for part in releases)),
            )
        )
        columns = self.plan.generalization.columns
        sets = range(len(policy.sets))
        listed = [[text for part in releases for text in part.listed[number]] for number in sets]
        values = self.plan.generalization.values(lower, upper, node, listed)
        return {column.name: self._generalized(column, of) for column, of in zip(columns, values, strict=True)}

    def _generalized(self, column: OutputColumn, values: list[Any]) -> pa.Array:
        if column.kind == "STRING":
            return pa.array(values, pa.string())
        attribute = self.plan.policy.attributes[column.position or 0]
        kind = self.ends.get(attribute.name)
        if kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            stamps = pc.floor(pa.array(values, pa.float64())).cast(pa.int64()).cast(pa.timestamp("ms"))
            if getattr(kind, "unit", "") == "s":
                stamps = pc.floor_temporal(stamps, unit="second")  # the cast rounds towards 1970
            return stamps.cast(pa.timestamp("ms", getattr(kind, "tz", None))).cast(kind, safe=False)
        if attribute.name not in self.ends or not self.plan.generalization.is_interval(attribute):
            # Also where those of a sink are whole; Arrow refuses whole numbers that float64 rounds.
            return pa.array(np.array(values, np.float64), from_pandas=True)  # a missing number is null
        return as_written(pa.array(values, ARROW[column.kind]), self.ends[attribute.name])

    def of_members(self, generalized: Mapping[str, pa.Array], parts: Sequence[ShardOutput]) -> dict[str, pa.Array]:
        """Return the columns of ``generalized``, one per release, with a value for each member."""
        sizes = joined(part.releases.tuples for part in parts)
        release = pa.array(np.repeat(np.arange(len(sizes)), sizes))
        return {name: column.take(release) for name, column in generalized.items()}

    def pseudonyms(self, parts: Sequence[ShardOutput]) -> dict[str, pa.Array]:
        """Return the column of pseudonyms, where the policy has one."""
        pseudonym = self.plan.policy.pseudonym
        if pseudonym is None:
            return {}
        key = self.plan.subject_key.pseudonym_key
        found = [codes(pseudonym, key, part.random_key, part.releases) for part in parts]
        return {pseudonym.column: pa.array([code for part in found for code in part], pa.string())}

    def audit(self, parts: Sequence[ShardOutput]) -> dict[str, Any]:
        """Return the audit columns of each release before its generalization."""
        columns: dict[str, Any] = {}
        for column in release_columns(self.plan.policy):
            if column is SHARD:
                columns[column.name] = joined(np.full(len(part.releases), part.shard) for part in parts)
                continue
            values = joined(column.values(part.releases) for part in parts)
            if column.name == "event_time":
                columns[column.name] = self._times(values)
            elif column.name == "kind":
                columns[column.name] = _named(KINDS, values)
            else:
                columns[column.name] = pa.array(values, ARROW[column.kind])
        count = sum(len(part.releases) for part in parts)
        for name, value in self.plan.values_in_force.items():
            kind = pa.string() if isinstance(value, str) else ARROW[number_kind(value)]
            columns[name] = pa.array([value] * count, kind)
        return columns

    def suppressed(self, parts: Sequence[ShardOutput]) -> dict[str, Any]:
        """Return the columns of suppressed tuples."""
        releases = [part.releases for part in parts]
        columns = {
            "reason": _named(self.plan.context.privacy.reasons, joined(part.suppressed_reason for part in releases)),
            "shard": joined(np.full(len(part.releases.suppressed_reason), part.shard) for part in parts),
            "position": joined(part.suppressed_position for part in releases),
            "event_time": self._times(joined(part.suppressed_event_time for part in releases)),
        }
        return {column.name: columns[column.name] for column in SUPPRESSED}

    def rejected(self, parts: Sequence[Rejected]) -> dict[str, Any]:
        """Return the columns of rejected records."""
        columns = {
            "column": _named(self.plan.checked, joined(part.column for part in parts)),
            "reason": _named(REJECTIONS, joined(part.reason for part in parts)),
            "event_time": self._times(joined(part.event_time for part in parts)),
            "reference": pa.array([reference for part in parts for reference in part.reference], pa.string()),
        }
        return {column.name: columns[column.name] for column in rejected_columns(self.plan.policy)}

    def further(self, parts: Sequence[ShardOutput]) -> dict[str, pa.Table]:
        """Return the further outputs of the algorithm, by name."""
        written = self.plan.algorithm.written(self.plan.context.logs)
        return {output.name: _further(output, parts) for output in written}

    def _times(self, times: NDArray[np.int64]) -> pa.Array:
        column = pa.array(times, pa.int64(), mask=times == NO_TIME)
        if not pa.types.is_timestamp(self.event_time):
            return column
        return column.cast(pa.timestamp("ms", self.event_time.tz)).cast(self.event_time)


def outputs_of(sample: Sample, setting: ReplaySetting, parts: Sequence[ShardOutput]) -> RunOutputs:
    """Return tables of these outputs of a replay, in this order."""
    writer = TableWriter(sample.plan_under(setting))
    generalized = writer.generalized(parts)
    members = _members(sample, parts) | writer.pseudonyms(parts)
    return RunOutputs(
        sample.policy,
        pa.table(writer.of_members(generalized, parts) | members),
        pa.table(writer.audit(parts) | generalized),
        pa.table(writer.suppressed(parts)),
        pa.table(writer.rejected([sample.rejected])),
        writer.further(parts),
    )


def joined(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays of numbers; empty without any."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _members(sample: Sample, parts: Sequence[ShardOutput]) -> dict[str, Any]:
    """Return sensitive, noised and pass-through values as they are written."""
    policy, rows = sample.policy, pa.array(joined(part.rows for part in parts))
    noised = {attribute.name: len(policy.sensitive) + i for i, attribute in enumerate(policy.noised.values())}
    columns: dict[str, Any] = {}
    for name in policy.members:
        if name in noised:
            # The core adds noise to these values, so they come from the release and not from the sample.
            values = [value for part in parts for value in part.releases.members[noised[name]]]
            columns[name] = pa.array(values, sample.tuples.members.schema.field(name).type).cast(pa.string())
        else:
            column = sample.tuples.members.column(name).take(rows)
            if pa.types.is_binary(column.type):
                column = pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
            columns[name] = column.cast(pa.string())
    return columns


def _further(output: Output, parts: Sequence[ShardOutput]) -> pa.Table:
    columns = own_columns(output)
    rows = [row for part in parts for row in part.further.get(output.name, ())]
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    return pa.table(
        {
            column.name: pa.array(list(column_values), ARROW[column.kind])
            for column, column_values in zip(columns, values, strict=True)
        }
    )


def _named(names: Sequence[str | None], numbers: NDArray[Any]) -> pa.Array:
    return pa.array(list(names), pa.string()).take(pa.array(numbers))
