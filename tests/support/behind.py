"""Persons and rows behind each published generalization, counted with knowledge of the input."""

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
