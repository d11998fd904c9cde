"""Re-identification, linkage, and intersection attacks: the person behind a released row.

Re-identification at n ("l-diversity-enhanced SUHDSA", Section 4.4): the attacker knows a person's values and ranks the
released rows by fit. The attack succeeds if one of the first n rows is that person's. Rows with equal fit are ranked by
how few persons fit them, then at random. Linkage ("(k, epsilon)-anonymity", Section V-B) goes the other way: the
attacker knows the values of all persons and guesses the person behind a released row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.evidence.attack.attack_data import RowGroups, Scene, Truth
from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Floats, Integers, crowds, linked, persons_per_set, ranked

CROWD = 4000
"""Sample size for counting the persons that fit a generalization, where the attacker knows only some attributes."""


@dataclass(frozen=True)
class Ranking:
    """The likeliest groups of rows for each target of an attacker.

    Attributes
    ----------
    first : (targets, n) groups of rows, the likeliest first; -1: no more
    size : (targets, n) rows of each
    own : (targets, n) those of them that are the target's
    """

    first: Integers
    size: Integers
    own: Integers

    def within(self, rows: int) -> Tries:
        """Return the tries that find a row of the target among the first ``rows`` rows.

        ``rows``: at most the number of groups in ``first``.
        """
        left = np.full(len(self.first), rows)
        missed = np.ones(len(self.first))
        for size, own in zip(self.size.T, self.own.T, strict=True):
            taken = np.minimum(left, size)
            for i in range(rows):
                # Rows are drawn from the group without replacement.
                chance = np.clip((size - own - i) / np.maximum(size - i, 1), 0, 1)
                missed *= np.where(i < taken, chance, 1)
            left = left - taken
        return Tries(len(self.first), float((1 - missed).sum()))

    def recalled(self, groups: int) -> Tries:
        """Return the tries that have a group of the target among the first ``groups`` groups.

        ``groups``: at most the number of groups in ``first``.
        """
        return Tries(len(self.first), float((self.own[:, :groups] > 0).any(axis=1).sum()))


def weights(seen: RowGroups, random: np.random.Generator, people: int | None = None) -> Floats:
    """Return (groups,) the inverse number of persons that fit each group, with random tie-breaking.

    ``people``: size of a random sample of persons to count among; None: count all.
    """
    points, times = seen.points, 1.0
    if people is not None and people < len(points):
        points, times = points[np.sort(random.choice(len(points), people, replace=False))], len(points) / people
    # A part file holds many groups of one generalization. Persons are counted once for all of these.
    first, generalization = _generalizations(seen)
    counted = (
        crowds(seen.lower[first], seen.upper[first], points, seen.metric, *seen.reach(first, points))[generalization]
        * times
    )
    return 1 / np.maximum(counted, 1) * (1 + 1e-9 * random.random(len(counted)))


def rank(scene: Scene, truth: Truth, seen: RowGroups, weight: Floats, targets: Integers, most: int = 5) -> Ranking:
    """Rank groups of rows for each target by the attacker's knowledge of it; ``targets``: rows of the sample."""
    first = ranked(seen.lower, seen.upper, weight, np.ascontiguousarray(seen.points[targets]), seen.metric, most)
    groups = len(seen.size)
    keys, counts = np.unique(scene.person[truth.row] * groups + seen.group_of_row, return_counts=True)
    wanted = scene.person[targets][:, None] * groups + first
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    own = np.where((first >= 0) & (keys[place] == wanted), counts[place], 0) if len(keys) else np.zeros_like(first)
    return Ranking(first, np.where(first >= 0, seen.size[first], 0), own)


def rank_by_release(scene: Scene, truth: Truth, seen: RowGroups, targets: Integers) -> Ranking:
    """Rank for an attacker who knows the group of each target, and picks any row of that group."""
    row = np.empty(len(scene.points), np.int64)
    row[truth.row] = np.arange(len(truth.row))
    group = seen.group_of_row[row[targets]]
    keys, counts = np.unique(scene.person[truth.row] * len(seen.size) + seen.group_of_row, return_counts=True)
    own = counts[np.searchsorted(keys, scene.person[targets] * len(seen.size) + group)]
    return Ranking(group[:, None], seen.size[group][:, None], own[:, None])


def targets_of(scene: Scene, truth: Truth, random: np.random.Generator) -> Integers:
    """Return one random released tuple of every person with a released tuple, in random order."""
    rows = random.permutation(truth.row)
    _, first = np.unique(scene.person[rows], return_index=True)
    return random.permutation(rows[first])


def fits(seen: RowGroups, weight: Floats, points: Floats) -> Tries:
    """Return the success of guesses among the best-fitting rows, if each point were in one of them.

    This needs no ground truth.
    """
    first = ranked(seen.lower, seen.upper, weight, np.ascontiguousarray(points), seen.metric, 1)[:, 0]
    # Rows of different groups with the same generalization may be the person's as well.
    generalization = _generalizations(seen)[1]
    size = np.bincount(generalization, seen.size)[generalization]
    return Tries(len(first), float((1 / size[first[first >= 0]]).sum()))


def link(scene: Scene, truth: Truth, seen: RowGroups, rows: Integers) -> Tries:
    """Guess the person behind some released rows, by their generalizations and noised numbers."""
    noised, originals = _noised(scene, rows)
    chances = linked(
        np.ascontiguousarray(seen.lower[seen.group_of_row[rows]]),
        np.ascontiguousarray(seen.upper[seen.group_of_row[rows]]),
        noised,
        seen.points,
        originals,
        seen.metric,
        scene.person,
        scene.person[truth.row[rows]],
        *seen.reach(seen.group_of_row[rows], seen.points),
    )
    return Tries(len(rows), float(chances.sum()))


def link_unseen(seen: RowGroups, rows: Integers) -> Tries:
    """Return the success of guesses among the persons that fit each row, one of whom must be right; needs no truth."""
    group, back = np.unique(seen.group_of_row[rows], return_inverse=True)
    lower, upper = (np.ascontiguousarray(ends[group]) for ends in (seen.lower, seen.upper))
    counted = crowds(lower, upper, seen.points, seen.metric, *seen.reach(group, seen.points))
    chances: NDArray[np.float64] = np.where(counted > 0, 1 / np.maximum(counted, 1), 0)
    return Tries(len(rows), float(chances[back].sum()))


def intersect(scene: Scene, owner: Integers, random: np.random.Generator, most: int, rows: int = 10) -> Integers:
    """Count the persons that remain for the released rows of one person, for an attacker who can link these rows.

    Parameters
    ----------
    owner : (released rows,) number of the person, or of the code that the person's rows have in common; -1: none
    most : persons with at least two rows, drawn at random
    rows : of each person at most, drawn at random

    Returns
    -------
    (persons,) number of persons that fit each of these rows, at any time
    """
    mixed = random.permutation(np.flatnonzero(owner >= 0))
    ordered = mixed[np.argsort(owner[mixed], kind="stable")]
    _, begin, count = np.unique(owner[ordered], return_index=True, return_counts=True)
    chosen = random.permutation(np.flatnonzero(count > 1))[:most]
    sets = [ordered[begin[i] : begin[i] + min(count[i], rows)] for i in chosen]
    if not sets:
        return np.zeros(0, np.int64)
    rows_of_sets = np.concatenate(sets)
    return persons_per_set(
        np.ascontiguousarray(scene.lower[rows_of_sets]),
        np.ascontiguousarray(scene.upper[rows_of_sets]),
        np.cumsum([0, *map(len, sets)]),
        scene.points,
        scene.metric,
        scene.person,
        int(scene.person.max()) + 1,
    )


def _generalizations(seen: RowGroups) -> tuple[Integers, Integers]:
    """Return one group of each generalization, and of each group the number of its generalization."""
    both = np.column_stack([seen.lower, seen.upper])
    _, first, generalization = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return first, generalization.reshape(-1)


def _noised(scene: Scene, rows: Integers) -> tuple[Floats, Floats]:
    """Return noised numbers of released rows, and the originals of all tuples, each as a share of the domain."""
    published, originals = [np.zeros((len(rows), 0))], [np.zeros((len(scene.sample), 0))]
    for attribute in scene.sample.policy.noised.values():
        low, high = attribute.domain or (0.0, 1.0)
        column = scene.outputs.released[attribute.name].to_pandas().astype(float).to_numpy()
        came = scene.sample.tuples.members.column(attribute.name).to_pandas().astype(float).to_numpy()
        published.append(column[rows, None] / (high - low))
        originals.append(came[:, None] / (high - low))
    return np.ascontiguousarray(np.hstack(published)), np.ascontiguousarray(np.hstack(originals))
