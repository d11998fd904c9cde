"""The table of values: canonical number, text and time of a value of each type, and which values are missing.

Jobs, the library and all readers of records use it. Columns are Arrow arrays of a plain type, null where missing. A NaN
is missing in each form. A type without a row here has no number, text or time, and is only passed through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.state.block import NO_TIME

_WHOLE = {
    **{pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"},
    **{pa.uint8(): "SMALLINT", pa.uint16(): "INT", pa.uint32(): "BIGINT", pa.uint64(): "DECIMAL(20, 0)"},
}
_PLAIN = {**_WHOLE, pa.float16(): "FLOAT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}

_DIGITS = 38
"""Maximum precision of a DECIMAL."""

_PLAIN_DIGITS = 6
"""Maximum scale of a decimal that Arrow always writes without an exponent."""

_INSTANTS = ("TIMESTAMP", "TIMESTAMP_LTZ")
_LARGEST = 2**63 - 1
_DAY = 86_400_000
_MILLISECOND = {"us": 1000, "ns": 1_000_000}
_FINEST = pa.timestamp("us")
_LEAST_PLAIN, _LEAST_SCIENTIFIC = 1e-3, 1e7
"""Numbers from the first to below the second are written without an exponent."""


def sql_type(of: pa.DataType) -> str:
    """Return the SQL type with the same values as an Arrow type; the name of the Arrow type where there is none."""
    if of in _PLAIN:
        return _PLAIN[of]
    if is_text(of):
        return "STRING"
    if pa.types.is_decimal(of):
        digits = of.precision + max(-of.scale, 0)
        return f"DECIMAL({digits}, {max(of.scale, 0)})" if digits <= _DIGITS else str(of).upper()
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


def is_simple(of: pa.DataType) -> bool:
    """Return whether values of a type have a text; columns of other types can only be passed through."""
    return of in _PLAIN or sql_type(of).partition("(")[0] in ("STRING", "DECIMAL", "DATE", "TIME", *_INSTANTS)


def is_text(of: pa.DataType) -> bool:
    """Return whether a type is one of text."""
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def is_list(of: pa.DataType) -> bool:
    """Return whether a type is one of lists."""
    return bool(pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of))


def is_whole(of: pa.DataType) -> bool:
    """Return whether a type is one of whole numbers."""
    return of in _WHOLE


def numbers(column: pa.Array) -> NDArray[Any]:
    """Return (rows,) whole numbers if none is missing, otherwise the nearest float64, NaN where missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers(pa.array(["0.1", None]).cast(pa.decimal128(3, 2))).tolist()
    [0.1, nan]
    """
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # rounded once; Arrow's own conversion multiplies by a power of ten
    if column.null_count or not pa.types.is_integer(column.type):
        column = column.cast(pa.float64(), safe=False)
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found


def integers(column: pa.Array) -> NDArray[np.int64]:
    """Return (rows,) whole numbers, 0 where missing; those above int64 as its maximum, which no event time reaches."""
    if pa.types.is_uint64(column.type):
        column = pc.min_element_wise(column, pa.scalar(_LARGEST, pa.uint64()), skip_nulls=False)
    found: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def milliseconds(column: pa.Array) -> NDArray[np.int64]:
    """Return (rows,) days or times as epoch milliseconds in UTC, rounded down, ``NO_TIME`` where missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> milliseconds(pa.array([-1, 1], pa.timestamp("us"))).tolist()
    [-1, 0]
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    unit = column.type.unit
    times: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if unit == "s":  # beyond the milliseconds of int64 lie no valid times
        times = np.clip(times, -(_LARGEST // 1000), _LARGEST // 1000) * 1000
    elif unit in _MILLISECOND:
        times = times // _MILLISECOND[unit]
    if not column.null_count:
        return times
    return np.where(column.is_null().to_numpy(zero_copy_only=False), np.int64(NO_TIME), times)


def texts(column: pa.Array) -> pa.StringArray:
    """Return (rows,) texts, null where missing.

    A Boolean, a decimal, a day and a timestamp have the text of SQL, the last in UTC. Equal numbers have one text. So
    have equal times of day, without zeros at the end of a fraction.

    Examples
    --------
    >>> import pyarrow as pa
    >>> texts(pa.array([1.0, -0.0, 1e7, float("nan")])).to_pylist()
    ['1.0', '0.0', '1.0E7', None]
    >>> texts(pa.array([True, None])).to_pylist()
    ['TRUE', None]
    >>> texts(pa.array([28_800_000, 28_800_120], pa.time32("ms"))).to_pylist()
    ['08:00:00', '08:00:00.12']
    """
    of = column.type
    if pa.types.is_string(of):
        return column
    if pa.types.is_floating(of):
        return _texts_of_reals(column)
    if pa.types.is_decimal(of) and not 0 <= of.scale <= _PLAIN_DIGITS:
        return pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())
    if pa.types.is_date64(of):
        column = pa.array(milliseconds(column) // _DAY, pa.int32(), mask=_is_null(column)).cast(pa.date32())
    if pa.types.is_timestamp(of) and of.tz is not None:
        column = column.cast(pa.timestamp(of.unit))
    found = column.cast(pa.string())
    if pa.types.is_boolean(of):
        return pc.utf8_upper(found)
    return without_zeros(found) if pa.types.is_time(of) else found


def without_zeros(texts: pa.StringArray) -> pa.StringArray:
    """Return texts of times of day without zeros at the end of a fraction, and without a fraction that is 0.

    Examples
    --------
    >>> import pyarrow as pa
    >>> without_zeros(pa.array(["08:00:00", "08:00:00.0", "08:00:00.120"])).to_pylist()
    ['08:00:00', '08:00:00', '08:00:00.12']
    """
    return pc.replace_substring_regex(texts, r"(?:\.0+|(\.\d*[1-9])0+)$", r"\1")


def texts_of_labels(labels: Sequence[str], of: pa.DataType) -> list[str]:
    """Return the texts of the values of a type that labels denote; a label that denotes none unchanged.

    Examples
    --------
    >>> import pyarrow as pa
    >>> texts_of_labels(["34", "3.50", "other"], pa.float64()), texts_of_labels(["true", "True"], pa.bool_())
    (['34.0', '3.5', 'other'], ['TRUE', 'TRUE'])
    >>> texts_of_labels(["08:00", "08:00:00.000", "08:00:00.10", "night"], pa.time64("ns"))
    ['08:00:00', '08:00:00', '08:00:00.1', 'night']
    """
    found = []
    for label in labels:
        try:
            value = pa.array([label])
            if pa.types.is_time(of):  # Arrow reads no time of day alone
                value = pa.array([f"1970-01-01 {label}"]).cast(pa.timestamp("ns"))
            # 34.0 denotes a whole number too, and 08:00:00.000 whole seconds; safe casts drop no fraction.
            finer = {pa.int64(): pa.float64(), pa.timestamp("s"): _FINEST, pa.timestamp("ms"): _FINEST}.get(of, of)
            for step in (finer, of) if "." in label else (of,):
                value = value.cast(step)
            is_value = not pa.types.is_floating(of) or np.isfinite(value[0].as_py())
        except pa.ArrowInvalid:
            is_value = False
        found.append(texts(value)[0].as_py() if is_value else label)
    return found


def days(column: pa.Array) -> pa.StringArray:
    """Return (rows,) the days of days or times in UTC, such as 2024-02-29, null where missing."""
    return pc.utf8_slice_codeunits(texts(column), 0, 10)


def _texts_of_reals(column: pa.Array) -> pa.StringArray:
    """Return the shortest texts that denote the numbers of FLOAT or DOUBLE, in the form of SQL."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    distinct = column.to_numpy(zero_copy_only=False) + np.zeros(1, column.type.to_pandas_dtype())  # -0.0 becomes 0.0
    distinct, which = np.unique(distinct, return_inverse=True)
    return pa.array([_text_of_real(value) for value in distinct], pa.string()).take(pa.array(which))


def _text_of_real(value: np.floating[Any]) -> str | None:
    if not np.isfinite(value):
        return None if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _LEAST_PLAIN <= abs(value) < _LEAST_SCIENTIFIC:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="0", exp_digits=1).replace("e+", "E").replace("e", "E")


def _is_null(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found
