"""Fields of Avro records: compiled code reads a batch, and unreadable values are missing.

A record is unreadable as a whole if its bytes do not fit its schema to the last one, or if the registry has no schema
of its number. Its result depends on no other record.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.operators.encode.avro.program import HAS_DEFAULT, AvroProgram, compile_program
from crenel.operators.encode.avro.scan import fill
from crenel.operators.encode.avro.schema import AvroType, SchemaError, parse
from crenel.operators.encode.cells import UNITS, ArrayCells, CellType, FieldCells
from crenel.operators.encode.records import UnknownFields
from crenel.operators.encode.schema_registry import KnownSchemas, SchemaRegistry
from crenel.operators.encode.slices import content_of, texts
from crenel.operators.encode.slots import BatchSlots, Path, SlotLayout, array_of

_FRAME = 5
"""Bytes in front of a record that name its schema: a zero, and the number of four bytes."""

_DIGITS = 38
_LAST_DAY = 2_932_896
"""Days from 1970 to the end of the year 9999."""

_FIRST_DAY = -719_162
"""Days from 1970 back to the beginning of the year 1."""

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_STAMPS = {
    f"{local}timestamp-{name}": unit for local in ("", "local-") for name, unit in (("millis", 3), ("micros", 6))
}
_log = logging.getLogger(__name__)
_Absent: TypeAlias = list[tuple[NDArray[np.bool_], AvroProgram]]
"""(records,) which are of a schema that lacks fields, with its program."""


@dataclass(frozen=True)
class AvroFields:
    """Fields to read from each record: an implementation of ``crenel.operators.encode.records.Fields``.

    Attributes
    ----------
    schema : schema that the configuration knows
    fields : path and type of each field to read; of an array, the type of its elements
    registry : registry of the schemas that records name; None: all records are of ``schema``, and name none
    unknown : counts of fields that only the schemas of the registry have
    """

    schema: AvroType
    fields: tuple[tuple[tuple[str, ...], CellType], ...]
    registry: SchemaRegistry | None = None
    unknown: UnknownFields = field(default_factory=UnknownFields, compare=False)

    def columns(self, records: pa.BinaryArray) -> list[FieldCells | ArrayCells]:
        """Return the values of each field; ``records`` are (rows,), null where a record is missing."""
        data, offsets = content_of(records)
        ends = offsets.astype(np.int64)
        slots = BatchSlots.empty(data, self._layout, len(records))
        rows = np.arange(len(records))
        if records.null_count:
            rows = rows[records.is_valid().to_numpy(zero_copy_only=False)]
        absent: _Absent = []
        for program, those, start in self._programs_of(data, rows, ends):
            fill(slots, program, those, start, ends[1:])
            if program.defaults or program.item_defaults:
                absent.append((np.isin(np.arange(len(records)), those[slots.read[those]]), program))
            if program.unknown:
                self.unknown.add(program.unknown, int(np.count_nonzero(slots.read[those])))
        return [
            FieldCells(self._cells(slots, path, kind, absent))
            if array_of(path) is None
            else ArrayCells(kind, self._lists(slots, path, kind, absent))
            for path, kind in self.fields
        ]

    def _programs_of(
        self, data: NDArray[np.uint8], rows: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> list[tuple[AvroProgram, NDArray[np.int64], NDArray[np.int64]]]:
        """Return each program with its rows, and the start of every row's record."""
        start = ends[:-1]
        if self.registry is None:
            return [(self._own, rows, start)]
        rows = rows[ends[1:][rows] - start[rows] >= _FRAME]
        rows = rows[data[start[rows]] == 0]
        numbers = np.zeros(len(rows), np.int64)
        for byte in range(1, _FRAME):
            numbers = numbers << 8 | data[start[rows] + byte]
        found = []
        for number in np.unique(numbers).tolist():
            program = self._known.get(number)
            if program is not None:
                found.append((program, rows[numbers == number], start + _FRAME))
        return found

    @cached_property
    def _layout(self) -> SlotLayout:
        return SlotLayout(tuple(path for path, _ in self.fields))

    @cached_property
    def _own(self) -> AvroProgram:
        return compile_program(self.schema, self.schema, self._layout)

    @cached_property
    def _known(self) -> KnownSchemas[AvroProgram]:
        assert self.registry is not None
        return KnownSchemas(self.registry, self._resolved)

    def _resolved(self, number: int, text: str) -> AvroProgram | None:
        """Return the program of a schema of the registry; None if its records are unreadable."""
        try:
            program = compile_program(parse(text), self.schema, self._layout)
        except SchemaError as error:
            _log.error(
                "source.from_avro: the schema %d of the registry %s; its records are rejected. Set the "
                "subject's compatibility to FORWARD or FULL, or give the new schema as source.from_avro.schema_file.",
                number,
                error,
            )
            return None
        for name in program.unknown:
            _log.warning(
                "source.from_avro: the schema %d of the registry has the field '%s', which schema_file "
                "does not have; it is not published. To publish it, give the new schema, the field and its role.",
                number,
                name,
            )
        return program

    def _cells(self, slots: BatchSlots, path: Path, kind: CellType, absent: _Absent) -> pa.Array:
        """Return (records,) the values of a field."""
        slot, leaf = self._layout.slots[path], self.schema.find(path)
        cells = _converted(_raw(slots, slot, leaf), leaf, kind)
        for of, program in absent:
            where = of & (slots.length[slot] == HAS_DEFAULT)
            cells = _filled(cells, where, program.defaults.get(slot), leaf, kind)
        return cells

    def _lists(self, slots: BatchSlots, path: Path, kind: CellType, absent: _Absent) -> pa.ListArray:
        """Return (records,) the values of a field of the items of an array."""
        slot, leaf, array = self._layout.slots[path], self.schema.find(path), self._layout.array_slot(path)
        record, items = slots.items_of(array, [slot - self._layout.of_records])
        cells = _converted(_raw(items, 0, leaf), leaf, kind)
        for of, program in absent:
            where = of[record] & (items.length[0] == HAS_DEFAULT)
            cells = _filled(cells, where, program.item_defaults.get(slot), leaf, kind)
        lists = slots.lists(array, cells)
        for of, program in absent:
            values = program.defaults.get(slot)
            where = of & (slots.length[array] == HAS_DEFAULT)
            if values is not None and where.any():
                elements = [_filled(pa.nulls(1, cells.type), np.ones(1, np.bool_), each, leaf, kind) for each in values]
                one = pa.concat_arrays([cells[:0], *elements])
                whole = pa.ListArray.from_arrays(pa.array([0, len(one)], pa.int32()), one)
                lists = pc.if_else(pa.array(where), whole[0], lists)
        return lists


def precompile() -> None:
    """Compile the reader ahead of its first use."""
    schema = parse('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}')
    AvroFields(schema, ((("a",), CellType("STRING")),)).columns(pa.array([b"\0"]))


def fitting_types(leaf: AvroType) -> tuple[str, ...]:
    """Return the SQL types as which a value may be read, first the closest; empty for none."""
    if leaf.logical in _STAMPS and leaf.kind == "long":
        precision = _STAMPS[leaf.logical]
        instant = () if leaf.logical.startswith("local-") else (f"TIMESTAMP_LTZ({precision})",)
        return f"TIMESTAMP({precision})", "BIGINT", *instant
    if leaf.logical == "time-millis" and leaf.kind == "int":
        return "TIME(3)", "INT", "BIGINT"
    if leaf.logical == "date" and leaf.kind == "int":
        return ("DATE",)
    if leaf.logical == "decimal" and leaf.kind in ("bytes", "fixed") and leaf.precision <= _DIGITS:
        return (f"DECIMAL({leaf.precision}, {leaf.scale})",)
    return {
        "string": ("STRING",),
        "enum": ("STRING",),
        "boolean": ("BOOLEAN",),
        "int": ("INT", "BIGINT"),
        "long": ("BIGINT",),
        "float": ("FLOAT", "DOUBLE"),
        "double": ("DOUBLE",),
    }.get(leaf.kind, ())


def _raw(slots: BatchSlots, slot: int, leaf: AvroType) -> pa.Array:
    """Return the values of a slot before their logical types."""
    if leaf.kind in ("string", "bytes", "fixed"):
        return slots.bytes(slot)
    absent, value = ~slots.found[slot], slots.value[slot]
    if leaf.kind == "boolean":
        return pa.array(value != 0, mask=absent)
    if leaf.kind == "enum":
        return pa.array(leaf.symbols, pa.string()).take(pa.array(value, mask=absent))
    return pa.array(value.view(np.float64) if leaf.kind in ("float", "double") else value, mask=absent)


def _filled(cells: pa.Array, where: NDArray[np.bool_], value: Any, leaf: AvroType, kind: CellType) -> pa.Array:
    """Return the cells with a default value, in JSON, in the place of some of them."""
    if value is None or not where.any():
        return cells
    return pc.if_else(pa.array(where), _converted(_default(value, leaf), leaf, kind)[0], cells)


def _default(value: Any, leaf: AvroType) -> pa.Array:
    """Return a default value as ``_raw`` returns it; a default of another type is missing."""
    try:
        if leaf.kind in ("string", "bytes", "fixed"):
            return pa.array([value.encode("utf-8" if leaf.kind == "string" else "latin-1")], pa.binary())
        kind = {"boolean": pa.bool_(), "enum": pa.string(), "float": pa.float64(), "double": pa.float64()}
        return pa.array([value], kind.get(leaf.kind, pa.int64()))
    except (AttributeError, UnicodeError, pa.ArrowException):
        return pa.nulls(1, pa.binary() if leaf.kind in ("string", "bytes", "fixed") else pa.int64())


def _converted(raw: pa.Array, leaf: AvroType, kind: CellType) -> pa.Array:
    if leaf.kind == "string":
        return texts(raw)
    if kind.name == "DECIMAL":
        return _decimals(raw, kind)
    if kind.name == "DATE":
        return pc.cast(pc.cast(_between(raw, _FIRST_DAY, _LAST_DAY), pa.int32()), pa.date32())
    if kind.name == "TIME":
        return pc.cast(pc.cast(_between(raw, 0, _PER_DAY["ms"] - 1), pa.int32()), pa.time32("ms"))
    if leaf.logical in _STAMPS:
        if kind.name == "TIMESTAMP":
            unit = UNITS[kind.precision]
            days = _PER_DAY[unit]
            return pc.cast(_between(raw, _FIRST_DAY * days, (_LAST_DAY + 1) * days - 1), pa.timestamp(unit))
        if _STAMPS[leaf.logical] == 6:
            return pa.array(raw.fill_null(0).to_numpy() // 1000, mask=raw.is_null().to_numpy(zero_copy_only=False))
        return raw
    return pc.cast(raw, pa.float32(), safe=False) if kind.name == "FLOAT" else raw


def _between(values: pa.Array, lowest: int, highest: int) -> pa.Array:
    fit = pc.and_(pc.greater_equal(values, lowest), pc.less_equal(values, highest))
    return pc.if_else(fit, values, None)


def _decimals(raw: pa.BinaryArray, kind: CellType) -> pa.Array:
    end, found = 10**kind.precision, []
    with localcontext() as context:
        context.prec = _DIGITS
        for content in raw.to_pylist():
            # A whole number of the longest decimal has 16 bytes.
            whole = None if content is None or len(content) > 64 else int.from_bytes(content, "big", signed=True)
            found.append(None if whole is None or abs(whole) >= end else Decimal(whole).scaleb(-kind.scale))
    return pa.array(found, pa.decimal128(kind.precision, kind.scale))
