"""Hierarchies of codes: leaves are whole numbers, and a node of a level contains a range of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder, built
from crenel.anonymity.model.hierarchy import MISSING, Hierarchy, LazyLabels

MOST_CODES = 2**24
"""Maximum number of leaves of a hierarchy of codes."""


class Ranges:
    """Codes in ascending ranges; the rank of a code is its position among all of them.

    Parameters
    ----------
    bounds : (first code, code after the last) of each range; ranges may overlap
    """

    def __init__(self, bounds: Iterable[tuple[int, int]]) -> None:
        kept: list[tuple[int, int]] = []
        for start, stop in sorted(bounds):
            if kept and start <= kept[-1][1]:
                kept[-1] = (kept[-1][0], max(kept[-1][1], stop))
            else:
                kept.append((start, stop))
        self.bounds = tuple(kept)
        self._start, self._stop = np.array(kept, np.int64).T
        self._end = np.cumsum(self._stop - self._start)

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.bounds)

    def divided(self, width: int) -> Ranges:
        """Return the codes divided by a width, rounded down."""
        return Ranges((start // width, (stop - 1) // width + 1) for start, stop in self.bounds)

    def codes(self, ranks: NDArray[Any]) -> NDArray[np.int64]:
        """Return the code of each rank."""
        place = np.searchsorted(self._end, ranks, side="right")
        return np.asarray(ranks - self._end[place] + self._stop[place], np.int64)

    def below(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many codes of the ranges are less than each given one."""
        place = np.searchsorted(self._start, codes) - 1
        return np.where(place < 0, 0, self._end[place] - np.maximum(self._stop[place] - codes, 0))

    def ranks(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rank of each code, -1 for a code of no range."""
        rank = self.below(codes)
        return np.where(self.below(codes + 1) > rank, rank, -1)


class Codes(Builder):
    """A builder that gives each leaf a code, and finds nodes by arithmetic.

    A hierarchy of more than ``MOST_LEAVES`` leaves builds its labels when they are needed.
    """

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """How many codes the nodes of a level contain, the leaves (1) first; each a multiple of the one before."""

    @property
    @abstractmethod
    def ranges(self) -> Ranges:
        """The codes of the leaves."""

    @abstractmethod
    def codes(self, texts: NDArray[Any]) -> NDArray[np.int64]:
        """Return the code of the leaf of each value, -1 for an unknown value."""

    @abstractmethod
    def labels(self, level: int, codes: NDArray[np.int64]) -> list[str]:
        """Return the labels of nodes of a level, of which the codes are those of leaves divided by its width."""

    @abstractmethod
    def node(self, label: str) -> tuple[int, int] | None:
        """Return level and code of the node with a label; None where no node can have it."""

    def require_few(self, field: str, remedy: str) -> None:
        """Raise ``BuilderError`` for a parameter that makes too many leaves."""
        if (leaves := len(self.ranges)) > MOST_CODES:
            raise BuilderError(field, f"{leaves} leaves are too many; there are 2^24 at most: {remedy}")

    def paths(self) -> list[tuple[str, ...]]:
        return self.hierarchy().paths()

    def finder(self) -> Finder:
        ranges = self.ranges

        def find(texts: NDArray[Any]) -> NDArray[np.intp]:
            return ranges.ranks(self.codes(texts))

        return find

    def hierarchy(self) -> Hierarchy:
        ranges = self.ranges
        leaves = len(ranges)
        first, last = [], []
        for width in self.widths[1:]:
            nodes = ranges.divided(width)
            codes = nodes.codes(np.arange(len(nodes))) * width
            first.append(ranges.below(codes).astype(np.int32))
            last.append(ranges.below(codes + width).astype(np.int32) - 1)
        first.append(np.array([0], np.int32))
        last.append(np.array([leaves - 1], np.int32))
        levels = np.repeat(np.arange(1, len(first) + 1, dtype=np.int32), [*map(len, first)])
        # After the leaves, each node comes after those inside it, as in ``from_paths``.
        order = np.lexsort((levels, np.concatenate(last)))
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(leaves, leaves + len(order), dtype=np.int32)
        of_level = np.split(number, np.cumsum([*map(len, first)])[:-1])
        parent = np.empty(leaves + len(order), np.int32)
        parent[:leaves] = np.repeat(of_level[0], last[0] - first[0] + 1)
        parent[-1] = leaves + len(order) - 1
        for (below, above), (inside, around) in zip(pairwise(of_level), pairwise(first), strict=True):
            parent[below] = above[np.searchsorted(around, inside, side="right") - 1]
        inner = Inner(levels[order], np.concatenate(last)[order])
        low = np.concatenate(first)[order]
        loss = np.zeros(leaves + len(order))
        loss[leaves:] = (inner.last - low) / max(leaves - 1, 1)
        all_leaves = np.arange(leaves, dtype=np.int32)
        labels = CodeLabels(self, inner)
        is_listed = leaves <= MOST_LEAVES
        return Hierarchy(
            labels=tuple(labels) if is_listed else labels,
            leaves=leaves,
            parent=parent,
            first=np.concatenate((all_leaves, low)),
            last=np.concatenate((all_leaves, inner.last)),
            loss=loss,
            level=np.concatenate((np.zeros(leaves, np.int32), inner.level)) if is_listed else None,
        )


class Inner(NamedTuple):
    """Nodes above the leaves, in their order.

    Attributes
    ----------
    level, last : (inner nodes,) level, and rightmost leaf below
    """

    level: NDArray[np.int32]
    last: NDArray[np.int32]


class CodeLabels(LazyLabels):
    """Labels of a hierarchy of codes."""

    def __init__(self, builder: Codes, inner: Inner, *, has_missing: bool = False) -> None:
        self._builder, self._inner, self._has_missing = builder, inner, has_missing
        self._ranges, self._widths = builder.ranges, builder.widths
        self._leaves = len(self._ranges)

    def __len__(self) -> int:
        return self._leaves + self._has_missing + len(self._inner.level)

    @overload
    def __getitem__(self, node: int) -> str: ...
    @overload
    def __getitem__(self, node: slice) -> list[str]: ...
    def __getitem__(self, node: int | slice) -> str | list[str]:
        if isinstance(node, slice):
            return self.of(np.arange(len(self))[node])
        return self.of(np.array([range(len(self))[node]]))[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])

    def of(self, nodes: NDArray[Any]) -> list[str]:
        is_missing = (nodes == self._leaves) & self._has_missing
        inner = nodes - self._leaves - self._has_missing
        is_leaf = (inner < 0) & ~is_missing
        level, leaf = np.zeros(len(nodes), np.int32), np.array(nodes, np.int64)
        above = ~is_leaf & ~is_missing
        level[above], leaf[above] = self._inner.level[inner[above]], self._inner.last[inner[above]]
        found = np.full(len(nodes), ROOT, object)
        found[is_missing] = MISSING
        for number, width in enumerate(self._widths):
            at = (level == number) & ~is_missing
            found[at] = self._builder.labels(number, self._ranges.codes(leaf[at]) // width)
        return found.tolist()

    def find(self, labels: Sequence[str | None]) -> NDArray[np.int64]:
        found = np.full(len(labels), -1, np.int64)
        top = len(self._widths)
        level, code = np.full(len(labels), -1), np.zeros(len(labels), np.int64)
        for i, label in enumerate(labels):
            if label == ROOT:
                found[i] = len(self) - 1
            elif label == MISSING and self._has_missing:
                found[i] = self._leaves
            elif label is not None and (node := self._builder.node(label)) is not None:
                level[i], code[i] = node
        width = np.array(self._widths)[level]
        first, last = self._ranges.below(code * width), self._ranges.below((code + 1) * width) - 1
        exists = (level >= 0) & (first <= last)
        is_leaf, is_inner = exists & (level == 0), exists & (level > 0)
        found[is_leaf] = last[is_leaf]
        # Inner nodes are in the order of this key.
        keys = self._inner.last.astype(np.int64) * (top + 1) + self._inner.level
        place = np.searchsorted(keys, last[is_inner] * (top + 1) + level[is_inner])
        found[is_inner] = place + self._leaves + self._has_missing
        return found

    def with_missing(self) -> CodeLabels:
        return CodeLabels(self._builder, self._inner, has_missing=True)

    @property
    def stored(self) -> list[object]:
        return [type(self._builder).__name__, self._widths, self._ranges.bounds, self._has_missing]

    @property
    def source(self) -> tuple[Callable[..., Hierarchy], tuple[object, ...]]:
        return (_with_missing if self._has_missing else built), (self._builder,)


@lru_cache(maxsize=16)
def _with_missing(builder: Builder) -> Hierarchy:
    return built(builder).with_missing()
