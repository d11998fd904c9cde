"""Differentially private learning of a partition, for algorithms that publish declared cells."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Numeric, QuasiIdentifier
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import Branch, Cut, Region, RegionTree
from crenel.anonymity.regions.loss import EncodedSample
from crenel.anonymity.space.sides import Side, divided, full_side, node_of

_CUTS = np.array([1, 2, 4, 8, 12, 16, 20, 24, 28, 30, 31]) / 32
"""Cuts to try per number, as shares of the part's interval: denser at its ends, where empty space is cut off."""

_GROWTH = 1.3
"""Ratio of the epsilons of a level and the level above, because its parts have fewer records."""

_PENALTY = 0.3
"""Weight of suppression in the utility, relative to its loss. A smaller one needs less noise."""

_STAY = 2.0
"""Logarithm of the prior odds of leaving a part whole to cutting one attribute."""

_Floats = NDArray[np.float64]


def learn_privately(
    policy: Policy,
    sample: EncodedSample,
    count: int,
    least: float,
    epsilon: float,
    random: np.random.Generator | None = None,
) -> RegionTree:
    """Cut the space of quasi-identifiers into cells by an epsilon-differentially private procedure.

    A part is cut where that lowers the loss most: the loss of its records under the declared boxes of the two sides,
    where a side with few records counts as suppressed in part. Permute-and-flip (McKenna and Sheldon, 2020) chooses
    among all cuts, and among them the choice to leave the part whole. The parts of one level are disjoint, so that
    each level spends its share of epsilon once. Neighbors differ in one record, which one of them lacks.

    Parameters
    ----------
    policy : domains and hierarchies; every numeric quasi-identifier needs a domain
    sample : encoded records, one of each person
    count : maximum number of cells, at least 1; the tree has log2(count) levels
    least : number of records below which a cell would be suppressed in part, above 0
    epsilon : above 0
    random : source of randomness; None: seeded by the operating system

    Returns
    -------
    The tree, with its ``epsilon``. Shares and losses of its cells do not depend on the sample.

    Examples
    --------
    >>> policy = Policy((Numeric("age", (0, 100)),))
    >>> sample = Sample(np.arange(100.0)[:, None], np.zeros((100, 0), np.int32))
    >>> len(learn_privately(policy, sample, 2, 10, 1e9))
    2
    """
    generator = np.random.default_rng(secrets.randbits(256)) if random is None else random
    levels = ceil(log2(count))
    first = epsilon * (_GROWTH - 1) / (_GROWTH**levels - 1) if levels else epsilon
    learner = _PrivateLearner(policy, sample.values, least, first, generator)
    sides = [full_side(attribute) for attribute in policy.coded]
    root = learner.branch(np.arange(len(sample)), sides, range(levels))
    return RegionTree.of(_with_equal_shares(root, learner.cells), epsilon)


@dataclass
class _PrivateLearner:
    """State shared by all parts during learning.

    Attributes
    ----------
    epsilon : of the root's level
    cells : number of cells so far
    options : cuts of an attribute within a side, and what a record on either side saves, once they are computed
    """

    policy: Policy
    values: NDArray[np.float64]
    least: float
    epsilon: float
    random: np.random.Generator
    cells: int = field(default=0)
    options: dict[tuple[int, Side], tuple[_Floats, _Floats, _Floats]] = field(default_factory=dict)

    def branch(self, rows: NDArray[np.intp], sides: Sequence[Side], levels: range) -> Branch:
        cut = self._chosen(rows, sides, levels[0]) if levels else None
        if cut is None:
            self.cells += 1
            return Region(0.0, self._loss(sides))
        attribute, value = cut
        goes_left = self.values[rows, attribute] < value
        left, right = (
            self.branch(rows[mask], [*sides[:attribute], side, *sides[attribute + 1 :]], levels[1:])
            for mask, side in zip(
                (goes_left, ~goes_left), divided(self.policy.coded[attribute], sides[attribute], value), strict=True
            )
        )
        return Cut(attribute, value, left, right)

    def _chosen(self, rows: NDArray[np.intp], sides: Sequence[Side], level: int = 0) -> tuple[int, float] | None:
        """Return a cut of a part by permute-and-flip; None where the part stays whole."""
        weight = _PENALTY * (1 - self._loss(sides))
        cuts: list[tuple[int, float] | None] = [None]
        utility, prior, most = [-weight * self._suppressed(np.array([len(rows)]))], [np.array([_STAY])], 0.0
        for number, side in enumerate(sides):
            values, left, right = self._options(number, side)
            if not len(values):
                continue
            on_left = np.searchsorted(np.sort(self.values[rows, number]), values)
            on_right = len(rows) - on_left
            lost = self._suppressed(on_left) + self._suppressed(on_right)
            utility.append(on_left * left + on_right * right - weight * lost)
            prior.append(np.full(len(values), -np.log(len(values))))
            cuts += [(number, value) for value in values.tolist()]
            most = max(most, float(left.max()), float(right.max()))
        # One more record changes each utility by -weight at least, and by most + weight at most: what a record saves
        # lies from 0 to most, and the slope of suppression from -1 to 1. The probabilities do not change where all
        # utilities lose the same, here half of most for each record. Then each utility has the sensitivity
        # most / 2 + weight. Neither the prior nor the sensitivity depends on the records.
        centered = np.concatenate(utility) - len(rows) * most / 2
        score = centered * (self.epsilon * _GROWTH**level / (most + 2 * weight or 1.0)) + np.concatenate(prior)
        # Permute-and-flip is the largest score with exponential noise (Ding and others, 2021). Its choice is never
        # expected to be worse than that of the exponential mechanism, which is the largest with Gumbel noise.
        return cuts[int(np.argmax(score + self.random.exponential(size=len(score))))]

    def _options(self, number: int, side: Side) -> tuple[_Floats, _Floats, _Floats]:
        """Return the cuts within a side, and the loss that a record on the left and on the right of each one saves."""
        if (number, side) not in self.options:
            attribute = self.policy.coded[number]
            values, width = _cuts(attribute, side), _width(attribute, side)
            pairs = [divided(attribute, side, value) for value in values.tolist()]
            left, right = (
                np.array([width - _width(attribute, pair[half]) for pair in pairs]) / len(self.policy.coded)
                for half in (0, 1)
            )
            self.options[number, side] = values, left, right
        return self.options[number, side]

    def _suppressed(self, records: NDArray[np.intp]) -> _Floats:
        """Return how many of these records of a side count as suppressed; its slope is from -1 to 1."""
        return np.where(records < self.least, np.minimum(records, self.least - records), 0.0)

    def _loss(self, sides: Sequence[Side]) -> float:
        widths = [_width(attribute, side) for attribute, side in zip(self.policy.coded, sides, strict=True)]
        return sum(widths) / len(widths)


def _width(attribute: QuasiIdentifier, side: Side) -> float:
    """Return the loss of a side's declared interval or node, from 0 to 1."""
    if isinstance(attribute, Numeric):
        lower, upper = full_side(attribute)
        return (side[1] - side[0]) / (upper - lower) if upper > lower else 0.0
    return float(attribute.hierarchy.loss[node_of(attribute, side)])


def _cuts(attribute: QuasiIdentifier, side: Side) -> NDArray[np.float64]:
    """Return the cuts to try within a side, which depend on the side alone."""
    lower, upper = side
    if isinstance(attribute, Numeric):
        cuts = lower + (upper - lower) * _CUTS
        if attribute.step is not None:
            cuts = np.unique(np.ceil(cuts))
        return cuts[(cuts > lower) & (cuts <= upper)]
    width, leaves = _width(attribute, side), np.arange(int(lower) + 1, int(upper) + 1)
    narrower = [
        any(_width(attribute, half) < width for half in divided(attribute, side, leaf)) for leaf in leaves.tolist()
    ]
    return leaves[np.array(narrower, np.bool_)].astype(np.float64)


def _with_equal_shares(branch: Branch, cells: int) -> Branch:
    if isinstance(branch, Region):
        return Region(1 / cells, branch.loss)
    left, right = (_with_equal_shares(side, cells) for side in (branch.left, branch.right))
    return Cut(branch.attribute, branch.value, left, right)
