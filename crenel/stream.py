"""Anonymization of a stream within a Python process, without Flink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from crenel.anonymity.compiled.notice import announce_compilation
from crenel.anonymity.model.attributes import EXACT, SEPARATOR
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fields import Duration, DurationLike
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.values import is_simple, is_text, limits_of, sql_type
from crenel.columns import (
    argument,
    as_type,
    conformed,
    decoded,
    decoded_type,
    event_time_problems,
    event_time_type,
    event_times,
    texts,
    times_argument,
    type_of_nothing,
)
from crenel.copies import compacted, empty, is_copyable, plain_schema, united, without_rows
from crenel.evidence.input_warnings import LATENESS, late_warnings, rejection_warnings
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.evidence.shard_driver import ShardDriver
from crenel.evidence.tables import ShardOutput, TableWriter, joined
from crenel.frames import Frame, flat_schema
from crenel.operators.bounds import as_written
from crenel.operators.column_types import parse
from crenel.operators.encode.columns import normalized, without_formulas, without_nan
from crenel.operators.encode.encoder import Encoded, Encoder
from crenel.operators.encode.hashing import text_codes
from crenel.operators.plan import ROW, AnonymizationPlan, by_row, output_schemas, plan_of, repeated
from crenel.operators.shards.stream import late_tuples
from crenel.results import Result, Summary, summarize
from crenel.settings import Settings
from crenel.state.block import NO_TIME, Block, Rejected
from crenel.state.codec import array, pack, raw, unpack
from crenel.state.shard import StoredShard

_SPARE_ROWS = 4096
"""Rows that are kept beyond twice the buffered ones before the others are dropped."""

_VERSION = 1

LiveT = TypeVar("LiveT")


def anonymize(
    data: Any, settings: Settings, *, lateness: DurationLike = 0, row_numbers: bool = False, repairs: bool = False
) -> Result:
    """Anonymize data that ends, and return all outputs.

    Parameters
    ----------
    data : a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas or Polars DataFrame, or an object that
        exports an Arrow stream (``__arrow_c_stream__``). Readers, datasets and streams are read batch by batch
    settings : policy, privacy models and algorithm
    lateness : how far the watermark stays behind the newest event time; it decides when a delay of event time has
        passed, and never drops a record
    row_numbers : whether each output has a column ``row``, the number of the input record from 0, for the holder of the
        original data; no published column may have that name
    repairs : whether the outputs of CASTLE and nearest include their repair log, as ``further["repairs"]``; SUHDSA's
        always do. Keep the log from recipients

    Returns
    -------
    The outputs as tables of the kind of ``data``; pyarrow tables for readers, datasets and streams.

    Raises
    ------
    ConfigError
        The columns of the data do not fit the policy; the message lists all problems.
    TypeError
        The data is of no supported kind.
    ValueError
        Two columns have one name, or a DataFrame has an index that would be lost.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> visits = pa.table({"age": [31, 34, 58, 52], "diagnosis": ["flu", "asthma", "flu", "back pain"]})
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
    ...     privacy=crenel.Privacy(k=2, l=2),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    ...     seed=1,
    ... )
    >>> released = crenel.anonymize(visits, settings).released
    >>> sorted(zip(released["age_min"].to_pylist(), released["age_max"].to_pylist()))
    [(31, 34), (31, 34), (52, 58), (52, 58)]
    """
    frame = Frame.of(data)
    stream = Stream(settings, lateness=lateness, row_numbers=row_numbers, restorable=False, repairs=repairs)
    stream.open(frame.schema)
    settings._warn(of_state=False)
    parts = [stream._pushed(batch) for batch in frame.batches()]
    parts.append(stream._ended())
    # Joined before they are copied: a later part may lack values between which an ordered dictionary has others.
    return Result.joined(parts).mapped(lambda table: frame.back(compacted(table)))


def open_stream(
    settings: Settings,
    *,
    lateness: DurationLike = 0,
    row_numbers: bool = False,
    snapshot: bytes | None = None,
    repairs: bool = False,
) -> Stream:
    """Open a stream that anonymizes records as they come.

    Parameters
    ----------
    settings : policy, privacy models and algorithm; those of a snapshot, up to changes that a job may be restored with
    lateness, row_numbers, repairs : as for ``anonymize``
    snapshot : result of ``Stream.snapshot``, from which the stream goes on; None: a new stream

    Raises
    ------
    StateError
        The snapshot is damaged, or of an unknown version.
    PolicyError
        The settings differ from those of the snapshot in a field that must not change while state exists.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    ...     privacy=crenel.Privacy(k=2),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=2)),
    ...     seed=1,
    ... )
    >>> with crenel.open_stream(settings) as stream:
    ...     first = stream.push(pa.table({"age": [31, 58, 34]})).released
    ...     rest = stream.finish().released
    >>> first.to_pylist()
    [{'age_min': 31, 'age_max': 34}, {'age_min': 31, 'age_max': 34}]
    >>> rest.num_rows
    0
    """
    stream = Stream(settings, lateness=lateness, row_numbers=row_numbers, snapshot=snapshot, repairs=repairs)
    settings._warn(of_state=False)
    return stream


def read_sample(
    data: Any, settings: Settings, *, lateness: DurationLike = 0, rows: int | None = None
) -> tuple[Sample, ReplaySetting]:
    """Encode data as ``anonymize`` does, for replays; return the sample, and the setting to replay it under.

    ``rows``: maximum number of valid records, the first ones; None: all.

    Raises
    ------
    ConfigError, TypeError, ValueError
        As ``anonymize``; or fewer than two records are valid.
    """
    from crenel.plan_settings import setting_of  # ``anonymize`` needs no evidence

    stream = Stream(replace(settings, shards=Shards()), lateness=lateness, restorable=False)
    sample, privacy = stream._sample(Frame.of(data), rows)
    return sample, setting_of(settings, privacy)


class Stream:
    """A stream that is anonymized within this process; ``open_stream`` makes one.

    All methods but ``snapshot`` return the outputs that became due, as pyarrow tables. After an exception the stream
    must not be used again; a program goes on from its last snapshot.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        lateness: DurationLike = 0,
        row_numbers: bool = False,
        snapshot: bytes | None = None,
        restorable: bool = True,
        repairs: bool = False,
    ) -> None:
        announce_compilation()
        self._settings = settings
        self._outputs = settings.outputs(repairs=repairs)
        self._lateness, self._row_numbers, self._restorable = (
            milliseconds_of(lateness, "lateness"),
            row_numbers,
            restorable,
        )
        self._tables: _Tables | None = None
        self._watermark = int(NO_TIME)
        self._next_row = 0
        self._rejected = np.zeros(len(REJECTIONS), np.int64)
        self._rejected_in, self._first_row, self._late = Counter[tuple[int, int]](), 0, 0
        self._delay = max(self._settings.algorithm.durations.values(), default=None)
        self._finished = False
        if snapshot is not None:
            self._restore(snapshot)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._tables is not None:
            self._tables.shards.clear()

    def open(self, schema: pa.Schema) -> None:
        """Check the columns of the data; the first ``push`` does so otherwise.

        Raises
        ------
        ConfigError
            The columns do not fit the policy; the message lists all problems.
        """
        schema = plain_schema(flat_schema(schema, self._settings.policy.roles))
        if self._tables is None:
            tables = _Tables.of(self._settings, schema, self._outputs, restorable=self._restorable)
            if self._row_numbers and "row" in output_schemas(self._settings, chained=False)["released"].names:
                raise ConfigError("data", ["row_numbers: adds a column 'row', and released has one; rename that one"])
            self._tables, self._rows = tables, _Rows(schema, tables.kept)
            return
        conformed(pa.RecordBatch.from_arrays([empty(of) for of in schema.types], schema=schema), self._tables.schema)

    def push(self, data: Any) -> Result:
        """Admit records in their order, and return the outputs that are due by then.

        Parameters
        ----------
        data : as for ``anonymize``, with the columns of the first data, in any order. A column of another type, such as
            floats in place of whole numbers because one is missing, is converted if each value stays exactly the same

        Raises
        ------
        ConfigError
            The columns do not fit the policy, or differ from those before.
        """
        return self._pushed(data).mapped(compacted)

    def _pushed(self, data: Any) -> Result:
        """Return the outputs of ``push``, whose dictionaries hold values of other records too."""
        self._require_open()
        frame = Frame.of(data)
        self.open(frame.schema)
        frame = frame.flattened(self._settings.policy.roles)
        parts: list[ShardOutput] = []
        refused: list[_Refused] = []
        for batch in frame.batches():
            self._push(conformed(batch, self._opened.schema), parts, refused)
        return self._result(parts, refused)

    def advance(self, watermark: datetime | int) -> Result:
        """Raise the watermark, and return the outputs that are due by then.

        Parameters
        ----------
        watermark : no record before it is expected any more: a ``datetime`` (UTC where it has no zone), or epoch
            milliseconds; a lower one than before has no effect
        """
        self._require_open()
        parts: list[ShardOutput] = []
        self._advance(_epoch(watermark), parts)
        return self._result(parts, []).mapped(compacted)

    def finish(self) -> Result:
        """End the stream: publish or suppress all buffered tuples."""
        return self._ended().mapped(compacted)

    def _ended(self) -> Result:
        """Return the outputs of ``finish``, whose dictionaries hold values of other records too."""
        self._require_open()
        self._finished = True
        return self._result([] if self._tables is None else [*self._tables.shards.finish()], [])

    def forget(self, subjects: Iterable[Any]) -> Result:
        """Erase the buffered records of persons, unpublished, and what is stored of the persons.

        The page Guarantees lists what stays under four settings, such as a range without a domain.

        Parameters
        ----------
        subjects : values of the column ``policy.subject``

        Raises
        ------
        ValueError
            The policy names no subject; or the values are no list, one is missing, or one is no value of the type of
            the column.
        """
        self._require_open()
        name = self._settings.policy.subject
        if name is None:
            raise ValueError("policy.subject: names no column, so no person can be forgotten; name one")
        if self._tables is None:
            return self._result([], [])
        values = texts(_exactly(subjects, name, decoded_type(self._tables.schema.field(name).type)))
        key = self._settings.subject_key.hash_key
        values = normalized(values, self._settings.policy.subject_normalization)
        hashes = text_codes(values.to_numpy(zero_copy_only=False), key, repeated=False)
        found = self._result([*self._tables.shards.forget(hashes)], [])
        self._drop_rows()  # of the persons, nothing stays
        return found.mapped(compacted)

    @property
    def summary(self) -> Summary:
        """Figures of the stream so far."""
        counters = {} if self._tables is None else self._tables.shards.counters
        return summarize(
            self._settings, counters, self._next_row, self._rejected, finished=self._finished, warnings=self._warnings()
        )

    def _warnings(self) -> Iterator[str]:
        """Yield warnings about input of which much is rejected or late, since the stream was opened."""
        settings, rows = self._settings, self._next_row - self._first_row
        if self._tables is not None:
            encoded = self._tables.plan.checked
            rejected = {(encoded[column], REJECTIONS[of]): n for (column, of), n in self._rejected_in.items()}
            yield from rejection_warnings(settings.policy, rows, rejected)
        if settings.counts_event_time is not None:
            admitted = rows - self._rejected_in.total()
            yield from late_warnings(settings.counts_event_time, self._late, admitted, LATENESS)

    def snapshot(self) -> bytes:
        """Return the state of the stream, including buffered records as they were read: keep it as safe as these."""
        self._require_open()
        self._settings._warn(of_all=False)
        if self._tables is None:
            return pack("stream", _VERSION, {"meta": json.dumps({"schema": False}).encode()})
        self._drop_rows()
        (rows,) = self._rows.pieces
        columns: dict[str, Any] = {
            "schema": self._tables.schema.serialize().to_pybytes(),
            "row": rows.numbers,
            "rows": _ipc(rows.table),
            "rejected": self._rejected,
        }
        entries: list[tuple[int, str, int]] = []
        for number, stored in sorted(self._tables.shards.stored.items()):
            for kind, key, blob in [("", 0, stored.shard)] + [
                (kind, key, blob) for kind, blobs in stored.entries.items() for key, blob in blobs.items()
            ]:
                columns[f"e{len(entries)}"] = blob
                entries.append((number, kind, key))
        meta = {"schema": True, "watermark": self._watermark, "next_row": self._next_row, "entries": entries}
        return pack("stream", _VERSION, columns | {"meta": json.dumps(meta).encode()})

    def _restore(self, snapshot: bytes) -> None:
        _, columns = unpack("stream", snapshot, newest=_VERSION, where="the snapshot")
        meta = json.loads(raw(columns, "meta"))
        if not meta["schema"]:
            return
        self.open(pa.ipc.read_schema(pa.py_buffer(raw(columns, "schema"))))
        rows = pa.ipc.open_stream(pa.py_buffer(raw(columns, "rows"))).read_all()
        self._rows.replace(_Piece(array(columns, "row").copy(), rows))
        self._rejected = array(columns, "rejected").copy()
        self._watermark, self._next_row = meta["watermark"], meta["next_row"]
        self._first_row = self._next_row
        blobs: dict[int, bytes] = {}
        entries: dict[int, dict[str, dict[int, bytes]]] = {}
        for i, (number, kind, key) in enumerate(meta["entries"]):
            blob = raw(columns, f"e{i}")
            if kind == "":
                blobs[number], entries[number] = blob, {}
            else:
                entries[number].setdefault(kind, {})[key] = blob
        self._opened.shards.restore({number: StoredShard(blob, entries[number]) for number, blob in blobs.items()})

    @property
    def _opened(self) -> _Tables:
        if self._tables is None:
            raise RuntimeError("the stream has no schema yet")
        return self._tables

    def _require_open(self) -> None:
        if self._finished:
            raise ValueError("the stream has finished; open another one")

    def _push(self, batch: pa.RecordBatch, parts: list[ShardOutput], refused: list[_Refused]) -> None:
        tables, batch = self._opened, _without_nan(batch)
        first, self._next_row = self._next_row, self._next_row + batch.num_rows
        if not batch.num_rows:
            return
        self._rows.add(batch, first)
        blocks, newest = self._encoded(batch)
        for encoded in blocks:
            block = encoded.block
            if len(encoded.rejected):
                self._rejected += np.bincount(block.rejected.reason, minlength=len(REJECTIONS))
                self._rejected_in.update(block.rejected.pairs)
                refused.append(_Refused(block, encoded.rejected + first))
            if not len(block):
                continue
            if self._delay is not None:
                self._late += late_tuples(block, self._watermark, self._delay)
            block = replace(block, members=tables.members(block, encoded.rows + first), rejected=Rejected.none())
            parts += tables.shards.push(block, self._watermark)
        self._advance(newest, parts)

    def _encoded(self, batch: pa.RecordBatch) -> tuple[Iterator[Encoded], int]:
        """Return the blocks of a batch, and the watermark after it."""
        tables = self._opened
        columns = {read.name: decoded(batch.column(read.name)) for read in tables.plan.reads}
        columns = {
            name: as_type(of, tables.types[name]) if pa.types.is_null(of.type) else of for name, of in columns.items()
        }
        watermarks, newest = self._watermarks(columns)
        return tables.encoder.blocks(*tables.arguments(columns, watermarks)), newest

    def _sample(self, frame: Frame, rows: int | None) -> tuple[Sample, Privacy]:
        """Return the first valid records as a sample, without columns that are passed through, and the privacy models.

        ``rows``: maximum number of records; None: all.
        """
        self.open(frame.schema)
        frame = frame.flattened(self._settings.policy.roles)
        plan, blocks = self._opened.plan, list[Block]()
        for batch in frame.batches():
            if batch.num_rows:
                encoded, newest = self._encoded(_without_nan(batch))
                blocks += [each.block for each in encoded]
                self._watermark = max(self._watermark, newest)
            if rows is not None and sum(map(len, blocks)) >= rows:
                break
        tuples = sum(map(len, blocks))
        if tuples < 2:
            raise ValueError(f"data: has {tuples} valid record{'s' * (tuples != 1)}; a replay needs a few thousand")
        sample = Sample.of_blocks(replace(plan.policy, passthrough=()), blocks, lag=self._lateness, plan=plan)
        return sample if rows is None else sample.first(rows), plan.context.privacy

    def _watermarks(self, columns: Mapping[str, pa.Array]) -> tuple[NDArray[np.int64] | None, int]:
        """Return the watermark at the arrival of each record, and the one after all of them."""
        name = self._settings.policy.event_time
        if name is None:
            return None, self._watermark
        times = event_times(columns[name])
        limit = self._settings.policy.event_time_limit
        watermarks = np.where(times == NO_TIME, np.int64(NO_TIME), times - self._lateness)
        if limit is None:
            after = np.maximum.accumulate(np.maximum(watermarks, self._watermark))
            return np.concatenate([[self._watermark], after[:-1]]), int(after[-1])
        before, watermark = np.empty(len(watermarks), np.int64), self._watermark
        for i, (time, mark) in enumerate(zip(times.tolist(), watermarks.tolist(), strict=True)):
            before[i] = watermark
            if watermark == NO_TIME or time <= watermark + limit:  # a record too far ahead moves no watermark
                watermark = max(watermark, mark)
        return before, watermark

    def _advance(self, watermark: int, parts: list[ShardOutput]) -> None:
        self._watermark = max(self._watermark, watermark)
        if self._tables is not None:
            parts += self._tables.shards.advance(self._watermark)

    def _result(self, parts: list[ShardOutput], refused: list[_Refused]) -> Result:
        if self._tables is None:
            raise ValueError("data: nothing was pushed, so the columns are unknown; push a table, even an empty one")
        found = self._tables.outputs(parts, refused, self._rows, row_numbers=self._row_numbers)
        if len(self._rows) > 2 * self._buffered + _SPARE_ROWS:
            self._drop_rows()
        return replace(found, summary=self.summary)

    @property
    def _buffered(self) -> int:
        return sum(counters.buffered for counters in self._opened.shards.counters.values())

    def _drop_rows(self) -> None:
        """Drop records that no shard holds any more."""
        self._rows.keep(self._opened.shards.buffered_rows)


class _Refused(NamedTuple):
    """Rejected records: the block that names them, and their (records,) row numbers."""

    block: Block
    rows: NDArray[np.int64]


class _Piece(NamedTuple):
    """Some records: their numbers, which ascend, and their columns that are published unchanged."""

    numbers: NDArray[np.int64]
    table: pa.Table


class _Rows:
    """Records that are still buffered, and some that are not, by their numbers.

    Attributes
    ----------
    pieces : the records in order, one piece at least. A piece has at least twice the rows of the next one: so pieces
        are few, and each record is copied a few times, however many records are pushed after it
    order : the ordered dictionaries of all records, without a row
    """

    def __init__(self, schema: pa.Schema, kept: Sequence[str]) -> None:
        self.kept = tuple(kept)
        nothing = pa.table({name: empty(schema.field(name).type) for name in self.kept})
        self.replace(_Piece(np.zeros(0, np.int64), nothing))

    def __len__(self) -> int:
        return sum(len(piece.numbers) for piece in self.pieces)

    def replace(self, piece: _Piece) -> None:
        """Set all records."""
        self.pieces, self.order = [piece], without_rows(piece.table)

    def add(self, batch: pa.RecordBatch, first: int) -> None:
        """Add the records of a batch, whose numbers begin with ``first``."""
        numbers, tables = np.arange(first, first + batch.num_rows), [self.order, pa.Table.from_batches([batch])]
        while self.pieces and len(self.pieces[-1].numbers) < 2 * len(numbers):
            piece = self.pieces.pop()
            numbers, tables = np.concatenate([piece.numbers, numbers]), [piece.table, *tables]
        self.pieces.append(_Piece(numbers, united(tables)))
        self.order = without_rows(self.pieces[-1].table)

    def take(self, rows: NDArray[np.int64]) -> pa.Table:
        """Return the records with some numbers, in their order."""
        if not self.kept:
            return self.order
        of = np.searchsorted([piece.numbers[0] for piece in self.pieces[1:]], rows, "right")
        by_piece = np.argsort(of, kind="stable")
        chosen = np.split(rows[by_piece], np.searchsorted(of[by_piece], np.arange(1, len(self.pieces))))
        tables = [
            piece.table.take(pa.array(np.searchsorted(piece.numbers, own)))
            for piece, own in zip(self.pieces, chosen, strict=True)
            if len(own)
        ]
        return united([*tables, self.order]).take(pa.array(np.argsort(by_piece)))

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Drop all other records; ``rows`` ascend."""
        self.replace(_Piece(rows, compacted(self.take(rows)).combine_chunks()))


@dataclass(frozen=True)
class _Tables:
    """Arrow data as arguments of the encoder, and outputs as Arrow tables of one stream.

    Attributes
    ----------
    settings : of the stream
    schema : columns of the data
    types : type in which each column is read, which differs from ``schema`` for dictionaries, and without any value
    plan : of the anonymization; shards hold the number of each record
    encoder : encoder of the data
    shards : of the stream
    writer : conversion of outputs to tables
    """

    settings: Settings
    schema: pa.Schema
    types: Mapping[str, pa.DataType]
    plan: AnonymizationPlan
    encoder: Encoder
    shards: ShardDriver
    writer: TableWriter

    @classmethod
    def of(cls, settings: Settings, schema: pa.Schema, outputs: Sequence[str], *, restorable: bool) -> _Tables:
        policy, kinds = settings.policy, {field.name: decoded_type(field.type) for field in schema}
        kinds |= {name: type_of_nothing(policy, name) for name, kind in kinds.items() if pa.types.is_null(kind)}
        sql = {name: sql_type(kind) for name, kind in kinds.items()}
        # Columns that are only passed through may have any type.
        sql |= {name: "STRING" for name in policy.passthrough if name in sql and not is_simple(kinds[name])}
        timed = {name: of for name, of in kinds.items() if name == policy.event_time}
        sql |= {name: event_time_type(of) for name, of in timed.items()}
        problems = [problem for name, of in timed.items() for problem in event_time_problems(name, of)]
        types = {name: replace(parse(text), limits=limits_of(kinds[name])) for name, text in sql.items()}
        plan, unfit = plan_of(settings, types, outputs=outputs)
        problems += unfit
        for output, columns in plan.outputs(chained=False).items():
            problems += repeated(output, (column.name for column in columns))
        if problems:
            raise ConfigError("data", problems)
        unfit = [_unfit(name, kind) for name in policy.unchanged if not is_copyable(kind := schema.field(name).type)]
        if unfit:
            raise ConfigError("data", unfit)
        plan = plan.readable
        context = replace(by_row(plan.context, policy.unchanged), remembers=restorable)
        plan = replace(plan, context=context, passthrough=plan.passthrough if plan.divided_by_row else ())
        is_end = (attribute.name for attribute in policy.numeric if not is_text(kinds[attribute.name]))
        times = None if policy.event_time is None else kinds[policy.event_time]
        return cls(
            settings=settings,
            schema=schema,
            types=kinds,
            plan=plan,
            encoder=Encoder(plan),
            shards=ShardDriver(plan),
            writer=TableWriter(
                plan,
                event_time=pa.timestamp("ms") if times is not None and pa.types.is_date(times) else times or pa.int64(),
                ends={name: kinds[name] for name in is_end},
            ),
        )

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that are published unchanged."""
        return self.settings.policy.unchanged

    def arguments(self, columns: Mapping[str, pa.Array], watermarks: NDArray[np.int64] | None) -> list[Any]:
        """Return the arguments of the encoder for one batch."""
        found: list[Any] = [None] * len(self.plan.arguments)
        for read in self.plan.reads:
            for position in (read.value, read.missing):
                if position is None:
                    continue
                name, form = self.plan.arguments[position]
                is_mark = form == "watermark"
                found[position] = times_argument(watermarks) if is_mark else argument(columns[name], form)
        return found

    def members(self, block: Block, rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Return the published values that are not those of the records, and the number of each record."""
        columns = []
        for member in self.plan.context.members:
            if member.name == ROW:
                columns.append(pa.array(rows, pa.int64()))
            elif member.name in self.kept:  # the records have their values
                columns.append(pa.array(np.zeros(len(block), np.bool_)))
            else:
                columns.append(block.members.column(member.name))
        return pa.record_batch(columns, schema=self.plan.context.members)

    def outputs(
        self, parts: Sequence[ShardOutput], refused: Sequence[_Refused], rows: _Rows, *, row_numbers: bool
    ) -> Result:
        """Return the outputs of some steps as tables."""
        generalized, numbers = self.writer.generalized(parts), joined(part.rows for part in parts)
        for attribute in self.settings.policy.sets:
            generalized[attribute.name] = pc.split_pattern(generalized[attribute.name], SEPARATOR)
        released = self.writer.of_members(generalized, parts)
        kept = rows.take(numbers)
        for i, name in enumerate(self.settings.policy.members):
            if name in self.kept:
                released[name] = self._neutralized(kept.column(name))
                continue
            values = [value for part in parts for value in part.releases.members[i]]
            found = pa.array(values, self.plan.context.members.field(name).type)
            if name not in self.settings.policy.sensitive:
                found = as_written(found, self.types[name])
            released[name] = found
        released |= self.writer.pseudonyms(parts)
        suppressed = self.writer.suppressed(parts)
        rejected = self.writer.rejected([each.block.rejected for each in refused])
        if row_numbers:
            released["row"] = pa.array(numbers, pa.int64())
            suppressed["row"] = pa.array(joined(part.suppressed_rows for part in parts), pa.int64())
            rejected["row"] = pa.array(joined(each.rows for each in refused), pa.int64())
        return Result(
            released=pa.table(released),
            audit=pa.table(self.writer.audit(parts) | generalized),
            suppressed=pa.table(suppressed),
            rejected=pa.table(rejected),
            further=self.writer.further(parts),
        )

    def _neutralized(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not (self.settings.policy.neutralize_formulas and is_text(decoded_type(column.type))):
            return column
        return pa.chunked_array([_neutral(chunk) for chunk in column.chunks], column.type)


def _neutral(texts: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(texts.type):
        return without_formulas(texts)
    coded = without_formulas(texts.dictionary).dictionary_encode()  # two values may become one
    indices = coded.indices.take(texts.indices).cast(texts.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary, ordered=texts.type.ordered)


def _without_nan(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([without_nan(column) for column in batch.columns], schema=batch.schema)


def _exactly(subjects: Iterable[Any], name: str, kind: pa.DataType) -> pa.Array:
    """Return values of the column of the subject; none is rounded, cut or read as another type.

    Raises
    ------
    ValueError
        The values are no list of values of the column's type; the message holds none of them.
    """
    if (
        isinstance(subjects, str | bytes | Mapping)
        or hasattr(subjects, "columns")
        or not isinstance(subjects, Iterable)
    ):
        raise ValueError(f"subjects: is a {type(subjects).__name__}; give a list of values of the column {name!r}")
    given = [value.as_py() if isinstance(value, pa.Scalar) else value for value in subjects]
    is_exact = not any(isinstance(value, float) and abs(value) >= EXACT for value in given)
    try:
        values = pa.array(given, kind)
        is_exact &= not values.null_count and values.to_pylist() == given
        is_exact &= pa.types.is_boolean(kind) or not any(isinstance(value, bool) for value in given)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):  # their messages hold a value
        is_exact = False
    if not is_exact:
        raise ValueError(
            f"subjects: are not of the type of the column {name!r}, {kind}, or one is missing; convert them"
        )
    return values


def _unfit(name: str, of: pa.DataType) -> str:
    """Return the problem of a published column whose rows cannot be copied without values of other rows."""
    return f"data: {name!r} is of type {of}, whose rows cannot be copied apart from others; cast the column to text"


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


_DURATION = TypeAdapter[int](Duration)


def milliseconds_of(value: DurationLike, name: str = "duration") -> int:
    """Return a duration in milliseconds.

    Raises
    ------
    ValueError
        It is no duration of whole milliseconds from 0 on; the message begins with ``name``.
    """
    given: object = value / timedelta(milliseconds=1) if isinstance(value, timedelta) else value
    try:
        return int(_DURATION.validate_python(given))
    except ValidationError:
        raise ValueError(
            f"{name}: must be whole milliseconds, 0 or more, or a text such as '10 min', not {value!r}"
        ) from None


def _epoch(watermark: datetime | int) -> int:
    if isinstance(watermark, datetime):
        aware = watermark if watermark.tzinfo is not None else watermark.replace(tzinfo=timezone.utc)
        return int(aware.timestamp() * 1000)
    return watermark
