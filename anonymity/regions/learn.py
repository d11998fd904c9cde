"""Learning of regions from a sample, with equal numbers of tuples and minimal expected loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import Branch, Cut, Region, RegionTree
from crenel.anonymity.regions.loss import EncodedSample, ExpectedLoss
from crenel.state.block import Block

TOLERANCE = 0.25
"""Maximum relative deviation of a side from its even share per region, where the values allow it.

At 0.1 there are fewer cuts to choose from: CASTLE then loses a tenth more on Adult in 16 regions.
"""

_MAX_CUTS = 24
"""Maximum number of cuts to try per attribute, evenly spaced among those that divide evenly enough."""


def members_of(k: int) -> int:
    """Return the number of random members for the expected loss of a cut: half of the k subjects of a release.

    An algorithm chooses similar tuples for a release, so its releases are as narrow as those of fewer random tuples. On
    Adult in 16 regions with k = 10, 5 members lose no more than 2, 10 or 30 do, by CASTLE and by SUHDSA windows.
    """
    return max(k // 2, 2)


class RegionsError(ValueError):
    """A sample too small for the number of regions; the message names the possible number."""


def learn(policy: Policy, sample: EncodedSample, count: int, members: int) -> RegionTree:
    """Cut the space of quasi-identifiers into regions.

    The recursion begins at the root. A cut divides the regions of a part in proportion to the tuples of its sides.
    Among these cuts it takes the one with the minimum expected loss of ``members`` random tuples of one side. The same
    sample gives the same tree.

    Parameters
    ----------
    policy : domains and hierarchies
    sample : encoded tuples
    count : number of regions, at least 1; it need not be a power of two
    members : number of tuples for the expected loss, at least 2 (``members_of``)

    Raises
    ------
    RegionsError
        The sample has fewer distinct tuples than regions.
    """
    _, first = np.unique(sample.values, axis=0, return_index=True)
    if len(first) < count:
        raise RegionsError(
            f"{len(sample):,} tuples were read, which differ in their quasi-identifiers in {len(first):,} ways, so "
            f"no more than {len(first):,} regions are possible"
        )
    distinct = np.zeros(len(sample), np.bool_)
    distinct[first] = True
    values = sample.values
    order = np.argsort(values, axis=0, kind="stable")
    learner = _RegionLearner(policy, values, distinct, ExpectedLoss(policy, sample, members), len(sample) / count)
    return RegionTree.of(learner.branch(order, count))


@dataclass(frozen=True)
class _Cut:
    """A possible cut of a part.

    Attributes
    ----------
    attribute : as for ``Cut``
    tuples : number of tuples that go left: the first ones in the order of the attribute
    regions : number of the part's regions on the left side
    uneven : relative deviation of the worse side from its even share; 0: none
    """

    attribute: int
    tuples: int
    regions: int
    uneven: float


@dataclass(frozen=True)
class _RegionLearner:
    """State shared by all parts during learning.

    Attributes
    ----------
    values : (rows, attributes) of the sample
    distinct : (rows,) whether a row is the first of equal rows
    even : tuples per region at equal shares
    """

    policy: Policy
    values: NDArray[np.float64]
    distinct: NDArray[np.bool_]
    expected: ExpectedLoss
    even: float

    def branch(self, order: NDArray[np.intp], count: int) -> Branch:
        """Return the tree of a part; ``order`` : (tuples, attributes) its rows, ascending by each attribute."""
        if count == 1:
            return Region(len(order) / len(self.values), self._loss(order))
        cut_options = [place for attribute in range(order.shape[1]) for place in self._cuts(order, attribute, count)]
        within = max(TOLERANCE, min(place.uneven for place in cut_options))
        best, (left, right) = min(
            ((place, self._sides(order, place)) for place in cut_options if place.uneven <= within),
            key=lambda cut: sum(len(side) * self._loss(side) for side in cut[1]),
        )
        rows = order[best.tuples - 1 : best.tuples + 1, best.attribute]
        value = self._cut(best.attribute, *self.values[rows, best.attribute].tolist())
        return Cut(best.attribute, value, self.branch(left, best.regions), self.branch(right, count - best.regions))

    def _loss(self, order: NDArray[np.intp]) -> float:
        return sum(self.expected.of(i, self.values[rows, i]) for i, rows in enumerate(order.T))

    def _sides(self, order: NDArray[np.intp], place: _Cut) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        goes_left = np.zeros(len(self.values), np.bool_)
        goes_left[order[: place.tuples, place.attribute]] = True
        mask = goes_left[order.T]
        shape = (order.shape[1], -1)
        return order.T[mask].reshape(shape).T, order.T[~mask].reshape(shape).T

    def _cuts(self, order: NDArray[np.intp], attribute: int, count: int) -> Iterator[_Cut]:
        """Yield possible cuts of an attribute with at least as many distinct tuples as regions on each side."""
        rows = order[:, attribute]
        values, tuples = self.values[rows, attribute], len(rows)
        lefts = np.flatnonzero(values[1:] > values[:-1]) + 1
        distinct = np.cumsum(self.distinct[rows])
        on_left = distinct[lefts - 1]
        regions = np.clip(np.rint(lefts * (count / tuples)), count - (distinct[-1] - on_left), on_left)
        regions = np.clip(regions, 1, count - 1)
        possible = (regions <= on_left) & (count - regions <= distinct[-1] - on_left)
        loads = np.stack((lefts / regions, (tuples - lefts) / (count - regions))) / self.even
        uneven = np.maximum(loads, 1 / loads).max(axis=0) - 1
        good = np.flatnonzero(possible & (uneven <= max(TOLERANCE, uneven[possible].min(initial=np.inf))))
        chosen = good[np.unique(np.linspace(0, len(good) - 1, min(_MAX_CUTS, len(good))).astype(np.intp))]
        for i in chosen.tolist():
            yield _Cut(attribute, int(lefts[i]), int(regions[i]), float(uneven[i]))

    def _cut(self, attribute: int, below: float, above: float) -> float:
        """Return a cut value between two neighboring values."""
        number = attribute - len(self.policy.numeric)
        if number < 0:
            return _roundest(below, above)
        # The first border between two leaves at which the largest subtrees end: those below the common ancestor.
        tree, node = self.policy.categorical[number].hierarchy, int(below)
        while tree.last[tree.parent[node]] < above:
            node = int(tree.parent[node])
        return float(tree.last[node] + 1)


def _roundest(below: float, above: float) -> float:
    """Return the number of fewest digits above ``below`` and at most ``above``, which reveals least of either."""
    middle = below / 2 + above / 2
    for digits in range(1, 18):
        for value in (float(f"{middle:.{digits}g}"), float(f"{above:.{digits}g}")):
            if below < value <= above:
                return value
    return above


_SEED = 0
"""A constant seed, so that the same source gives the same sample, and so the same regions."""


class Sampler:
    """Sample of the quasi-identifiers of a stream.

    Parameters
    ----------
    rows : size of the sample, at least 1
    first : take the first tuples; otherwise each tuple with equal probability, whatever their number
    """

    def __init__(self, rows: int, *, first: bool) -> None:
        self._rows = rows
        self._first = first
        self._random = np.random.default_rng(_SEED)
        self._kept: EncodedSample | None = None
        self._draws = np.empty(0)
        self.seen = 0

    @property
    def full(self) -> bool:
        """Whether further tuples cannot change the sample."""
        return self._first and self.seen >= self._rows

    @property
    def sample(self) -> EncodedSample | None:
        """The sample; None before the first tuple."""
        return self._kept

    def add(self, block: Block) -> None:
        """Offer the tuples of a block to the sample."""
        if not len(block):
            return
        came = EncodedSample(block.numeric, block.categorical)
        # Each tuple draws a number, and the lowest stay; for the first tuples, the position serves as this number.
        drawn = self.seen + np.arange(len(came)) if self._first else self._random.random(len(came))
        self.seen += len(came)
        draws = np.concatenate((self._draws, drawn))
        kept = came
        if self._kept is not None:
            kept = EncodedSample(
                np.concatenate((self._kept.numeric, came.numeric)),
                np.concatenate((self._kept.categorical, came.categorical)),
            )
        if len(draws) > self._rows:
            lowest = np.argpartition(draws, self._rows - 1)[: self._rows]
            draws, kept = draws[lowest], EncodedSample(kept.numeric[lowest], kept.categorical[lowest])
        self._draws, self._kept = draws, kept
