"""Fields of Protobuf records: compiled code reads a batch, and unreadable values are missing.

A record is unreadable as a whole if its bytes are no message, or if a field that is read has the form of another type.
Its result depends on no other record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.operators.encode.cells import UNITS, ArrayCells, CellType, FieldCells
from crenel.operators.encode.protobuf.outline import read_outline
from crenel.operators.encode.protobuf.program import ProtobufProgram, compile_program
from crenel.operators.encode.protobuf.scan import fill, frame_of, frames
from crenel.operators.encode.protobuf.schema import DescriptorError, MessageType, kind_of
from crenel.operators.encode.records import UnknownFields
from crenel.operators.encode.schema_registry import KnownSchemas, SchemaRegistry
from crenel.operators.encode.slices import content_of, gather, texts
from crenel.operators.encode.slots import BatchSlots, Path, SlotLayout, array_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

_log = logging.getLogger(__name__)
_Resolved: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]
"""Indexes of the message in a schema, and the fields that only the schema has."""

_TIMESTAMP = "google.protobuf.Timestamp"
_TIMES = ("TIMESTAMP(6)", "TIMESTAMP(3)", "BIGINT", "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(3)")
_PARTS = ("seconds", "nanos")
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Seconds from 1970 to the beginning of the year 1 and to the end of the year 9999, as in timestamp.proto."""

_TYPES = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), ("INT", "BIGINT")),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64", "uint64", "fixed64"), ("BIGINT",)),
    "float": ("FLOAT", "DOUBLE"),
    "double": ("DOUBLE",),
    "bool": ("BOOLEAN",),
    "string": ("STRING",),
    "enum": ("STRING",),
}


@dataclass(frozen=True)
class ProtobufFields:
    """Fields to read from each record: an implementation of ``crenel.operators.encode.records.Fields``.

    Attributes
    ----------
    message : type of the records
    fields : path and type of each field to read; of an array, the type of its elements
    registry : registry of the schemas that records name; None: records name none
    unknown : counts of fields that only the schemas of the registry have
    """

    message: MessageType
    fields: tuple[tuple[tuple[str, ...], CellType], ...]
    registry: SchemaRegistry | None = None
    unknown: UnknownFields = field(default_factory=UnknownFields, compare=False)

    def columns(self, records: pa.BinaryArray) -> list[FieldCells | ArrayCells]:
        """Return the values of each field; ``records`` are (rows,), null where a record is missing."""
        layout, program = self._compiled
        data, offsets = content_of(records)
        ends = offsets.astype(np.int64)
        slots = BatchSlots.empty(data, layout, len(records))
        rows = np.arange(len(records))
        if records.null_count:
            rows = rows[records.is_valid().to_numpy(zero_copy_only=False)]
        parts = [(rows, ends[:-1], ())] if self.registry is None else self._framed(data, rows, ends)
        for those, start, unknown in parts:
            fill(slots, program, those, start, ends[1:])
            if unknown:
                self.unknown.add(unknown, int(np.count_nonzero(slots.read[those])))
        return [self._cells(slots, path, kind) for path, kind in self.fields]

    def _framed(
        self, data: NDArray[np.uint8], rows: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]]:
        """Yield the records of each frame, the start of every row's message, and the unknown fields of its schema."""
        length = np.zeros(len(ends) - 1, np.int32)
        frames(data, rows, ends, length)
        found = gather(data, length > 0, ends[:-1], length, pa.binary()).dictionary_encode()
        which = found.indices.fill_null(-1).to_numpy()
        for number, content in enumerate(found.dictionary.to_pylist()):
            schema, indexes = frame_of(content)
            message = self._known.get(schema)
            if message is not None and message[0] == indexes:
                yield np.flatnonzero(which == number), ends[:-1] + length, message[1]

    @cached_property
    def _known(self) -> KnownSchemas[_Resolved]:
        assert self.registry is not None
        return KnownSchemas(self.registry, self._resolved)

    def _resolved(self, number: int, text: str) -> _Resolved | None:
        """Return what records of a schema are read by; None if they are unreadable."""
        try:
            outline = read_outline(text)
            found = outline.find(self.message.name)
            if found is None:
                raise DescriptorError(f"has no message {self.message.name}")
        except DescriptorError as error:
            _log.error(
                "source.from_protobuf: the schema %d of the registry %s; its records are rejected. Correct "
                "source.from_protobuf.message, or read the topic of that message.",
                number,
                error,
            )
            return None
        unknown = tuple(self.message.unknown({each.name: each.fields for each in outline.all()}))
        for name in unknown:
            _log.warning(
                "source.from_protobuf: the schema %d of the registry has the field '%s', which descriptor_file "
                "does not have; it is not published. To publish it, give the new descriptor set, the field and its "
                "role.",
                number,
                name,
            )
        return found, unknown

    def _cells(self, slots: BatchSlots, path: Path, kind: CellType) -> FieldCells | ArrayCells:
        layout, leaf = self._compiled[0], self.message.find(path)[-1]
        parts = [layout.slots[part] for part in _parts(path, leaf)]
        if array_of(path) is None:
            return FieldCells(_values(slots, parts, leaf, kind))
        array = layout.array_slot(path)
        _, items = slots.items_of(array, [part - layout.of_records for part in parts])
        values = _values(items, [*range(len(parts))], leaf, kind)
        return ArrayCells(kind, slots.lists(array, values))

    @cached_property
    def _compiled(self) -> tuple[SlotLayout, ProtobufProgram]:
        paths = [part for path, _ in self.fields for part in _parts(path, self.message.find(path)[-1])]
        layout = SlotLayout(tuple(paths))
        return layout, compile_program(self.message, layout)


def fitting_types(leaf: FieldDescriptor) -> tuple[str, ...]:
    """Return the SQL types as which a value of a field may be read, first the closest; empty for none."""
    return _TIMES if _is_timestamp(leaf) else _TYPES.get(kind_of(leaf), ())


def precompile() -> None:
    """Compile the reader ahead of its first use."""
    numbers, rows, ends = np.zeros((0, 8), np.int64), np.zeros(0, np.int64), np.zeros(2, np.int64)
    layout = SlotLayout(())
    program = ProtobufProgram(numbers, ends, rows, rows, ends, layout.item_slots, 1)
    fill(BatchSlots.empty(np.zeros(0, np.uint8), layout, 0), program, rows, rows, rows)
    frames(np.zeros(0, np.uint8), rows, ends, np.zeros(0, np.int32))


def _is_timestamp(leaf: FieldDescriptor) -> bool:
    return leaf.message_type is not None and leaf.message_type.full_name == _TIMESTAMP


def _parts(path: Path, leaf: FieldDescriptor) -> list[Path]:
    """Return the paths of the values that a field is made of."""
    return [(*path, part) for part in _PARTS] if _is_timestamp(leaf) else [path]


def _values(slots: BatchSlots, parts: list[int], leaf: FieldDescriptor, kind: CellType) -> pa.Array:
    """Return the values of a field from its slots."""
    if _is_timestamp(leaf):
        return _times(slots, parts, kind)
    of, slot = kind_of(leaf), parts[0]
    if of == "string":
        return texts(slots.bytes(slot))
    absent, value = ~slots.found[slot], slots.value[slot]
    if of == "bool":
        return pa.array(value != 0, mask=absent)
    if of == "enum":
        values = leaf.enum_type.values_by_number
        place = pc.index_in(pa.array(value, mask=absent), pa.array([*values], pa.int64()), skip_nulls=True)
        return pa.array([each.name for each in values.values()], pa.string()).take(place)
    if of in ("float", "double"):
        cells = pa.array(value.view(np.float64), mask=absent)
        return pc.cast(cells, pa.float32(), safe=False) if kind.name == "FLOAT" else cells
    return pa.array(value, mask=absent)


def _times(slots: BatchSlots, parts: list[int], kind: CellType) -> pa.Array:
    seconds, nanos = slots.value[parts[0]], slots.value[parts[1]]
    fit: NDArray[Any] = slots.found[parts[0]] & (seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND)
    fit &= (nanos >= 0) & (nanos < 1_000_000_000)
    per, unit = (1_000_000, 1000) if kind.precision == 6 else (1000, 1_000_000)
    found = pa.array(np.where(fit, seconds, 0) * per + np.where(fit, nanos, 0) // unit, mask=~fit)
    return pc.cast(found, pa.timestamp(UNITS[kind.precision])) if kind.name == "TIMESTAMP" else found
