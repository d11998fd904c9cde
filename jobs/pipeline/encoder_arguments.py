"""Arguments of encode: one or two for each column with a role, and the SQL types that each role accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from crenel.anonymity.model.attributes import Categorical, Generalized, Instant, Noised, Numeric, QuasiIdentifier
from crenel.jobs.pipeline.nested import first_field
from crenel.jobs.pipeline.packing import CARRIED, packed
from crenel.jobs.pipeline.sql_times import INSTANT
from crenel.jobs.pipeline.sql_types import INSTANTS, INTEGERS, TEXTS, SqlType, element_of, quote
from crenel.operators.encode.columns import EARLIEST, LATEST, Kind, Read
from crenel.operators.encode.records import Form

ArgumentForm: TypeAlias = tuple[str, Form]
"""A column, and the form in which an argument passes it."""

_REALS = {"FLOAT": 3.4028234663852886e38, "DOUBLE": 1.7976931348623157e308}  # the largest of each
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_SIMPLE = (*TEXTS, "BOOLEAN", *INTEGERS, "DECIMAL", *_REALS, *_TIMES)
_MILLISECONDS = 3
_EXACT_DIGITS = 15
"""Decimal digits that float64 represents exactly."""

_ELEMENTS = (*TEXTS, *INTEGERS, "DECIMAL", *_TIMES)
"""Types of the elements of a sensitive array: those whose values compare exactly, but for BOOLEAN, which has two."""

_SHOWN = "text, BOOLEAN, whole numbers, DECIMAL, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ"
_SHOWN_ELEMENTS = "text, whole numbers, DECIMAL, DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ"
_CONVERT = "convert it in source.query"


class Reader:
    """Collector of the arguments of encode, and of problems with the types of columns.

    ``arguments`` are SQL expressions. ``argument_forms`` names column and form of each; None where it has no ``Form``.

    Parameters
    ----------
    types : type by column; None where the source has no such column, which is reported elsewhere
    neutralized, arrays, generalized, normalization : of the ``Policy``; of an array, its column
    """

    def __init__(
        self,
        types: dict[str, SqlType | None],
        *,
        neutralized: bool = False,
        arrays: Collection[str] = (),
        generalized: Iterable[Generalized] = (),
        normalization: tuple[str, ...] = (),
    ) -> None:
        self._normalization = normalization
        self._types, self._neutralized, self._arrays = types, neutralized, arrays
        self._generalized = {attribute.name: attribute for attribute in generalized}
        self.arguments: list[str] = []
        self.argument_forms: list[ArgumentForm | None] = []
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
                f"{sql.text}; CAST it to DATE or TIMESTAMP(3) in source.query, or give numbers in its own unit"
            )
        self._require_numbers(where, sql, "a numeric one", ", DATE, TIMESTAMP(3), TIMESTAMP_LTZ(3)")
        return self._number(name, sql)

    def _categorical(self, where: str, attribute: Categorical | Generalized, sql: SqlType) -> Read:
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
            if sql.name in TEXTS:
                return self._text(name, sql)
            if sql.name == "DATE":
                return Read(name, "text", self._add(_as_text(name, sql), (name, "day")))
            # Flink's CAST of a time to DATE rounds towards 1970.
            return Read(name, "text", self._add(_cast_time(name, sql), (name, "day")))
        self._require(where, sql, TEXTS, f"one with a hierarchy of addresses is of text such as 10.0.3.7; {_CONVERT}")
        return self._text(name, sql)

    def _instant(self, where: str, name: str, sql: SqlType) -> Read:
        """Add a day or a timestamp, whose number of epoch milliseconds float64 represents exactly."""
        if (sql.precision or 0) > _MILLISECONDS:
            self.problems.append(
                f"{where}: the type {sql.text} is finer than milliseconds, which are the finest times of an interval; "
                f"CAST it to {sql.name}(3) in source.query, and Arrow or pandas data to milliseconds"
            )
        return Read(name, "timestamp", self._add(_cast_time(name, sql), (name, "time")))

    def _require_numbers(self, where: str, sql: SqlType, what: str, further: str = "") -> None:
        self._require(
            where,
            sql,
            (*INTEGERS, *_REALS, "DECIMAL", *TEXTS),
            f"{what} is of whole numbers, DECIMAL, FLOAT, DOUBLE{further} or text that holds numbers; {_CONVERT}",
        )
        if sql.name == "DECIMAL" and (sql.precision or 0) > _EXACT_DIGITS:
            self.problems.append(
                f"{where}: the type {sql.text} has more digits than are told apart here; "
                f"CAST it to DECIMAL(15, {min(sql.scale, _EXACT_DIGITS)}) or DOUBLE in source.query"
            )

    def _number(self, name: str, sql: SqlType) -> Read:
        if sql.name in TEXTS:
            return Read(name, "number_text", self._add(_as_text(name, sql), (name, "text")))
        # If no column needs an expression of its own, Flink copies no rows on their way to Python.
        value = self._add(quote(name) if sql.name in INTEGERS else _cast(name, sql, "DOUBLE"), (name, "number"))
        if sql.name not in _REALS:
            return Read(name, "number", value)
        return Read(name, "single" if sql.name == "FLOAT" else "real", value, self._missing(name, sql))

    def noised(self, attribute: Noised) -> Read:
        """Add a noised attribute, which passes as int64 or float64 and returns in its own type."""
        name, sql = attribute.name, self._types[attribute.name]
        if sql is None:
            return Read(name, "real", 0)
        self._require(
            attribute.place, sql, (*INTEGERS, *_REALS), f"a noised one is of whole numbers, FLOAT or DOUBLE; {_CONVERT}"
        )
        self._within_type(attribute, sql)
        if sql.name in INTEGERS:
            return self._integer(name, sql)
        return replace(self._real(name, sql), kind="single" if sql.name == "FLOAT" else "real")

    def _within_type(self, attribute: Numeric, sql: SqlType) -> None:
        largest = extremes(sql)
        if attribute.domain is not None and largest is not None:
            lowest, highest = largest
            if not (lowest <= attribute.domain[0] and attribute.domain[1] <= highest):
                named = f", {sql.text}" if sql.limits is None else ""
                self.problems.append(
                    f"{attribute.place}.domain: reaches beyond the column's type{named}; "
                    f"give one within {lowest:.15g} and {highest:.15g}, or CAST it to a wider type in source.query"
                )

    def member(self, role: str, name: str) -> Read:
        """Add a column of published values; ``member_kind`` determines the form of an unchanged one."""
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
                "With CROSS JOIN UNNEST in source.query each value is a record of the same person"
            )
            if (example := first_field(name, sql)) is not None:
                valid += f". The fields of its rows have roles of their own, such as {example!r}"
        self._require(f"policy.{role}", sql, (*_SIMPLE, *further), valid, column=name)
        kind = member_kind(role, sql)
        if kind == "bytes":
            return Read(name, kind, self._add(packed(name, sql), (name, "packed")))
        if kind == "timestamp":
            return Read(name, kind, self._add(_cast(name, sql, "TIMESTAMP(3)"), (name, "time")))
        if kind == "integer":
            return self._integer(name, sql)
        if kind == "real":
            return self._real(name, sql)
        if kind == "boolean":
            return Read(name, kind, self._add(quote(name), (name, "boolean")))
        if sql.name in ("CHAR", "VARCHAR"):
            # Flink does not enforce the declared length of a source column, but its CAST back to the type does.
            text = self._add(_as_text(name, sql))
            return self._shown(Read(name, "text", text, longest=sql.precision, padded=sql.name == "CHAR"), sql)
        return self._shown(self._text(name, sql), sql)

    def _array(self, name: str, sql: SqlType) -> Read:
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
        kind: Kind = "integer" if element.name in INTEGERS else "text"
        wanted = "ARRAY<BIGINT>" if kind == "integer" else "ARRAY<STRING>"
        value = self._add(_cast(name, replace(sql, name=sql.text), wanted), (name, "list"))
        published = self._add(packed(name, sql), (name, "packed"))
        return Read(name, "array", value, element=kind, packed=published, is_clock=_is_clock(element))

    def subject(self, name: str) -> Read:
        """Add the column that identifies persons, as text."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "text", 0)
        fit = tuple(other for other in _SIMPLE if other not in _REALS)
        self._require(
            "policy.subject", sql, fit, "it is of text, whole numbers, DECIMAL, BOOLEAN, dates or times", column=name
        )
        return replace(self._text(name, sql), normalization=self._normalization)

    def event_time(self, name: str) -> Read:
        """Add event time, as epoch milliseconds or as a timestamp in UTC."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "integer", 0)
        where = f"policy.event_time: column {name!r}"
        if sql.processing_time:
            self.problems.append(f"{where} is processing time; name a column that the records bring along")
        elif sql.name not in ("BIGINT", "TIMESTAMP_LTZ") or (sql.name == "TIMESTAMP_LTZ" and sql.precision != 3):
            column = quote(name)
            how = {
                "INT": f"CAST({column} AS BIGINT), multiplied by 1000 where it counts seconds",
                "TIMESTAMP": f"CAST({column} AS TIMESTAMP_LTZ(3))",
                "TIMESTAMP_LTZ": f"CAST({column} AS TIMESTAMP_LTZ(3))",
                "DATE": f"CAST(CAST({column} AS TIMESTAMP(3)) AS TIMESTAMP_LTZ(3))",
            }.get(sql.name, f"{INSTANT}({column})")
            self.problems.append(
                f"{where} has the type {sql.text}; it is BIGINT (epoch milliseconds) or TIMESTAMP_LTZ(3): "
                f"add a computed column to source.ddl, such as event_time AS {how}, with the WATERMARK on it"
            )
        if sql.name == "TIMESTAMP_LTZ":
            return Read(name, "timestamp", self._add(quote(name), (name, "time")))
        return self._integer(name, sql)

    def without_watermark(self, name: str, counted_by: str, *, is_selected: bool, elsewhere: bool) -> Iterator[str]:
        """Yield a problem if a field counts event time, but event time does not advance with each record.

        Parameters
        ----------
        name : the column of event time
        counted_by : the field
        is_selected : whether any column of the query has a watermark; this suffices for epoch milliseconds, because a
            number cannot have one in SQL
        elsewhere : whether any column of the source has a watermark
        """
        sql = self._types[name]
        if sql is None or sql.processing_time or sql.rowtime or (is_selected and sql.name == "BIGINT"):
            return
        if elsewhere and sql.name == "BIGINT":
            yield (
                f"{counted_by}: counts event time, and source.query does not select the column with the watermark, so "
                "the delay would end with a batch of records and not with its record; select that column too, as it is "
                "in the source, and name it in policy.drop"
            )
            return
        column = quote(name)
        stamp, added = column, ""
        if sql.name == "BIGINT":
            stamp, added = "event_time", f"event_time AS TO_TIMESTAMP_LTZ({column}, 3), "
        yield (
            f"{counted_by}: counts event time, and the column {name!r} has no watermark, so no time passes before the "
            f"input ends; add to source.ddl {added}WATERMARK FOR {stamp} AS {stamp} - INTERVAL '5' SECOND, and select "
            "the column as it is in source.query"
            + (", or declare a field of a record as BIGINT" if elsewhere and sql.name == "TIMESTAMP_LTZ" else "")
        )

    def watermark(self, name: str) -> Read | None:
        """Add the watermark at the arrival of a row, which ``policy.event_time_limit`` refers to."""
        sql = self._types[name]
        if sql is None:
            return None
        if not sql.rowtime:
            self.problems.append(
                f"policy.event_time_limit: the column {name!r} has no watermark to be ahead of; make policy.event_time "
                "a column of type TIMESTAMP_LTZ(3) with a WATERMARK in source.ddl, selected as it is in source.query"
            )
            return None
        return self.watermark_argument(name)

    def watermark_argument(self, name: str) -> Read:
        """Add the watermark at the arrival of a row, from a column that has one."""
        return Read(name, "timestamp", self._add(f"CURRENT_WATERMARK({quote(name)})"))

    def reference(self, name: str) -> Read:
        """Add a column that accompanies rejected rows, as text."""
        sql = self._types[name]
        if sql is None:
            return Read(name, "text", 0)
        self._require("policy.reference", sql, _SIMPLE, f"it is of {_SHOWN}; {_CONVERT}", column=name)
        return self._shown(self._text(name, sql), sql)

    def _require(self, where: str, sql: SqlType, fit: tuple[str, ...], valid: str, column: str | None = None) -> None:
        if sql.name not in fit:
            about = f"column {column!r} has" if column is not None else "has"
            self.problems.append(f"{where}: {about} the type {sql.text}; {valid}")

    def _add(self, expression: str, argument_form: ArgumentForm | None = None) -> int:
        self.arguments.append(expression)
        self.argument_forms.append(argument_form)
        return len(self.arguments) - 1

    def _missing(self, name: str, sql: SqlType) -> int | None:
        """Add an argument that marks missing values, for nullable columns."""
        return self._add(f"{quote(name)} IS NULL", (name, "missing")) if sql.nullable else None

    def _text(self, name: str, sql: SqlType) -> Read:
        return Read(name, "text", self._add(_as_text(name, sql), (name, "text")), is_clock=_is_clock(sql))

    def _shown(self, read: Read, sql: SqlType) -> Read:
        """Mark a published text for neutralization; texts of other types, such as -0.50, are no formulas."""
        return replace(read, neutralized=True) if self._neutralized and sql.name in TEXTS else read

    def _real(self, name: str, sql: SqlType) -> Read:
        return Read(name, "real", self._add(_cast(name, sql, "DOUBLE"), (name, "number")), self._missing(name, sql))

    def _integer(self, name: str, sql: SqlType) -> Read:
        # pandas has no missing integers: without COALESCE they would become float64 and lose digits.
        value = _cast(name, sql, "BIGINT")
        return Read(
            name,
            "integer",
            self._add(f"COALESCE({value}, CAST(0 AS BIGINT))" if sql.nullable else value, (name, "integer")),
            self._missing(name, sql),
        )


def member_kind(role: str, sql: SqlType) -> Kind:
    """Return the form in which a column that is published unchanged passes through the operator."""
    # A timestamp as text costs ten times as much. Sensitive columns stay text, because their codes derive from it.
    if role == "passthrough" and sql.name == "TIMESTAMP" and (sql.precision or 0) <= _MILLISECONDS:
        return "timestamp"
    if sql.name in CARRIED:
        return "bytes"
    if sql.name in INTEGERS:
        return "integer"
    if sql.name in _REALS:
        return "real"
    return "boolean" if sql.name == "BOOLEAN" else "text"


def _as_text(name: str, sql: SqlType) -> str:
    """Return a column as text; FLOAT and DOUBLE as they are, because their text in SQL depends on the Java version."""
    return quote(name) if sql.name in ("STRING", "VARCHAR", *_REALS) else _cast(name, sql, "STRING")


def _is_clock(sql: SqlType) -> bool:
    """Return whether Flink writes a type as times of day with a fraction."""
    return sql.name == "TIME" and bool(sql.precision)


def _arrow_type(sql: SqlType) -> pa.DataType | None:
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


def _cast_time(name: str, sql: SqlType) -> str:
    """Return a day or a time in milliseconds."""
    # As a TIMESTAMP, an instant would have the session's time of day. It arrives in UTC, as event time does.
    return _cast(name, sql, "TIMESTAMP_LTZ(3)" if sql.name == "TIMESTAMP_LTZ" else "TIMESTAMP(3)")


def _cast(name: str, sql: SqlType, target: str) -> str:
    return quote(name) if sql.name == target else f"CAST({quote(name)} AS {target})"


def extremes(sql: SqlType) -> tuple[float, float] | None:
    """Return the minimum and maximum of a numeric type, of a time in epoch milliseconds; None where there are none."""
    if sql.limits is not None:
        return sql.limits
    if sql.name in INSTANTS:
        return float(EARLIEST), float(LATEST)
    if sql.name in INTEGERS:
        return -(2.0 ** (INTEGERS[sql.name] - 1)), float(2 ** (INTEGERS[sql.name] - 1) - 1)
    if sql.name == "DECIMAL":
        largest = (10 ** (sql.precision or 0) - 1) / 10**sql.scale
    elif sql.name in _REALS:
        largest = _REALS[sql.name]
    else:
        return None
    return -largest, largest
