"""Durations as text, such as ``10 min``: in configurations, options and results of commands."""

from __future__ import annotations

import re

LONGEST = 36_525 * 86_400_000
"""Maximum of a duration in milliseconds: a century, which no epoch time plus a delay overflows."""

MINUTE = 60_000
"""Milliseconds of a minute."""

_UNITS = {"day": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
_SPELLINGS = {"": "ms", "millisecond": "ms", "sec": "s", "second": "s", "minute": "min", "hour": "h", "d": "day"}


def parse_duration(text: str) -> int:
    """Return the milliseconds of a whole number with an optional unit; without one, it counts milliseconds.

    Raises
    ------
    ValueError
        The text is not a duration.
    """
    found = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    for name in (found[2], found[2].removesuffix("s")) if found else ():
        scale = _UNITS.get(_SPELLINGS.get(name, name))
        if found and scale is not None:
            return int(found[1]) * scale
    raise ValueError("is not a duration")


def format_duration(milliseconds: int) -> str:
    """Return a duration as a configuration writes it, in the largest unit of which it is a whole number."""
    unit = next(unit for unit, scale in _UNITS.items() if milliseconds % scale == 0)
    return f"{milliseconds // _UNITS[unit]} {unit}"
