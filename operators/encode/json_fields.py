"""Fields of records of JSON: what Flink's ``JSON_VALUE`` and ``TRY_CAST`` make of them.

``JSON_VALUE`` parses the whole record for each field; here a record is parsed once. What cannot be read is missing, as
it is there: a field that is not there, is of another kind or does not fit its type, and all of a record that is no
JSON, or that is nested more than 500 levels deep. ``crenel.operators.encode.try_cast`` tells which texts are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from json import JSONDecoder
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from crenel.operators.encode import try_cast as texts
from crenel.operators.encode.records import Form
from crenel.operators.encode.try_cast import WHOLE

FORMS: dict[str, tuple[Form, ...]] = {
    "STRING": ("text",),
    "BOOLEAN": ("boolean", "text"),
    "DOUBLE": ("number", "missing"),
    "DECIMAL": ("number", "text"),
    **dict.fromkeys(WHOLE, ("number", "integer", "text", "missing")),
}
"""What can be had here, by the type of the field."""

_EXACT_DIGITS = 15
"""Decimal digits that a float64 holds."""

_DEEPEST = 500
"""Levels of nesting that are read. The exact parser takes fewer levels than the quick one, and how many depends on the
stack that it is called on; so without a limit of our own, the result for a deep record would depend on both."""

_LONGEST_INT = 40
"""Characters of a whole number that is kept as an int; Python refuses to make an int of more than 4,300 digits."""

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)
_PAIR = r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F][\da-fA-F]{2}"
_ESCAPES = re.compile(rf"{_PAIR}|(?P<half>{_HALF})|\\.", re.DOTALL)


@dataclass(frozen=True)
class JsonField:
    """A field of a record.

    Attributes
    ----------
    path : names of members, and places in arrays counted from 0, on the way to it
    type : a type of SQL in ``FORMS``, without parameters
    precision, scale : of DECIMAL
    """

    path: tuple[str | int, ...]
    type: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class JsonFields:
    """What is read of each record: ``crenel.operators.encode.records.Fields``."""

    fields: tuple[JsonField, ...]

    def columns(self, records: pa.BinaryArray) -> list[_Column]:
        """The values of each field; (rows,) records, null where one is missing."""
        read = _Records(records.to_pylist())
        return [_Column(field, read) for field in self.fields]


class _Records:
    """The records of a batch, parsed."""

    def __init__(self, records: list[bytes | None]) -> None:
        self._records = records
        self._exact: dict[int, Any] = {}
        self.rows: list[Any] = []
        for record in records:
            if record is None or (len(record) > _DEEPEST and _too_deep(record)):
                self.rows.append(None)
                continue
            try:
                # Floats of it may have lost digits.
                self.rows.append(orjson.loads(record))
            except ValueError:
                self.rows.append(_exactly(record))
        self.objects = [row if type(row) is dict else {} for row in self.rows]

    def column(self, path: tuple[str | int, ...]) -> list[Any]:
        if len(path) == 1 and isinstance(path[0], str):
            name = path[0]
            return [row.get(name) for row in self.objects]
        return [_at(row, path) for row in self.rows]

    def exact(self, row: int, path: tuple[str | int, ...]) -> Any:
        """What ``column`` has in a row, with a Decimal in the place of a float."""
        if row not in self._exact:
            record = self._records[row]
            self._exact[row] = None if record is None else _exactly(record)
        return _at(self._exact[row], path)


class _Column:
    """The values of a field."""

    def __init__(self, field: JsonField, records: _Records) -> None:
        self._field, self._records = field, records

    @cached_property
    def _values(self) -> list[Any]:
        return self._records.column(self._field.path)

    @cached_property
    def _kinds(self) -> set[type]:
        return set(map(type, self._values))

    @cached_property
    def _cells(self) -> list[Any]:
        """The values as the field's type has them, None where missing; of DECIMAL as text."""
        field, values = self._field, self._values
        if field.type == "DOUBLE":
            return self._unless(float, values, _real)
        if field.type == "DECIMAL":
            told, decimal = _as_written(field), _decimal(field)
            return [
                (told(value) or decimal(self._exact(row))) if type(value) is float else decimal(value)
                for row, value in enumerate(values)
            ]
        if float in self._kinds:
            values = [self._exact(row) if type(value) is float else value for row, value in enumerate(values)]
        if field.type == "STRING":
            return self._unless(str, values, _text)
        if field.type == "BOOLEAN":
            return self._unless(bool, values, lambda value: texts.truth(_text(value) or ""))
        end = 1 << (WHOLE[field.type] - 1)
        return [
            value if value is not None and -end <= value < end else None
            for value in self._unless(int, values, _integer)
        ]

    @cached_property
    def _whole(self) -> NDArray[np.int64] | None:
        """Whole numbers of which none is missing; None where one is, or where they are none."""
        if self._field.type not in WHOLE or self._kinds != {int}:
            return None
        try:
            found = np.array(self._values, np.int64)
        except OverflowError:
            return None
        end = 1 << (WHOLE[self._field.type] - 1)
        return found if -end <= found.min() and found.max() < end else None

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        if self._whole is not None:
            return np.zeros(len(self._whole), np.bool_)
        return np.fromiter((cell is None for cell in self._cells), np.bool_, len(self._cells))

    @property
    def number(self) -> NDArray[Any]:
        return np.array(self._cells, np.float64) if self._whole is None else self._whole  # None is NaN

    @property
    def integer(self) -> NDArray[np.int64]:
        return np.array([cell or 0 for cell in self._cells], np.int64) if self._whole is None else self._whole

    @property
    def boolean(self) -> NDArray[Any]:
        return np.array(self._cells, object if None in self._cells else np.bool_)

    @property
    def text(self) -> pa.StringArray:
        if self._field.type in ("STRING", "DECIMAL"):
            cells = self._cells
        elif self._whole is not None:
            cells = list(map(str, self._values))
        else:
            cells = [None if cell is None else str(cell).upper() for cell in self._cells]
        return pa.array(cells, pa.string())

    def _exact(self, row: int) -> Any:
        return self._records.exact(row, self._field.path)

    def _unless(self, kind: type, values: list[Any], read: Callable[[Any], Any]) -> list[Any]:
        """The values, of which those that are neither of a kind nor missing are read."""
        if self._kinds <= {kind, type(None)}:
            return values
        return [value if type(value) is kind or value is None else read(value) for value in values]


def _too_deep(record: bytes) -> bool:
    """Return whether the value that a record begins with is nested more than ``_DEEPEST`` levels deep."""
    if record.count(b"[") + record.count(b"{") <= _DEEPEST:
        return False
    depth = 0
    for found in _BRACKETS.finditer(record):
        bracket = found[0]
        if bracket in (b"[", b"{"):
            depth += 1
            if depth > _DEEPEST:
                return True
        elif bracket in (b"]", b"}"):
            depth -= 1
            if depth <= 0:
                return False
    return False


def _exactly(record: bytes) -> Any:
    """A record as Flink reads it, None where it does not: what follows a whole value is not looked at."""
    text = _ESCAPES.sub(_with_pairs, record.decode("utf-8", "replace"))
    try:
        found, _ = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return None
    return found


def _with_pairs(escape: re.Match[str]) -> str:
    """An escape sequence, or the question mark that Java writes for a surrogate outside of a pair."""
    return "?" if escape["half"] else escape[0]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _number(text: str) -> Decimal | float:
    """A number with a fraction or an exponent; a float, which has no text, where not even a Decimal can hold it."""
    try:
        return Decimal(text)
    except InvalidOperation:  # the exponent has more than 18 digits
        return float(text)


def _whole_number(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_INT else Decimal(text)


_DECODER = JSONDecoder(parse_float=_number, parse_int=_whole_number, parse_constant=_refuse)


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if type(value) is dict else None
        else:
            value = value[step] if type(value) is list and step < len(value) else None
    return value


def _text(value: Any) -> str | None:
    """What ``JSON_VALUE`` gives of a value that is no float."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return str(abs(value) if value.is_zero() else value)  # Java has no -0.0
    return str(value) if isinstance(value, str | int) else None


def _integer(value: Any) -> int | None:
    """What a cast makes of a value that is no whole number: what is behind its point is left out."""
    return texts.integer(_text(value) or "")


def _real(value: Any) -> float | None:
    if type(value) is int:
        return float(value)
    return texts.real(_text(value) or "")


def _as_written(field: JsonField) -> Callable[[float], str | None]:
    """How a float is told that stands for a number of no more decimals than a DECIMAL has; None of others.

    Whatever was written, the type rounds to that: it is nearer to the float than half of its last digit.
    """
    write, end = f"{{:.{field.scale}f}}".format, 10.0 ** (min(field.precision, _EXACT_DIGITS) - field.scale)

    def told(value: float) -> str | None:
        text = write(value + 0.0)  # -0.0 is 0
        return text if float(text) == value and abs(value) < end else None

    return told


def _decimal(field: JsonField) -> Callable[[Any], str | None]:
    def told(value: Any) -> str | None:
        found = texts.decimal(_text(value) or "", field.precision, field.scale)
        return None if found is None else f"{found:f}"

    return told
