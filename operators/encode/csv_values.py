"""Conversion of a text column to an SQL type: at once for plain notation, one by one otherwise.

Both give the result of ``crenel.operators.encode.try_cast``. Digits beyond the type's precision are dropped, and so is
the time of day for DATE.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crenel.operators.encode import try_cast as texts
from crenel.operators.encode.cells import UNITS, CellType
from crenel.operators.encode.try_cast import DAY, OFFSET, WHOLE

_DECIMAL_DIGITS = 38
"""Maximum number of digits of a decimal128."""

_MIDDLE_CENTURIES = r"[1-8]\d{3}-\d\d-\d\d"
"""Regular expression of days whose times are within years 1 to 9999 in UTC at any offset."""


def read_as(kind: CellType, column: pa.StringArray) -> pa.Array:
    """Return (rows,) the values of a text column, null where a text is missing or not of the type.

    Their types are text, bool, int64, float64 (float32 for FLOAT), decimal128, date32 and timestamp.
    """
    if kind.name in WHOLE:
        return _whole(column, WHOLE[kind.name])
    return _READERS[kind.name](kind, column)


def _whole(column: pa.StringArray, bits: int) -> pa.Array:
    end = 1 << (bits - 1)

    def alone(text: str) -> int | None:
        found = texts.integer(text)
        return found if found is not None and -end <= found < end else None

    found = _read(column, pa.int64(), r"-?\d{1,18}", alone, made_of=b"0123456789-")
    extremes = pc.min_max(found).as_py()
    if bits == 64 or extremes["min"] is None or (-end <= extremes["min"] and extremes["max"] < end):
        return found
    within = pc.and_(pc.greater_equal(found, -end), pc.less(found, end))
    return pc.if_else(within, found, None)


def _real(kind: CellType, column: pa.StringArray) -> pa.Array:
    stored = pa.float32() if kind.name == "FLOAT" else pa.float64()
    return _read(column, stored, r"-?\d+(\.\d+)?", texts.real, made_of=b"0123456789.+-eE")


def _decimal(kind: CellType, column: pa.StringArray) -> pa.Array:
    before = kind.precision - kind.scale
    digits = rf"\d{{1,{before}}}(\.\d{{0,{kind.scale}}})?" if before else rf"0?\.\d{{1,{kind.scale}}}"
    alone = partial(texts.decimal, precision=kind.precision, scale=kind.scale)
    # Arrow's cast converts a text with more digits than a decimal128 to a wrong number.
    trusted = (pc.max(pc.binary_length(column)).as_py() or 0) <= _DECIMAL_DIGITS
    made_of = None if trusted else b""
    return _read(column, pa.decimal128(kind.precision, kind.scale), f"-?{digits}", alone, made_of=made_of)


def _truth(kind: CellType, column: pa.StringArray) -> pa.Array:
    coded = column.dictionary_encode()
    return pa.array(map(texts.truth, coded.dictionary.to_pylist()), pa.bool_()).take(coded.indices)


def _date(kind: CellType, column: pa.StringArray) -> pa.Array:
    def alone(text: str) -> date | None:
        found = texts.time(text, 0)
        return None if found is None else found.date()

    return _read(column, pa.date32(), DAY, alone, made_of=b"")


def _timestamp(kind: CellType, column: pa.StringArray) -> pa.Array:
    fraction = rf"(\.\d{{1,{kind.precision}}})?" if kind.precision else ""
    clock = rf"[ T]\d\d:\d\d(:\d\d{fraction})?"
    stored, alone = pa.timestamp(UNITS[kind.precision]), partial(texts.time, digits=kind.precision)
    zoned = pc.match_substring_regex(column, rf"^{_MIDDLE_CENTURIES}{clock}(Z|{OFFSET})$").fill_null(False)
    if pc.any(zoned).as_py():
        try:
            found = pc.cast(column.filter(zoned), pa.timestamp(UNITS[kind.precision], "UTC")).cast(stored)
        except pa.ArrowInvalid:  # such as a day outside the calendar
            found = pa.array(map(alone, column.filter(zoned).to_pylist()), stored)
        others = _timestamp(kind, pc.if_else(zoned, None, column))
        return pc.replace_with_mask(others, zoned, found)
    return _read(column, stored, f"{DAY}({clock})?", alone, made_of=b"")


_NOT_CAST = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""Errors of a cast; Arrow 11 has none from text to days."""

_READERS: dict[str, Callable[[CellType, pa.StringArray], pa.Array]] = {
    "STRING": lambda kind, column: column,
    "BOOLEAN": _truth,
    "FLOAT": _real,
    "DOUBLE": _real,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
}


def _read(
    column: pa.StringArray,
    stored: pa.DataType,
    plain: str,
    alone: Callable[[str], Any],
    *,
    made_of: bytes | None = None,
) -> pa.Array:
    """Return the values of a column.

    Parameters
    ----------
    column : the texts
    stored : Arrow type of the result
    plain : regular expression of texts that Arrow's cast reads correctly
    alone : converts any single text
    made_of : characters for which the cast either agrees with ``alone`` or fails; None: there are none
    """
    if made_of is None or _made_of(column, made_of):
        try:
            return pc.cast(column, stored)
        except _NOT_CAST:
            pass  # at least one text is not a value
    fit = pc.match_substring_regex(column, f"^(?:{plain})$").fill_null(True)
    try:
        found = pc.cast(pc.if_else(fit, column, None), stored)
    except _NOT_CAST:  # such as a day outside the calendar
        fit, found = column.is_null(), pa.nulls(len(column), stored)
    others = pc.invert(fit)
    if not pc.any(others).as_py():
        return found
    return pc.replace_with_mask(found, others, pa.array(map(alone, column.filter(others).to_pylist()), stored))


def _made_of(column: pa.StringArray, characters: bytes) -> bool:
    """Return whether all texts consist of the given ASCII characters."""
    _, ends, data = column.buffers()
    if data is None:
        return True
    first, last = np.frombuffer(ends, np.int32)[[column.offset, column.offset + len(column)]]
    known = np.zeros(256, np.bool_)
    known[list(characters)] = True
    return bool(known[np.frombuffer(data, np.uint8)[first:last]].all())
