"""Compiled searches of boxes and points.

A box is a generalization, with both ends of each attribute; a point is the values of a person. Their distance is the
sum over attributes of how far the point lies outside, each divided by a scale. It is 0 inside the box.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, leaf

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@leaf
def _distance(lower: Floats, upper: Floats, box: Int, points: Floats, point: Int, scale: Floats, most: float) -> float:
    """Return the distance, or any number above ``most`` if it exceeds that."""
    total = 0.0
    for i in range(len(scale)):
        value = points[point, i]
        if value < lower[box, i]:
            total += (lower[box, i] - value) / scale[i]
        elif value > upper[box, i]:
            total += (value - upper[box, i]) / scale[i]
        if total > most:
            return total
    return total


@entry
def crowds(lower: Floats, upper: Floats, points: Floats, scale: Floats, begin: Integers, end: Integers) -> Integers:
    """Return (boxes,) the number of points inside each.

    ``begin``, ``end``: (boxes,) range of the points to look at.
    """
    found = np.zeros(len(lower), np.int64)
    for box in range(len(lower)):
        for point in range(begin[box], end[box]):
            if _distance(lower, upper, box, points, point, scale, 0.0) == 0.0:
                found[box] += 1
    return found


@entry
def ranked(lower: Floats, upper: Floats, weight: Floats, points: Floats, scale: Floats, most: int) -> Integers:
    """Return (points, most) the nearest boxes of each point, those of the largest weight first; -1: no more."""
    found = np.full((len(points), most), -1, np.int64)
    for point in range(len(points)):
        least, count = np.inf, 0
        for box in range(len(lower)):
            distance = _distance(lower, upper, box, points, point, scale, least)
            if distance > least:
                continue
            if distance < least:
                least, count = distance, 0
                for i in range(most):
                    found[point, i] = -1
            if count < most:
                place = count
                count += 1
            elif weight[box] > weight[found[point, most - 1]]:
                place = most - 1
            else:
                continue
            while place > 0 and weight[box] > weight[found[point, place - 1]]:
                found[point, place] = found[point, place - 1]
                place -= 1
            found[point, place] = box
    return found


@entry
def voted(
    lower: Floats, upper: Floats, weight: Floats, points: Floats, scale: Floats, offsets: Integers, values: Integers
) -> Integers:
    """Return (points,) the value with the largest total weight among the rows of the nearest boxes.

    Ties go to the lower value; -1 without boxes.

    Parameters
    ----------
    offsets : (boxes + 1,) the rows of box i are offsets[i] to offsets[i + 1]
    values : (rows,) from 0
    """
    found = np.full(len(points), -1, np.int64)
    votes = np.zeros(values.max() + 1 if len(values) else 0, np.float64)
    for point in range(len(points)):
        least = np.inf
        for box in range(len(lower)):
            least = min(least, _distance(lower, upper, box, points, point, scale, least))
        votes[:] = 0.0
        for box in range(len(lower)):
            if _distance(lower, upper, box, points, point, scale, least) <= least:
                for row in range(offsets[box], offsets[box + 1]):
                    votes[values[row]] += weight[box]
        for value in range(len(votes)):
            if votes[value] > 0.0 and (found[point] < 0 or votes[value] > votes[found[point]]):
                found[point] = value
    return found


@entry
def linked(
    lower: Floats,
    upper: Floats,
    noised: Floats,
    points: Floats,
    originals: Floats,
    scale: Floats,
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
    found = np.zeros(len(lower), np.float64)
    for box in range(len(lower)):
        least, near, count, right = np.inf, np.inf, 0, 0
        for point in range(begin[box], end[box]):
            distance = _distance(lower, upper, box, points, point, scale, least)
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
        found[box] = right / max(count, 1)
    return found


@entry
def persons_per_set(
    lower: Floats, upper: Floats, offsets: Integers, points: Floats, scale: Floats, person: Integers, persons: int
) -> Integers:
    """Return (sets,) the number of persons with a point in each box of a set.

    Parameters
    ----------
    offsets : (sets + 1,) the boxes of set i are offsets[i] to offsets[i + 1]
    person : (points,) from 0, below ``persons``
    """
    found = np.zeros(len(offsets) - 1, np.int64)
    reached = np.zeros(persons, np.int64)
    for part in range(len(offsets) - 1):
        reached[:] = 0
        first = offsets[part]
        for box in range(first, offsets[part + 1]):
            for point in range(len(points)):
                if reached[person[point]] != box - first:
                    continue
                if _distance(lower, upper, box, points, point, scale, 0.0) == 0.0:
                    reached[person[point]] = box - first + 1
        for i in range(persons):
            found[part] += reached[i] == offsets[part + 1] - first
    return found
