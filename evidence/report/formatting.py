"""Formats of numbers and labels on the page."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 30


def count(amount: float) -> str:
    """Return a number of rows with thousands separators."""
    return f"{round(amount):,}"


def share(part: float, whole: float) -> str:
    """Return a share in percent, 0 % or 100 % only if exact; a dash where the whole is 0."""
    if not whole:
        return "-"
    found = part / whole
    if 0 < found < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= found < 1 else f"{found:.1%}"


def number(value: float) -> str:
    """Return the shortest form of an attribute's number."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.12g}"


def plain(text: str) -> str:
    """Replace control characters, which no page can show."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def short(text: str) -> str:
    """Truncate a text that is too long for a picture."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence."""
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
