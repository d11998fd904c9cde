"""Flink's ``TRY_CAST`` for single texts, and times, of which a cast reads only a part.

Texts that only Flink accepts as numbers are not numbers here: ``1d`` or ``0x1p3`` as DOUBLE, and ``.`` as a whole
number. For DECIMAL these are digits of other scripts, or any single character, which is 0 in Flink. A DECIMAL that
rounds up to more digits than its type has is not accepted either.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np

WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Number of bits by type."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"([+-]?\d+)(\.\d*)?|[+-]?\.\d+", re.ASCII)
_NO_FINITE = {"NaN": np.nan, "Infinity": np.inf, "+Infinity": np.inf, "-Infinity": -np.inf}
_TRUTHS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
DAY = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])-\d\d-\d\d"
"""Regular expression of a day from year 1 to year 9999."""

OFFSET = r"[+-](?:[01]\d|2[0-3]):[0-5]\d"
"""Regular expression of an offset from UTC as RFC 3339 writes it."""

_TIME = re.compile(
    rf"({DAY})(?:[ Tt](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-])([01]\d|2[0-3]):?([0-5]\d)?)?)?", re.ASCII
)
_UP_TO_SPACE = "".join(map(chr, range(33)))
_MOST_DIGITS = 19
"""Maximum number of digits of a whole number in a type of ``WHOLE``."""

_DIGITS = Context(prec=100, rounding=ROUND_HALF_UP)


def truth(text: str) -> bool | None:
    """Return a text as BOOLEAN; None where it is not one."""
    return _TRUTHS.get(text.lower())


def integer(text: str) -> int | None:
    """Return a text as a whole number without its fraction; None where it is not one or no type can represent it."""
    found = _INTEGER.fullmatch(text.strip(" "))
    if found is None:
        return None
    written = found[1] or "0"
    digits = written.lstrip("+-").lstrip("0") or "0"
    # Python refuses to read thousands of digits, and such a number fits no type.
    if len(digits) > _MOST_DIGITS:
        return None
    return -int(digits) if written.startswith("-") else int(digits)


def time(text: str, digits: int) -> datetime | None:
    """Return the time of a text in UTC, with ``digits`` digits of a second; None where the text is not a time.

    A time is of RFC 3339, or of ISO 8601 with a shorter offset, or without seconds, offset, or time of day. Without an
    offset it is of UTC. ``crenel.jobs.pipeline.sql_times`` is the same function for SQL.

    Examples
    --------
    >>> str(time("2024-03-31T01:30:00+02:00", 3)), time("1:30", 3)
    ('2024-03-30 23:30:00', None)
    """
    found = _TIME.fullmatch(text.strip(" "))
    if found is None:
        return None
    day, minute, second, fraction, sign, hours, minutes = found.groups(default="")
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        whole = datetime.fromisoformat(f"{day} {minute or '00:00'}:{second or '00'}")
        whole += offset if sign == "-" else -offset
    except (ValueError, OverflowError):  # not in the calendar, or not on the clock
        return None
    return whole.replace(microsecond=int(fraction[:digits].ljust(6, "0")[:6]))


def real(text: str) -> float | None:
    """Return a text as DOUBLE; None where it is not one."""
    text = text.strip(_UP_TO_SPACE)
    return float(text) if _NUMBER.fullmatch(text) else _NO_FINITE.get(text)


def decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Return a text as DECIMAL(precision, scale); None where it is not one or does not fit."""
    text = text.strip(_UP_TO_SPACE)
    if not _NUMBER.fullmatch(text):
        return None
    try:
        found = Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
    except InvalidOperation:  # far too large
        return None
    if found.adjusted() >= precision - scale:
        return None
    return _DIGITS.plus(found)  # there is no -0.0
