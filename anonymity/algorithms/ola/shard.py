"""OLA on one shard."""

from __future__ import annotations

from functools import cached_property
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch import procedures
from crenel.anonymity.algorithms.batch.shard import Choice, published_boxes
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows
from crenel.anonymity.algorithms.ola.lattice import Node, discernibility, entropies, minimal_nodes, precision

_MOST_CODES = 2**62


class _Classes(NamedTuple):
    """Equivalence classes of a window at one node.

    Attributes
    ----------
    order : (tuples,) tuples ordered by class
    ends : (classes,) end of each class in ``order``
    broken : (classes,) first check that the class violates; -1: none, -2: it has too few subjects
    """

    order: NDArray[np.int64]
    ends: NDArray[np.int64]
    broken: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.ends, prepend=0)

    @property
    def suppressed(self) -> int:
        """Number of tuples in classes that violate a privacy model."""
        return int(self.sizes[self.broken != -1].sum())


class Ola(ShardOfWindows):
    """In-memory state of one shard; its parameters are ``OlaParameters``.

    A node is eligible if at most ``max_suppression`` of the tuples are in classes that violate a privacy model. The
    shard publishes the eligible node of minimum loss, and suppresses those tuples.
    """

    def divided(self) -> Choice:
        node = self._best()
        classes = self._classes(node)
        starts = classes.ends - classes.sizes
        kept = np.flatnonzero(classes.broken == -1)
        groups = [classes.order[starts[c] : classes.ends[c]] for c in kept.tolist()]
        suppressed = [
            (int(i), self.reason_of(int(classes.broken[c])))
            for c in np.flatnonzero(classes.broken != -1).tolist()
            for i in classes.order[starts[c] : classes.ends[c]]
        ]
        first = self.waiting.categorical[classes.order[starts[kept]]]
        nodes = [of[level][first[:, a]] for a, (of, level) in enumerate(zip(self._levels, node, strict=True))]
        return Choice(groups, suppressed, published_boxes(len(groups), np.stack(nodes, axis=1) + self._offsets))

    @cached_property
    def _levels(self) -> list[NDArray[np.int32]]:
        """Node of each leaf at each level, (levels, leaves), for each attribute."""
        return [attribute.hierarchy.level_nodes() for attribute in self.context.policy.categorical]

    def _best(self) -> Node:
        levels: Node = tuple(len(nodes) for nodes in self._levels)
        most = floor(self.context.parameters.max_suppression * len(self.waiting))
        found = minimal_nodes(levels, lambda node: self._classes(node).suppressed <= most)
        bits = entropies(self.waiting.categorical, self._levels)

        def loss(node: Node) -> float:
            if self.context.parameters.metric == "precision":
                return precision(node, levels)
            if self.context.parameters.metric == "entropy":
                return float(sum(of[level] for of, level in zip(bits, node, strict=True)))
            return discernibility(self._classes(node).sizes)

        return min(found, key=lambda node: (loss(node), node))

    def _classes(self, node: Node) -> _Classes:
        leaf = self.waiting.categorical
        code, codes = np.zeros(len(leaf), np.int64), 1
        for a, (of, level) in enumerate(zip(self._levels, node, strict=True)):
            size = int(of[level].max()) + 1
            if codes * size > _MOST_CODES:
                code = np.unique(code, return_inverse=True)[1]
                codes = int(code.max()) + 1
            code, codes = code * size + of[level][leaf[:, a]], codes * size
        order = np.argsort(code, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(code[order])) + 1, len(order))
        broken = np.empty(len(ends), np.int64)
        procedures.judge_groups(self.arrays(), order, ends, broken)
        return _Classes(order, ends, broken)
