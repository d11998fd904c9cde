"""Regions learned from a sample: as many tuples in each as in another, and each as alike as can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import Branch, Cut, Region, RegionTree
from crenel.anonymity.regions.loss import ExpectedLoss, Sample

TOLERANCE = 0.25
"""By what part of its even share a side may be fuller or emptier, for each of its regions, where values allow it.

At 0.1 there are fewer cuts to choose from: CASTLE then loses a tenth more on Adult in 16 regions.
"""

_PLACES = 24
"""Places that are tried in each attribute at most, evenly among those that divide evenly enough."""


def members_of(k: int) -> int:
    """How many random members a cut is judged by, where releases have k subjects: half of them.

    An algorithm chooses who leaves together, so its releases are as narrow as fewer random tuples are. On Adult in 16
    regions, k = 10, 5 members lose no more than 2, 10 or 30 do, by CASTLE and by windows.
    """
    return max(k // 2, 2)


class RegionsError(ValueError):
    """A sample that holds too little for so many regions; the message says how many are possible."""


def learn(policy: Policy, sample: Sample, count: int, members: int) -> RegionTree:
    """Cut the space of quasi-identifiers into regions.

    From the root, each part is cut where the two sides get regions in proportion to their tuples, and where the
    expected loss of ``members`` tuples of one side, drawn at random, is the least. The same sample gives the same tree.

    Parameters
    ----------
    count : regions, 1 or more, no power of two needed
    members : tuples that the expected loss is of, 2 or more (``members_of``)

    Raises
    ------
    RegionsError
        Fewer distinct tuples than regions.
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
    learner = _Learner(policy, values, distinct, ExpectedLoss(policy, sample, members), len(sample) / count)
    return RegionTree.of(learner.branch(order, count))


@dataclass(frozen=True)
class _Place:
    """Where a part may be cut.

    Attributes
    ----------
    attribute : as of ``Cut``
    tuples : how many go left: the first ones in the order of the attribute
    regions : how many of the part's regions they get
    uneven : how far from its even share the worse side is; 0: not at all
    """

    attribute: int
    tuples: int
    regions: int
    uneven: float


@dataclass(frozen=True)
class _Learner:
    """What all parts have in common.

    Attributes
    ----------
    values : (rows, attributes) of the sample
    distinct : (rows,) the first one of equal rows
    even : tuples of a region where all have as many
    """

    policy: Policy
    values: NDArray[np.float64]
    distinct: NDArray[np.bool_]
    expected: ExpectedLoss
    even: float

    def branch(self, order: NDArray[np.intp], count: int) -> Branch:
        """The tree of a part; ``order`` : (tuples, attributes) its rows, ascending by each attribute."""
        if count == 1:
            return Region(len(order) / len(self.values), self._loss(order))
        places = [place for attribute in range(order.shape[1]) for place in self._places(order, attribute, count)]
        within = max(TOLERANCE, min(place.uneven for place in places))
        best, (left, right) = min(
            ((place, self._sides(order, place)) for place in places if place.uneven <= within),
            key=lambda cut: sum(len(side) * self._loss(side) for side in cut[1]),
        )
        rows = order[best.tuples - 1 : best.tuples + 1, best.attribute]
        value = self._cut(best.attribute, *self.values[rows, best.attribute].tolist())
        return Cut(best.attribute, value, self.branch(left, best.regions), self.branch(right, count - best.regions))

    def _loss(self, order: NDArray[np.intp]) -> float:
        return sum(self.expected.of(i, self.values[rows, i]) for i, rows in enumerate(order.T))

    def _sides(self, order: NDArray[np.intp], place: _Place) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        goes_left = np.zeros(len(self.values), np.bool_)
        goes_left[order[: place.tuples, place.attribute]] = True
        mask = goes_left[order.T]
        shape = (order.shape[1], -1)
        return order.T[mask].reshape(shape).T, order.T[~mask].reshape(shape).T

    def _places(self, order: NDArray[np.intp], attribute: int, count: int) -> Iterator[_Place]:
        """Where an attribute may be cut so that each side has at least as many distinct tuples as regions."""
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
        chosen = good[np.unique(np.linspace(0, len(good) - 1, min(_PLACES, len(good))).astype(np.intp))]
        for i in chosen.tolist():
            yield _Place(attribute, int(lefts[i]), int(regions[i]), float(uneven[i]))

    def _cut(self, attribute: int, below: float, above: float) -> float:
        """A value that parts two neighbors."""
        number = attribute - len(self.policy.numeric)
        if number < 0:
            return _roundest(below, above)
        # Of all the borders between two leaves, the one where the largest subtrees end.
        tree = self.policy.categorical[number].hierarchy
        borders = range(int(below) + 1, int(above) + 1)
        return max(borders, key=lambda leaf: tree.loss[tree.lowest_common_ancestor(leaf - 1, leaf)])


def _roundest(below: float, above: float) -> float:
    """The number of the fewest digits that is above one and at most another: it tells the least of either."""
    middle = below / 2 + above / 2
    for digits in range(1, 18):
        for value in (float(f"{middle:.{digits}g}"), float(f"{above:.{digits}g}")):
            if below < value <= above:
                return value
    return above
