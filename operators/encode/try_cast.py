"""Flink's ``TRY_CAST`` for single texts.

Texts that only Flink accepts as numbers are not numbers here: ``1d`` or ``0x1p3`` as DOUBLE, and ``.`` as a whole
number. For DECIMAL these are digits of other scripts, or any single character, which is 0 in Flink. A DECIMAL that
rounds up to more digits than its type has is not accepted either.
"""

from __future__ import annotations

import re
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
