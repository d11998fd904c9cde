"""OLA on one shard."""

from __future__ import annotations

from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch import procedures
from crenel.anonymity.algorithms.batch.shard import Choice, published_boxes
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows
from crenel.anonymity.algorithms.ola.lattice import Node, discernibility, entropies, least_node, precision
from crenel.anonymity.model.privacy_model import Parameter, PrivacyModel
from crenel.anonymity.privacy_models.checks import models_of

_MOST_CODES = 2**62
"""Maximum number of codes of classes, which must fit into 64 bits."""

_ROUNDED = 1e-6
"""Tolerance for rounding errors of a lower bound on suppressed tuples."""


class _Classes(NamedTuple):
    """Equivalence classes of a window at one node.

    Attributes
    ----------
    order : (tuples,) tuples ordered by class
    ends : (classes,) end of each class in ``order``
    broken : (classes,) first check that the class violates; -1: none, -2: it has too few subjects
    below : (classes,) lower bound on the suppressed tuples of the class at any node below
    """

    order: NDArray[np.int64]
    ends: NDArray[np.int64]
    broken: NDArray[np.int64]
    below: NDArray[np.float64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.ends, prepend=0)

    @property
    def suppressed(self) -> int:
        """Number of tuples in classes that violate a privacy model."""
        return int(self.sizes[self.broken != -1].sum())


class _Judged(NamedTuple):
    """Numbers of a node: suppressed tuples, lower bound on those of any node below, and loss by discernibility."""

    suppressed: int
    below: float
    discernibility: float


class OlaShard(ShardOfWindows):
    """In-memory state of one shard; its algorithm is ``Ola``.

    A node is eligible if at most ``max_suppression`` of the tuples are in classes that violate a privacy model. The
    shard publishes the eligible node of minimum loss, and suppresses those tuples.
    """

    def divided(self) -> Choice:
        choice = self.divided_despite_violation()
        assert choice is not None  # the highest node satisfies
        return choice

    def divided_despite_violation(self) -> Choice | None:
        if (node := self._best()) is None:
            return None
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
        levels = enumerate(zip(self._levels, node, strict=True))
        nodes = [node_of_leaf[level][first[:, a]] for a, (node_of_leaf, level) in levels]
        return Choice(groups, suppressed, published_boxes(len(groups), np.stack(nodes, axis=1) + self._offsets))

    @cached_property
    def _levels(self) -> list[NDArray[np.int32]]:
        """Node of each leaf at each level, (levels, leaves), for each attribute."""
        return [attribute.hierarchy.level_nodes() for attribute in self.context.policy.categorical]

    def _best(self) -> Node | None:
        levels: Node = tuple(len(nodes) for nodes in self._levels)
        bits = entropies(self.waiting.categorical, self._levels)
        tuples, most = len(self.waiting), self.context.algorithm.max_suppression

        @cache
        def judged(node: Node) -> _Judged:
            classes = self._classes(node)
            return _Judged(classes.suppressed, float(classes.below.sum()), discernibility(classes.sizes))

        def loss(node: Node) -> float:
            if self.context.algorithm.metric == "precision":
                return precision(node, levels)
            if self.context.algorithm.metric == "entropy":
                return float(sum(bits_by_level[level] for bits_by_level, level in zip(bits, node, strict=True)))
            return judged(node).discernibility

        return least_node(
            levels,
            loss,
            satisfies=lambda node: judged(node).suppressed / tuples <= most,
            possible=lambda node: judged(node).below / tuples <= most,
        )

    def _classes(self, node: Node) -> _Classes:
        leaf = self.waiting.categorical
        code, codes = np.zeros(len(leaf), np.int64), 1
        for a, (node_of_leaf, level) in enumerate(zip(self._levels, node, strict=True)):
            size = int(node_of_leaf[level].max()) + 1
            if codes * size > _MOST_CODES:
                code = np.unique(code, return_inverse=True)[1]
                codes = int(code.max()) + 1
            code, codes = code * size + node_of_leaf[level][leaf[:, a]], codes * size
        order = np.argsort(code, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(code[order])) + 1, len(order))
        broken, lacks = np.empty(len(ends), np.int64), np.empty(len(ends))
        procedures.judge_groups(self.arrays(), order, ends, broken, lacks)
        return _Classes(order, ends, broken, self._below(np.diff(ends, prepend=0), broken, lacks))

    def _below(
        self, sizes: NDArray[np.int64], broken: NDArray[np.int64], lacks: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return ``_Classes.below``, from the results of ``procedures.judge_groups``.

        The published tuples of a class at a node below are a union of classes that satisfy the check.
        """
        fewest = np.where(np.isinf(lacks), sizes, 0.0)
        for check, (_, model, parameter, _) in enumerate(self._models):
            if model is None or model.least_removed is None:
                continue
            violating = np.flatnonzero((broken == check) & (lacks > 0) & np.isfinite(lacks))
            if len(violating):
                bound = np.ceil(model.least_removed(sizes[violating], lacks[violating], parameter) - _ROUNDED)
                fewest[violating] = np.clip(bound, 1, sizes[violating])
        return fewest

    @cached_property
    def _models(self) -> list[tuple[int, PrivacyModel | None, Parameter, str]]:
        return list(models_of(self.context.policy, self.context.privacy))
