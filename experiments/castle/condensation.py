"""Dynamic condensation (Aggarwal and Yu 2004), which the CASTLE paper calls dynamicGroup (Section 5.3).

Historical tuples form groups of k around random tuples. A later tuple joins the group of the nearest centroid, and a
group of 2k is split across its principal component. The original keeps moments of a group alone, and publishes invented
tuples. For a comparison by loss, this version keeps the tuples and publishes the box around each group at the end,
without any delay bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Floats


def condense(values: Floats, history: int, k: int, seed: int) -> NDArray[np.int64]:
    """Return the group of each tuple.

    Parameters
    ----------
    values : (tuples, attributes) in units of their domains, in order of arrival
    history : number of tuples that form the first groups, k or more
    """
    groups = _first_groups(values[:history], k, np.random.default_rng(seed))
    centroids = np.array([values[group].mean(0) for group in groups])
    for position in range(history, len(values)):
        nearest = int(np.argmin(((centroids - values[position]) ** 2).sum(1)))
        group = groups[nearest]
        group.append(position)
        if len(group) < 2 * k:
            centroids[nearest] += (values[position] - centroids[nearest]) / len(group)
            continue
        groups[nearest], added = _split(values, group)
        groups.append(added)
        centroids[nearest] = values[groups[nearest]].mean(0)
        centroids = np.vstack([centroids, values[added].mean(0)])
    found = np.empty(len(values), np.int64)
    for number, group in enumerate(groups):
        found[group] = number
    return found


def _first_groups(values: Floats, k: int, random: np.random.Generator) -> list[list[int]]:
    """Group the historical tuples around random ones; the last ones, fewer than k, join the nearest groups."""
    rest, groups = np.arange(len(values)), []
    while len(rest) >= k:
        distance = ((values[rest] - values[random.choice(rest)]) ** 2).sum(1)
        nearest = np.argpartition(distance, k - 1)[:k]
        groups.append([int(number) for number in rest[nearest]])
        rest = np.delete(rest, nearest)
    centroids = np.array([values[group].mean(0) for group in groups])
    for number in rest:
        groups[int(np.argmin(((centroids - values[number]) ** 2).sum(1)))].append(int(number))
    return groups


def _split(values: Floats, group: list[int]) -> tuple[list[int], list[int]]:
    """Halve a group across its principal component."""
    members = values[group] - values[group].mean(0)
    _, vectors = np.linalg.eigh(members.T @ members)
    order = np.argsort(members @ vectors[:, -1], kind="stable")
    half = len(group) // 2
    return [group[at] for at in order[:half]], [group[at] for at in order[half:]]
