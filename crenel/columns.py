"""Columns of Arrow data as inputs of the encoder, in the forms in which a job passes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.operators.encode import values
from crenel.operators.encode.cells import ArrayCells, Cells, CellType
from crenel.operators.encode.columns import EARLIEST, LATEST
from crenel.operators.encode.records import Form
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


def decoded_type(of: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary; another type unchanged."""
    return of.value_type if pa.types.is_dictionary(of) else of


def decoded(column: pa.Array) -> pa.Array:
    """Return the values of a column without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def times_argument(watermarks: NDArray[np.int64] | None) -> Any:
    """Return watermarks in epoch milliseconds as an argument of the encoder."""
    return None if watermarks is None else pd.Series(watermarks.view("datetime64[ms]"), copy=False)


def argument(column: pa.Array, form: Form) -> pd.Series[Any] | pa.Array:
    """Return a column as an argument of the encoder in a form; ``column`` is no dictionary."""
    if form != "list":
        return argument_of(Cells(column if values.is_simple(column.type) else texts(column)), form)
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
