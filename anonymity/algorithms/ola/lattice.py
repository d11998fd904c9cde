"""Lattice of generalizations, the search for its satisfying node of minimum loss, and the loss metrics.

A node is a level for each attribute. The classes of a node above it, in which no level is lower, are unions of its
classes. So if a class has too few subjects or values, its parts have too few as well, and a node with too many tuples
in such classes excludes all nodes below it. This is the predictive tagging of El Emam and others, "A globally optimal
k-anonymity method for the de-identification of health data", JAMIA 2009. The paper tags in both directions, because a
node above a k-anonymous one is k-anonymous. Here it may violate a privacy model: a class that satisfies it may be
united with suppressed tuples, and a person may have a tuple in both. So nodes that are not excluded are tested
themselves, by rising loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

Node = tuple[int, ...]


def least_node(
    levels: Node,
    loss: Callable[[Node], float],
    satisfies: Callable[[Node], bool],
    possible: Callable[[Node], bool],
) -> Node | None:
    """Return a satisfying node of minimum loss, without an equal one below it; None if no node satisfies.

    The search excludes nodes by ``possible``, and tests the others by rising loss until one satisfies. If all possible
    nodes satisfy, this is the first, and the search is that of the paper.

    Parameters
    ----------
    levels : number of levels of each attribute, 1 or more
    loss : returns the loss of a node, which is that of any node below it or more
    satisfies : returns whether a node satisfies
    possible : returns false only if neither a node nor any node below it satisfies
    """
    if not possible(tuple(size - 1 for size in levels)):
        return None
    seen = set(minimal_nodes(levels, possible))
    waiting = [(loss(node), node) for node in seen]
    heapify(waiting)
    while waiting:
        _, node = heappop(waiting)
        if satisfies(node):
            return node
        for a, size in enumerate(levels):
            above = (*node[:a], node[a] + 1, *node[a + 1 :])
            if above[a] < size and above not in seen:
                seen.add(above)
                heappush(waiting, (loss(above), above))
    return None


def minimal_nodes(levels: Node, satisfies: Callable[[Node], bool]) -> list[Node]:
    """Return the satisfying nodes without satisfying nodes below them; the highest node must satisfy.

    A binary search along a path from an undecided node to the top finds its first satisfying node (OLA, Figure 4). The
    search repeats until every node is decided, so the result is exact if all nodes above a satisfying one satisfy.

    Parameters
    ----------
    levels : number of levels of each attribute, 1 or more
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
    """Return a path from a node to the top that raises the attributes in turn."""
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


def precision(node: Node, levels: Node) -> float:
    """Return the precision loss of a node, from 0 (nothing generalized) to 1 (everything).

    It is the mean over the attributes of level / highest level (Sweeney's Prec, as a loss).
    """
    shares = [level / (size - 1) for level, size in zip(node, levels, strict=True) if size > 1]
    return sum(shares) / max(len(levels), 1)


def discernibility(sizes: NDArray[np.int64]) -> float:
    """Return the discernibility loss, given the sizes of all classes.

    It is the sum of their squares, suppressed classes included (DM*). Bayardo and Agrawal (2005) charge the window's
    size per suppressed tuple. With that penalty a node could lose less than one below it, and ``least_node`` would have
    to test all nodes.
    """
    return float((sizes.astype(np.float64) ** 2).sum())


def entropies(leaf: NDArray[np.int32], levels: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
    """Return the bits lost at each level of each attribute.

    They measure the uncertainty about a value given its generalization, summed over all tuples (non-uniform entropy:
    Gionis and Tassa, 2007).

    Parameters
    ----------
    leaf : (tuples, attributes) leaf of each value
    levels : for each attribute (levels, leaves), the node of each leaf at each level
    """
    lost_bits = []
    for a, nodes in enumerate(levels):
        tuples = np.bincount(leaf[:, a], minlength=nodes.shape[1]).astype(np.float64)
        bits = np.zeros(len(nodes))
        for level, node_of_leaf in enumerate(nodes):
            above = np.bincount(node_of_leaf, weights=tuples)[node_of_leaf]
            some = tuples > 0
            bits[level] = (tuples[some] * np.log2(above[some] / tuples[some])).sum()
        lost_bits.append(bits)
    return lost_bits
