"""SafePub, which publishes data at rest with differential privacy, as a baseline of ``cells``.

SafePub (Bild, Kuhn and Prasser, 2018) samples records, generalizes each attribute to one level of its hierarchy, and
suppresses classes of fewer than k sampled records (Li, Qardaji and Su, 2012). A search by the exponential mechanism
chooses the levels. The paper was not at hand: the search follows the source of ARX, in words of our own, and
``Search`` states the differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import expm1, inf, log
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.noise.budget import log_delta
from crenel.anonymity.noise.composition import least_k, least_number
from crenel.anonymity.space.sides import Side, divided, full_side
from experiments.castle.queries import Generalized
from experiments.harness import Floats, Stream

Scheme: TypeAlias = tuple[int, ...]
"""The level of each quasi-identifier, numbers first; 0 is the most general one."""

_QUARTERINGS = 2
"""Number of levels of a number below its domain: 4 and 16 intervals of equal width."""

_FINAL = 0.9
"""Share of the search's epsilon that the final choice among the steps spends, where it is private."""


@dataclass(frozen=True)
class Search:
    """Settings of the search for a scheme.

    Attributes
    ----------
    epsilon : of the search, above 0; infinite: no noise
    steps : number of selections by the exponential mechanism, at least 1
    choice : what chooses among the selected schemes. ``exact``: the best score, as in ARX, where the search also sees
        the published sample. That comparison has no noise, and so no epsilon. ``private``: the exponential mechanism,
        and the search has a sample of its own, so that both epsilons add up.
    """

    epsilon: float
    steps: int
    choice: Literal["exact", "private"]


def rate_of(epsilon: float) -> float:
    """Return the sample rate 1 - e^-epsilon, the largest one that an epsilon admits."""
    return -expm1(-epsilon)


def ks_of(epsilon: float, delta: float) -> tuple[int, int]:
    """Return the least k at ``rate_of(epsilon)``: by the closed form of Crenel, and by Theorem 5 of Li and others.

    Examples
    --------
    >>> ks_of(1.0, 1e-6)
    (58, 74)
    """
    rate = rate_of(epsilon)
    exact = least_k(rate, epsilon, delta)
    assert exact is not None
    return exact, least_number(lambda k: log_delta(k, rate, epsilon) <= log(delta))


@dataclass(frozen=True)
class Level:
    """A level of an attribute.

    Attributes
    ----------
    code : (tuples,) number of each tuple's generalized value
    lower, upper : (codes,) ends of each interval; of a category, its node
    loss : (codes,) InfoLoss in [0, 1]
    """

    code: NDArray[np.int64]
    lower: Floats
    upper: Floats
    loss: Floats


@dataclass(frozen=True)
class Classes:
    """Equivalence classes of a sample under a scheme.

    Attributes
    ----------
    levels : of the scheme
    key : (records,) number of each record's generalized and sensitive values
    keys, size : (classes,) the key of each class, ascending, and its number of records
    code : for each attribute (classes,) its generalized value
    """

    levels: list[Level]
    key: NDArray[np.int64]
    keys: NDArray[np.int64]
    size: NDArray[np.int64]
    code: list[NDArray[np.int64]]

    def lost(self, k: int) -> float:
        """Return the loss of all records, where one in a class of fewer than k loses 1."""
        loss = sum(level.loss[code] for level, code in zip(self.levels, self.code, strict=True)) / len(self.levels)
        return float((self.size * np.where(self.size >= k, loss, 1.0)).sum())


@dataclass(frozen=True)
class Lattice:
    """Schemes of a sample. Records of a class have equal sensitive values, because these are published too."""

    sample: Stream

    @cached_property
    def levels(self) -> list[list[Level]]:
        """Levels of each attribute, the most general one first; their values depend on no record."""
        policy, sample = self.sample.policy, self.sample
        numbers = [[*_of_number(a, sample.numeric[:, i])] for i, a in enumerate(policy.numeric)]
        return numbers + [[*_of_category(a, sample.categorical[:, i])] for i, a in enumerate(policy.categorical)]

    @cached_property
    def sensitive(self) -> NDArray[np.int64]:
        """(records,) number of each record's sensitive values."""
        return np.unique(self.sample.sensitive, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    @property
    def top(self) -> Scheme:
        return (0,) * len(self.levels)

    def next_finer(self, scheme: Scheme) -> Iterator[Scheme]:
        """Yield each scheme in which one attribute is one level finer."""
        for i, levels in enumerate(self.levels):
            if scheme[i] + 1 < len(levels):
                yield (*scheme[:i], scheme[i] + 1, *scheme[i + 1 :])

    def classes(self, scheme: Scheme) -> Classes:
        """Return the classes of a scheme."""
        levels = [levels[number] for levels, number in zip(self.levels, scheme, strict=True)]
        # The digits of a key are the values. Its sort takes a tenth of the time of one with positions.
        key, most = self.sensitive, 1 + int(self.sensitive.max(initial=0))
        for level in levels:
            key, most = key * len(level.loss) + level.code, most * len(level.loss)
        assert most < 2**62
        keys, size = np.unique(key, return_counts=True)
        rest, codes = keys, []
        for level in levels[::-1]:
            rest, code = np.divmod(rest, len(level.loss))
            codes.append(code)
        return Classes(levels, key, keys, size, codes[::-1])

    def score(self, scheme: Scheme, k: int) -> float:
        """Return minus the loss of the sample, where a suppressed record loses 1, for a sensitivity of 1.

        One more record changes the loss by 1 at most, unless it completes a class of k: then the k - 1 others lose up
        to k - 1 less. ARX divides its score for granularity by the same k - 1.
        """
        return -self.classes(scheme).lost(k) / max(k - 1, 1)


def find_scheme(lattice: Lattice, k: int, search: Search, random: np.random.Generator) -> Scheme:
    """Return the scheme that a search from the top finds.

    Each step selects one of the schemes that are one level finer than a selected one, and were not selected yet. The
    final choice is among all selected schemes and the top.
    """
    pivot, is_private = lattice.top, search.choice == "private"
    selected, known, open_ = {pivot: lattice.score(pivot, k)}, {pivot}, dict[Scheme, float]()
    each = search.epsilon * (1 - _FINAL if is_private else 1) / search.steps
    for _ in range(search.steps):
        for scheme in lattice.next_finer(pivot):
            if scheme not in known:
                known.add(scheme)
                open_[scheme] = lattice.score(scheme, k)
        if not open_:
            break
        pivot = select([*open_], [*open_.values()], each, random)
        selected[pivot] = open_.pop(pivot)
    final = search.epsilon * _FINAL if is_private else inf
    return select([*selected], [*selected.values()], final, random)


def select(schemes: Sequence[Scheme], scores: Sequence[float], epsilon: float, random: np.random.Generator) -> Scheme:
    """Return a scheme with a probability in proportion to e^(epsilon score / 2); the best one at an infinite epsilon.

    This is the exponential mechanism for scores of sensitivity 1: the largest score with Gumbel noise.
    """
    noise = random.gumbel(size=len(scores)) * (2 / epsilon)
    return schemes[int(np.argmax(np.asarray(scores) + noise))]


def publish(tuples: Stream, epsilon: float, k: int, search: Search, seed: int) -> tuple[Generalized, float, float]:
    """Return what SafePub publishes of a stream, its mean loss over the sample, and the suppressed share of it.

    Parameters
    ----------
    epsilon : of the sample, without that of the search
    k : minimum number of sampled records of a published class
    """
    random, rate = np.random.default_rng(seed), rate_of(epsilon)
    rows, others = (np.flatnonzero(random.random(len(tuples)) < rate) for _ in range(2))
    lattice = Lattice(tuples.rows(rows))
    searched = Lattice(tuples.rows(others)) if search.choice == "private" else lattice
    scheme = find_scheme(searched, k, search, random)
    classes = lattice.classes(scheme)
    number = np.searchsorted(classes.keys, classes.key)
    of = np.full(len(tuples), -1)
    of[rows] = np.where(classes.size[number] >= k, number, -1)
    ends = [(level.lower[code], level.upper[code]) for level, code in zip(classes.levels, classes.code, strict=True)]
    lower, upper = np.array(ends).transpose(1, 2, 0)
    numbers = len(tuples.policy.numeric)
    found = Generalized(tuples, lower[:, :numbers], upper[:, :numbers], lower[:, numbers:].astype(np.int32), of)
    return found, classes.lost(k) / len(rows), float((of[rows] < 0).mean())


def _of_number(attribute: Numeric, values: Floats) -> Iterator[Level]:
    """Yield the levels of a number: its domain, and at each next level quarters of the intervals before."""
    low, high = full_side(attribute)
    sides: list[Side] = [(low, high)]
    cuts: list[float] = []
    for finer in range(_QUARTERINGS + 1):
        lower, upper = np.array(sides, np.float64).T
        yield Level(np.searchsorted(np.sort(cuts), values, "right"), lower, upper, (upper - lower) / (high - low))
        if finer == _QUARTERINGS or all(_is_one_value(attribute, side) for side in sides):
            return
        for _ in range(2):
            halves: list[Side] = []
            for side in sides:
                if _is_one_value(attribute, side):
                    halves.append(side)
                else:
                    cuts.append((side[0] + side[1]) / 2)
                    halves += divided(attribute, side, cuts[-1])
            sides = halves


def _is_one_value(attribute: Numeric, side: Side) -> bool:
    return side[0] == side[1] or (attribute.step is not None and side[1] - side[0] < 1)


def _of_category(attribute: Categorical, leaf: NDArray[np.int32]) -> Iterator[Level]:
    """Yield the levels of a hierarchy, from its root to its leaves."""
    tree = attribute.hierarchy
    for nodes in tree.level_nodes()[::-1]:
        node, code = np.unique(nodes, return_inverse=True)
        yield Level(code.reshape(-1)[leaf].astype(np.int64), node.astype(float), node.astype(float), tree.loss[node])
