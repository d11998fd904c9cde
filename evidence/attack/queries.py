"""What is left of use: how wrong counts of ranges come out.

As in LeFevre and others, "Mondrian Multidimensional K-Anonymity" (2006): a query counts the people whose values lie in
a range of each of some attributes; of what left, each row counts by the part of its generalization that lies inside, as
if values were spread evenly in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crenel.evidence.attack.attack_data import Groups, Scene
from crenel.evidence.attack.search import Floats, Integers


@dataclass(frozen=True)
class Queries:
    """How wrong counts of ranges are.

    Attributes
    ----------
    count : of queries
    error : median of the relative errors, 0 or more
    low, high : bounds of it, of 95 % confidence, by order statistics
    """

    count: int
    error: float
    low: float
    high: float


def errors(
    scene: Scene, seen: Groups, random: np.random.Generator, queries: int = 200, attributes: int = 2, width: float = 0.3
) -> Floats:
    """(queries,) relative errors, of no less than a thousandth of all rows.

    Parameters
    ----------
    queries : those that count somebody
    attributes : of each query, drawn at random, or as many as there are
    width : of each range, as a share of the people, between two of their values
    """
    points = scene.points
    whole = np.array([_is_whole(points[:, i]) for i in range(points.shape[1])])
    found: list[float] = []
    for _ in range(10 * queries):
        columns = np.sort(random.permutation(points.shape[1])[:attributes])
        lower, upper = _range(points[:, columns], random, width)
        inside = ((points[:, columns] >= lower) & (points[:, columns] <= upper)).all(axis=1)
        count = int(inside.sum())
        if not count:
            continue
        part = np.ones(len(seen.size))
        for i, column in enumerate(columns):
            part *= _part(seen.lower[:, column], seen.upper[:, column], lower[i], upper[i], whole[column])
        found.append(abs(float((part * seen.size).sum()) - count) / max(count, len(points) / 1000))
        if len(found) == queries:
            break
    return np.array(found)


def median(errors: Floats) -> Queries:
    """The median of errors with its bounds; of none it is 0, from 0 to infinity."""
    ordered = np.sort(errors)
    n = len(ordered)
    if not n:
        return Queries(0, 0.0, 0.0, np.inf)
    # How many of n lie below their median is binomial.
    reach = 0.98 * np.sqrt(n)
    low, high = int(np.floor(n / 2 - reach)) - 1, int(np.ceil(n / 2 + reach))
    ends = ordered[max(low, 0)], ordered[min(high, n - 1)]
    return Queries(n, float(np.median(ordered)), float(ends[0]), float(ends[1]))


def _range(values: Floats, random: np.random.Generator, width: float) -> tuple[Floats, Floats]:
    ordered = np.sort(values, axis=0)
    size = max(int(width * len(values)), 1)
    begin: Integers = random.integers(0, max(len(values) - size, 1), values.shape[1])
    columns = np.arange(values.shape[1])
    return ordered[begin, columns], ordered[np.minimum(begin + size, len(values) - 1), columns]


def _part(first: Floats, last: Floats, lower: float, upper: float, whole: bool) -> Floats:
    """What part of each interval lies in a range; numbers that are whole count themselves, others lengths."""
    step = 1.0 if whole else 0.0
    both = np.minimum(last, upper) - np.maximum(first, lower) + step
    length = last - first + step
    inside = (first >= lower) & (first <= upper)
    shares: Floats = np.where(length > 0, np.clip(both, 0, None) / np.where(length > 0, length, 1), inside)
    return np.minimum(shares, 1)


def _is_whole(values: Floats) -> bool:
    return bool((values == np.floor(values)).all())
