"""Compiled searches of boxes and points.

A box is a generalization, with both ends of each attribute; a point is the values of a person. Their distance is the
sum over attributes of how far the point lies outside, each divided by a scale. It is 0 inside the box. In an attribute
that is published as a set, both ends are the number of the set, and a value outside of it counts as one unit.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, leaf

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


class Metric(NamedTuple):
    """Distances between boxes and points.

    Attributes
    ----------
    scale : (dimensions,) divisors of distances
    is_set : (dimensions,) whether both ends of a box are the number of a set
    offsets : (sets + 1,) the leaves of set i are offsets[i] to offsets[i + 1]
    leaves : leaves of all sets, in ascending order within each
    """

    scale: Floats
    is_set: NDArray[np.bool_]
    offsets: Integers
    leaves: Integers

    def only(self, columns: Integers) -> Metric:
        """Return the distances in some of the dimensions."""
        return self._replace(scale=self.scale[columns], is_set=self.is_set[columns])

    def behind(self, scale: float) -> Metric:
        """Return the distances with an additional first dimension."""
        return self._replace(scale=np.concatenate([[scale], self.scale]), is_set=np.concatenate([[False], self.is_set]))

    def hull(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return the same boxes, with the first and the last leaf in the place of each set."""
        lower, upper = lower.copy(), upper.copy()
        for i in np.flatnonzero(self.is_set):
            number = lower[:, i].astype(np.int64)
            lower[:, i], upper[:, i] = self.leaves[self.offsets[number]], self.leaves[self.offsets[number + 1] - 1]
        return lower, upper


@leaf
def _lists(metric: Metric, number: Int, value: float) -> bool:
    """Return whether a set contains a leaf."""
    low, high = metric.offsets[number], metric.offsets[number + 1]
    while low < high:
        middle = (low + high) // 2
        if metric.leaves[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < metric.offsets[number + 1] and metric.leaves[low] == value)


@leaf
def _distance(lower: Floats, upper: Floats, box: Int, points: Floats, point: Int, metric: Metric, most: float) -> float:
    """Return the distance, or any number above ``most`` if it exceeds that."""
    total = 0.0
    for i in range(len(metric.scale)):
        value = points[point, i]
        if metric.is_set[i]:
            if not _lists(metric, np.int64(lower[box, i]), value):
                total += 1.0 / metric.scale[i]
        elif value < lower[box, i]:
            total += (lower[box, i] - value) / metric.scale[i]
        elif value > upper[box, i]:
            total += (value - upper[box, i]) / metric.scale[i]
        if total > most:
            return total
    return total


@entry
def crowds(lower: Floats, upper: Floats, points: Floats, metric: Metric, begin: Integers, end: Integers) -> Integers:
    """Return (boxes,) the number of points inside each.

    ``begin``, ``end``: (boxes,) range of the points to look at.
    """
    counts = np.zeros(len(lower), np.int64)
    for box in range(len(lower)):
        for point in range(begin[box], end[box]):
            if _distance(lower, upper, box, points, point, metric, 0.0) == 0.0:
                counts[box] += 1
    return counts


@entry
def ranked(lower: Floats, upper: Floats, weight: Floats, points: Floats, metric: Metric, most: int) -> Integers:
    """Return (points, most) the nearest boxes of each point, those of the largest weight first; -1: no more."""
    nearest = np.full((len(points), most), -1, np.int64)
    for point in range(len(points)):
        least, count = np.inf, 0
        for box in range(len(lower)):
            distance = _distance(lower, upper, box, points, point, metric, least)
            if distance > least:
                continue
            if distance < least:
                least, count = distance, 0
                for i in range(most):
                    nearest[point, i] = -1
            if count < most:
                place = count
                count += 1
            elif weight[box] > weight[nearest[point, most - 1]]:
                place = most - 1
            else:
                continue
            while place > 0 and weight[box] > weight[nearest[point, place - 1]]:
                nearest[point, place] = nearest[point, place - 1]
                place -= 1
            nearest[point, place] = box
    return nearest


@entry
def voted(
    lower: Floats, upper: Floats, weight: Floats, points: Floats, metric: Metric, offsets: Integers, values: Integers
) -> Integers:
    """Return (points,) the value with the largest total weight among the rows of the nearest boxes.

    Ties go to the lower value; -1 without boxes.

    Parameters
    ----------
    offsets : (boxes + 1,) the rows of box i are offsets[i] to offsets[i + 1]
    values : (rows,) from 0
    """
    winner = np.full(len(points), -1, np.int64)
    votes = np.zeros(values.max() + 1 if len(values) else 0, np.float64)
    for point in range(len(points)):
        least = np.inf
        for box in range(len(lower)):
            least = min(least, _distance(lower, upper, box, points, point, metric, least))
        votes[:] = 0.0
        for box in range(len(lower)):
            if _distance(lower, upper, box, points, point, metric, least) <= least:
                for row in range(offsets[box], offsets[box + 1]):
                    votes[values[row]] += weight[box]
        for value in range(len(votes)):
            if votes[value] > 0.0 and (winner[point] < 0 or votes[value] > votes[winner[point]]):
                winner[point] = value
    return winner


@entry
def linked(
    lower: Floats,
    upper: Floats,
    noised: Floats,
    points: Floats,
    originals: Floats,
    metric: Metric,
    person: Integers,
    own: Integers,
    begin: Integers,
    end: Integers,
) -> Floats:
    """Return (boxes,) the probability that a guess among the nearest points is the box's own person.

    Among equally near points, the guess is among those whose originals are nearest to the box's noised numbers.

    Parameters
    ----------
    noised, originals : (boxes, numbers) and (points, numbers), in comparable units; no numbers: none are noised
    person : (points,) the person of each
    own : (boxes,) the person of each
    begin, end : (boxes,) range of the points to look at
    """
    probability = np.zeros(len(lower), np.float64)
    for box in range(len(lower)):
        least, near, count, right = np.inf, np.inf, 0, 0
        for point in range(begin[box], end[box]):
            distance = _distance(lower, upper, box, points, point, metric, least)
            if distance > least:
                continue
            off = 0.0
            for i in range(noised.shape[1]):
                off += (noised[box, i] - originals[point, i]) ** 2
            if distance < least or off < near:
                least, near, count, right = distance, off, 0, 0
            elif off > near:
                continue
            count += 1
            right += person[point] == own[box]
        probability[box] = right / max(count, 1)
    return probability


@entry
def persons_per_set(
    lower: Floats, upper: Floats, offsets: Integers, points: Floats, metric: Metric, person: Integers, persons: int
) -> Integers:
    """Return (sets,) the number of persons with a point in each box of a set.

    Parameters
    ----------
    offsets : (sets + 1,) the boxes of set i are offsets[i] to offsets[i + 1]
    person : (points,) from 0, below ``persons``
    """
    counts = np.zeros(len(offsets) - 1, np.int64)
    reached = np.zeros(persons, np.int64)
    for part in range(len(offsets) - 1):
        reached[:] = 0
        first = offsets[part]
        for box in range(first, offsets[part + 1]):
            for point in range(len(points)):
                if reached[person[point]] != box - first:
                    continue
                if _distance(lower, upper, box, points, point, metric, 0.0) == 0.0:
                    reached[person[point]] = box - first + 1
        for i in range(persons):
            counts[part] += reached[i] == offsets[part + 1] - first
    return counts


def precompile() -> None:
    """Compile all searches."""
    boxes, numbers, none = np.zeros((1, 1)), np.zeros(1), np.zeros(1, np.int64)
    metric = Metric(np.ones(1), np.zeros(1, np.bool_), none, none)
    crowds(boxes, boxes, boxes, metric, none, none)
    ranked(boxes, boxes, numbers, boxes, metric, 1)
    voted(boxes, boxes, numbers, boxes, metric, np.array([0, 1]), none)
    linked(boxes, boxes, boxes, boxes, boxes, metric, none, none, none, none)
    persons_per_set(boxes, boxes, np.array([0, 1]), boxes, metric, none, 1)
