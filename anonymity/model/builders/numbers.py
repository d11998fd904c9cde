"""Hierarchies of numbers by intervals of growing width.

An example are the years of birth of (k, epsilon)-anonymity, Table I.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder
from crenel.anonymity.model.fields import AboveZero, Items, Real, about, setting

_EXACTLY = Context(prec=60)
"""Decimal precision sufficient for sums and products.

A float64 needs 17 digits, and no leaf is farther than 2^52 widths from 0.
"""

_FARTHEST = 2**52
"""Maximum distance of a leaf from 0, in leaf widths; beyond it, float64 cannot distinguish two leaves."""


@setting
class Numbers(Builder):
    """A hierarchy of numbers: intervals of increasing width, ``[origin + i * width, origin + (i + 1) * width)``.

    Attributes
    ----------
    domain : lowest and highest number, both included, in the unit of the column; from one leaf to 2^20
    levels : widths of intervals, each a multiple of the one before, the leaves first
    origin : a number at which an interval of every width begins
    whole : whether only whole numbers are known, with labels such as ``20`` and ``20-23``, and none with a fraction,
        whose labels are such as ``[20, 24)``
    open : whether the leaf of the highest number has no upper end, and contains every larger number; its label is such
        as ``90+`` or ``>= 90``
    """

    domain: Annotated[tuple[Real, Real], about("[lowest, highest], two finite numbers")]
    levels: Annotated[
        Items[AboveZero],
        about("widths, each a multiple of the one before, the leaves first, such as [1, 2, 4, 8]"),
    ]
    origin: Annotated[Real, about("a number at which an interval of every width begins")] = 0.0
    whole: Annotated[bool, about("true, or false for numbers with a fraction")] = True
    open: Annotated[bool, about("true or false: whether the highest leaf takes all larger numbers")] = False

    kind: ClassVar[Literal["number"]] = "number"

    def __post_init__(self) -> None:
        lowest, highest = self.domain
        if not lowest <= highest:
            raise BuilderError("domain", "must be two numbers, the lower one first")
        if not self.levels or min(self.levels) <= 0:
            raise BuilderError("levels", "must be widths above 0, such as [1, 2, 4, 8]")
        if self.whole:
            for field, numbers in (("domain", self.domain), ("levels", self.levels), ("origin", (self.origin,))):
                if not all(float(number).is_integer() for number in numbers):
                    raise BuilderError(field, "must be whole; for numbers with a fraction say 'whole: false'")
        with localcontext(_EXACTLY):
            for narrow, wide in pairwise(map(_exact, self.levels)):
                if wide <= narrow or wide % narrow != 0:
                    raise BuilderError(
                        "levels", "must nest: each width is a multiple of the one before, such as [1, 2, 4, 8]"
                    )
        width = self.levels[0]
        if max(abs(lowest), abs(highest), abs(self.origin)) > _FARTHEST * width:
            raise BuilderError("levels", "begins with too small a width; no end may be more than 2^52 of them from 0")
        first, last = self._leaf_range()
        if last - first >= MOST_LEAVES:
            raise BuilderError(
                "domain",
                f"makes {last - first + 1} leaves, and a hierarchy has 2^20 at most; narrow it, or begin levels with a "
                "larger width",
            )

    def paths(self) -> list[tuple[str, ...]]:
        first, last = self._leaf_range()
        with localcontext(_EXACTLY):
            narrowest = _exact(self.levels[0])
            widths = [(_exact(width), int(_exact(width) / narrowest)) for width in self.levels]
            labels: list[dict[int, str]] = [{} for _ in widths]
            for (width, leaves), known in zip(widths, labels, strict=True):
                for group in range(first // leaves, last // leaves + 1):
                    known[group] = self._label(group, width, with_last=group == last // leaves)
        return [
            (*(known[leaf // leaves] for (_, leaves), known in zip(widths, labels, strict=True)), ROOT)
            for leaf in range(first, last + 1)
        ]

    def finder(self) -> Finder:
        first, last = self._leaf_range()
        with localcontext(_EXACTLY):
            origin, width = _exact(self.origin), _exact(self.levels[0])
            starts = np.array([float(origin + leaf * width) for leaf in range(first, last + 1)])
        # In the type of the values: a float32 of 0.7 is less than a float64 of 0.7.
        ends = {
            dtype: (starts.astype(dtype), *np.array(self.domain).astype(dtype))
            for dtype in (np.dtype(np.float64), np.dtype(np.float32))
        }

        def find(values: NDArray[Any]) -> NDArray[np.intp]:
            starts, lowest, highest = ends[values.dtype]
            known = values >= lowest
            if not self.open:
                known &= values <= highest
            if self.whole:
                known &= values == np.floor(values)
            return np.where(known, np.searchsorted(starts, values, side="right") - 1, -1)

        return find

    def _leaf_range(self) -> tuple[int, int]:
        """Return the numbers of the first and the last leaf, counted from the origin."""
        with localcontext(_EXACTLY):
            origin, width = _exact(self.origin), _exact(self.levels[0])
            first, last = (
                int(((_exact(end) - origin) / width).to_integral_value("ROUND_FLOOR")) for end in self.domain
            )
            return first, last - 1 if self._closed(origin + last * width) and last > first else last

    def _closed(self, end: Decimal) -> bool:
        """Return whether intervals that end at ``end`` include it, because the domain ends there."""
        return not self.whole and not self.open and end == _exact(self.domain[1])

    def _label(self, group: int, width: Decimal, *, with_last: bool) -> str:
        start = _exact(self.origin) + group * width
        if self.open and with_last:
            return f"{start:f}+" if self.whole else f">= {_shown(start)}"
        if not self.whole:
            end = start + width
            return f"[{_shown(start)}, {_shown(end)}{']' if with_last and self._closed(end) else ')'}"
        if width == 1:
            return f"{start:f}"
        between = " to " if self.domain[0] < 0 else "-"
        return f"{start:f}{between}{start + width - 1:f}"


def _exact(number: float) -> Decimal:
    """Return the shortest decimal of a float64, such as 0.1, and not its exact binary value."""
    exact = Decimal(repr(float(number)))
    return exact.to_integral_value() if exact == exact.to_integral_value() else exact


def _shown(number: Decimal) -> str:
    """Return a decimal without trailing zeros."""
    return f"{number.normalize():f}"
