"""The lattice of generalizations, and the search for its minimal nodes.

A node is a level for each attribute. What satisfies at one node does so at every node above it, in which no level is
lower (El Emam and others, "A globally optimal k-anonymity method for the de-identification of health data", JAMIA 2009:
predictive tagging). So each node that was judged settles all above it, or all below. Of promises under which a part may
satisfy and the whole not, that is a guess: a node that is found satisfies, but one below it may as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Node = tuple[int, ...]


def minimal_nodes(levels: Node, satisfies: Callable[[Node], bool]) -> list[Node]:
    """The nodes that satisfy and have none below them that does; the highest node must satisfy.

    Along a way from an undecided node to the top the first that satisfies is found by halves (OLA, Figure 4), until
    every node is decided: exact, however large the lattice.

    Parameters
    ----------
    levels : of each attribute, 1 or more
    """
    decided = np.zeros(levels, np.int8)  # 1: satisfies, -1: does not
    decided[tuple(size - 1 for size in levels)] = 1
    height = np.indices(levels).sum(axis=0) if levels else np.zeros((), np.int64)
    while True:
        undecided = np.flatnonzero(decided == 0)
        if not undecided.size:
            return _minimal(decided)
        lowest = undecided[np.argmin(height.ravel()[undecided])]
        way = _way_up(tuple(int(i) for i in np.unravel_index(lowest, levels)), levels)
        low, high = 0, len(way) - 1  # the top satisfies
        while low < high:
            middle = (low + high) // 2
            if _settle(decided, way[middle], satisfies):
                high = middle
            else:
                low = middle + 1


def _settle(decided: NDArray[np.int8], node: Node, satisfies: Callable[[Node], bool]) -> bool:
    if decided[node] == 0:
        if satisfies(node):
            above = decided[tuple(slice(level, None) for level in node)]
            above[above == 0] = 1
        else:
            below = decided[tuple(slice(level + 1) for level in node)]
            below[below == 0] = -1
    return bool(decided[node] == 1)


def _way_up(node: Node, levels: Node) -> list[Node]:
    """From a node to the top, the attributes in turn."""
    way = [node]
    while any(level < size - 1 for level, size in zip(way[-1], levels, strict=True)):
        for a, size in enumerate(levels):
            last = way[-1]
            if last[a] < size - 1:
                way.append((*last[:a], last[a] + 1, *last[a + 1 :]))
    return way


def _minimal(decided: NDArray[np.int8]) -> list[Node]:
    satisfies = decided == 1
    minimal = satisfies.copy()
    for a in range(satisfies.ndim):
        below = np.zeros_like(satisfies)
        upper = [slice(None)] * satisfies.ndim
        lower = list(upper)
        upper[a], lower[a] = slice(1, None), slice(None, -1)
        below[tuple(upper)] = satisfies[tuple(lower)]
        minimal &= ~below
    return [tuple(int(i) for i in node) for node in np.argwhere(minimal)]
