"""Columns of Arrow data as inputs of the encoder, in the forms in which a job passes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model import values
from crenel.anonymity.model.attributes import EXACT, Numeric
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Policy
from crenel.copies import empty
from crenel.operators.encode.cells import ArrayCells, CellType, FieldCells
from crenel.operators.encode.columns import EARLIEST, LATEST, Form, with_elements, without_nan
from crenel.operators.encode.records import argument as argument_of
from crenel.operators.encode.try_cast import WHOLE
from crenel.state.block import NO_TIME


def event_time_type(of: pa.DataType) -> str:
    """Return the SQL type of a column of event time, which has the watermark whatever its type is.

    Times and days become instants in UTC, integers milliseconds.
    """
    if pa.types.is_timestamp(of) or pa.types.is_date(of):
        return "TIMESTAMP_LTZ(3) *ROWTIME*"
    return "BIGINT *ROWTIME*"


def event_time_problems(name: str, of: pa.DataType) -> Iterator[str]:
    """Yield a problem with the type of a column of event time."""
    if not (values.is_whole(of) or pa.types.is_timestamp(of) or pa.types.is_date(of)):
        yield (
            f"policy.event_time: column {name!r} has the type {of}; it is of timestamps, days or whole numbers (epoch "
            "milliseconds): cast the column"
        )


def event_times(column: pa.Array) -> NDArray[np.int64]:
    """Return event times as (rows,) epoch milliseconds; ``NO_TIME`` for missing ones and those out of range."""
    if values.is_whole(column.type):
        times = np.where(_is_null(column), np.int64(NO_TIME), values.integers(column))
    else:
        times = values.milliseconds(column)
    return np.where((times < EARLIEST) | (times > LATEST), np.int64(NO_TIME), times)


def type_of_nothing(policy: Policy, name: str) -> pa.DataType:
    """Return a type that fits the role of a column without any value, whose type Arrow does not know."""
    attribute = next((of for of in (*policy.numeric, *policy.noised.values()) if of.name == name), None)
    if attribute is None:
        kind = pa.int64() if name == policy.event_time else pa.string()
        return pa.list_(kind) if name in dict(policy.arrays) else kind
    if attribute.is_temporal:
        return pa.timestamp("ms")
    grids = attribute.step, attribute.ends if isinstance(attribute, Numeric) else None
    return pa.int64() if all(float(of or 0).is_integer() for of in grids) else pa.float64()


def decoded_type(of: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary; another type unchanged."""
    return of.value_type if pa.types.is_dictionary(of) else of


def decoded(column: Any) -> Any:
    """Return the values of an Array or a ChunkedArray without dictionary encoding."""
    if not pa.types.is_dictionary(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
    return column.dictionary_decode()


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of a stream, in their order and types.

    Raises
    ------
    ConfigError
        Columns differ, or a type does not hold a value exactly. The message names all columns, and no value.
    """
    if batch.schema.equals(schema):
        return batch
    problems = [
        f"data: lacks the column {name!r} of the stream" for name in schema.names if name not in batch.schema.names
    ]
    problems += [
        f"data: has the column {name!r}, and the stream has none of that name"
        for name in batch.schema.names
        if name not in schema.names
    ]
    columns = []
    for field in schema if not problems else ():
        column = batch.column(field.name)
        columns.append(as_type(column, field.type))
        if columns[-1] is None:
            problems.append(
                f"data: column {field.name!r} has the type {column.type}, and {field.type} in the stream, which does "
                "not hold each of its values exactly; cast the column"
                + (", or give the types first, by Stream.open(schema)" if pa.types.is_null(field.type) else "")
            )
    if problems:
        raise ConfigError("data", problems)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def as_type(column: pa.Array, of: pa.DataType) -> pa.Array | None:
    """Return a column as another type of the same values; None where one is not exactly a value of that type."""
    own = column.type
    if own == of:
        return column
    if pa.types.is_null(own):
        return empty(of, len(column))
    if pa.types.is_dictionary(own):
        return as_type(decoded(column), of)
    try:
        if pa.types.is_dictionary(of):
            values_of = as_type(column, of.value_type)
            if values_of is None:
                return None
            coded = values_of.dictionary_encode()
            return pa.DictionaryArray.from_arrays(
                coded.indices.cast(of.index_type), coded.dictionary, ordered=of.ordered
            )
        if pa.types.is_list(own) and pa.types.is_list(of):
            elements = as_type(column.values, of.value_type)
            return None if elements is None else with_elements(column, elements)
        if _family(own) is None or _family(own) != _family(of):
            return None
        column = without_nan(column)
        is_rounded = pa.types.is_floating(own) and not pa.types.is_floating(of)
        if is_rounded and pc.any(pc.greater_equal(pc.abs(column), float(EXACT))).as_py():
            return None  # it may have been another whole number
        found = column.cast(of)
        return found if found.cast(own).equals(column) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # their messages hold a value
        return None


def _family(of: pa.DataType) -> str | None:
    """Return the name of the types that hold the same kind of values; None for types that hold other ones."""
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of):
        return "number"
    return values.sql_type(of).partition("(")[0] if values.is_simple(of) else None


def times_argument(watermarks: NDArray[np.int64] | None) -> Any:
    """Return watermarks in epoch milliseconds as an argument of the encoder."""
    return None if watermarks is None else pd.Series(watermarks.view("datetime64[ms]"), copy=False)


def argument(column: pa.Array, form: Form) -> pd.Series[Any] | pa.Array:
    """Return a column as an argument of the encoder in a form; ``column`` is no dictionary."""
    if form != "list":
        return argument_of(FieldCells(column if values.is_simple(column.type) else texts(column)), form)
    element = values.sql_type(column.type.value_type).partition("(")[0]
    cells = column.cast(pa.list_(pa.int64() if element in WHOLE else column.type.value_type))
    return argument_of(ArrayCells(CellType(element), cells), form)


def texts(column: pa.Array) -> pa.StringArray:
    """Return a column as text; values of types that have none are as Python shows them."""
    if values.is_simple(column.type):
        return values.texts(column)
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def _is_null(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found
