"""Outputs of the operator as Flink rows, with positional column names that no column of a user can clash with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyflink.common import Row, Types
from pyflink.common.typeinfo import TypeInformation

from crenel.anonymity.algorithm import Counters, Output
from crenel.anonymity.buffer.pseudonym import codes
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.operators.bounds import integer_bounds, within
from crenel.operators.column_names import CHAIN, CLOSING, named
from crenel.operators.shards.chain import Chain
from crenel.operators.shards.plan import OperatorPlan
from crenel.state.block import NO_TIME, Rejected

try:  # a quarter of the cost of a Row; internal to PyFlink, so go on without it where it has gone
    from pyflink.fn_execution.coder_impl_fast import InternalRow
except ImportError:
    InternalRow = None

_BATCH = 5000

_MEMBER_TYPES = {
    pa.int64(): Types.LONG,
    pa.timestamp("ms"): Types.LONG,
    pa.float64(): Types.DOUBLE,
    pa.bool_(): Types.BOOLEAN,
    pa.string(): Types.STRING,
}

SUPPRESSED_TYPE = Types.ROW_NAMED(
    ["shard", "reason", "seq", "event_ms"],
    [Types.INT(), *map(Types.OBJECT_ARRAY, (Types.STRING(), Types.LONG(), Types.LONG()))],
)
REJECTED_TYPE = Types.ROW_NAMED(
    ["col", "reason", "event_ms", "reference"],
    [*map(Types.OBJECT_ARRAY, (Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()))],
)
FORGOTTEN_TYPE = Types.ROW_NAMED(
    ["code", "shard", "event_ms", "clock_ms", "tuples"],
    [Types.STRING(), Types.INT(), Types.LONG(), Types.LONG(), Types.LONG()],
)
SUMMARY_TYPE = Types.ROW_NAMED(["shard", "name", "amount"], [Types.INT(), Types.STRING(), Types.DOUBLE()])


def further_type(output: Output) -> TypeInformation:
    """Return the type of a record of an algorithm's additional output."""
    return Types.ROW_NAMED(list(named(output.columns)), [getattr(Types, kind)() for kind in output.columns.values()])


def row(values: list[Any]) -> Any:
    """Return one record of an output."""
    return Row(*values) if InternalRow is None else InternalRow(values, 0)


def times(times: NDArray[np.int64]) -> list[int | None]:
    """Return event times, None for ``NO_TIME``."""
    return [None if time == NO_TIME else time for time in times.tolist()]


def member_types(members: pa.Schema) -> dict[str, TypeInformation]:
    """Return the type of each published column of a release: an array with one value per member.

    Rows, with one object each, would cost more than all other work of the operator on a tuple.
    """
    types = [_MEMBER_TYPES[field.type]() for field in members] or [Types.BOOLEAN()]
    return {f"m{i}": Types.OBJECT_ARRAY(kind) for i, kind in enumerate(types)}


def batch_type(plan: OperatorPlan) -> TypeInformation:
    """Return the type of the operator's main output: several releases at once.

    One record per release would cost more than all fields of the release.
    """
    return Types.ROW_NAMED(["releases"], [Types.OBJECT_ARRAY(_release_type(plan))])


def _release_type(plan: OperatorPlan) -> TypeInformation:
    columns = {
        "release_id": Types.LONG(),
        "shard": Types.INT(),
        "event_ms": Types.LONG(),
        "kind": Types.STRING(),
        "subjects": Types.LONG(),
        "tuples": Types.LONG(),
    }
    columns.update({f"d{i}": Types.LONG() for i in range(len(plan.terms.policy.sensitive))})
    columns["loss"] = Types.DOUBLE()
    if plan.terms.policy.noised:
        columns["linked"] = Types.LONG()
    columns.update({f"{kind}{i}": Types.DOUBLE() for i in range(len(plan.terms.policy.noised)) for kind in "ex"})
    for i, attribute in enumerate(plan.terms.policy.quasi_identifiers):
        if isinstance(attribute, Numeric) and plan.representative:
            columns[f"q{i}"] = Types.DOUBLE()
        elif isinstance(attribute, Numeric):
            end = Types.LONG() if attribute.name in plan.integers else Types.DOUBLE()
            columns[f"q{i}_min"] = columns[f"q{i}_max"] = end
        else:
            columns[f"q{i}"] = Types.STRING()
    if plan.chain is not None:
        columns |= {name: getattr(Types, kind)() for name, kind in CHAIN.items()}
    columns |= member_types(plan.members)
    return Types.ROW_NAMED(list(columns), list(columns.values()))


class Emitter:
    """Converter of releases, suppressed tuples and rejected records to Flink rows."""

    def __init__(self, plan: OperatorPlan) -> None:
        self._plan = plan
        has_pseudonym = plan.terms.policy.pseudonym is not None
        self._pseudonym_key = plan.subject_key.pseudonym_key if has_pseudonym else b""
        self._labels = [np.array(a.hierarchy.labels, object) for a in plan.terms.policy.categorical]

    def releases(
        self, releases: Releases, shard: int, random_key: bytes = b"", chain: Chain | None = None
    ) -> Iterator[Any]:
        """Yield all releases, each with its members, in batches of about ``_BATCH`` members.

        Parameters
        ----------
        releases : releases of one step
        shard : number of the shard
        random_key : key of the shard, for pseudonyms that change with the release
        chain : hash chain of the shard, which is extended; None where the audit log has none
        """
        if not len(releases):
            return
        told: list[list[Any]] = [
            releases.release_id.tolist(),
            [shard] * len(releases),
            times(releases.event_time),
            [KINDS[kind] for kind in releases.kind.tolist()],
            releases.subjects.tolist(),
            releases.tuples.tolist(),
            *releases.diversity.T.tolist(),
            releases.loss.tolist(),
            *self._noise(releases),
        ]
        generalization = list(self._generalization(releases))
        members, ends = self._members(releases, random_key), releases.offsets.tolist()
        chained = [] if chain is None else chain.columns(told, generalization, members, ends)
        columns = [*told, *generalization, *chained, *_of_each(members, ends)]
        rows = [row(list(values)) for values in zip(*columns, strict=True)]
        start = 0
        while start < len(rows):
            full = np.searchsorted(releases.offsets, releases.offsets[start] + _BATCH)
            stop = max(start + 1, int(full))
            yield row([rows[start:stop]])
            start = stop

    def closing(self, counters: Counters, shard: int, chain: Chain) -> Iterator[Any]:
        """Yield the closing record of a chain, behind the last release, without tuples and generalization.

        It appears only in the audit log, because a release without members adds no row to ``released``.
        """
        policy, releases = self._plan.terms.policy, sum(counters.releases.values())
        of_noise = 1 + 2 * len(policy.noised) if policy.noised else 0
        told = [releases, shard, None, CLOSING, *[None] * (3 + len(policy.sensitive) + of_noise)]
        ends = 1 if self._plan.representative else 2
        generalization = [None] * (ends * len(policy.numeric) + len(policy.categorical))
        chained = chain.close(told, generalization, _counts(counters))
        yield row([[row([*told, *generalization, *chained, *([] for _ in member_types(self._plan.members))])]])

    def suppressed(self, releases: Releases, shard: int) -> Iterator[Any]:
        """Yield one record of all suppressed tuples, if any: the shard, and reason, position and event time of each."""
        if not len(releases.suppressed_reason):
            return
        reasons = self._plan.terms.privacy.reasons
        yield row(
            [
                shard,
                [reasons[reason] for reason in releases.suppressed_reason.tolist()],
                releases.suppressed_position.tolist(),
                times(releases.suppressed_event_time),
            ]
        )

    def rejected(self, rejected: Rejected) -> Iterator[Any]:
        """Yield one record of all rejected records: column, reason, event time and reference of each."""
        yield row(
            [
                [self._plan.encoded[column] for column in rejected.column.tolist()],
                [REJECTIONS[reason] for reason in rejected.reason.tolist()],
                times(rejected.event_time),
                list(rejected.reference or [None] * len(rejected.column)),
            ]
        )

    def _generalization(self, releases: Releases) -> Iterator[list[Any]]:
        numeric = categorical = 0
        for attribute in self._plan.terms.policy.quasi_identifiers:
            if isinstance(attribute, Numeric):
                lower, upper = releases.lower[:, numeric], releases.upper[:, numeric]
                numeric += 1
                if self._plan.representative:
                    yield lower.tolist()  # the upper end is the same
                    continue
                lower, upper = within(lower, upper, self._plan.extremes.get(attribute.name))
                if attribute.name in self._plan.integers:
                    yield from integer_bounds(lower, upper)
                else:
                    yield from (lower.tolist(), upper.tolist())
            else:
                yield self._labels[categorical][releases.node[:, categorical]].tolist()
                categorical += 1

    def _noise(self, releases: Releases) -> Iterator[list[Any]]:
        if self._plan.terms.policy.noised:
            yield releases.linked.tolist()
        for error, expected in zip(releases.noise_error.T, releases.noise_expected.T, strict=True):
            yield from (error.tolist(), expected.tolist())

    def _members(self, releases: Releases, random_key: bytes) -> list[list[Any]]:
        pseudonym, columns = self._plan.terms.policy.pseudonym, list(releases.members)
        if pseudonym is not None:
            columns.append(codes(pseudonym, self._pseudonym_key, random_key, releases))
        if not columns:
            columns.append([True] * int(releases.tuples.sum()))
        return columns


def _of_each(columns: list[list[Any]], ends: list[int]) -> Iterator[list[list[Any]]]:
    """Yield the values of each release, by column."""
    for column in columns:
        yield [column[start:stop] for start, stop in pairwise(ends)]


def _counts(counters: Counters) -> dict[str, int]:
    """Return the counts of a shard for a closing record, by summary name, mostly without those of 0."""
    counts = {"tuples_in": counters.tuples_in, "released": counters.released}
    further = {"forgotten": counters.forgotten}
    for group, amounts in (("suppressed", counters.suppressed), ("releases", counters.releases)):
        further |= {f"{group}.{name}": amount for name, amount in amounts.items()}
    return counts | {name: amount for name, amount in further.items() if amount}
