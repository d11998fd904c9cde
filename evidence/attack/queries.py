"""Utility of published data: errors of range count queries.

As in LeFevre and others, "Mondrian Multidimensional K-Anonymity" (2006): a query counts the persons whose values lie in
a range of each of some attributes. Each published row counts by the share of its generalization inside the range, as if
its values were uniformly distributed.
"""

from __future__ import annotations

import numpy as np

from crenel.evidence.attack.attack_data import RowGroups, Scene
from crenel.evidence.attack.result import Queries
from crenel.evidence.attack.search import Floats, Integers


def errors(
    scene: Scene,
    seen: RowGroups,
    random: np.random.Generator,
    queries: int = 200,
    attributes: int = 2,
    width: float = 0.3,
) -> Floats:
    """Return (queries,) errors relative to the true count, or to a thousandth of all rows if that is more.

    Parameters
    ----------
    queries : number of queries with a count above 0
    attributes : per query, drawn at random, at most as many as exist
    width : of each range, as a share of the persons, between two of their values
    """
    points = scene.points
    is_integer = np.array([_is_whole(points[:, i]) for i in range(points.shape[1])])
    policy = scene.sample.policy
    presence = {number: len(policy.numeric) + category for number, category in policy.presence}
    relative_errors: list[float] = []
    for _ in range(10 * queries):
        columns = np.sort(random.permutation(points.shape[1])[:attributes])
        lower, upper = _range(points[:, columns], random, width)
        inside = ((points[:, columns] >= lower) & (points[:, columns] <= upper)).all(axis=1)
        count = int(inside.sum())
        if not count:
            continue
        part = np.ones(len(seen.size))
        for i, column in enumerate(columns):
            if seen.metric.is_set[column]:
                part *= _part_of_sets(seen, int(column), lower[i], upper[i])
            else:
                part *= _part(seen.lower[:, column], seen.upper[:, column], lower[i], upper[i], is_integer[column])
            if column in presence:  # a range holds no missing number, and half of those that may be missing
                part *= 1 - (seen.lower[:, presence[column]] + seen.upper[:, presence[column]]) / 2
        relative_errors.append(abs(float((part * seen.size).sum()) - count) / max(count, len(points) / 1000))
        if len(relative_errors) == queries:
            break
    return np.array(relative_errors)


def median(errors: Floats) -> Queries:
    """Return the median of errors with its confidence interval; 0 with the interval 0 to infinity without errors."""
    ordered = np.sort(errors)
    n = len(ordered)
    if not n:
        return Queries(0, 0.0, 0.0, np.inf)
    # The number of errors below the median has a binomial distribution.
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


def _part(first: Floats, last: Floats, lower: float, upper: float, is_integer: bool) -> Floats:
    """Return the share of each interval inside a range; whole numbers are counted, others measured by length."""
    step = 1.0 if is_integer else 0.0
    both = np.minimum(last, upper) - np.maximum(first, lower) + step
    length = last - first + step
    inside = (first >= lower) & (first <= upper)
    shares: Floats = np.where(length > 0, np.clip(both, 0, None) / np.where(length > 0, length, 1), inside)
    return np.minimum(shares, 1)


def _part_of_sets(seen: RowGroups, column: int, lower: float, upper: float) -> Floats:
    """Return the share of the leaves of each group's set inside a range."""
    metric, number = seen.metric, seen.lower[:, column].astype(np.int64)
    inside = np.concatenate([[0], np.cumsum((metric.leaves >= lower) & (metric.leaves <= upper))])
    begin, end = metric.offsets[number], metric.offsets[number + 1]
    shares: Floats = (inside[end] - inside[begin]) / np.maximum(end - begin, 1)
    return shares


def _is_whole(values: Floats) -> bool:
    return bool(((values == np.floor(values)) | np.isnan(values)).all())
