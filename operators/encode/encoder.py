"""Encoding of batches of records as blocks: validation, coding and sharding, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import ABSENT, Number, Numeric, Presence
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.regions.loads import Loads
from crenel.operators.encode.categories import Categories, Labels
from crenel.operators.encode.columns import EARLIEST, LATEST, Batch, Mask, members_schema, reading
from crenel.operators.encode.sharding import divider
from crenel.operators.plan import AnonymizationPlan
from crenel.state.block import NO_TIME, Block, Rejected


class Encoded(NamedTuple):
    """A block, and the rows of the batch that it comes from.

    Attributes
    ----------
    rows : (tuples,) row of each tuple
    rejected : (rejected records,) row of each; the block of shard 0 has all of them
    """

    block: Block
    rows: NDArray[np.intp]
    rejected: NDArray[np.intp]


class Encoder:
    """Encoder of batches of records as blocks; the result for a batch depends on no earlier batch.

    Parameters
    ----------
    plan : what is read, and settings
    number : distinguishes this encoder from parallel ones

    Attributes
    ----------
    loads : load of the shards, compared with the expected shares of regions, or with equal shares; None for a single
        shard

    Raises
    ------
    PolicyError
        Tuples cannot be divided as in ``plan.shards``.
    """

    def __init__(self, plan: AnonymizationPlan, number: int = 0) -> None:
        self._plan, self._number = plan, number
        self._hash_key = plan.subject_key.hash_key  # an unreadable key ends the job before its first record
        self._keep_missing = plan.policy.missing == "value"
        labels = {read.name: read.labels for read in (*plan.quasi_identifiers, *plan.sensitive)}
        self._categories = {
            attribute.name: Categories(attribute, labels[attribute.name], keep_missing=self._keep_missing)
            for attribute in plan.policy.categorical
            if not isinstance(attribute, Presence)
        }
        self._null_text = plan.null_text if self._keep_missing else None
        self._labels = {
            attribute.name: Labels(
                attribute, labels[attribute.name], self._hash_key, self._null_text, keep_missing=self._keep_missing
            )
            for attribute in plan.policy.generalized.values()
        }
        self._schema = members_schema(plan.members)
        self._divide = divider(plan.policy, plan.shards)
        shards, regions = plan.shards.count, plan.shards.regions
        self.loads = None
        if shards > 1:
            self.loads = Loads(np.full(shards, 1 / shards) if regions is None else regions.share)

    def encode(self, *series: Any) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        """Return the blocks of one batch.

        Parameters
        ----------
        series : the arguments that ``plan`` numbers, each with one value per row; a constant stands for a column of it

        Returns
        -------
        keys : (rows,) the Flink key of a row's block, 0 where the row carries none
        blocks : (rows,) ``Block.to_bytes``, one for each shard with tuples; None elsewhere. The block of shard 0 also
            carries the rejected records, and exists without tuples if necessary.
        """
        rows = Batch(series).rows
        keys, blocks = np.zeros(rows, np.int32), np.full(rows, None)
        for encoded in self.blocks(*series):
            newest = int(max((*encoded.rows[-1:], *encoded.rejected[-1:]), default=-1))
            keys[newest], blocks[newest] = self._plan.keys[encoded.block.shard], encoded.block.to_bytes()
        return keys, blocks

    def blocks(self, *series: Any) -> Iterator[Encoded]:
        """Yield the blocks of one batch, in the order of their shards; arguments as for ``encode``."""
        batch = Batch(series)
        columns, errors = self._read(batch)
        rejected = np.flatnonzero(errors.column >= 0)
        for shard, rows in self._parts(columns, np.flatnonzero(errors.column < 0), with_first=len(rejected) > 0):
            refused = rejected if shard == 0 else rejected[:0]
            rejections = self._rejected(batch, columns, errors, refused) if len(refused) else Rejected.none()
            yield Encoded(columns.block(rows, shard, self._schema, rejections, self._number), rows, refused)

    def refuse(self, series: tuple[Any, ...], argument: int | None) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        """Return the block that rejects one record as ``unreadable``, because ``encode`` raises for it.

        Parameters
        ----------
        series : the arguments of the record, None for each unreadable one
        argument : the position of an unreadable one; None: unknown
        """
        plan = self._plan
        arguments = ((read.name, (read.value, read.missing, read.packed)) for read in plan.reads)
        known = (name for name, positions in arguments if argument is not None and argument in positions)
        name = next(known, None)
        column = plan.checked.index(name if name in plan.checked else None)
        event_time, reference = np.full(1, np.int64(NO_TIME)), None
        with suppress(Exception):
            if plan.event_time is not None:
                watermark = None if plan.watermark is None else Batch(series).watermark(plan.watermark)
                event_time, _, _ = Batch(series).event_time(plan.event_time, watermark, plan.policy.event_time_limit)
        with suppress(Exception):
            if plan.reference is not None:
                reference = Batch(series).texts(plan.reference)[0].as_py()
        block = Block(
            shard=0,
            numeric=np.empty((0, len(plan.policy.numeric))),
            categorical=np.empty((0, len(plan.policy.categorical)), np.int32),
            subject=None if plan.subject is None else np.empty(0, np.uint64),
            sensitive=np.empty((0, sum(plan.policy.widths)), np.uint64),
            event_time=np.empty(0, np.int64),
            members=pa.RecordBatch.from_pylist([], schema=self._schema),
            rejected=Rejected(
                np.array([column], np.int16),
                np.array([REJECTIONS.index("unreadable")], np.int8),
                event_time,
                () if plan.reference is None else (reference,),
            ),
            watermark=None if plan.watermark is None else np.empty(0, np.int64),
            encoder=self._number,
        )
        return np.array([plan.keys[0]], np.int32), np.array([block.to_bytes()], object)

    def _parts(
        self, columns: _Columns, rows: NDArray[np.intp], *, with_first: bool
    ) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield the shards with a block, each with its part of ``rows``; ``with_first``: always include shard 0."""
        count = self._plan.shards.count
        if count == 1:
            ends, order = [len(rows)], rows
        else:
            shards = self._divide(columns)[rows]
            counts = np.bincount(shards, minlength=count)
            if self.loads is not None:
                self.loads.add(counts)
            ends = np.cumsum(counts).tolist()
            # Small integers are sorted by radix.
            order = rows[np.argsort(shards.astype(np.min_scalar_type(count)), kind="stable")]
        for shard, (start, end) in enumerate(pairwise([0, *ends])):
            if end > start or (shard == 0 and with_first):
                yield shard, order[start:end]

    def _read(self, batch: Batch) -> tuple[_Columns, _Errors]:
        """Read all rows of a batch and their errors; the columns of an invalid row are undefined."""
        plan, errors = self._plan, _Errors(batch.rows)
        numeric, categorical = [], []
        absent: Mask | None = None  # of the number before
        for attribute, read in zip(plan.policy.attributes, plan.quasi_identifiers, strict=True):
            with reading(read.value):
                if isinstance(attribute, Numeric):
                    values, missing, bad = batch.numbers(read)
                    if read.is_float32:
                        values = _within_float32(values, attribute)
                    if attribute.missing == "value" and missing is not None:
                        absent, values = missing, np.where(missing, attribute.middle, values)
                        missing, bad = None, None if bad is None else bad & ~absent
                    else:
                        absent = None
                    outside = _outside(values, attribute, is_time=read.form == "time")
                    errors.add(missing=missing, bad_type=bad, outside_domain=outside)
                    numeric.append(values)
                elif isinstance(attribute, Presence):
                    errors.add()
                    leaf = np.zeros(batch.rows, np.int32) if absent is None else np.where(absent, ABSENT, 1 - ABSENT)
                    categorical.append(leaf)
                else:
                    found = self._categories[attribute.name].leaves(batch, read)
                    errors.add(missing=found.missing, bad_type=found.bad_type, unknown_category=found.unknown)
                    categorical.append(found.leaf)
        members, sensitive = [], list[NDArray[np.uint64]]()
        for read, width in zip(plan.sensitive, plan.policy.widths, strict=True):
            with reading(read.value):
                if read.generalized:
                    labels = self._labels[read.name]
                    found = labels.leaves(batch, read)
                    errors.add(missing=found.missing, bad_type=found.bad_type, unknown_category=found.unknown)
                    member, published = labels.published(found)
                    members.append(member)
                    sensitive.append(published)
                    continue
                member, missing = batch.member(read)
                members.append(member)
                if read.form == "list":
                    codes, missing, too_many = batch.array_codes(read, self._hash_key, width, self._null_text)
                    errors.add(missing=None if self._keep_missing else missing, too_many_values=too_many)
                    sensitive.extend(codes.T)
                    continue
                errors.add(missing=None if self._keep_missing else missing)
                sensitive.append(batch.published_codes(read, self._hash_key, missing, self._null_text))
        passed = []
        for noised, read in zip(plan.policy.noised.values(), plan.noised, strict=True):
            with reading(read.value):
                member, missing = batch.member(read)
                values, _, bad = batch.numbers(read)
                if read.is_float32:
                    values = _within_float32(values, noised)
                errors.add(missing=missing, bad_type=bad, outside_domain=_outside(values, noised, is_time=False))
                members.append(member)
                if plan.divided_by_row:
                    passed.append(batch.codes(read, self._hash_key, missing, repeated=False))
        for read in plan.passthrough:
            with reading(read.value):
                member, missing = batch.member(read)
                members.append(member)
                if plan.divided_by_row:
                    passed.append(batch.codes(read, self._hash_key, missing, repeated=False))
        subject = None
        if plan.subject is not None:
            with reading(plan.subject.value):
                subject, missing = batch.subject(plan.subject, self._hash_key)
                errors.add(missing=missing)
        watermark = None if plan.watermark is None else batch.watermark(plan.watermark)
        event_time = np.full(batch.rows, np.int64(NO_TIME))
        if plan.event_time is not None:
            with reading(plan.event_time.value):
                limit = plan.policy.event_time_limit
                event_time, missing, outside = batch.event_time(plan.event_time, watermark, limit)
                errors.add(missing=missing, outside_domain=outside)
        columns = _Columns(
            numeric=_side_by_side(numeric, batch.rows, np.float64) + 0.0,  # -0.0 becomes 0.0
            categorical=_side_by_side(categorical, batch.rows, np.int32),
            subject=subject,
            sensitive=_side_by_side(sensitive, batch.rows, np.uint64),
            event_time=event_time,
            watermark=watermark,
            members=tuple(members),
            passed=_side_by_side(passed, batch.rows, np.uint64),
        )
        return columns, errors

    def _rejected(self, batch: Batch, columns: _Columns, errors: _Errors, rows: NDArray[np.intp]) -> Rejected:
        reference: tuple[str | None, ...] = ()
        if self._plan.reference is not None:
            reference = tuple(batch.texts(self._plan.reference).take(pa.array(rows)).to_pylist())
        return Rejected(errors.column[rows], errors.reason[rows], columns.event_time[rows], reference)


@dataclass(frozen=True)
class _Columns:
    """Rows of a batch as in ``Block``, and codes of pass-through columns where the sharding needs them."""

    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]
    subject: NDArray[np.uint64] | None
    sensitive: NDArray[np.uint64]
    event_time: NDArray[np.int64]
    watermark: NDArray[np.int64] | None
    members: tuple[pa.Array, ...]
    passed: NDArray[np.uint64]

    def block(self, rows: NDArray[np.intp], shard: int, schema: pa.Schema, rejected: Rejected, encoder: int) -> Block:
        """Return a block of the given rows."""
        members = self.members
        if len(rows) < len(self.event_time):
            indices = pa.array(rows)
            members = tuple(column.take(indices) for column in members)
        return Block(
            shard=shard,
            numeric=self.numeric[rows],
            categorical=self.categorical[rows],
            subject=None if self.subject is None else self.subject[rows],
            sensitive=self.sensitive[rows],
            event_time=self.event_time[rows],
            members=pa.record_batch(list(members), schema=schema),
            rejected=rejected,
            watermark=None if self.watermark is None else self.watermark[rows],
            encoder=encoder,
        )


class _Errors:
    """Column and reason of the first error in each row of a batch; column -1 for valid rows."""

    def __init__(self, rows: int) -> None:
        self.column = np.full(rows, -1, np.int16)
        self.reason = np.zeros(rows, np.int8)
        self._number = -1

    def add(self, **reasons: Mask | None) -> None:
        """Record the errors of the next column of ``AnonymizationPlan.checked``, by reason; None where no row has any.

        A row with several reasons gets the first one, because a missing value is often outside its domain too.
        """
        self._number += 1
        for reason, rows in reasons.items():
            if rows is not None and rows.any():
                first = rows & (self.column < 0)
                self.column[first], self.reason[first] = self._number, REJECTIONS.index(reason)


def _side_by_side(columns: list[NDArray[Any]], rows: int, dtype: type[np.generic]) -> NDArray[Any]:
    """Return the columns as (rows, columns), also where there are none."""
    table = np.empty((rows, len(columns)), dtype)
    for column, values in zip(table.T, columns, strict=True):
        column[:] = values
    return table


def _within_float32(values: NDArray[np.float64], attribute: Number) -> NDArray[np.float64]:
    """Return the values of a FLOAT column with domain ends restored from their float32 rounding.

    A FLOAT of 0.1 is 0.10000000149 as float64, which is not in the domain [0, 0.1].
    """
    for end in attribute.domain or ():
        with np.errstate(over="ignore"):
            values = np.where(values == np.float64(np.float32(end)), end, values)
    return values


def _outside(values: NDArray[np.float64], attribute: Number, *, is_time: bool) -> Mask | None:
    """Return the mask of values outside the declared domain, or of times outside the years 1 to 9999."""
    if attribute.domain is None and not is_time:
        return None
    lowest, highest = attribute.domain or (EARLIEST, LATEST)
    return (values < lowest) | (values > highest)
