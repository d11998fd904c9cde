"""Columns of Arrow data as inputs of the encoder, in the forms in which Flink passes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.jobs.pipeline.sql_types import INTEGERS
from crenel.operators.encode.columns import EARLIEST, LATEST, Kind, Read, is_list
from crenel.state.block import NO_TIME

_INTEGERS = {
    **{pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"},
    **{pa.uint8(): "SMALLINT", pa.uint16(): "INT", pa.uint32(): "BIGINT", pa.uint64(): "DECIMAL(20, 0)"},
}
_PLAIN = {**_INTEGERS, pa.float16(): "FLOAT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}

_LARGEST = 2**63 - 1


def sql_type(of: pa.DataType) -> str:
    """Return the SQL type with the same values as an Arrow type; the name of the Arrow type where there is none."""
    if of in _PLAIN:
        return _PLAIN[of]
    if is_text(of):
        return "STRING"
    if pa.types.is_decimal(of):
        digits = of.precision + max(-of.scale, 0)
        return f"DECIMAL({digits}, {max(of.scale, 0)})" if digits <= 38 else str(of).upper()
    if pa.types.is_date(of):
        return "DATE"
    if pa.types.is_time(of):
        return "TIME"
    if pa.types.is_timestamp(of):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[of.unit]
        return f"TIMESTAMP({precision})" if of.tz is None else f"TIMESTAMP_LTZ({precision})"
    if is_list(of):
        return f"ARRAY<{sql_type(of.value_type)}>"
    return str(of).upper()


def limits_of(of: pa.DataType) -> tuple[float, float] | None:
    """Return the minimum and maximum of a type that holds fewer numbers than ``sql_type``; None for other types."""
    if pa.types.is_unsigned_integer(of):
        return 0.0, float(2**of.bit_width - 1)
    if pa.types.is_float16(of):
        return -65504.0, 65504.0
    if pa.types.is_decimal(of) and of.scale < 0:
        most = float((10**of.precision - 1) * 10**-of.scale)
        return -most, most
    return None


def is_text(of: pa.DataType) -> bool:
    """Return whether a type is one of text."""
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def event_time_type(of: pa.DataType) -> str:
    """Return the SQL type of a column of event time, which has the watermark whatever its type is.

    Times and days become instants in UTC, integers milliseconds.
    """
    if pa.types.is_timestamp(of) or pa.types.is_date(of):
        return "TIMESTAMP_LTZ(3) *ROWTIME*"
    return "BIGINT *ROWTIME*"


def event_time_problems(name: str, of: pa.DataType) -> Iterator[str]:
    """Yield a problem with the type of a column of event time."""
    if not (of in _INTEGERS or pa.types.is_timestamp(of) or pa.types.is_date(of)):
        yield (
            f"policy.event_time: column {name!r} has the type {of}; it is of timestamps, days or whole numbers (epoch "
            "milliseconds): cast the column"
        )


def is_simple(of: pa.DataType) -> bool:
    """Return whether the encoder can read a type; others can only be passed through."""
    return bool(pa.types.is_decimal(of) or pa.types.is_temporal(of) or of in _PLAIN or is_text(of))


def decoded_type(of: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary; another type unchanged."""
    return of.value_type if pa.types.is_dictionary(of) else of


def times_argument(watermarks: NDArray[np.int64] | None) -> Any:
    """Return watermarks in epoch milliseconds as an argument of the encoder."""
    return None if watermarks is None else _series(watermarks.view("datetime64[ms]"))


def missing_argument(column: pa.Array) -> pd.Series[Any]:
    """Return the argument that watermarks missing values."""
    return _series(column.is_null().to_numpy(zero_copy_only=False))


def argument(read: Read, column: pa.Array) -> pd.Series[Any] | pa.Array:
    """Return a column in the form of one argument of the encoder; ``column`` is no dictionary."""
    return _FORMS[read.kind](column)


def milliseconds(column: pa.Array) -> NDArray[np.int64]:
    """Return event times as (rows,) epoch milliseconds; ``NO_TIME`` for missing ones and those out of range."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = _timestamps(column)
    times = _int64(column).fill_null(NO_TIME).to_numpy(zero_copy_only=False)
    return np.where((times < EARLIEST) | (times > LATEST), NO_TIME, times)


def texts(column: pa.Array) -> pa.StringArray:
    """Return a column as text, as SQL writes it."""
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_boolean(column.type) or is_text(column.type) or _castable(column.type):
        return column.cast(pa.string())
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def decoded(column: pa.Array) -> pa.Array:
    """Return the values of a column without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _castable(of: pa.DataType) -> bool:
    return not bool(pa.types.is_nested(of) or pa.types.is_binary(of) or pa.types.is_large_binary(of))


def _floats(column: pa.Array) -> pd.Series[Any]:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # rounded once; Arrow's own conversion multiplies by a power of ten
    return _series(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _series(values: NDArray[Any]) -> pd.Series[Any]:
    series: pd.Series[Any] = pd.Series(values, copy=False)
    return series


def _numbers(column: pa.Array) -> pd.Series[Any]:
    if column.type in _INTEGERS and not column.null_count:
        return _series(column.to_numpy())
    return _floats(column)


def _single(column: pa.Array) -> pd.Series[Any]:
    return _series(column.cast(pa.float32()).to_numpy(zero_copy_only=False))


def _int64(column: pa.Array) -> pa.Array:
    """Return whole numbers or times as int64; larger ones as its maximum, which no event time reaches."""
    if pa.types.is_uint64(column.type):
        column = pc.min_element_wise(column, pa.scalar(_LARGEST, pa.uint64()), skip_nulls=False)
    return column.cast(pa.int64())


def _integers(column: pa.Array) -> pd.Series[Any]:
    return _series(_int64(column).fill_null(0).to_numpy(zero_copy_only=False))


def _booleans(column: pa.Array) -> pd.Series[Any]:
    return _series(column.to_numpy(zero_copy_only=False))


def _timestamps(column: pa.Array) -> pa.Array:
    """Return times as UTC milliseconds, rounded down."""
    if pa.types.is_date(column.type):
        return column.cast(pa.timestamp("ms"))
    plain = column.cast(pa.timestamp(column.type.unit)) if column.type.tz is not None else column
    if column.type.unit == "s":  # beyond the milliseconds of int64 lie no valid times
        limits = (pa.scalar(sign * (_LARGEST // 1000), pa.int64()) for sign in (-1, 1))
        least, most = (limit.cast(plain.type) for limit in limits)
        plain = pc.max_element_wise(pc.min_element_wise(plain, most, skip_nulls=False), least, skip_nulls=False)
    if column.type.unit in ("us", "ns"):
        plain = pc.floor_temporal(plain, unit="millisecond")
    return plain.cast(pa.timestamp("ms"), safe=False)


def _times(column: pa.Array) -> pd.Series[Any]:
    values = _timestamps(column).cast(pa.int64()).fill_null(NO_TIME).to_numpy(zero_copy_only=False)
    return _series(values.view("datetime64[ms]"))


def _lists(column: pa.Array) -> pa.Array:
    """Return lists of int64, or of text for elements that do not fit."""
    is_whole = _INTEGERS.get(column.type.value_type) in INTEGERS
    return column.cast(pa.list_(pa.int64() if is_whole else pa.string()))


_FORMS: Mapping[Kind, Any] = {
    "number": _numbers,
    "real": _floats,
    "single": _single,
    "number_text": texts,
    "text": texts,
    "integer": _integers,
    "boolean": _booleans,
    "timestamp": _times,
    "array": _lists,
}
