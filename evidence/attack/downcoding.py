"""Downcoding: inference of finer generalizations than those published.

After Cohen, "Attacks on Deidentification's Defenses" (2022). A minimal generalization discloses why it is no smaller.
Some member of the release has the lower end of an interval, and some member the upper end. Each child of a category
with two children has a member. So an attacker without any knowledge of persons can assign some rows a correct finer
generalization.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.evidence.attack.attack_data import RowGroups, Scene, Truth
from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Floats, Integers


@dataclass(frozen=True)
class _Claims:
    """Claims that some row of a group lies in part of its generalization; NaN where there is no claim.

    Attributes
    ----------
    lower, upper : (groups, 2) both ends of each of two parts
    """

    lower: Floats
    upper: Floats


def downcode(scene: Scene, truth: Truth, seen: RowGroups) -> tuple[Tries, Tries]:
    """Return released rows with a correct finer generalization, and their expected number by chance.

    Each group is refined in the attribute whose claims are rarest in the population, and two of its rows get a finer
    value there. The chance level draws as many persons from the population within the published generalization.

    Parameters
    ----------
    seen : of ``crenel.evidence.attack.attack_data.groups``
    """
    rows, offsets = seen.rows()
    own = scene.points[truth.row[rows]]
    group = np.repeat(np.arange(len(seen.size)), seen.size)
    low, high = seen.metric.hull(seen.lower, seen.upper)
    best = np.full(len(seen.size), np.inf)
    right, chance = np.zeros(len(best)), np.zeros(len(best))
    for column, attribute in enumerate(scene.sample.policy.coded):
        if isinstance(attribute, Numeric):
            claims = _of_ends(low[:, column], high[:, column], attribute.ends)
        elif attribute.publish == "set":
            claims = _of_ends(low[:, column], high[:, column], None)  # each listed value occurs
        else:
            claims = _of_halves(low[:, column], high[:, column], attribute.hierarchy)
        known = np.sort(scene.points[:, column])
        inside = _between(known, low[:, column], high[:, column])
        rare, hits, drawn = np.zeros(len(best)), np.zeros(len(best)), np.zeros(len(best))
        for lower, upper in zip(claims.lower.T, claims.upper.T, strict=True):
            share = _between(known, lower, upper) / np.maximum(inside, 1)
            rare += np.where(np.isnan(lower), np.inf, share)
            hit = (own[:, column] >= lower[group]) & (own[:, column] <= upper[group])
            hits += np.add.reduceat(hit, offsets[:-1]) > 0 if len(hit) else 0
            drawn += 1 - (1 - np.minimum(share, 1)) ** seen.size
        better = rare < best
        best[better], right[better], chance[better] = rare[better], hits[better], drawn[better]
    return Tries(len(rows), float(right.sum())), Tries(len(rows), float(chance.sum()))


def downcode_placed(scene: Scene, truth: Truth, writer: Integers) -> tuple[Tries, Tries]:
    """Give fully generalized rows the range of the other rows of their writer, in one attribute.

    A row counts as fully generalized where its generalization holds all others. The attribute is the one whose range
    holds the fewest people. The first result counts rows whose value lies in that range; the second counts as many
    people drawn by chance.

    Parameters
    ----------
    writer : (released rows,) from 0
    """
    low, high = scene.metric.hull(scene.lower, scene.upper)
    is_full = ((low <= low.min(axis=0)) & (high >= high.max(axis=0))).all(axis=1)
    known = scene.points[truth.row]
    tries, right, chance = 0, 0.0, 0.0
    for number in np.unique(writer[is_full]).tolist():
        full, others = (writer == number) & is_full, (writer == number) & ~is_full
        if not others.any():
            continue
        lower, upper = low[others].min(axis=0), high[others].max(axis=0)
        share = ((scene.points >= lower) & (scene.points <= upper)).mean(axis=0)
        column = int(share.argmin())
        value = known[full, column]
        tries += len(value)
        right += float(((value >= lower[column]) & (value <= upper[column])).sum())
        chance += float(len(value) * share[column])
    return Tries(tries, right), Tries(tries, chance)


def _of_ends(lower: Floats, upper: Floats, grid: float | None) -> _Claims:
    """Claim the value at each end of an interval, or the grid cell there."""
    if grid is None:
        wide = lower < upper
        low_end, high_end = lower, upper
    else:
        low_end = (np.floor(lower / grid) + 1) * grid
        high_end = (np.ceil(upper / grid) - 1) * grid
        wide = low_end <= high_end
    return _Claims(
        np.where(wide[:, None], np.column_stack([lower, high_end]), np.nan),
        np.where(wide[:, None], np.column_stack([low_end, upper]), np.nan),
    )


def _of_halves(first: Floats, last: Floats, tree: Hierarchy) -> _Claims:
    """Claim both children of each node that has exactly two."""
    children: dict[int, list[int]] = {}
    for node in range(tree.root):
        children.setdefault(int(tree.parent[node]), []).append(node)
    halves = {
        (int(tree.first[node]), int(tree.last[node])): sorted((int(tree.first[c]), int(tree.last[c])) for c in below)
        for node, below in children.items()
        if len(below) == 2
    }
    nothing = [(np.nan, np.nan)] * 2
    pairs = np.array([halves.get((int(f), int(t)), nothing) for f, t in zip(first, last, strict=True)], np.float64)
    ends = pairs.reshape(-1, 2, 2)
    return _Claims(ends[:, :, 0], ends[:, :, 1])


def _between(ordered: Floats, lower: Floats, upper: Floats) -> Integers:
    """Count the numbers from each lower end to each upper end."""
    counts: NDArray[np.int64] = np.searchsorted(ordered, upper, "right") - np.searchsorted(ordered, lower, "left")
    return np.maximum(counts, 0)
