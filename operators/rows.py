"""Outputs of the operator as Flink rows, with positional column names that no column of a user can clash with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyflink.common import Row, Types
from pyflink.common.typeinfo import TypeInformation

from crenel.anonymity.algorithm import Counters, Output
from crenel.anonymity.buffer.releases import Releases, codes
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.operators.json_lines import LineWriter
from crenel.operators.output_columns import (
    CLOSING,
    ROWS,
    SHARD,
    OutputColumn,
    in_rows,
    own_columns,
    release_columns,
)
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.chain import Chain
from crenel.state.block import NO_TIME, Rejected

try:  # a quarter of the cost of a Row; internal to PyFlink, so go on without it where it has gone
    from pyflink.fn_execution.coder_impl_fast import InternalRow
except ImportError:
    InternalRow = None

LINES = "lines"
"""Column of the operator's main output with all published records as JSON, one line each."""

REFUSAL = "refusal"
"""Last column of the operator's main output, where the plan refuses: why the stored state does not fit."""

_BATCH = 5000


def _row_type(columns: Iterable[OutputColumn], arrays: Iterable[OutputColumn] = ()) -> TypeInformation:
    """Return the type of a row of columns and of arrays, which hold one value per tuple.

    Rows, with one object for each tuple, would cost more than all other work of the operator on a tuple.
    """
    types = {column.row: _type(column) for column in columns}
    types |= {column.row: Types.OBJECT_ARRAY(_type(column)) for column in arrays}
    return Types.ROW_NAMED(list(types), list(types.values()))


def _type(column: OutputColumn) -> TypeInformation:
    return Types.PRIMITIVE_ARRAY(Types.BYTE()) if column.kind == "BYTES" else getattr(Types, column.kind)()


SUPPRESSED_TYPE, REJECTED_TYPE, FORGOTTEN_TYPE, SUMMARY_TYPE = (
    _row_type(*ROWS[name]) for name in ("suppressed", "rejected", "forgotten", "summary")
)


def further_type(output: Output) -> TypeInformation:
    """Return the type of a record of an algorithm's additional output."""
    return _row_type(own_columns(output))


def row(values: list[Any]) -> Any:
    """Return one record of an output."""
    return Row(*values) if InternalRow is None else InternalRow(values, 0)


def times(times: NDArray[np.int64]) -> list[int | None]:
    """Return event times, None for ``NO_TIME``."""
    return [None if time == NO_TIME else time for time in times.tolist()]


def batch_type(plan: AnonymizationPlan) -> TypeInformation:
    """Return the type of the operator's main output: several releases at once.

    One record per release would cost more than all fields of the release.
    """
    columns = plan.release_row(chained=plan.chain is not None)
    arrays = () if plan.lines is not None else in_rows(plan.member_columns)
    texts = [*([] if plan.lines is None else [LINES]), *([REFUSAL] if plan.refuses else [])]
    types = [Types.OBJECT_ARRAY(_row_type(columns, arrays)), *(Types.STRING() for _ in texts)]
    return Types.ROW_NAMED(["releases", *texts], types)


class Emitter:
    """Converter of releases, suppressed tuples and rejected records to Flink rows."""

    def __init__(self, plan: AnonymizationPlan) -> None:
        self._plan = plan
        self._columns, self._generalization = release_columns(plan.policy), plan.generalization
        self._member_columns = in_rows(plan.member_columns)
        self._lines = None
        if plan.lines is not None:
            published = (*self._generalization.columns, *self._member_columns)
            # The column of rows without published members has no name.
            kinds = [(name, column.kind) for name, column in zip(plan.lines, published, strict=False)]
            own = len(self._generalization.columns)
            self._lines = LineWriter(dict(kinds[:own]), dict(kinds[own:]))
        self._behind = [None] if plan.refuses else []
        self._pseudonym_key = b"" if plan.policy.pseudonym is None else plan.subject_key.pseudonym_key

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
        leading = [self._field_text(column, releases, shard) for column in self._columns]
        generalization = list(
            self._generalization.values(releases.lower, releases.upper, releases.node, releases.listed)
        )
        members, ends = self._members(releases, random_key), releases.offsets.tolist()
        chained = [] if chain is None else chain.columns(leading, generalization, members, ends)
        columns = [*leading, *generalization, *chained]
        lines = None
        if self._lines is None:
            columns += _of_each(members, ends)
        else:
            lines = self._lines.lines(generalization, members, ends)
        rows = [row(list(values)) for values in zip(*columns, strict=True)]
        start = 0
        while start < len(rows):
            full = np.searchsorted(releases.offsets, releases.offsets[start] + _BATCH)
            stop = max(start + 1, int(full))
            texts = [] if lines is None else ["\n".join(filter(None, lines[start:stop])) or None]
            yield row([rows[start:stop], *texts, *self._behind])
            start = stop

    def closing(self, counters: Counters, shard: int, chain: Chain) -> Iterator[Any]:
        """Yield the closing record of a chain, behind the last release, without tuples and generalization.

        It appears only in the audit log, because a release without members adds no row to ``released``.
        """
        leading = [sum(counters.releases.values()), shard, None, CLOSING, *[None] * (len(self._columns) - 4)]
        generalization = [None] * len(self._generalization.columns)
        chained = chain.close(leading, generalization, _counts(counters))
        if self._lines is not None:
            yield row([[row([*leading, *generalization, *chained])], None, *self._behind])
            return
        yield row([[row([*leading, *generalization, *chained, *([] for _ in self._member_columns)])], *self._behind])

    def refusal(self, why: str) -> Any:
        """Return the row that ends the job, because stored state does not fit it."""
        return row([[], *([] if self._lines is None else [None]), why])

    def suppressed(self, releases: Releases, shard: int) -> Iterator[Any]:
        """Yield one record of all suppressed tuples, if any: the shard, and reason, position and event time of each."""
        if not len(releases.suppressed_reason):
            return
        reasons = self._plan.context.privacy.reasons
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
                [self._plan.checked[column] for column in rejected.column.tolist()],
                [REJECTIONS[reason] for reason in rejected.reason.tolist()],
                times(rejected.event_time),
                list(rejected.reference or [None] * len(rejected.column)),
            ]
        )

    def _field_text(self, column: OutputColumn, releases: Releases, shard: int) -> list[Any]:
        if column is SHARD:
            return [shard] * len(releases)
        if column.name == "event_time":
            return times(releases.event_time)
        values: list[Any] = column.values(releases).tolist()
        return [KINDS[kind] for kind in values] if column.name == "kind" else values

    def _members(self, releases: Releases, random_key: bytes) -> list[list[Any]]:
        pseudonym, columns = self._plan.context.policy.pseudonym, list(releases.members)
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
    further = {"forgotten": counters.forgotten, "synthetic": counters.synthetic}
    for group, amounts in (("suppressed", counters.suppressed), ("releases", counters.releases)):
        further |= {f"{group}.{name}": amount for name, amount in amounts.items()}
    return counts | {name: amount for name, amount in further.items() if amount}
