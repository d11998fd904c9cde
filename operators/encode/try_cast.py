"""What Flink's ``TRY_CAST`` makes of one text.

A text that Flink takes for a number and nobody else does is none here: ``1d`` or ``0x1p3`` as DOUBLE, ``.`` as whole
number, and as DECIMAL digits of other scripts or any single character, which is 0 there. Nor is a DECIMAL that is
rounded up to more digits than its type has.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np

WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Bits by type."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"([+-]?\d+)(\.\d*)?|[+-]?\.\d+", re.ASCII)
_NO_FINITE = {"NaN": np.nan, "Infinity": np.inf, "+Infinity": np.inf, "-Infinity": -np.inf}
_TRUTHS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_UP_TO_SPACE = "".join(map(chr, range(33)))
_MOST_DIGITS = 19
"""Digits of the longest whole number that a type of ``WHOLE`` holds."""

_DIGITS = Context(prec=100, rounding=ROUND_HALF_UP)


def truth(text: str) -> bool | None:
    """A text as BOOLEAN; None where it is none."""
    return _TRUTHS.get(text.lower())


def integer(text: str) -> int | None:
    """A text as a whole number: what is behind its point is left out; None where it is none or no type holds it."""
    found = _INTEGER.fullmatch(text.strip(" "))
    if found is None:
        return None
    written = found[1] or "0"
    digits = written.lstrip("+-").lstrip("0") or "0"
    # Python refuses to read thousands of digits, and a number of so many fits no type.
    if len(digits) > _MOST_DIGITS:
        return None
    return -int(digits) if written.startswith("-") else int(digits)


def real(text: str) -> float | None:
    """A text as DOUBLE; None where it is none."""
    text = text.strip(_UP_TO_SPACE)
    return float(text) if _NUMBER.fullmatch(text) else _NO_FINITE.get(text)


def decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """A text as DECIMAL(precision, scale), with so many decimals; None where it is none or does not fit."""
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
