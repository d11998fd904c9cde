"""Columns of stored tuples by name, and stored entries under other pass-through and sensitive columns.

A shard stores the schema of its published columns (``crenel.state.shard.ShardState.members``), whose fields carry their
role. All its entries have these columns, so a restore under others converts each entry once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.state.block import read_members, written_members
from crenel.state.codec import Column, array, kind_of, pack, readable, unpack

NO_VALUE = np.uint64(0x7FF8_6372_656E_656C)
"""Code of a missing value.

As a float64 it is a NaN that is the code of no number. An integer may equal it (one in 2**64), and then counts as the
same value, which is the safe side.
"""

NO_FURTHER = NO_VALUE + np.uint64(1)
"""Code in the columns of a sensitive array after the last value of a record; no value has it."""

_ROLE = b"role"
_WIDTH = b"values"
_ANY_VERSION = 65535


def with_roles(
    members: pa.Schema, roles: Mapping[str, str], arrays: Mapping[str, int] = MappingProxyType({})
) -> NDArray[np.uint8]:
    """Return the stored form of a schema of published columns, with the role of each.

    ``arrays``: the maximum number of values of a record, by sensitive array.
    """
    fields = [
        field.with_metadata(
            {_ROLE: roles[field.name].encode()}
            | ({_WIDTH: str(arrays[field.name]).encode()} if field.name in arrays else {})
        )
        for field in members
    ]
    return np.frombuffer(pa.schema(fields).serialize(), np.uint8)


@dataclass(frozen=True)
class StoredColumns:
    """Published columns that stored entries have.

    Attributes
    ----------
    members : schema of ``crenel.state.block.TupleColumns.members``
    roles : role by column, in that order
    arrays : the maximum number of values of a record, by sensitive array
    """

    members: pa.Schema
    roles: Mapping[str, str]
    arrays: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: NDArray[np.uint8]) -> StoredColumns:
        """Read the result of ``with_roles``."""
        with readable("schema of the published columns"):
            schema = pa.ipc.read_schema(pa.py_buffer(stored.tobytes()))
            properties = {field.name: field.metadata or {} for field in schema}
            roles = {name: data[_ROLE].decode() for name, data in properties.items()}
            arrays = {name: int(data[_WIDTH]) for name, data in properties.items() if _WIDTH in data}
            return cls(schema.remove_metadata(), roles, arrays)

    @property
    def sensitive(self) -> list[str]:
        """The sensitive columns, in the order of ``crenel.state.block.TupleColumns.sensitive``."""
        return [name for name, role in self.roles.items() if role == "sensitive"]

    @property
    def codes(self) -> list[tuple[str, int]]:
        """The columns of ``crenel.state.block.TupleColumns.sensitive``: several for a sensitive array, numbered."""
        return [(name, column) for name in self.sensitive for column in range(self.arrays.get(name, 1))]


@dataclass(frozen=True)
class ColumnChange:
    """Columns of stored entries, and those that they get.

    Attributes
    ----------
    before, after : the columns; one that both have keeps its role and type
    """

    before: StoredColumns
    after: StoredColumns

    def of_sensitive(self, values: NDArray[Any], added: Any) -> NDArray[Any]:
        """Return (rows, sensitive columns, ...) values under the new columns; ``added`` is the value of new ones."""
        return _reordered(values, self.before.sensitive, self.after.sensitive, added)

    def of_codes(self, codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return (rows, codes) codes of values under the new columns; records have no value of new ones."""
        return _reordered(codes, self.before.codes, self.after.codes, NO_VALUE)

    def of_members(self, members: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        """Return published values under the new columns; a new one has null in all of its ``rows``."""
        columns = [
            members.column(field.name).cast(field.type) if field.name in members.schema.names
            else pa.nulls(rows, field.type)
            for field in self.after.members
        ]  # fmt: skip
        return pa.record_batch(columns, schema=self.after.members)


def _reordered(values: NDArray[Any], before: Sequence[Any], after: Sequence[Any], added: Any) -> NDArray[Any]:
    indices = {name: index for index, name in enumerate(before)}
    reordered = np.full((len(values), len(after), *values.shape[2:]), added, values.dtype)
    for index, name in enumerate(after):
        if name in indices:
            reordered[:, index] = values[:, indices[name]]
    return reordered


Converter: TypeAlias = Callable[[Mapping[int, bytes], ColumnChange, str], dict[int, bytes]]
"""Function from the entries of one kind, a change and a name for errors to the entries under the new columns."""

_CONVERTERS: dict[str, Converter] = {}


def add_converter(kind: str, converter: Converter) -> None:
    """Register the conversion of a kind of stored entries that depends on the published columns."""
    _CONVERTERS[kind] = converter


def converted(kind: str, entries: Mapping[int, bytes], change: ColumnChange, where: str) -> dict[int, bytes]:
    """Return the entries of one kind under other columns; raise ``StateError`` where one is damaged.

    Entries of a kind without a converter do not depend on the columns.
    """
    convert = _CONVERTERS.get(kind)
    return dict(entries) if convert is None else convert(entries, change, where)


def each(edit: Callable[[dict[str, Column], ColumnChange], None]) -> Converter:
    """Return a converter that edits the columns of each blob, and keeps its kind and format version."""

    def convert(entries: Mapping[int, bytes], change: ColumnChange, where: str) -> dict[int, bytes]:
        edited = {}
        for key, blob in entries.items():
            kind, place = kind_of(blob) or "buffered", f"{where}, entry {key}"  # a blob without kind is damaged
            version, columns = unpack(kind, blob, newest=_ANY_VERSION, where=place)
            with readable(f"{kind} state of {place}"):
                edit(columns, change)
            edited[key] = pack(kind, version, columns)
        return edited

    return convert


def _tuples(columns: dict[str, Column], change: ColumnChange) -> None:
    rows = len(array(columns, "event_time"))
    members = change.of_members(read_members(columns, change.before.members), rows)
    columns["sensitive"] = change.of_codes(array(columns, "sensitive"))
    columns |= written_members(members)


def _generalizations(columns: dict[str, Column], change: ColumnChange) -> None:
    # The members of a release had no value of a new column, which counts as one value.
    columns["diversity"] = change.of_sensitive(array(columns, "diversity"), 1)


add_converter("blocks", each(_tuples))
add_converter("gamma", each(_generalizations))
add_converter("omega", each(_generalizations))
