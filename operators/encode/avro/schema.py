"""Schemas of Avro, read from JSON with all named types in place (Apache Avro 1.12, "Schema Declaration")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crenel.anonymity.model.policy import ITEMS

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_DEEPEST = 60
"""Maximum nesting of a schema."""


class SchemaError(ValueError):
    """A schema that cannot be used; the message names the place in the schema."""


@dataclass(frozen=True)
class AvroField:
    """A field of a record.

    Attributes
    ----------
    aliases : further names under which a writer may know the field
    has_default, default : value of the field where the writer does not have it, in JSON
    properties : all attributes of the field in the schema, such as tags
    """

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None
    properties: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class AvroType:
    """A type, with the types inside it.

    Attributes
    ----------
    kind : one of ``PRIMITIVES``, or ``record``, ``enum``, ``fixed``, ``array``, ``map`` or ``union``
    logical : logical type; empty for none
    precision, scale : of a decimal
    size : bytes of a fixed
    symbols : of an enum; ``default`` stands for unknown ones, None: there is no such symbol
    fields : of a record
    parts : the item type of an array, the value type of a map, or the branches of a union
    """

    kind: str
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    fields: tuple[AvroField, ...] = ()
    parts: tuple[AvroType, ...] = ()

    @property
    def present(self) -> AvroType:
        """The type without null, where it is a union of null and one other type; otherwise itself."""
        others = tuple(part for part in self.parts if part.kind != "null")
        return others[0] if self.kind == "union" and len(others) == 1 else self

    def find(self, path: tuple[str, ...]) -> AvroType:
        """Return the type at the end of a path, without null; ``SchemaError`` if there is none.

        The path goes through records, and through arrays with steps that end with ``ITEMS``.
        """
        found = self.present
        for number, step in enumerate(path):
            name = step.removesuffix(ITEMS)
            place = f"{'.'.join(path[:number])!r} there" if number else "it"
            if found.kind != "record":
                raise SchemaError(f"has no field {'.'.join(path)!r}: {place} is {article(found)}, and no record")
            inner = next((each for each in found.fields if each.name == name), None)
            if inner is None:
                names = ", ".join(each.name for each in found.fields)
                raise SchemaError(f"has no field {'.'.join(path)!r}: {place} has {names}")
            found = inner.type.present
            if name != step:
                if found.kind != "array":
                    raise SchemaError(f"has at {'.'.join((*path[:number], name))!r} {article(found)}, and no array")
                found = found.parts[0].present
        return found


def article(of: AvroType) -> str:
    """Return a type in words."""
    if of.kind == "union":
        return f"a union of {', '.join(part.logical or part.kind for part in of.parts)}"
    name = of.logical or of.kind
    if name == "decimal":
        name = f"decimal({of.precision}, {of.scale})"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def parse(text: str) -> AvroType:
    """Return the type that a schema declares.

    Raises
    ------
    SchemaError
        The text is no schema, or a type of it contains itself: the records of such a schema have no fixed set of
        fields, and any depth.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("is no JSON") from None
    return _Parser().read(content, "", ())


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}  # None: the declaration is not yet complete

    def read(self, content: Any, namespace: str, place: tuple[str, ...]) -> AvroType:
        if len(place) > _DEEPEST:
            raise SchemaError(f"is nested more than {_DEEPEST} levels deep")
        if isinstance(content, str):
            return self._by_name(content, namespace, place)
        if isinstance(content, list):
            parts = tuple(self.read(part, namespace, (*place, "")) for part in content)
            if not parts or any(part.kind == "union" for part in parts):
                raise SchemaError(f"{_at(place)} a union of no types, or of unions")
            return AvroType("union", parts=parts)
        kind = content.get("type") if isinstance(content, dict) else None
        if isinstance(kind, dict | list):
            return self.read(kind, namespace, place)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared(content, kind, namespace, place)
        if kind in ("array", "map"):
            part = self.read(content.get("items" if kind == "array" else "values"), namespace, (*place, "[*]"))
            return AvroType(kind, parts=(part,))
        if not isinstance(kind, str):
            raise SchemaError(f"{_at(place)} no type of Avro")
        found = self._by_name(kind, namespace, place)
        return _with_logical(found, content, place) if kind in PRIMITIVES else found

    def _by_name(self, name: str, namespace: str, place: tuple[str, ...]) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._named:
                found = self._named[full]
                if found is None:
                    raise SchemaError(
                        f"{_at(place)} the type {full!r} inside itself, and such records have no fixed set of fields"
                    )
                return found
        raise SchemaError(f"{_at(place)} the type {name!r}, which is not declared before")

    def _declared(self, content: dict[str, Any], kind: str, namespace: str, place: tuple[str, ...]) -> AvroType:
        name = content.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{_at(place)} {kind} without a name")
        inner = content.get("namespace", namespace)
        if "." in name:
            inner, full = name.rpartition(".")[0], name
        else:
            full = f"{inner}.{name}" if inner else name
        self._named[full] = None
        if kind == "enum":
            symbols = tuple(map(str, content.get("symbols") or ()))
            if not symbols:
                raise SchemaError(f"{_at(place)} an enum without symbols")
            found = AvroType("enum", symbols=symbols, default=content.get("default"))
        elif kind == "fixed":
            size = content.get("size")
            if not isinstance(size, int) or not 0 < size < 1 << 31:
                raise SchemaError(f"{_at(place)} a fixed whose size is no whole number above 0")
            found = _with_logical(AvroType("fixed", size=size), content, place)
        else:
            fields = content.get("fields")
            if not isinstance(fields, list):
                raise SchemaError(f"{_at(place)} a record without fields")
            found = AvroType("record", fields=tuple(self._field(each, inner, place) for each in fields))
        self._named[full] = found
        return found

    def _field(self, content: Any, namespace: str, place: tuple[str, ...]) -> AvroField:
        name = content.get("name") if isinstance(content, dict) else None
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{_at(place)} a record whose field has no name")
        return AvroField(
            name,
            self.read(content.get("type"), namespace, (*place, name)),
            tuple(content.get("aliases") or ()),
            "default" in content,
            content.get("default"),
            content,
        )


def _with_logical(found: AvroType, content: dict[str, Any], place: tuple[str, ...]) -> AvroType:
    logical, precision, scale = content.get("logicalType"), content.get("precision", 0), content.get("scale", 0)
    if not isinstance(logical, str):
        return found
    if logical == "decimal" and not (
        isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision
    ):
        raise SchemaError(f"{_at(place)} a decimal whose precision or scale is no whole number")
    if logical != "decimal":
        precision = scale = 0
    return AvroType(found.kind, logical, precision, scale, found.size)


def _at(place: tuple[str, ...]) -> str:
    where = ".".join(filter(None, place)).replace(".[*]", "[*]")
    return f"has at {where!r}" if where else "is"
