"""Copies of rows as Arrow data whose memory, dictionaries and types hold nothing of other rows.

Arrow shares memory between tables: a dictionary holds all values of the data that it was made from, a null may have a
value beneath it, and the type of a nested column has metadata, such as the values of a Polars Enum. All of this stands
in the files that are written from a table. Columns of plain types need nothing here: ``take`` copies their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def is_plain(of: pa.DataType) -> bool:
    """Return whether a type has neither parts nor a dictionary, so that ``take`` copies the chosen rows alone."""
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of)
    is_bytes = pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_fixed_size_binary(of)
    return bool(
        is_text or is_bytes or pa.types.is_primitive(of) or pa.types.is_decimal(of) or pa.types.is_null(of)
        or pa.types.is_interval(of)
    )  # fmt: skip


def is_copyable(of: pa.DataType, *, is_part: bool = False) -> bool:
    """Return whether rows of a type can be copied; ``is_part``: of a type within another type.

    Arrow gives the values of several dictionaries no common order within another type, so none may be ordered there.
    """
    if isinstance(of, pa.BaseExtensionType):
        known = of.storage_type.equals(plain_type(of.storage_type), check_metadata=True)
        return known and is_copyable(of.storage_type, is_part=True)
    if pa.types.is_dictionary(of):
        return is_plain(of.value_type) and not (is_part and of.ordered)
    if pa.types.is_struct(of) or _is_list(of) or pa.types.is_fixed_size_list(of):
        return all(is_copyable(of.field(i).type, is_part=True) for i in range(of.num_fields))
    return is_plain(of)


def plain_type(of: pa.DataType) -> pa.DataType:
    """Return a type without the metadata of its fields."""
    if pa.types.is_struct(of):
        return pa.struct([_plain_field(of.field(i)) for i in range(of.num_fields)])
    if pa.types.is_map(of):
        sorted_keys = getattr(of, "keys_sorted", False)  # Arrow 11 does not tell
        return pa.map_(_plain_field(of.key_field), _plain_field(of.item_field), keys_sorted=sorted_keys)
    if pa.types.is_fixed_size_list(of):
        return pa.list_(_plain_field(of.value_field), of.list_size)
    if pa.types.is_large_list(of):
        return pa.large_list(_plain_field(of.value_field))
    return pa.list_(_plain_field(of.value_field)) if pa.types.is_list(of) else of


def empty(of: pa.DataType, rows: int = 0) -> pa.Array:
    """Return an array of a type without values; ``pyarrow.nulls`` crashes for an extension of structs."""
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, pa.nulls(rows, of.storage_type))
    return pa.nulls(rows, of)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the names and types of columns without any metadata."""
    return pa.schema([_plain_field(field) for field in schema])


def united(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables one after another, as one chunk for each column of the first table.

    The values of an ordered dictionary stay in their order; where tables contradict each other, the last decides.
    """
    schema = tables[0].schema
    chunks = [[chunk for table in tables for chunk in table[name].chunks] for name in schema.names]
    columns = [pa.chunked_array(found, field.type) for found, field in zip(chunks, schema, strict=True)]
    found = [column if is_plain(column.type) else _united(column) for column in columns]
    return pa.table(found, schema=schema).combine_chunks()


def without_rows(table: pa.Table) -> pa.Table:
    """Return the columns of a table without rows; ordered dictionaries keep their values."""
    columns = [
        pa.DictionaryArray.from_arrays(empty(of.index_type), _united(column).dictionary, ordered=True)
        if pa.types.is_dictionary(of := column.type) and of.ordered
        else empty(of)
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


def compacted(table: pa.Table) -> pa.Table:
    """Return a table that holds nothing but its rows, where columns of plain types have been copied before.

    A dictionary has the values of the rows alone: an ordered one in its order, another one as the rows first show them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> visits = pa.table({"diagnosis": pa.array(["HIV", "flu", "cold"]).dictionary_encode()})
    >>> compacted(visits.take([2, 1]))["diagnosis"].chunk(0).dictionary.to_pylist()
    ['cold', 'flu']
    """
    columns = [column if is_plain(column.type) else _compacted(column) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _compacted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    array = _united(column)
    return pa.chunked_array([_copied(array, pa.array(np.arange(len(array), dtype=np.int64)))])


def _united(column: pa.ChunkedArray) -> pa.Array:
    """Return the chunks of a column as one array, which has one dictionary."""
    of = column.type
    chunks = column.chunks or [empty(of)]
    if pa.types.is_dictionary(of) and of.ordered and len(chunks) > 1:
        dictionary = reduce(_merged, (chunk.dictionary for chunk in chunks))
        indices = [pc.index_in(chunk.dictionary, dictionary).take(chunk.indices) for chunk in chunks]
        chunks = [
            pa.DictionaryArray.from_arrays(each.cast(of.index_type), dictionary, ordered=True) for each in indices
        ]
    return pa.concat_arrays(chunks)


def _merged(old: pa.Array, new: pa.Array) -> pa.Array:
    """Return the values of two dictionaries in an order that both have; where they differ, ``new`` decides."""
    if old.equals(new):
        return new
    place = pc.index_in(old, new)
    is_old = place.is_null()
    before = np.maximum.accumulate(place.fill_null(-1).to_numpy(zero_copy_only=False))
    order = np.concatenate([np.arange(len(new)), before[is_old.to_numpy(zero_copy_only=False)] + 0.5])
    return pa.concat_arrays([new, old.filter(is_old)]).take(pa.array(np.argsort(order, kind="stable")))


def _copied(array: pa.Array, rows: pa.Array, *, is_required: bool = False) -> pa.Array:
    """Return rows of an array as a copy; a missing row gives null, or any value where ``is_required``."""
    of = array.type
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, _copied(array.storage, rows, is_required=is_required))
    if pa.types.is_dictionary(of):
        return _coded(array, rows, is_required=is_required)
    if is_plain(of):
        found = array.take(rows)
        if not (is_required and found.null_count):
            return found
        return pa.Array.from_buffers(of, len(found), [None, *found.buffers()[1:]])
    is_valid = array.is_valid().take(rows).fill_null(False)
    rows = pc.if_else(is_valid, rows, None)
    bitmap = None if is_required or not rows.null_count else is_valid.buffers()[1]
    if pa.types.is_struct(of):
        parts = [_copied(array.field(i), rows, is_required=not of.field(i).nullable) for i in range(of.num_fields)]
        return pa.Array.from_buffers(plain_type(of), len(rows), [bitmap], children=parts)
    is_present, place = is_valid.to_numpy(zero_copy_only=False), rows.fill_null(0).to_numpy()
    if pa.types.is_fixed_size_list(of):
        first = (place + array.offset) * of.list_size
        elements = _ranges(first, np.full(len(rows), of.list_size))
        missing = np.repeat(~is_present, of.list_size)
        part = _copied(array.values, pa.array(elements, mask=missing), is_required=not of.value_field.nullable)
        return pa.Array.from_buffers(plain_type(of), len(rows), [bitmap], children=[part])
    bounds = array.offsets.to_numpy().astype(np.int64)
    sizes = (bounds[1:][place] - bounds[:-1][place]) * is_present
    elements = pa.array(_ranges(bounds[:-1][place], sizes))
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), array.offsets.type).buffers()[1]
    part = _copied(array.values, elements)
    return pa.Array.from_buffers(plain_type(of), len(rows), [bitmap, offsets], children=[part])


def _coded(array: pa.DictionaryArray, rows: pa.Array, *, is_required: bool) -> pa.DictionaryArray:
    """Return rows of an array with a dictionary of their own, as ``_copied``."""
    indices = array.indices.take(rows)
    used = indices.unique().drop_null()
    if array.type.ordered:
        used = used.take(pc.array_sort_indices(used))
    own, values = pc.index_in(indices, used).cast(array.type.index_type), array.dictionary.take(used)
    if is_required and own.null_count:
        own = own.fill_null(0)
        values = values if len(used) else _copied(pa.nulls(1, values.type), pa.array([0]), is_required=True)
    return pa.DictionaryArray.from_arrays(own, values, ordered=array.type.ordered)


def _ranges(first: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of consecutive ranges, each from its first one on."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes - first, sizes)


def _is_list(of: pa.DataType) -> bool:
    return bool(pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_map(of))


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)
