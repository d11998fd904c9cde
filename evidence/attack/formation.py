"""Minimality attack that learns: inference from the formation of classes, without the seed or any value.

The attacker knows all quasi-identifiers, the order of arrival, the members of each release, and the algorithm. The
attacker runs the algorithm on other records, whose values are known, and learns how the values of members depend on
facts that need no value: how many buffered records were nearer to the other members, how much a member widens its
class, how long it waited, and how often earlier classes passed it over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical
from crenel.evidence.attack.attack_data import part_of, persons_of
from crenel.evidence.attack.minimality import Inferred, Posterior, judged, numbered
from crenel.evidence.attack.search import Floats, Integers
from crenel.evidence.replay import Replayed, replay_outputs
from crenel.evidence.sample import ReplaySetting, Sample

_LOOKS = 16
"""Maximum tuples of a shard between two observations of the attacker."""

_FACTS = 11
"""Number of facts about a member and a value."""

_VALUES = 50
"""Maximum number of values of a class that the attacker examines."""

_STEPS = 50
"""Maximum number of steps of the fit."""

_RIDGE = 1.0
"""Weight of the squares of the coefficients in the fit."""

_BALANCES = 20
"""Number of corrections that give each value as many members as the class has of it."""

_SAME = 1e-12
"""Difference of losses that counts as none."""


@dataclass(frozen=True)
class _Formed:
    """Classes with several values: their posteriors before the attack, and what is known about their formation.

    Attributes
    ----------
    classes : with at most ``_VALUES`` values each
    facts : (members of all classes, ``_VALUES``, facts) facts for or against a value of a member
    """

    classes: list[Posterior]
    facts: Floats


def learned_minimality(sample: Sample, setting: ReplaySetting, column: int, random: np.random.Generator) -> Inferred:
    """Infer the values of all members of classes, in each half of the persons from the other half.

    Parameters
    ----------
    column : index of the sensitive attribute; of an array, the attacker infers all values together
    """
    (value, is_rare), person = numbered(sample, column), persons_of(sample)
    half = random.permutation(int(person.max(initial=-1)) + 1)[person] % 2
    formed = []
    for number in range(2):
        rows = np.flatnonzero(half == number)
        part = part_of(sample, rows)
        replayed = replay_outputs(part, replace(setting, seed=setting.seed + number), _LOOKS)
        formed.append(_observed(part, replayed, value[rows], is_rare))
    posteriors = [one for number in range(2) for one in _inferred(formed[number], formed[1 - number])]
    return judged(posteriors)


def _observed(sample: Sample, replayed: Replayed, value: Integers, is_rare: NDArray[np.bool_]) -> _Formed:
    """Return the classes of a replay with the facts about them; ``value``: (tuples,) number of the value of each."""
    space = _Space(sample)
    classes: list[Posterior] = []
    facts = [np.zeros((0, _VALUES, _FACTS))]
    release = np.column_stack([replayed.shard, replayed.release])
    bounds = [0, *(np.flatnonzero((release[1:] != release[:-1]).any(axis=1)) + 1).tolist(), len(release)]
    # The release of each tuple, in order; later ones for tuples that stay until the end.
    order, shard = np.full(len(sample), len(bounds)), np.full(len(sample), -1)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        order[replayed.row[start:stop]], shard[replayed.row[start:stop]] = number, replayed.shard[start:stop]
    passed, against = np.zeros(len(sample)), np.zeros((len(sample), len(is_rare)))
    last = len(sample) - 1
    ended = bool((replayed.left == last).all())
    for number, (start, stop) in enumerate(pairwise(bounds)):
        left = int(replayed.left[start]) if stop > start else last
        if stop - start < 2 or (left == last and not ended):
            continue
        rows = np.sort(replayed.row[start:stop])
        waiting = np.flatnonzero((order[: left + 1] > number) & (shard[: left + 1] == replayed.shard[start]))
        known = Posterior.of(value[rows], is_rare)
        lower, upper, growth = space.apart(rows)
        farthest = int(growth.argmax())
        if 1 < len(known.values) <= _VALUES:
            about = (
                np.log1p(space.passed(rows, waiting)),
                growth / max(growth.mean(), _SAME),
                np.searchsorted(waiting, rows) / max(len(waiting), 1),
                rows == rows[0],
                np.log1p(passed[rows]),
            )
            rarity = -np.log(known.share), known.share * len(rows) < 1.5
            crossed = [np.column_stack(about)[:, None, :] * factor[None, :, None] for factor in rarity]
            facts.append(np.zeros((len(rows), _VALUES, _FACTS)))
            facts[-1][:, : len(known.values)] = np.concatenate(
                [*crossed, np.log1p(against[np.ix_(rows, known.values)])[:, :, None]], axis=2
            )
            classes.append(known)
        over = waiting[space.growth(lower[farthest], upper[farthest], waiting) < growth[farthest] - _SAME]
        passed[over] += 1
        against[np.ix_(over, known.values)] += (known.share * len(rows)) ** -2.0
    return _Formed(classes, np.concatenate(facts))


def _inferred(formed: _Formed, other: _Formed) -> list[Posterior]:
    """Return the classes with the inference of an attacker who has learned from others."""
    if not formed.classes or not other.classes:
        return formed.classes
    weight = _fitted(other)
    posteriors, start = [], 0
    for one in formed.classes:
        stop = start + len(one.own)
        likely = _likely(one.likely, formed.facts[start:stop, : len(one.values)] @ weight)
        held = one.share * len(one.own)
        for _ in range(_BALANCES):
            likely = likely * (held / np.maximum(likely.sum(axis=0), _SAME))
            likely = likely / np.maximum(likely.sum(axis=1, keepdims=True), _SAME)
        posteriors.append(replace(one, likely=likely))
        start = stop
    return posteriors


def _fitted(formed: _Formed) -> Floats:
    """Return the coefficients of the facts in a conditional logit of the values, with the shares as offset."""
    facts = formed.facts[:, : max(len(one.values) for one in formed.classes)]
    share, start = np.zeros(facts.shape[:2]), 0
    for one in formed.classes:
        share[start : start + len(one.own), : len(one.values)] = one.likely
        start += len(one.own)
    own = np.arange(start), np.concatenate([one.own for one in formed.classes])
    scale = np.sqrt((facts**2).mean(axis=(0, 1))) + _SAME
    facts = facts / scale

    def fit(weight: Floats) -> float:
        likely = np.maximum(_likely(share, facts @ weight)[own], 1e-300)
        return float(np.log(likely).sum() - _RIDGE * weight @ weight / 2)

    weight = np.zeros(_FACTS)
    for _ in range(_STEPS):
        likely = _likely(share, facts @ weight)
        mean = np.einsum("mv,mvf->mf", likely, facts)
        slope = (facts[own] - mean).sum(axis=0) - _RIDGE * weight
        weighted = (likely[:, :, None] * facts).reshape(-1, _FACTS)
        spread = weighted.T @ facts.reshape(-1, _FACTS) - mean.T @ mean + _RIDGE * np.eye(_FACTS)
        step, before = np.linalg.solve(spread, slope), fit(weight)
        while fit(weight + step) < before and np.abs(step).max() > 1e-6:
            step = step / 2
        if np.abs(step).max() <= 1e-6:
            break
        weight = weight + step
    return np.asarray(weight / scale)


def _likely(share: Floats, score: Floats) -> Floats:
    """Return (members, values) shares, each changed by the exponential of a score, as probabilities."""
    likely = np.where(share > 0, score, -np.inf)
    likely = share * np.exp(likely - likely.max(axis=1, keepdims=True))
    return np.asarray(likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300))


class _Space:
    """Records as points, numbers relative to their range, and the loss of boxes by their ends (..., attributes)."""

    def __init__(self, sample: Sample) -> None:
        numbers = np.nan_to_num(sample.numbers)
        low, high = (extreme(numbers, axis=0, initial=0.0) for extreme in (np.min, np.max))
        ends = [attribute.domain or (low[i], high[i]) for i, attribute in enumerate(sample.policy.numeric)]
        ranges = np.array([end - begin for begin, end in ends])
        self._trees = [one.hierarchy for one in sample.policy.coded if isinstance(one, Categorical)]
        self._points = np.column_stack([numbers / np.where(ranges > 0, ranges, 1), sample.tuples.categorical])

    def apart(self, rows: Integers) -> tuple[Floats, Floats, Floats]:
        """Return (rows, attributes) ends of the box around all other rows, and (rows,) its growth by the row."""
        own = self._points[rows]
        points = np.sort(own, axis=0)
        lower = np.where(own == points[0], points[1], points[0])
        upper = np.where(own == points[-1], points[-2], points[-1])
        return lower, upper, self._loss(points[0], points[-1]) - self._loss(lower, upper)

    def passed(self, rows: Integers, waiting: Integers) -> Integers:
        """Return (rows,) the number of waiting rows nearer than each, where the nearest row joins the first in turn."""
        left, count = np.arange(1, len(rows)), np.zeros(len(rows), np.int64)
        lower = upper = self._points[rows[0]]
        while len(left):
            growth = self.growth(lower, upper, rows[left])
            place = int(growth.argmin())
            one = left[place]
            count[one] = np.count_nonzero(self.growth(lower, upper, waiting) < growth[place] - _SAME)
            lower, upper = (
                extreme(end, self._points[rows[one]]) for extreme, end in ((np.minimum, lower), (np.maximum, upper))
            )
            left = np.delete(left, place)
        return count

    def growth(self, lower: Floats, upper: Floats, rows: Integers) -> Floats:
        """Return (rows,) the growth of a box by each row."""
        points = self._points[rows]
        return self._loss(np.minimum(lower, points), np.maximum(upper, points)) - self._loss(lower, upper)

    def _loss(self, lower: Floats, upper: Floats) -> Floats:
        numbers = lower.shape[-1] - len(self._trees)
        loss = (upper[..., :numbers] - lower[..., :numbers]).sum(axis=-1)
        for i, tree in enumerate(self._trees, numbers):
            # The lowest common ancestor of leaves is that of the first and the last.
            node, last = lower[..., i].astype(np.int64), upper[..., i]
            while (below := tree.last[node] < last).any():
                node = np.where(below, tree.parent[node], node)
            loss = loss + tree.loss[node]
        return np.asarray(loss)
