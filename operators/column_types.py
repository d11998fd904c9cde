"""Types of columns, with the names that Flink SQL gives them in a resolved schema."""

from __future__ import annotations

import re
from dataclasses import dataclass

from crenel.operators.encode.columns import EARLIEST, LATEST

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Bits by type."""

INSTANTS = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
"""Types whose values are numbers of epoch milliseconds, in UTC."""

TEXTS = ("STRING", "CHAR", "VARCHAR")
REALS = {"FLOAT": 3.4028234663852886e38, "DOUBLE": 1.7976931348623157e308}
"""The largest number by type."""

BYTES = ("BYTES", "VARBINARY", "BINARY")
NESTED = ("ROW", "ARRAY", "MAP")
CARRIED = (*NESTED, *BYTES)
"""Types whose values pass through the operator as bytes."""

_ALIASES = {
    "INTEGER": "INT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "DOUBLE PRECISION": "DOUBLE",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMP_LTZ",
    "TIME WITHOUT TIME ZONE": "TIME",
}
_DEFAULTS = {"DECIMAL": 10, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "TIME": 0, "CHAR": 1, "VARCHAR": 1}
_UNBOUNDED = 2**31 - 1
_SIMPLE = re.compile(
    r"(?P<name>[A-Z_]+(?: PRECISION)?)(?: ?\((?P<precision>\d+)(?:, ?(?P<scale>\d+))?\))?(?P<rest>(?: WITH[A-Z ]*)?)"
)

_TOKEN = re.compile(r"`[^`]*`|'[^']*'|[<>(),]")
"""A quoted name, a quoted description, or a sign of a type's structure."""
_FIELD = re.compile(
    r"(?:`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>\w+)) (?P<type>[^`']+?|[^`']*<.*>[^`']*?)(?: '(?:[^']|'')*')?", re.DOTALL
)
"""A field of a ROW: its name, its type, and its description, if it has one."""


@dataclass(frozen=True)
class ColumnType:
    """A type of a column.

    Attributes
    ----------
    name : without parameters, one name for all spellings, such as ``DECIMAL``
    text : as a table declares it, such as ``DECIMAL(10, 2)``, without nullability
    nullable : whether it admits NULL
    precision, scale : of ``DECIMAL``; precision is also that of times and the length of ``CHAR`` and ``VARCHAR``
    processing_time : whether it is a time attribute of the wall clock
    rowtime : whether it is a time attribute of event time, which has a watermark
    limits : minimum and maximum value of the column, where it holds fewer values than the type; None: those of the type
    """

    name: str
    text: str
    nullable: bool = True
    precision: int | None = None
    scale: int = 0
    processing_time: bool = False
    rowtime: bool = False
    limits: tuple[float, float] | None = None

    @property
    def unit(self) -> int:
        """The milliseconds that a type of ``INSTANTS`` distinguishes."""
        return 86_400_000 if self.name == "DATE" else 10 ** max(3 - (self.precision or 0), 0)

    @property
    def extremes(self) -> tuple[float, float] | None:
        """Minimum and maximum of a numeric type, of a time in epoch milliseconds; None where there are none."""
        if self.limits is not None:
            return self.limits
        if self.name in INSTANTS:
            return float(EARLIEST), float(LATEST)
        if self.name in INTEGERS:
            return -(2.0 ** (INTEGERS[self.name] - 1)), float(2 ** (INTEGERS[self.name] - 1) - 1)
        if self.name == "DECIMAL":
            largest = (10 ** (self.precision or 0) - 1) / 10**self.scale
        elif self.name in REALS:
            largest = REALS[self.name]
        else:
            return None
        return -largest, largest


def parse(text: str) -> ColumnType:
    """Parse a type such as ``DECIMAL(10, 2) NOT NULL`` or ``TIMESTAMP_LTZ(3) *ROWTIME*``.

    The name of a type without simple form (``ARRAY``, ``ROW<...>``) is its first word.
    """
    plain, _, attribute = text.strip().partition("*")
    plain = plain.strip()
    nullable = not plain.endswith(" NOT NULL")
    plain = plain.removesuffix(" NOT NULL").strip()
    processing_time, rowtime = (attribute.rstrip("*") == kind for kind in ("PROCTIME", "ROWTIME"))
    found = _SIMPLE.fullmatch(plain)
    if found is None:
        return ColumnType(re.split(r"\W", plain, maxsplit=1)[0], plain, nullable)
    name = found["name"] + found["rest"].rstrip()
    name = _ALIASES.get(name, name)
    precision = int(found["precision"]) if found["precision"] else _DEFAULTS.get(name)
    scale = int(found["scale"] or 0)
    if name == "VARCHAR" and precision == _UNBOUNDED:
        name, precision = "STRING", None
    parameters = "" if precision is None else f"({precision}, {scale})" if name == "DECIMAL" else f"({precision})"
    return ColumnType(name, name + parameters, nullable, precision, scale, processing_time, rowtime)


def fields_of(row: ColumnType) -> dict[str, str]:
    """Return the type of each field of a ROW by its name; none for any other type.

    Raises
    ------
    ValueError
        The type is not in the form that a resolved schema prints.

    Examples
    --------
    >>> fields_of(parse("ROW<`zip` STRING, `age` INT NOT NULL>"))
    {'zip': 'STRING', 'age': 'INT NOT NULL'}
    """
    if row.name != "ROW":
        return {}
    fields: dict[str, str] = {}
    depth, begin, content = 0, 0, row.text.removeprefix("ROW<").removesuffix(">")
    for token in _TOKEN.finditer(f"{content},"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token[0], 0)
        if token[0] == "," and not depth:
            field = _FIELD.fullmatch(content[begin : token.start()].strip())
            if field is None:
                raise ValueError(f"is not a type that a schema prints: {row.text}")
            fields[field["plain"] or field["quoted"].replace("``", "`")] = field["type"]
            begin = token.end()
    return fields


def element_of(array: ColumnType) -> ColumnType | None:
    """Return the type of the elements of an array; None for any other type.

    Examples
    --------
    >>> element_of(parse("ARRAY<STRING NOT NULL>")).name
    'STRING'
    """
    if array.name != "ARRAY":
        return None
    return parse(array.text.removeprefix("ARRAY<").removesuffix(">"))
