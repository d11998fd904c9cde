"""Who, or what, is behind each generalization that left, as whoever has the input can count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def behind(
    released: Iterable[Mapping[str, Any]], generalized: Sequence[str], of: Callable[[Mapping[str, Any]], str]
) -> dict[tuple[str, ...], set[str]]:
    """``of`` each released row, by its values in the generalized columns."""
    found = defaultdict(set)
    for row in released:
        found[tuple(str(row[name]) for name in generalized)].add(of(row))
    return found
