"""Fields of JSON records, with the results of Flink's ``JSON_VALUE`` and ``TRY_CAST``.

``JSON_VALUE`` parses the whole record for each field; this module parses it once, and plain records all at once
(``crenel.operators.encode.json_scan``). As in Flink, unreadable values are missing: an absent field, or one of another
kind or type. All fields of a record are missing if it is not JSON, or nested more than 500 levels deep.
``crenel.operators.encode.try_cast`` defines which texts are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from json import JSONDecoder
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from crenel.operators.encode import try_cast as texts
from crenel.operators.encode.cells import CellType, FieldCells
from crenel.operators.encode.columns import Form
from crenel.operators.encode.json_scan import REAL, TEXT, TRUTH, Scanned, scan
from crenel.operators.encode.json_scan import WHOLE as WHOLE_NUMBER
from crenel.operators.encode.try_cast import WHOLE

Steps: TypeAlias = tuple[str | int, ...]

FORMS: dict[str, tuple[Form, ...]] = {
    "STRING": ("text",),
    "BOOLEAN": ("boolean", "text"),
    "DOUBLE": ("number", "missing"),
    "DECIMAL": ("number", "text"),
    **dict.fromkeys(WHOLE, ("number", "integer", "text", "missing")),
}
"""Available forms of a field, by its type."""

_SCANNED = {"STRING": TEXT, "BOOLEAN": TRUTH, "DOUBLE": REAL, **dict.fromkeys(WHOLE, WHOLE_NUMBER)}
"""Form in which fields are scanned, by type."""

_EXACT_DIGITS = 15
"""Decimal digits that a float64 can represent."""

_DEEPEST = 500
"""Maximum depth of nesting.

The exact parser accepts fewer levels than the fast one, depending on the stack at the call. Without a fixed limit, the
result for a deep record would depend on both.
"""

_LONGEST_INT = 40
"""Maximum number of characters of a whole number kept as an int; Python rejects more than 4,300 digits."""

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)
_PAIR = r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F][\da-fA-F]{2}"
_ESCAPES = re.compile(rf"{_PAIR}|(?P<half>{_HALF})|\\.", re.DOTALL)


@dataclass(frozen=True)
class JsonFields:
    """Fields to read from each record: an implementation of ``crenel.operators.encode.records.Fields``.

    Attributes
    ----------
    fields : names of members and indices in arrays, from 0, on the way to each field, and its type, one of ``FORMS``
    """

    fields: tuple[tuple[Steps, CellType], ...]

    def columns(self, records: pa.BinaryArray) -> list[FieldCells]:
        """Return the values of each field; ``records`` are (rows,), null where a record is missing."""
        names = [path[0] for path, _ in self.fields if len(path) == 1 and isinstance(path[0], str)]
        kinds = [_SCANNED[kind.name] for _, kind in self.fields if kind.name in _SCANNED]
        if not len(self.fields) == len(set(names)) == len(kinds):
            read = _Records(records.to_pylist())
            return [FieldCells(_cells(path, kind, read)) for path, kind in self.fields]
        scanned = scan(records, names, kinds)
        cells = [_scanned_cells(scanned, number, kind) for number, (_, kind) in enumerate(self.fields)]
        if not scanned.plain.all():
            odd = pa.array(~scanned.plain)
            read = _Records(records.filter(odd).to_pylist())
            others = (_cells(path, kind, read) for path, kind in self.fields)
            cells = [pc.replace_with_mask(those, odd, other) for those, other in zip(cells, others, strict=True)]
        return [*map(FieldCells, cells)]


class _Records:
    """The parsed records of a batch."""

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

    def column(self, path: Steps) -> list[Any]:
        if len(path) == 1 and isinstance(path[0], str):
            name = path[0]
            return [row.get(name) for row in self.objects]
        return [_at(row, path) for row in self.rows]

    def exact(self, row: int, path: Steps) -> Any:
        """Return the value of ``column`` in a row, with a Decimal in place of a float."""
        if row not in self._exact:
            record = self._records[row]
            self._exact[row] = None if record is None else _exactly(record)
        return _at(self._exact[row], path)


def _cells(path: Steps, kind: CellType, records: _Records) -> pa.Array:
    """Return the values of a field."""
    values = records.column(path)
    kinds = set(map(type, values))

    def unless(of: type, read: Callable[[Any], Any]) -> list[Any]:
        """Return the values, after conversion of those that are neither of a type nor missing."""
        those = values
        if float in kinds and of is not float:  # which may have lost digits
            those = [records.exact(row, path) if type(value) is float else value for row, value in enumerate(values)]
        if kinds <= {of, type(None)}:
            return those
        return [value if type(value) is of or value is None else read(value) for value in those]

    if kind.name == "DOUBLE":
        return pa.array(unless(float, _real), pa.float64())
    if kind.name == "STRING":
        return pa.array(unless(str, _text), pa.string())
    if kind.name == "BOOLEAN":
        return pa.array(unless(bool, lambda value: texts.truth(_text(value) or "")), pa.bool_())
    if kind.name == "DECIMAL":
        to_text, decimal = _as_written(kind), _decimal(kind)
        written = [
            (to_text(value) or decimal(records.exact(row, path))) if type(value) is float else decimal(value)
            for row, value in enumerate(values)
        ]
        return pa.array(written, pa.string()).cast(pa.decimal128(kind.precision, kind.scale))
    end = 1 << (WHOLE[kind.name] - 1)
    whole = unless(int, _integer)
    try:
        cells = pa.array(whole, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        cells = pa.array([value if value is not None and -end <= value < end else None for value in whole], pa.int64())
    return pc.if_else(pc.and_(pc.greater_equal(cells, -end), pc.less_equal(cells, end - 1)), cells, None)


def _scanned_cells(scanned: Scanned, number: int, kind: CellType) -> pa.Array:
    """Return the values of a field of scanned records, which are undefined where a record is not plain."""
    if kind.name == "STRING":
        return scanned.texts(number)
    if kind.name == "DOUBLE":
        reals = scanned.texts(number)
        return pc.cast(reals if scanned.plain.all() else pc.if_else(pa.array(scanned.plain), reals, None), pa.float64())
    found, whole = scanned.found[number], scanned.whole[number]
    if kind.name == "BOOLEAN":
        return pa.array(whole != 0, mask=~found)
    end = 1 << (WHOLE[kind.name] - 1)
    return pa.array(whole, mask=~(found & (-end <= whole) & (whole < end)))


def _too_deep(record: bytes) -> bool:
    """Return whether the value at the beginning of a record is nested more than ``_DEEPEST`` levels deep."""
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
    """Return a record as Flink reads it, None where it is unreadable; text behind a complete value is ignored."""
    text = _ESCAPES.sub(_with_pairs, record.decode("utf-8", "replace"))
    try:
        found, _ = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return None
    return found


def _with_pairs(escape: re.Match[str]) -> str:
    """Return an escape sequence, or the question mark that Java writes for an unpaired surrogate."""
    return "?" if escape["half"] else escape[0]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _number(text: str) -> Decimal | float:
    """Return a number with a fraction or an exponent.

    The result is a float, without a text, where a Decimal cannot represent the number.
    """
    try:
        return Decimal(text)
    except InvalidOperation:  # the exponent has more than 18 digits
        return float(text)


def _whole_number(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_INT else Decimal(text)


_DECODER = JSONDecoder(parse_float=_number, parse_int=_whole_number, parse_constant=_refuse)


def _at(value: Any, path: Steps) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if type(value) is dict else None
        else:
            value = value[step] if type(value) is list and step < len(value) else None
    return value


def _text(value: Any) -> str | None:
    """Return the result of ``JSON_VALUE`` for a value that is not a float."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return str(abs(value) if value.is_zero() else value)  # Java has no -0.0
    return str(value) if isinstance(value, str | int) else None


def _integer(value: Any) -> int | None:
    """Return the result of a cast to a whole number, without the fraction."""
    return texts.integer(_text(value) or "")


def _real(value: Any) -> float | None:
    if type(value) is int:
        return float(value)
    return texts.real(_text(value) or "")


def _as_written(kind: CellType) -> Callable[[float], str | None]:
    """Return a function that writes a float with at most the DECIMAL's scale; None for other floats.

    Any number with this float rounds to the same DECIMAL, because their difference is below half of the last digit.
    """
    write, end = f"{{:.{kind.scale}f}}".format, 10.0 ** (min(kind.precision, _EXACT_DIGITS) - kind.scale)

    def to_text(value: float) -> str | None:
        text = write(value + 0.0)  # -0.0 is 0
        return text if float(text) == value and abs(value) < end else None

    return to_text


def _decimal(kind: CellType) -> Callable[[Any], str | None]:
    def to_text(value: Any) -> str | None:
        found = texts.decimal(_text(value) or "", kind.precision, kind.scale)
        return None if found is None else f"{found:f}"

    return to_text
