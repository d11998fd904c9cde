"""Values of text in SQL that Flink's casts do not read, as functions in Java.

These are times of RFC 3339 and ISO 8601, and decimals and times as Debezium and Kafka Connect write them in JSON.
``crenel.operators.encode.try_cast.time`` is the same function for records that encode reads.
"""

from __future__ import annotations

from crenel.jobs.pipeline.packing import JavaFunction, java_function
from crenel.operators.column_types import INSTANTS, ColumnType, parse
from crenel.operators.encode.columns import EARLIEST, LATEST

INSTANT = "crenel_instant"
"""Name of the function that statements of a configuration may call: the TIMESTAMP_LTZ(3) of a text."""

CLASS = """
/** Times of text, as crenel.operators.encode.try_cast reads them. */
public class ReadTime {
    private static final java.util.regex.Pattern FORM = java.util.regex.Pattern.compile(
        " *([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ Tt]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.]([0-9]+))?)?"
        + "(?:[Zz]|([+-])([01][0-9]|2[0-3]):?([0-5][0-9])?)?)? *");

    private static java.time.LocalDateTime utc(String text, int precision) {
        java.util.regex.Matcher found = FORM.matcher(text);
        if (!found.matches()) {
            return null;
        }
        String minute = found.group(2) == null ? "00:00" : found.group(2);
        String second = found.group(3) == null ? "00" : found.group(3);
        String digits = ((found.group(4) == null ? "" : found.group(4)) + "000000000").substring(0, precision);
        java.time.LocalDateTime time;
        try {
            time = java.time.LocalDateTime.parse(found.group(1) + "T" + minute + ":" + second);
        } catch (java.time.DateTimeException error) {
            return null;
        }
        time = time.withNano(Integer.parseInt((digits + "000000000").substring(0, 9)));
        if (found.group(5) != null) {
            long hours = Long.parseLong(found.group(6));
            long minutes = 60 * hours + (found.group(7) == null ? 0 : Long.parseLong(found.group(7)));
            time = time.minusMinutes(found.group(5).equals("-") ? -minutes : minutes);
        }
        return time.getYear() < 1 || time.getYear() > 9999 ? null : time;
    }

    /** Returns the time of a text in UTC; null where it is none. */
    public static org.apache.flink.table.data.TimestampData timestamp(String text, int precision) {
        java.time.LocalDateTime time = utc(text, precision);
        return time == null ? null : org.apache.flink.table.data.TimestampData.fromLocalDateTime(time);
    }

    /** Returns the days from 1970 to the day of a text in UTC; null where it is none. */
    public static Integer day(String text) {
        java.time.LocalDateTime time = utc(text, 0);
        return time == null ? null : new Integer((int) time.toLocalDate().toEpochDay());
    }
}
"""
"""A class of all functions, in the jar of each of them: one class loader has them all, and takes it from one jar."""


def value_of(sql: ColumnType) -> str | None:
    """Return the Java expression of the value of ``text``; None for a type that is no time in UTC."""
    if sql.name not in INSTANTS:
        return None
    return "ReadTime.day(text)" if sql.name == "DATE" else f"ReadTime.timestamp(text, {sql.precision})"


def time_function(sql: ColumnType) -> JavaFunction:
    """Return the function from text to a type of ``INSTANTS``; a text that is no time is missing."""
    result = "Integer" if sql.name == "DATE" else "org.apache.flink.table.data.TimestampData"
    body = f"""public {result} eval(StringData value) {{
        if (value == null) {{
            return null;
        }}
        String text = value.toString();
        return {value_of(sql)};
    }}"""
    return java_function("time", sql.text, "Times of text.", ["STRING"], sql.text, body, CLASS)


_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_MEMBERS = {"variable_scale": ("scale", "value")}
_LARGEST_SCALE = 16_383
"""Maximum scale of a decimal of PostgreSQL.

A record could give one with which a decimal of a few bytes takes gigabytes.
"""

_DECIMAL = "DecimalData.fromBigDecimal(new java.math.BigDecimal(UNSCALED, OWN), PRECISION, SCALE)".replace(
    "UNSCALED", "new java.math.BigInteger(java.util.Base64.getDecoder().decode(value))"
)
_SECONDS, _REST = "Math.floorDiv(Long.parseLong(value), PARTSL)", "Math.floorMod(Long.parseLong(value), PARTSL)"
_UTC = (
    f"java.time.LocalDateTime.ofEpochSecond({_SECONDS}, (int) ({_REST} * NANOSL / STEPL * STEPL), "
    "java.time.ZoneOffset.UTC)"
)
_VALUES = {
    "base64": ("true", _DECIMAL.replace("OWN", "SCALE")),
    "variable_scale": (
        f"Math.abs((long) Integer.parseInt(scale)) <= {_LARGEST_SCALE}",
        _DECIMAL.replace("OWN", "Integer.parseInt(scale)"),
    ),
    "days": (
        f"Integer.parseInt(value) >= {EARLIEST // 86_400_000} && Integer.parseInt(value) <= {LATEST // 86_400_000}",
        "new Integer(Integer.parseInt(value))",
    ),
    "TIMESTAMP": (
        f"{_SECONDS} >= {EARLIEST // 1000}L && {_SECONDS} <= {LATEST // 1000}L",
        f"TimestampData.fromLocalDateTime({_UTC})",
    ),
    "TIME": (
        f"{_SECONDS} >= 0 && {_SECONDS} < 86400",
        "new Integer((int) (Long.parseLong(value) * 1000 / PARTSL / MILLISL * MILLISL))",
    ),
}
"""Condition of a valid value, and the value: by encoding, or by type of a number of parts of a second."""

_RESULTS = {"DECIMAL": "DecimalData", "DATE": "Integer", "TIME": "Integer"}


def encoded_function(sql: ColumnType, encoding: str) -> JavaFunction:
    """Return the function from the text of an encoded value to its type; a text of another form is missing.

    Its arguments are the texts of ``encoded_members``, if there are any.

    Parameters
    ----------
    sql : type of the result
    encoding : of ``crenel.jobs.formats.json_records.JsonFieldSection``
    """
    name = "TIMESTAMP" if sql.name == "TIMESTAMP_LTZ" else sql.name
    condition, value = _VALUES[name if encoding in _PER_SECOND else encoding]
    members = encoded_members(encoding) or ("value",)
    given = ", ".join(f"StringData {member}Text" for member in members)
    body = f"""public {_RESULTS.get(name, "TimestampData")} eval({given}) {{
        if ({" || ".join(f"{member}Text == null" for member in members)}) {{
            return null;
        }}
        {" ".join(f"String {member} = {member}Text.toString();" for member in members)}
        try {{
            if ({condition}) {{
                return {value};
            }}
            return null;
        }} catch (RuntimeException error) {{
            return null;
        }}
    }}"""
    parts, precision = _PER_SECOND.get(encoding, 1), sql.precision or 0
    numbers = {"PARTS": parts, "NANOS": 10**9 // parts, "PRECISION": precision, "SCALE": sql.scale}
    numbers |= {"STEP": 10 ** (9 - precision), "MILLIS": 10 ** max(3 - precision, 0)}
    for placeholder, number in numbers.items():
        body = body.replace(placeholder, str(number))
    return java_function(encoding, sql.text, "Encoded values.", ["STRING"] * len(members), sql.text, body)


def encoded_members(encoding: str | None) -> tuple[str, ...]:
    """Return the members of the object that an encoding writes for a value; empty where it writes no object."""
    return _MEMBERS.get(encoding or "", ())


def instant_function() -> JavaFunction:
    """Return the function of the name ``INSTANT``."""
    made = time_function(parse("TIMESTAMP_LTZ(3)"))
    return JavaFunction(INSTANT, made.class_name, made.source)


def calls_instant(statement: str) -> bool:
    """Return whether a statement may call the function of the name ``INSTANT``."""
    return INSTANT in statement.lower()
