"""Anonymization of a stream within a Python process, without Flink."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard, ShardContext, Step
from crenel.anonymity.buffer.pseudonym import codes
from crenel.anonymity.compiled.random import shard_key
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.fingerprint import fingerprint
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.columns import argument, decoded, event_time_type, is_text, milliseconds, sql_type, texts
from crenel.frames import Frame
from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.load import Anonymizer
from crenel.jobs.pipeline.layout import Layout, layout
from crenel.jobs.pipeline.references import with_codes
from crenel.operators.bounds import integer_bounds, within
from crenel.operators.encode.columns import without_formulas
from crenel.operators.encode.encoder import EncodePlan, Encoder
from crenel.operators.encode.hashing import text_codes
from crenel.results import Result, Summary, summarize
from crenel.settings import Duration, Settings
from crenel.state.block import NO_TIME, Block
from crenel.state.codec import array, pack, raw, unpack
from crenel.state.stored import Changes, Stored

ROW = "\0row"
"""Column of the number of a record; no data has a column of this name."""

_SPARE_ROWS = 4096
"""Rows that are kept beyond twice the buffered ones before the others are dropped."""

_VERSION = 1


def anonymize(data: Any, settings: Settings, *, lateness: Duration = 0, row_numbers: bool = False) -> Result:
    """Anonymize data that ends, and return all outputs.

    Parameters
    ----------
    data : a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas or Polars DataFrame, or an object that
        exports an Arrow stream (``__arrow_c_stream__``). Readers, datasets and streams are read batch by batch
    settings : policy, privacy models and algorithm
    lateness : how far the watermark stays behind the newest event time; it decides when a delay of event time has
        passed, and never drops a record
    row_numbers : whether each output has a column ``row``, the number of the input record from 0, for the holder of the
        original data

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
    stream = Stream(settings, lateness=lateness, row_numbers=row_numbers, restorable=False)
    stream.open(frame.schema)
    parts = [stream.push(batch) for batch in frame.batches()]
    parts.append(stream.finish())
    return Result.joined(parts).mapped(frame.back)


def open_stream(
    settings: Settings,
    *,
    lateness: Duration = 0,
    row_numbers: bool = False,
    snapshot: bytes | None = None,
) -> Stream:
    """Open a stream that anonymizes records as they come.

    Parameters
    ----------
    settings : policy, privacy models and algorithm; those of a snapshot, up to changes that a job may be restored with
    lateness, row_numbers : as for ``anonymize``
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
    return Stream(settings, lateness=lateness, row_numbers=row_numbers, snapshot=snapshot)


class Stream:
    """A stream that is anonymized within this process; ``open_stream`` makes one.

    All methods but ``snapshot`` return the outputs that became due, as pyarrow tables. After an exception the stream
    must not be used again; a program goes on from its last snapshot.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        lateness: Duration = 0,
        row_numbers: bool = False,
        snapshot: bytes | None = None,
        restorable: bool = True,
    ) -> None:
        self._settings, self._anonymizer = settings, settings.validated
        self._lateness, self._row_numbers, self._restorable = _duration(lateness), row_numbers, restorable
        self._plan: _Plan | None = None
        self._shards: dict[int, _ShardState] = {}
        self._watermark = int(NO_TIME)
        self._next_row = 0
        self._rejected = np.zeros(len(REJECTIONS), np.int64)
        self._finished = False
        if snapshot is not None:
            self._restore(snapshot)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._shards.clear()

    def open(self, schema: pa.Schema) -> None:
        """Check the columns of the data; the first ``push`` does so otherwise.

        Raises
        ------
        ConfigError
            The columns do not fit the policy; the message lists all problems.
        """
        if self._plan is None:
            self._plan = _Plan.of(self._anonymizer, schema, self._restorable)
            self._rows = _Rows(schema, self._plan.kept)
        elif not self._plan.schema.equals(schema):
            raise ConfigError("data", ["data: has other columns than before; push batches of one schema"])

    def push(self, data: Any) -> Result:
        """Admit records in their order, and return the outputs that are due by then.

        Parameters
        ----------
        data : as for ``anonymize``, with the same columns each time

        Raises
        ------
        ConfigError
            The columns do not fit the policy, or differ from those before.
        """
        self._require_open()
        frame = Frame.of(data)
        self.open(frame.schema)
        parts: list[_Part] = []
        refused: list[_Refused] = []
        for batch in frame.batches():
            self._push(batch, parts, refused)
        return self._result(parts, refused)

    def advance(self, watermark: datetime | int) -> Result:
        """Raise the watermark, and return the outputs that are due by then.

        Parameters
        ----------
        watermark : no record before it is expected any more: a ``datetime`` (UTC where it has no zone), or epoch
            milliseconds; a lower one than before has no effect
        """
        self._require_open()
        parts: list[_Part] = []
        self._advance(_epoch(watermark), parts)
        return self._result(parts, [])

    def finish(self) -> Result:
        """End the stream: publish or suppress all buffered tuples."""
        self._require_open()
        self._finished = True
        parts = [self._part(shard, shard.live.finish()) for shard in self._in_order()]
        return self._result(parts, [])

    def forget(self, subjects: Iterable[Any]) -> Result:
        """Erase the buffered records of persons, unpublished, and all that is stored of the persons.

        Parameters
        ----------
        subjects : values of the column ``policy.subject``

        Raises
        ------
        ValueError
            The policy names no subject.
        """
        self._require_open()
        name = self._anonymizer.policy.subject
        if name is None:
            raise ValueError("policy.subject: names no column, so no person can be forgotten; name one")
        if self._plan is None:
            return self._result([], [])
        values = texts(decoded(pa.array(list(subjects), decoded_type(self._plan.schema.field(name).type))))
        key = self._anonymizer.subject_key.hash_key
        hashes = text_codes(values.to_numpy(zero_copy_only=False), key, repeated=False)
        return self._result([self._part(shard, shard.live.forget(hashes)) for shard in self._in_order()], [])

    @property
    def summary(self) -> Summary:
        """Figures of the stream so far."""
        counters = [shard.live.counters for shard in self._in_order()]
        return summarize(self._anonymizer, counters, self._next_row, self._rejected)

    def snapshot(self) -> bytes:
        """Return the state of the stream, including buffered records as they were read: keep it as safe as these."""
        self._require_open()
        if self._plan is None:
            return pack("stream", _VERSION, {"meta": json.dumps({"schema": False}).encode()})
        self._drop_rows()
        columns: dict[str, Any] = {
            "schema": self._plan.schema.serialize().to_pybytes(),
            "row": self._rows.numbers,
            "rows": _ipc(self._rows.table),
            "rejected": self._rejected,
        }
        entries: list[tuple[int, str, int]] = []
        for number, shard in sorted(self._shards.items()):
            stored = shard.stored
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
        plan = self._opened
        self._rows.numbers = array(columns, "row").copy()
        self._rows.table = pa.ipc.open_stream(pa.py_buffer(raw(columns, "rows"))).read_all()
        self._rejected = array(columns, "rejected").copy()
        self._watermark, self._next_row = meta["watermark"], meta["next_row"]
        stored: dict[int, Stored] = {}
        for i, (number, kind, key) in enumerate(meta["entries"]):
            blob = raw(columns, f"e{i}")
            if kind == "":
                stored[number] = Stored(blob, {})
            else:
                dict_of = stored[number].entries
                dict_of.setdefault(kind, {})[key] = blob  # type: ignore[attr-defined]
        for number, state in stored.items():
            live = plan.settings.algorithm.restored(plan.context, state, f"shard {number}")
            self._shards[number] = _ShardState(number, live, state)

    @property
    def _opened(self) -> _Plan:
        if self._plan is None:
            raise RuntimeError("the stream has no schema yet")
        return self._plan

    def _require_open(self) -> None:
        if self._finished:
            raise ValueError("the stream has finished; open another one")

    def _in_order(self) -> list[_ShardState]:
        return [shard for _, shard in sorted(self._shards.items())]

    def _push(self, batch: pa.RecordBatch, parts: list[_Part], refused: list[_Refused]) -> None:
        plan = self._opened
        first, self._next_row = self._next_row, self._next_row + batch.num_rows
        if not batch.num_rows:
            return
        columns = {name: decoded(batch.column(name)) for name in plan.read}
        marks, newest = self._marks(columns)
        self._rows.add(batch, first)
        for encoded in plan.encoder.blocks(*plan.arguments(columns, marks)):
            block = encoded.block
            if len(encoded.rejected):
                self._rejected += np.bincount(block.rejected.reason, minlength=len(REJECTIONS))
                refused.append(_Refused(block, encoded.rejected + first))
            if not len(block):
                continue
            shard = self._shard(block.shard)
            rows = encoded.rows + first
            step = shard.live.push(replace(block, members=plan.members(block, rows)), self._watermark)
            parts.append(self._part(shard, step))
        self._advance(newest, parts)

    def _marks(self, columns: Mapping[str, pa.Array]) -> tuple[NDArray[np.int64] | None, int]:
        """Return the watermark at the arrival of each record, and the one after all of them."""
        name = self._anonymizer.policy.event_time
        if name is None:
            return None, self._watermark
        times = milliseconds(columns[name])
        limit = self._anonymizer.policy.event_time_limit
        marks = np.where(times == NO_TIME, np.int64(NO_TIME), times - self._lateness)
        if limit is None:
            after = np.maximum.accumulate(np.maximum(marks, self._watermark))
            return np.concatenate([[self._watermark], after[:-1]]), int(after[-1])
        before, watermark = np.empty(len(marks), np.int64), self._watermark
        for i, (time, mark) in enumerate(zip(times.tolist(), marks.tolist(), strict=True)):
            before[i] = watermark
            if watermark == NO_TIME or time <= watermark + limit:  # a record dated too far ahead moves no watermark
                watermark = max(watermark, mark)
        return before, watermark

    def _advance(self, watermark: int, parts: list[_Part]) -> None:
        self._watermark = max(self._watermark, watermark)
        for shard in self._in_order():
            due = shard.live.next_deadline
            if due is not None and due <= self._watermark:
                parts.append(self._part(shard, shard.live.advance(self._watermark)))

    def _shard(self, number: int) -> _ShardState:
        if number not in self._shards:
            plan = self._opened
            live = plan.settings.algorithm.new(plan.context, number, shard_key(plan.settings.seed, number))
            self._shards[number] = _ShardState(number, live, None)
        return self._shards[number]

    def _part(self, shard: _ShardState, step: Step) -> _Part:
        shard.keep(step.changes)
        return _Part(shard.number, step, shard.live.random_key)

    def _result(self, parts: list[_Part], refused: list[_Refused]) -> Result:
        if self._plan is None:
            raise ValueError("data: nothing was pushed, so the columns are unknown; push a table, even an empty one")
        found = self._plan.outputs(parts, refused, self._rows, row_numbers=self._row_numbers)
        self._drop_rows(spare=_SPARE_ROWS)
        return replace(found, summary=self.summary)

    def _drop_rows(self, spare: int = 0) -> None:
        """Drop records that no shard holds any more, where they outnumber the others."""
        buffered = sum(shard.live.counters.buffered for shard in self._shards.values())
        if len(self._rows.numbers) > 2 * buffered + spare or (not spare and len(self._rows.numbers) > buffered):
            held = [shard.live.buffered().column(ROW).to_numpy() for shard in self._shards.values()]
            self._rows.keep(np.sort(np.concatenate([np.zeros(0, np.int64), *held])))


class _Part(NamedTuple):
    """The output of a shard in one step."""

    shard: int
    step: Step
    random_key: bytes


class _Refused(NamedTuple):
    """Rejected records: the block that names them, and their (records,) row numbers."""

    block: Block
    rows: NDArray[np.int64]


class _ShardState:
    """A live shard, and its stored state where the stream can be restored."""

    def __init__(self, number: int, live: Shard, stored: Stored | None) -> None:
        self.number, self.live = number, live
        self._shard = b"" if stored is None else stored.shard
        self._entries: dict[str, dict[int, bytes]] = (
            {} if stored is None else {kind: dict(blobs) for kind, blobs in stored.entries.items()}
        )

    @property
    def stored(self) -> Stored:
        return Stored(self._shard, self._entries)

    def keep(self, changes: Changes | None) -> None:
        """Apply the changes of a step to the stored state."""
        if changes is None:
            return
        self._shard = changes.shard
        for kind, written in changes.entries.items():
            blobs = self._entries.setdefault(kind, {})
            for key, blob in written.items():
                if blob is None:
                    blobs.pop(key, None)
                else:
                    blobs[key] = blob


class _Rows:
    """Records that are still buffered, and some that are not, by their numbers.

    Attributes
    ----------
    numbers : (rows,) number of each record, ascending
    table : their columns that are published unchanged
    """

    def __init__(self, schema: pa.Schema, kept: Sequence[str]) -> None:
        self.kept = tuple(kept)
        self.numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self.table = schema.empty_table().select(self.kept)

    def add(self, batch: pa.RecordBatch, first: int) -> None:
        """Add the records of a batch, whose numbers begin with ``first``."""
        self.numbers = np.concatenate([self.numbers, np.arange(first, first + batch.num_rows)])
        if self.kept:
            table = pa.concat_tables([self.table, pa.Table.from_batches([batch.select(self.kept)])])
            if any(map(pa.types.is_dictionary, table.schema.types)):
                table = table.unify_dictionaries()
            self.table = table.combine_chunks()

    def take(self, rows: NDArray[np.int64]) -> pa.Table:
        """Return the records with some numbers, in their order."""
        return self.table.take(pa.array(np.searchsorted(self.numbers, rows)))

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Drop all other records; ``rows`` ascend."""
        if self.kept:
            self.table = self.take(rows).combine_chunks()
        self.numbers = rows


@dataclass(frozen=True)
class _Plan:
    """Everything that follows from the settings and the columns of the data.

    Attributes
    ----------
    schema : columns of the data
    layout : columns between data and outputs
    encoder : encoder of the data
    context : of all shards
    kept : columns that are published unchanged
    read : columns that the encoder reads
    """

    settings: Anonymizer
    schema: pa.Schema
    layout: Layout
    encode: EncodePlan
    encoder: Encoder
    context: ShardContext
    kept: tuple[str, ...]
    read: tuple[str, ...]

    @classmethod
    def of(cls, settings: Anonymizer, schema: pa.Schema, restorable: bool) -> _Plan:
        policy = settings.policy
        types = {field.name: sql_type(field.type) for field in schema}
        for name in policy.passthrough:
            if name in types:
                types[name] = types[name] if _is_plain(types[name]) else "STRING"
        if policy.event_time in types:
            types[policy.event_time] = event_time_type(schema.field(policy.event_time).type)
        try:
            found = layout(
                policy,
                types,
                "data",
                noise=settings.sampling_and_noise is not None,
                representative=settings.algorithm.representative(settings.parameters),
                further=settings.algorithm.outputs,
                counts_event_time=settings.counts_event_time,
                watermark=True,
            )
        except ConfigError as error:
            raise ConfigError("data", map(_in_data, error.problems)) from None
        encode = found.encode_plan(settings.shards, (0,) * settings.shards.count, settings.subject_key, "")
        if not encode.divided_by_row:
            encode = replace(encode, passthrough=())
        members = [(name, pa.bool_()) for name in policy.sensitive]
        members += [(read.name, found.members_schema.field(read.name).type) for read in encode.noised]
        context = ShardContext(
            policy=replace(found.policy, passthrough=(ROW,)),
            privacy=with_codes(settings.privacy, found, encode, "data"),
            parameters=settings.parameters,
            members=pa.schema([*members, (ROW, pa.int64())]),
            sampling_and_noise=settings.sampling_and_noise,
            fingerprint=fingerprint(
                found.policy,
                settings.shards,
                settings.subject_key,
                found.published,
                algorithm=settings.algorithm.stored_as,
                sampling_and_noise=settings.sampling_and_noise,
                subject_type=found.subject_type,
                privacy=settings.privacy,
                epoch=settings.epoch,
            ),
            remembers=restorable,
        )
        return cls(
            settings=settings,
            schema=schema,
            layout=found,
            encode=encode,
            encoder=Encoder(encode),
            context=context,
            kept=(*policy.sensitive, *policy.passthrough),
            read=tuple(dict.fromkeys(read.name for read in encode.reads)),
        )

    def arguments(self, columns: Mapping[str, pa.Array], marks: NDArray[np.int64] | None) -> list[Any]:
        """Return the arguments of the encoder for one batch."""
        found: list[Any] = [None] * len(self.layout.arguments)
        for read in self.encode.reads:
            if read is self.encode.watermark:
                found[read.value] = _as_times(marks)
                continue
            found[read.value] = argument(read, columns[read.name])
            if read.missing is not None:
                found[read.missing] = _as_series(columns[read.name].is_null())
        return found

    def members(self, block: Block, rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Return the published values that the core needs: noised ones, and the number of each record."""
        columns = []
        for field in self.context.members:
            if field.name == ROW:
                columns.append(pa.array(rows, pa.int64()))
            elif pa.types.is_boolean(field.type):
                columns.append(pa.array(np.zeros(len(block), np.bool_)))
            else:
                columns.append(block.members.column(field.name))
        return pa.record_batch(columns, schema=self.context.members)

    def outputs(self, parts: Sequence[_Part], refused: Sequence[_Refused], rows: _Rows, *, row_numbers: bool) -> Result:
        """Return the outputs of some steps as tables."""
        policy, releases = self.settings.policy, [part.step.releases for part in parts]
        generalization = self._generalization(parts)
        sizes = _ints(part.tuples for part in releases)
        of_release = pa.array(np.repeat(np.arange(len(sizes)), sizes))
        numbers = _ints(np.array(part.members[-1], np.int64) for part in releases)
        kept = rows.take(numbers) if rows.kept else None
        released = {name: column.take(of_release) for name, column in generalization.items()}
        for i, name in enumerate(policy.members):
            if kept is not None and name in rows.kept:
                column = kept.column(name)
                if policy.neutralize_formulas and is_text(column.type):
                    column = pa.chunked_array([without_formulas(chunk) for chunk in column.chunks], column.type)
                released[name] = column
            else:
                values = [value for part in releases for value in part.members[i]]
                released[name] = pa.array(values, self.context.members.field(name).type).cast(
                    self.schema.field(name).type, safe=False
                )
        if policy.pseudonym is not None:
            key = self.settings.subject_key.pseudonym_key
            found = [codes(policy.pseudonym, key, part.random_key, part.step.releases) for part in parts]
            released[policy.pseudonym.column] = pa.array([code for part in found for code in part], pa.string())
        suppressed = {
            "reason": _named(self.context.privacy.reasons, _ints(part.suppressed_reason for part in releases)),
            "shard": pa.array(_ints(np.full(len(p.step.releases.suppressed_reason), p.shard) for p in parts)),
            "position": pa.array(_ints(part.suppressed_position for part in releases)),
            "event_time": self._times(_ints(part.suppressed_event_time for part in releases)),
        }
        rejected: dict[str, Any] = {
            "column": _named(self.encode.checked, _ints(each.block.rejected.column for each in refused)),
            "reason": _named(REJECTIONS, _ints(each.block.rejected.reason for each in refused)),
            "event_time": self._times(_ints(each.block.rejected.event_time for each in refused)),
        }
        if policy.reference is not None:
            references = [name for each in refused for name in each.block.rejected.reference]
            rejected["reference"] = pa.array(references, pa.string())
        if row_numbers:
            released["row"] = pa.array(numbers)
            suppressed["row"] = pa.array(
                _ints(np.array(part.suppressed_members[-1], np.int64) for part in releases), pa.int64()
            )
            rejected["row"] = pa.array(_ints(each.rows for each in refused))
        further = {
            output.name: self._further(output.columns, [r for p in parts for r in p.step.further.get(output.name, ())])
            for output in self.settings.algorithm.outputs
        }
        return Result(
            released=pa.table(released),
            audit=pa.table(self._audit(parts) | generalization),
            suppressed=pa.table(suppressed),
            rejected=pa.table(rejected),
            further=further,
        )

    def _generalization(self, parts: Sequence[_Part]) -> dict[str, pa.Array]:
        releases, columns = [part.step.releases for part in parts], dict[str, pa.Array]()
        numeric, categorical = count(), count()
        representative = self.settings.algorithm.representative(self.settings.parameters)
        integers = {
            a.name for a, whole in zip(self.settings.policy.numeric, self.layout.integers, strict=True) if whole
        }
        for attribute in self.settings.policy.quasi_identifiers:
            name = attribute.name
            if not isinstance(attribute, Numeric):
                i, labels = next(categorical), self._labels(name)
                columns[name] = _named(labels, _ints(part.node[:, i] for part in releases))
                continue
            i = next(numeric)
            lower, upper = (_reals(getattr(part, end)[:, i] for part in releases) for end in ("lower", "upper"))
            if representative:
                columns[name] = pa.array(lower)
                continue
            ends: Sequence[Any] = within(lower, upper, self.layout.extremes.get(name))
            if name in integers:
                ends = integer_bounds(*ends)
            kind = decoded_type(self.schema.field(name).type)
            for end, values in zip(("min", "max"), ends, strict=True):
                plain = pa.array(values, pa.int64() if name in integers else pa.float64())
                columns[f"{name}_{end}"] = plain if is_text(kind) else plain.cast(kind, safe=False)
        return columns

    def _labels(self, name: str) -> Sequence[str]:
        return next(a.hierarchy.labels for a in self.context.policy.categorical if a.name == name)

    def _audit(self, parts: Sequence[_Part]) -> dict[str, Any]:
        policy, releases = self.settings.policy, [part.step.releases for part in parts]
        columns: dict[str, Any] = {
            "release_id": _ints(part.release_id for part in releases),
            "shard": _ints(np.full(len(part.step.releases), part.shard) for part in parts),
            "event_time": self._times(_ints(part.event_time for part in releases)),
            "kind": _named(KINDS, _ints(part.kind for part in releases)),
            "subjects": _ints(part.subjects for part in releases),
            "tuples": _ints(part.tuples for part in releases),
        }
        for i, name in enumerate(policy.sensitive):
            columns[f"diversity_{name}"] = _ints(part.diversity[:, i] for part in releases)
        columns["loss"] = _reals(part.loss for part in releases)
        if policy.noised:
            columns["linkable"] = _ints(part.linked for part in releases)
        for i, attribute in enumerate(policy.noised):
            columns[f"noise_error_{attribute.name}"] = _reals(part.noise_error[:, i] for part in releases)
            columns[f"noise_expected_{attribute.name}"] = _reals(part.noise_expected[:, i] for part in releases)
        releases_count, noise = len(columns["release_id"]), self.settings.sampling_and_noise
        in_force: dict[str, float | None] = {
            **self.context.privacy.in_force,
            "sample_rate": None if noise is None else noise.sample_rate,
            "phi": None if noise is None else noise.phi,
        }
        for name, value in in_force.items():
            kind = pa.int64() if isinstance(value, int) else pa.float64()
            columns[name] = pa.array([value] * releases_count, kind)
        return columns

    def _times(self, times: NDArray[np.int64]) -> pa.Array:
        """Return event times in the type of their column; as timestamps where there is none, or it holds days."""
        column = pa.array(times, pa.int64(), mask=times == NO_TIME)
        name = self.settings.policy.event_time
        kind = None if name is None else decoded_type(self.schema.field(name).type)
        if kind is None or pa.types.is_integer(kind):
            return column
        stamps = column.cast(pa.timestamp("ms"))
        if not pa.types.is_timestamp(kind):
            return stamps
        return stamps.cast(pa.timestamp("ms", kind.tz)).cast(kind) if kind.tz else stamps.cast(kind)

    def _further(self, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> pa.Table:
        values: Iterator[Any] = zip(*rows, strict=True) if rows else iter([()] * len(columns))
        return pa.table(
            {name: pa.array(list(of), _TYPES[kind]) for (name, kind), of in zip(columns.items(), values, strict=True)}
        )


_TYPES = {"INT": pa.int64(), "LONG": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "STRING": pa.string()}


def decoded_type(of: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary; another type unchanged."""
    return of.value_type if pa.types.is_dictionary(of) else of


def _is_plain(sql: str) -> bool:
    return sql.partition("(")[0] in (
        *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL"),
        *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
    )


def _in_data(problem: str) -> str:
    """Return a problem with its remedy in a program, where a job would change its query."""
    return problem.replace("convert it in source.query", "cast the column").replace("source.query", "the data")


def _named(names: Sequence[str | None], numbers: NDArray[np.int64]) -> pa.Array:
    return pa.array(list(names), pa.string()).take(pa.array(numbers))


def _ints(parts: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *parts], dtype=np.int64)


def _reals(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *parts])


def _as_series(column: pa.Array) -> Any:
    import pandas as pd

    return pd.Series(column.to_numpy(zero_copy_only=False), copy=False)


def _as_times(marks: NDArray[np.int64] | None) -> Any:
    import pandas as pd

    return None if marks is None else pd.Series(marks.view("datetime64[ms]"), copy=False)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _duration(value: Duration) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, str):
        from pydantic import TypeAdapter

        from crenel.jobs.config.fields import Duration as Milliseconds

        return int(TypeAdapter(Milliseconds).validate_python(value))
    return value


def _epoch(watermark: datetime | int) -> int:
    if isinstance(watermark, datetime):
        aware = watermark if watermark.tzinfo is not None else watermark.replace(tzinfo=timezone.utc)
        return int(aware.timestamp() * 1000)
    return watermark
