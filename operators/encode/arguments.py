"""Arguments of encode: one or two for each column with a role, and the types that each role accepts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from crenel.anonymity.model.attributes import Categorical, Generalized, Noised, Number, Numeric, QuasiIdentifier
from crenel.anonymity.model.fields import Instant
from crenel.operators.column_types import CARRIED, INSTANTS, INTEGERS, REALS, TEXTS, ColumnType, element_of
from crenel.operators.encode.columns import Argument, Form, Read
from crenel.operators.encode.nested import first_field

_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_SIMPLE = (*TEXTS, "BOOLEAN", *INTEGERS, "DECIMAL", *REALS, *_TIMES)
_MILLISECONDS = 3
_EXACT_DIGITS = 15
"""Decimal digits that float64 represents exactly."""

_ELEMENTS = (*TEXTS, *INTEGERS, "DECIMAL", *_TIMES)
"""Types of the elements of a sensitive array: those whose values compare exactly, but for BOOLEAN, which has two."""

_SHOWN = "text, BOOLEAN, whole numbers, DECIMAL, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ"
_SHOWN_ELEMENTS = "text, whole numbers, DECIMAL, DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ"
_CONVERT = "convert it in the source's query or data"


class ArgumentCollector:
    """Collector of the arguments of encode, and of problems with the types of columns.

    Parameters
    ----------
    types : type by column; None where the source has no such column, which is reported elsewhere
    neutralized, arrays, generalized, normalization : of the ``Policy``; of an array, its column
    """

    def __init__(
        self,
        types: dict[str, ColumnType | None],
        *,
        neutralized: bool = False,
        arrays: Collection[str] = (),
        generalized: Mapping[str, Generalized] = MappingProxyType({}),
        normalization: tuple[str, ...] = (),
    ) -> None:
        self._normalization = normalization
        self._types, self._neutralized, self._arrays, self._generalized = types, neutralized, arrays, generalized
        self.arguments: list[Argument] = []
        self.problems: list[str] = []

    def quasi_identifier(self, attribute: QuasiIdentifier) -> Read:
        """Add a quasi-identifier; numbers pass as such, unless they are text to be parsed."""
        name, sql = attribute.name, self._types[attribute.name]
        where = f"policy.quasi_identifiers.{name}"
        if sql is None:
            return Read(name, "text", 0)
        if not isinstance(attribute, Numeric):
            return self._categorical(where, attribute, sql)
        self._within_type(attribute, sql)
        if sql.name in INSTANTS:
            if attribute.domain is not None and not isinstance(attribute.domain[0], Instant):
                self.problems.append(
                    f"{attribute.place}.domain: is of numbers, and the column has the type {sql.text}; give two days "
                    "or times, such as 2024-02-29"
                )
            return self._instant(where, name, sql)
        if attribute.is_temporal:
            self.problems.append(
                f"{where}: its domain, step or ends are days, times or durations, and the column has the type "
                f"{sql.text}; CAST it to DATE or TIMESTAMP(3) in the source's query or data, or give numbers in its "
                "own unit"
            )
        self._require_numbers(where, sql, "a numeric one", ", DATE, TIMESTAMP(3), TIMESTAMP_LTZ(3)")
        return self._number(name, sql)

    def _categorical(self, where: str, attribute: Categorical | Generalized, sql: ColumnType) -> Read:
        name, builder = attribute.name, attribute.builder
        if builder is None or builder.kind == "text":
            self._require(where, sql, _SIMPLE, f"a categorical one is of {_SHOWN}; {_CONVERT}")
            return replace(self._text(name, sql), labels=_arrow_type(sql) if builder is None else None)
        if builder.kind == "number":
            self._require_numbers(where, sql, "one with a hierarchy of numbers")
            return self._number(name, sql)
        if builder.kind == "date":
            valid = "one with a hierarchy of dates is of DATE, TIMESTAMP, TIMESTAMP_LTZ or text such as 2024-02-29"
            self._require(where, sql, ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", *TEXTS), f"{valid}; {_CONVERT}")
            return self._text(name, sql) if sql.name in TEXTS else self._read(name, "day")
        self._require(where, sql, TEXTS, f"one with a hierarchy of addresses is of text such as 10.0.3.7; {_CONVERT}")
        return self._text(name, sql)

    def _instant(self, where: str, name: str, sql: ColumnType) -> Read:
        """Add a day or a timestamp, whose number of epoch milliseconds float64 represents exactly."""
        if (sql.precision or 0) > _MILLISECONDS:
            self.problems.append(
                f"{where}: the type {sql.text} is finer than milliseconds, which are the finest times of an interval; "
                f"CAST it to {sql.name}(3) in the source's query, and Arrow or pandas data to milliseconds"
            )
        return self._read(name, "time")

    def _require_numbers(self, where: str, sql: ColumnType, what: str, further: str = "") -> None:
        self._require(
            where,
            sql,
            (*INTEGERS, *REALS, "DECIMAL", *TEXTS),
            f"{what} is of whole numbers, DECIMAL, FLOAT, DOUBLE{further} or text that holds numbers; {_CONVERT}",
        )
        if sql.name == "DECIMAL" and (sql.precision or 0) > _EXACT_DIGITS:
            self.problems.append(
                f"{where}: the type {sql.text} has more than {_EXACT_DIGITS} digits, too many for float64; "
                f"CAST it to DECIMAL({_EXACT_DIGITS}, {min(sql.scale, _EXACT_DIGITS)}) or DOUBLE in the source's query "
                "or data"
            )

    def _number(self, name: str, sql: ColumnType) -> Read:
        if sql.name in TEXTS:
            return self._read(name, "text")
        return self._real(name, sql) if sql.name in REALS else self._read(name, "number")

    def noised(self, attribute: Noised) -> Read:
        """Add a noised attribute, which passes as int64 or float64 and returns in its own type."""
        name, sql = attribute.name, self._types[attribute.name]
        if sql is None:
            return Read(name, "number", 0)
        self._require(
            attribute.place, sql, (*INTEGERS, *REALS), f"a noised one is of whole numbers, FLOAT or DOUBLE; {_CONVERT}"
        )
        self._within_type(attribute, sql)
        return self._integer(name, sql) if sql.name in INTEGERS else self._real(name, sql)

    def _within_type(self, attribute: Number, sql: ColumnType) -> None:
        largest = sql.extremes
        if attribute.domain is not None and largest is not None:
            lowest, highest = largest
            if not (lowest <= attribute.domain[0] and attribute.domain[1] <= highest):
                named = f", {sql.text}" if sql.limits is None else ""
                self.problems.append(
                    f"{attribute.place}.domain: reaches beyond the column's type{named}; "
                    f"give one within {lowest:.15g} and {highest:.15g}, or CAST it to a wider type in the source's "
                    "query or data"
                )

    def member(self, role: str, name: str) -> Read:
        """Add a column of published values; ``member_form`` determines the form of an unchanged one."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "text", 0)
        if role == "sensitive" and name in self._generalized:
            attribute = self._generalized[name]
            return replace(self._categorical(attribute.place, attribute, sql), generalized=True)
        if role == "sensitive" and name in self._arrays:
            return self._array(name, sql)
        further = CARRIED if role == "passthrough" else ()
        valid = f"a published column is of {_SHOWN}; {_CONVERT}, or drop it"
        if role == "passthrough":
            valid = f"a passed-through column is of {_SHOWN}, ROW, ARRAY, MAP and BYTES; {_CONVERT}, or drop it"
        elif sql.name in ("ARRAY", "MULTISET"):
            valid += (
                f". For an array of {_SHOWN_ELEMENTS}, give its maximum number of values as policy.arrays.{name}. "
                "With CROSS JOIN UNNEST in the source's query, or explode of a DataFrame, each value is a record of "
                "the same person"
            )
            if (example := first_field(name, sql)) is not None:
                valid += f". The fields of its rows have roles of their own, such as {example!r}"
        self._require(f"policy.{role}", sql, (*_SIMPLE, *further), valid, column=name)
        form = member_form(role, sql)
        if form == "integer":
            return self._integer(name, sql)
        if form == "number":
            return self._real(name, sql)
        if form != "text":
            return self._read(name, form)
        # Flink does not enforce the declared length of a source column, but its CAST back to the type does.
        longest = sql.precision if sql.name in ("CHAR", "VARCHAR") else None
        return self._shown(replace(self._text(name, sql), longest=longest, padded=sql.name == "CHAR"), sql)

    def _array(self, name: str, sql: ColumnType) -> Read:
        """Add a sensitive array: its values, and its published form."""
        element = element_of(sql)
        if element is None or element.name not in _ELEMENTS:
            example = first_field(name, sql)
            inner = "" if example is None else f", or give roles to the fields of its rows, such as {example!r}"
            self.problems.append(
                f"policy.arrays.{name}: column {name!r} has the type {sql.text}; it is an ARRAY of {_SHOWN_ELEMENTS}; "
                f"{_CONVERT}, or remove it from policy.arrays{inner}"
            )
            return Read(name, "text", 0)
        return replace(
            self._read(name, "list"),
            element="integer" if element.name in INTEGERS else "text",
            packed=self._add(name, "packed"),
            is_clock=_is_clock(element),
        )

    def subject(self, name: str) -> Read:
        """Add the column that identifies persons, as text."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "text", 0)
        fit = tuple(other for other in _SIMPLE if other not in REALS)
        self._require(
            "policy.subject", sql, fit, "it is of text, whole numbers, DECIMAL, BOOLEAN, dates or times", column=name
        )
        return replace(self._text(name, sql), normalization=self._normalization)

    def event_time(self, name: str) -> Read:
        """Add event time, as epoch milliseconds or as a timestamp in UTC."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "integer", 0)
        return self._read(name, "time") if sql.name == "TIMESTAMP_LTZ" else self._integer(name, sql)

    def watermark(self, name: str) -> Read:
        """Add the watermark at the arrival of a row, from a column that has one."""
        return self._read(name, "watermark")

    def reference(self, name: str) -> Read:
        """Add a column that accompanies rejected rows, as text."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "text", 0)
        self._require("policy.reference", sql, _SIMPLE, f"it is of {_SHOWN}; {_CONVERT}", column=name)
        return self._shown(self._text(name, sql), sql)

    def _require(
        self, where: str, sql: ColumnType, fit: tuple[str, ...], valid: str, column: str | None = None
    ) -> None:
        if sql.name not in fit:
            about = f"column {column!r} has" if column is not None else "has"
            self.problems.append(f"{where}: {about} the type {sql.text}; {valid}")

    def _add(self, name: str, form: Form) -> int:
        self.arguments.append((name, form))
        return len(self.arguments) - 1

    def _read(self, name: str, form: Form) -> Read:
        return Read(name, form, self._add(name, form))

    def _text(self, name: str, sql: ColumnType) -> Read:
        return replace(self._read(name, "text"), is_clock=_is_clock(sql))

    def _shown(self, read: Read, sql: ColumnType) -> Read:
        """Mark a published text for neutralization; texts of other types, such as -0.50, are no formulas."""
        return replace(read, neutralized=True) if self._neutralized and sql.name in TEXTS else read

    def _real(self, name: str, sql: ColumnType) -> Read:
        return replace(self._flagged(name, "number", sql), is_float32=sql.name == "FLOAT")

    def _integer(self, name: str, sql: ColumnType) -> Read:
        return self._flagged(name, "integer", sql)

    def _flagged(self, name: str, form: Form, sql: ColumnType) -> Read:
        """Add a column, and an argument that marks missing values where it is nullable."""
        read = self._read(name, form)
        return replace(read, missing=self._add(name, "missing")) if sql.nullable else read


def member_form(role: str, sql: ColumnType) -> Form:
    """Return the form in which a column that is published unchanged passes through the operator."""
    # A timestamp as text costs ten times as much. Sensitive columns stay text, because their codes derive from it.
    if role == "passthrough" and sql.name == "TIMESTAMP" and (sql.precision or 0) <= _MILLISECONDS:
        return "time"
    if sql.name in CARRIED:
        return "packed"
    if sql.name in INTEGERS:
        return "integer"
    if sql.name in REALS:
        return "number"
    return "boolean" if sql.name == "BOOLEAN" else "text"


def _is_clock(sql: ColumnType) -> bool:
    """Return whether Flink writes a type as times of day with a fraction."""
    return sql.name == "TIME" and bool(sql.precision)


def _arrow_type(sql: ColumnType) -> pa.DataType | None:
    """Return the Arrow type with the texts of a type; None for text, and for times whose precision Arrow lacks."""
    if sql.name in INTEGERS:
        return pa.int64()
    if sql.name == "DECIMAL":
        return pa.decimal128(sql.precision or 0, sql.scale)
    if sql.name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        unit = {0: "s", 3: "ms", 6: "us", 9: "ns"}.get(sql.precision or 0)
        return None if unit is None else pa.timestamp(unit)
    others = {"BOOLEAN": pa.bool_(), "FLOAT": pa.float32(), "DOUBLE": pa.float64()}
    return (others | {"DATE": pa.date32(), "TIME": pa.time64("ns")}).get(sql.name)
