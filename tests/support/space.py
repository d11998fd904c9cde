"""The space of quasi-identifiers, for the checker: plain Python on labels and parents of hierarchies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, inf
from typing import NamedTuple

from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.anonymity.model.policy import Policy
from tests.support.source import Row


class Box(NamedTuple):
    """A generalization: intervals, and nodes of the hierarchies. A tuple is one of no width, with leaves."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    node: tuple[int, ...]


class Ranges(NamedTuple):
    """Declared or observed ranges of the numeric attributes, from when ``since`` tuples had come."""

    since: int
    lower: tuple[float, ...]
    upper: tuple[float, ...]


class Tree:
    """A hierarchy, computed from its labels and parents only."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        parent = hierarchy.parent.tolist()
        self.root = next(node for node, above in enumerate(parent) if node == above)
        inner = {above for node, above in enumerate(parent) if node != above}
        leaves = [node for node in range(len(parent)) if node not in inner]
        self.leaf = {hierarchy.labels[leaf]: leaf for leaf in leaves}
        self._way = {leaf: self._climb(leaf, parent) for leaf in leaves}
        self.above = {leaf: frozenset(way) for leaf, way in self._way.items()}
        self._below = Counter(node for way in self._way.values() for node in way)

    @staticmethod
    def _climb(leaf: int, parent: Sequence[int]) -> list[int]:
        way = [leaf]
        while parent[way[-1]] != way[-1]:
            way.append(parent[way[-1]])
        return way

    def loss(self, node: int) -> float:
        """VInfoLoss of a node (CASTLE, Section 2.2)."""
        return (self._below[node] - 1) / (len(self._way) - 1) if len(self._way) > 1 else 0.0

    def ancestor(self, leaves: Iterable[int]) -> int:
        """Return the lowest node above all leaves (CASTLE, Definition 3.2)."""
        distinct = list(set(leaves))
        return next(node for node in self._way[distinct[0]] if all(node in self.above[leaf] for leaf in distinct))

    def child(self, node: int, leaf: int) -> int:
        """Return the child of a node that stands above a leaf; the node itself where that is the leaf."""
        way = self._way[leaf]
        return way[max(way.index(node) - 1, 0)]


class Space:
    """Space of the quasi-identifiers of a policy."""

    def __init__(self, policy: Policy) -> None:
        names = [attribute.name for attribute in policy.attributes]
        self._numeric = [names.index(attribute.name) for attribute in policy.numeric]
        self._categorical = [names.index(attribute.name) for attribute in policy.categorical]
        self._domains = [attribute.domain for attribute in policy.numeric]
        self._ends = [attribute.ends for attribute in policy.numeric]
        self.trees = [Tree(attribute.hierarchy) for attribute in policy.categorical]

    def nothing_seen(self) -> Ranges:
        """Return the ranges before the first tuple."""
        bounds = [domain or (inf, -inf) for domain in self._domains]
        return Ranges(0, tuple(lower for lower, _ in bounds), tuple(upper for _, upper in bounds))

    def widened(self, seen: Ranges, point: Box, since: int) -> Ranges:
        """Return the ranges after one more tuple; ``seen`` itself where they are the same."""
        free = [domain is None for domain in self._domains]
        lower = tuple(min(a, b) if f else a for a, b, f in zip(seen.lower, point.lower, free, strict=True))
        upper = tuple(max(a, b) if f else a for a, b, f in zip(seen.upper, point.upper, free, strict=True))
        return seen if (lower, upper) == seen[1:] else Ranges(since, lower, upper)

    def point(self, row: Row) -> Box:
        """Return the position of a tuple."""
        numbers = tuple(float(row.values[i]) for i in self._numeric)
        pairs = zip(self.trees, self._categorical, strict=True)
        return Box(numbers, numbers, tuple(tree.leaf[str(row.values[i])] for tree, i in pairs))

    def contains(self, box: Box, point: Box) -> bool:
        """Return whether a published generalization covers a tuple."""
        intervals = zip(box.lower, point.lower, box.upper, strict=True)
        nodes = zip(self.trees, box.node, point.node, strict=True)
        return all(a <= x <= b for a, x, b in intervals) and all(node in tree.above[leaf] for tree, node, leaf in nodes)

    def around(self, points: Sequence[Box]) -> Box:
        """Return the least generalization of some tuples."""
        leaves = zip(*(point.node for point in points), strict=True)
        return Box(
            tuple(min(values) for values in zip(*(point.lower for point in points), strict=True)),
            tuple(max(values) for values in zip(*(point.upper for point in points), strict=True)),
            tuple(tree.ancestor(found) for tree, found in zip(self.trees, leaves, strict=True)),
        )

    def everything(self, seen: Ranges) -> Box:
        """Return the full generalization."""
        return Box(seen.lower, seen.upper, tuple(tree.root for tree in self.trees))

    @property
    def on_a_grid(self) -> bool:
        """Whether the ends of any attribute are to lie on a grid."""
        return any(ends is not None for ends in self._ends)

    def published(self, box: Box) -> Box:
        """Return a generalization with its ends on their grids, rounded outwards, and within declared domains."""
        lower, upper = list(box.lower), list(box.upper)
        for a, (ends, domain) in enumerate(zip(self._ends, self._domains, strict=True)):
            if ends is not None:
                lowest, highest = domain or (-inf, inf)
                lower[a] = max(-multiple_above(-lower[a], ends), lowest)
                upper[a] = min(multiple_above(upper[a], ends), highest)
        return Box(tuple(lower), tuple(upper), box.node)

    def loss(self, box: Box, seen: Ranges) -> float:
        """InfoLoss of a generalization (CASTLE, Section 2.2); exact, as a range may be wider than float holds.

        A part beyond the range by rounding does not count.
        """
        total = 0.0
        for low, high, lowest, highest in zip(box.lower, box.upper, seen.lower, seen.upper, strict=True):
            if lowest < highest:
                low, high = max(low, lowest), min(high, highest)
                total += float((Fraction(high) - Fraction(low)) / (Fraction(highest) - Fraction(lowest)))
        for tree, node in zip(self.trees, box.node, strict=True):
            total += tree.loss(node)
        return total / (len(self._numeric) + len(self._categorical))


def multiple_above(value: float, ends: float) -> float:
    """Return the least float that stands for a multiple of ``ends`` and is not below a value, in exact numbers."""
    grid = Fraction(Decimal(repr(ends)))
    steps = ceil(Fraction(value) / grid)
    if abs(steps) >= 2**52:
        return value  # float64 is no finer
    return float((steps - 1) * grid) if float((steps - 1) * grid) >= value else float(steps * grid)
