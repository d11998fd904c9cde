"""SQL of the arguments of encode, and of the published columns over the rows of the operator."""

from __future__ import annotations

from collections.abc import Mapping

from crenel.jobs.pipeline.packing import packed
from crenel.operators.column_types import INTEGERS, REALS, ColumnType, element_of
from crenel.operators.encode.columns import Argument


def literal(text: str) -> str:
    """Quote a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quote(name: str) -> str:
    """Quote an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def options_sql(options: Mapping[str, str]) -> str:
    """Return options as a statement has them after WITH, without its parentheses."""
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in options.items())


def argument(of: Argument, sql: ColumnType) -> str:
    """Return the SQL expression of an argument of encode; ``sql``: type of its column.

    If no column needs an expression of its own, Flink copies no rows on their way to Python.
    """
    name, form = of
    column = quote(name)
    if form == "missing":
        return f"{column} IS NULL"
    if form == "watermark":
        return f"CURRENT_WATERMARK({column})"
    if form == "packed":
        return packed(column, sql)
    if form == "integer":
        # pandas has no missing integers: without COALESCE they would become float64 and lose digits.
        value = cast(column, sql.name, "BIGINT")
        return f"COALESCE({value}, CAST(0 AS BIGINT))" if sql.nullable else value
    if form == "number":
        return column if sql.name in INTEGERS else cast(column, sql.name, "DOUBLE")
    if form == "list":
        return cast(column, sql.text, f"ARRAY<{'BIGINT' if _is_of_integers(sql) else 'STRING'}>")
    if form == "time" or (form == "day" and sql.name != "DATE"):  # Flink's CAST of a time to DATE rounds towards 1970
        # As a TIMESTAMP, an instant would have the session's time of day. It arrives in UTC, as event time does.
        if sql.name == "TIMESTAMP_LTZ":
            return column if sql.rowtime else f"CAST({column} AS TIMESTAMP_LTZ(3))"
        return f"CAST({column} AS TIMESTAMP(3))"
    # A FLOAT or DOUBLE comes as it is, because its text in SQL depends on the Java version.
    is_kept = form == "boolean" or sql.name in ("STRING", "VARCHAR", *REALS)
    return column if is_kept else f"CAST({column} AS STRING)"


def _is_of_integers(array: ColumnType) -> bool:
    element = element_of(array)
    return element is not None and element.name in INTEGERS


def instant(milliseconds: str, sql: ColumnType) -> str:
    """Return the day or the timestamp of a number of epoch milliseconds, rounded down to the type."""
    if sql.name == "TIMESTAMP_LTZ":
        return cast(f"TO_TIMESTAMP_LTZ({milliseconds}, 3)", "TIMESTAMP_LTZ(3)", sql.text)
    # This form is independent of the session's time zone, and exact in all years. Flink 1.20 has no TIMESTAMPADD of
    # milliseconds.
    stamp = f"TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL '0.001' SECOND * {milliseconds}"
    return cast(stamp, "TIMESTAMP(3)", sql.text)


def cast(column: str, has: str, wanted: str) -> str:
    """Return a column as another type; as it is where it has that type."""
    return column if has == wanted else f"CAST({column} AS {wanted})"
