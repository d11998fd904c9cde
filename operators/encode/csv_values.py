"""Conversion of a text column to an SQL type: at once for plain notation, one by one otherwise.

Both give the result of ``TRY_CAST`` (``crenel.operators.encode.try_cast``). A time is ISO 8601 to the minute or finer,
with a space or a T in the middle. Digits beyond the type's precision are dropped, and so is the time of day for DATE. A
day outside the calendar is not a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crenel.operators.encode import try_cast as texts
from crenel.operators.encode.cells import UNITS, CellType
from crenel.operators.encode.try_cast import WHOLE

_DECIMAL_DIGITS = 38
"""Maximum number of digits of a decimal128."""

_DAY = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])-\d\d-\d\d"
_TIME = re.compile(rf"({_DAY})(?:[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?)?", re.ASCII)


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
        found = _time(text, 0)
        return None if found is None else found.date()

    return _read(column, pa.date32(), _DAY, alone, made_of=b"")


def _timestamp(kind: CellType, column: pa.StringArray) -> pa.Array:
    fraction = rf"(\.\d{{1,{kind.precision}}})?" if kind.precision else ""
    pattern = rf"{_DAY}([ T]\d\d:\d\d(:\d\d{fraction})?)?"
    stored = pa.timestamp(UNITS[kind.precision])
    return _read(column, stored, pattern, partial(_time, digits=kind.precision), made_of=b"")


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
        except pa.ArrowInvalid:
            pass  # at least one text is not a value
    fit = pc.match_substring_regex(column, f"^(?:{plain})$").fill_null(True)
    try:
        found = pc.cast(pc.if_else(fit, column, None), stored)
    except pa.ArrowInvalid:  # such as a day outside the calendar
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


def _time(text: str, digits: int) -> datetime | None:
    """Return a time with ``digits`` digits of a second; None where the text is not a time."""
    found = _TIME.fullmatch(text.strip(" "))
    if found is None:
        return None
    day, minute, second, fraction = found.groups(default="")
    try:
        whole = datetime.fromisoformat(f"{day} {minute or '00:00'}:{second or '00'}")
    except ValueError:  # not in the calendar, or not on the clock
        return None
    return whole.replace(microsecond=int(fraction[:digits].ljust(6, "0")[:6]))
