"""Programs that read records of one schema into slots, under the schema that the configuration knows.

A program resolves both schemas once (Apache Avro 1.12, "Schema Resolution"), so that no record needs to. It is an array
of steps for ``crenel.operators.encode.avro.scan``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.policy import ITEMS
from crenel.operators.encode.avro.schema import AvroType, SchemaError, article
from crenel.operators.encode.slots import SlotLayout

SKIPPED = -1
"""Slot of a value that is not wanted."""

HAS_DEFAULT = -1
"""Length of a slot without a value, which has its default."""

_LONGEST = 100_000
"""Maximum number of steps: named types that are used many times grow a program exponentially."""

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Kinds as which a value of a writer's kind may be read."""

_REAL = ("float", "double")


@dataclass
class _Items:
    """Fields to read from each item of an array.

    Attributes
    ----------
    array : slot of the array
    inner : slot of the items, or a tree of the slots of their fields
    """

    array: int
    inner: Any


_Wanted: TypeAlias = "int | _Items | Mapping[str, _Wanted] | None"


class ProgramStep(IntEnum):
    """Step of a program; its slot and its argument follow in the array."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    WHOLE_AS_REAL = 4
    FLOAT = 5
    DOUBLE = 6
    BYTES = 7
    FIXED = 8  # argument: bytes
    ENUM = 9  # argument: number of symbols; a row with the reader's number for each of them follows
    UNION = 10  # argument: number of branches; a row with the first step of each of them follows
    JUMP = 11  # argument: next step
    BLOCKS = 12  # argument: first step behind the array or map
    ITEM_END = 13  # argument: first step of an item; slot: the step of BLOCKS
    ARRAY = 14  # slot: that of an array, which has no items yet
    ITEM = 15  # slot: that of the array to which an item is added
    DEFAULT = 16  # slot: that of a field or an array that has its default, as the writer does not have it
    UNFIT = 17  # a value that the reader's schema does not have
    END = 18


@dataclass(frozen=True)
class AvroProgram:
    """Steps that read the records of one schema.

    Attributes
    ----------
    steps : (steps, 3) step, slot and argument
    depth : maximum nesting of arrays and maps
    item_slots : as ``SlotLayout.item_slots``
    defaults : default value, in JSON, of each slot that the writer does not have; of an item slot, a list of the values
        of all items, or None
    item_defaults : default value, in JSON, of each item slot that the writer's items do not have
    unknown : paths of the writer's fields that the reader's schema does not have
    """

    steps: NDArray[np.int64]
    depth: int
    item_slots: NDArray[np.int64]
    defaults: Mapping[int, Any]
    item_defaults: Mapping[int, Any]
    unknown: tuple[str, ...]


def compile_program(writer: AvroType, reader: AvroType, layout: SlotLayout) -> AvroProgram:
    """Return the program that reads some fields.

    Parameters
    ----------
    writer : schema of the records
    reader : schema that the configuration knows
    layout : the fields, by their paths in the reader's schema

    Raises
    ------
    SchemaError
        A field of the reader is absent from the writer's schema and has no default, or has another type there.
    """
    made = _Compiler()
    made.emit(writer, reader, _wanted(layout), ())
    made.add(ProgramStep.END)
    steps = np.array(made.steps, np.int64).reshape(-1, 3)
    return AvroProgram(steps, made.depth, layout.item_slots, made.defaults, made.item_defaults, tuple(made.unknown))


def _wanted(layout: SlotLayout) -> dict[str, Any]:
    """Return the slot of each field, as a tree of names."""
    wanted: dict[str, Any] = {}
    for path, slot in layout.slots.items():
        inner = wanted
        for number, step in enumerate(path, 1):
            name, last = step.removesuffix(ITEMS), number == len(path)
            if name == step:
                inner = inner.setdefault(name, slot if last else {})
                continue
            items = inner.setdefault(name, _Items(layout.arrays.index(path[:number]), slot if last else {}))
            inner = items.inner
    return wanted


class _Compiler:
    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.depth = self._level = 0
        self.defaults: dict[int, Any] = {}
        self.item_defaults: dict[int, Any] = {}
        self._in_items = False
        self.unknown: list[str] = []

    def add(self, step: int, slot: int = SKIPPED, argument: int = 0) -> int:
        if len(self.steps) >= _LONGEST:
            raise SchemaError("has too many fields")
        self.steps.append((step, slot, argument))
        return len(self.steps) - 1

    def emit(self, writer: AvroType, reader: AvroType | None, wanted: _Wanted, place: tuple[str, ...]) -> None:
        """Add the steps that read one value; ``reader``: None where only the writer's schema has it."""
        if writer.kind == "union":
            self._union(writer, reader, wanted, place)
            return
        if reader is not None and reader.kind == "union":
            branch = _branch(writer, reader)
            if branch is None and wanted is not None:
                self._refuse(writer, reader.present, place)
            reader = branch
        if writer.kind == "record":
            if isinstance(wanted, int | _Items) or (wanted and (reader is None or reader.kind != "record")):
                self._refuse(writer, reader, place)
            self._record(writer, reader if reader is not None and reader.kind == "record" else None, wanted, place)
        elif writer.kind in ("array", "map"):
            items = wanted if isinstance(wanted, _Items) else None
            if wanted is not items or (items and (reader is None or (writer.kind, reader.kind) != ("array", "array"))):
                self._refuse(writer, reader, place)
            self._items(writer, reader, items, place)
        else:
            if isinstance(wanted, Mapping | _Items) or (wanted is not None and not _fits(writer, reader)):
                self._refuse(writer, reader, place)
            self._value(writer, reader, SKIPPED if not isinstance(wanted, int) else wanted)

    def _value(self, writer: AvroType, reader: AvroType | None, slot: int) -> None:
        kind = writer.kind
        if kind == "null":
            return
        if slot != SKIPPED and kind in ("int", "long") and reader is not None and reader.kind in _REAL:
            self.add(ProgramStep.WHOLE_AS_REAL, slot)
        elif kind == "fixed":
            self.add(ProgramStep.FIXED, slot, writer.size)
        elif kind == "enum":
            self.add(ProgramStep.ENUM, slot, len(writer.symbols))
            known = writer.symbols if reader is None or slot == SKIPPED else reader.symbols
            fallback = known.index(reader.default) if reader is not None and reader.default in known else -1
            for symbol in writer.symbols:
                self.add(known.index(symbol) if symbol in known else fallback)
        else:
            self.add(ProgramStep.BYTES if kind == "string" else ProgramStep[kind.upper()], slot)

    def _union(self, writer: AvroType, reader: AvroType | None, wanted: _Wanted, place: tuple[str, ...]) -> None:
        start = self.add(ProgramStep.UNION, SKIPPED, len(writer.parts))
        for _ in writer.parts:
            self.add(0)
        ends, fit = [], 0
        for number, part in enumerate(writer.parts):
            target = len(self.steps)
            self.steps[start + 1 + number] = (target, 0, 0)
            known, in_items = len(self.unknown), self._in_items
            if part.kind != "null":
                try:
                    self.emit(part, reader, wanted, place)
                    fit += 1
                except SchemaError:  # only records with this branch are unreadable
                    del self.steps[target:], self.unknown[known:]
                    self._in_items = in_items
                    self.add(ProgramStep.UNFIT)
            ends.append(self.add(ProgramStep.JUMP))
        if not fit and any(part.kind != "null" for part in writer.parts):
            self._refuse(writer, reader, place)
        for end in ends:
            self.steps[end] = (ProgramStep.JUMP, SKIPPED, len(self.steps))

    def _record(self, writer: AvroType, reader: AvroType | None, wanted: _Wanted, place: tuple[str, ...]) -> None:
        inner: Mapping[str, _Wanted] = wanted if isinstance(wanted, Mapping) else {}
        names = {} if reader is None else {name: each for each in reader.fields for name in each.aliases}
        names |= {} if reader is None else {each.name: each for each in reader.fields}
        read = set()
        for each in writer.fields:
            known = names.get(each.name)
            path = (*place, each.name)
            if known is None:
                if reader is not None:
                    self.unknown.append(_shown(path))
                self.emit(each.type, None, None, path)
            else:
                read.add(known.name)
                self.emit(each.type, known.type, inner.get(known.name), path)
        for name, slot in inner.items():
            if name not in read and reader is not None:
                (known,) = (each for each in reader.fields if each.name == name)
                if not known.has_default:
                    raise SchemaError(f"has no field {_shown((*place, name))!r}, and it has no default")
                self._default(slot, known.default)

    def _default(self, wanted: _Wanted, value: Any) -> None:
        if isinstance(wanted, int):
            (self.item_defaults if self._in_items else self.defaults)[wanted] = value
            self.add(ProgramStep.DEFAULT, wanted)
        elif isinstance(wanted, _Items):
            self.add(ProgramStep.DEFAULT, wanted.array)
            self._items_default(wanted.inner, value if isinstance(value, list) else None)
        elif wanted is not None:
            for name, inner in wanted.items():
                self._default(inner, value.get(name) if isinstance(value, dict) else None)

    def _items_default(self, wanted: int | Mapping[str, Any], values: list[Any] | None) -> None:
        if isinstance(wanted, int):
            self.defaults[wanted] = values
            return
        for name, inner in wanted.items():
            inside = values and [each.get(name) if isinstance(each, dict) else None for each in values]
            self._items_default(inner, inside)

    def _items(self, writer: AvroType, reader: AvroType | None, wanted: _Items | None, place: tuple[str, ...]) -> None:
        self._level += 1
        self.depth = max(self.depth, self._level)
        if wanted is not None:
            if _is_empty(writer.parts[0]):  # a record could have any number of such items
                self._refuse(writer.parts[0], None, (*place, ITEMS))
            self.add(ProgramStep.ARRAY, wanted.array)
        start = self.add(ProgramStep.BLOCKS)
        if wanted is not None:
            self.add(ProgramStep.ITEM, wanted.array)
        if writer.kind == "map":
            self.add(ProgramStep.BYTES)
        part = reader.parts[0] if reader is not None and reader.kind == writer.kind else None
        before, self._in_items = self._in_items, self._in_items or wanted is not None
        self.emit(writer.parts[0], part, None if wanted is None else wanted.inner, (*place, ITEMS))
        self._in_items = before
        self.add(ProgramStep.ITEM_END, start, start + 1)
        self.steps[start] = (ProgramStep.BLOCKS, SKIPPED, len(self.steps))
        self._level -= 1

    def _refuse(self, writer: AvroType, reader: AvroType | None, place: tuple[str, ...]) -> None:
        known = "" if reader is None else f", and the configured schema {article(reader)}"
        raise SchemaError(f"has at {_shown(place)!r} {article(writer)}{known}")


def _is_empty(of: AvroType) -> bool:
    """Return whether the values of a type have no bytes."""
    return of.kind == "null" or (of.kind == "record" and all(_is_empty(each.type) for each in of.fields))


def _fits(writer: AvroType, reader: AvroType | None) -> bool:
    """Return whether a value of one type may be read as the other."""
    if reader is None:
        return False
    if writer.kind == "null":
        return True
    if writer.kind == "fixed" and writer.size != reader.size:
        return False
    if reader.kind not in (writer.kind, *_PROMOTED.get(writer.kind, ())):
        return False
    # A number in thousandths is not one in hundredths.
    if {writer.logical, reader.logical} <= {"", "uuid"}:
        return True
    return (writer.logical, writer.precision, writer.scale) == (reader.logical, reader.precision, reader.scale)


def _branch(writer: AvroType, reader: AvroType) -> AvroType | None:
    """Return the branch of the reader's union that a writer's value is read as."""
    others = [part for part in reader.parts if part.kind != "null"]
    if writer.kind == "null":
        return reader.parts[0]
    same = [part for part in others if part.kind == writer.kind]
    return next(
        (part for part in (*same, *others) if part.kind in ("record", "array", "map") or _fits(writer, part)), None
    )


def _shown(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[*]", "[*]")
