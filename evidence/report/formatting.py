"""Numbers and labels as the page writes them."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 30


def count(amount: float) -> str:
    """A number of rows, with thousands apart."""
    return f"{round(amount):,}"


def share(part: float, whole: float) -> str:
    """A part of a whole in percent, which is none or all only where the part is; a dash where there is no whole."""
    if not whole:
        return "-"
    found = part / whole
    if 0 < found < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= found < 1 else f"{found:.1%}"


def number(value: float) -> str:
    """A number of an attribute, as short as it can be written."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.12g}"


def plain(text: str) -> str:
    """A text of the user's without what no page can show: control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def short(text: str) -> str:
    """The beginning of a text that is too long for a picture."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
