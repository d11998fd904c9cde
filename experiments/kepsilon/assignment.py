"""Attackers who know all originals of a class, and assign its published noised values to them.

The rows of a class have no order, so each assignment of published values to originals is equally likely before the
values are seen. Noise is independent for each record. So an assignment has a probability proportional to
exp(-(sum of the distances of its pairs) / scale), also where noise was cut off at the ends of the domain.
"""

from __future__ import annotations

from functools import cache
from math import exp

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Floats

LARGEST = 14
"""Maximum size of a class whose posterior is computed: its time doubles with each record."""


def posterior(originals: Floats, published: Floats, scale: float) -> Floats:
    """Return (published, originals) the probability that a published value is of a person, given all values.

    Parameters
    ----------
    originals, published : (records,) at most ``LARGEST``, in any order
    scale : of the noise, above 0
    """
    count = len(originals)
    distance = np.abs(published[:, None] - originals[None, :])
    weight = np.exp(-(distance - distance.min(axis=1, keepdims=True)) / scale)
    with_each, without_each = _subsets(count)
    # Total weight of the ways to assign the first, or the last, published values to a set of originals.
    first, last = np.zeros(2**count), np.zeros(2**count)
    first[0] = last[0] = 1.0
    found = np.zeros((count, count))
    for size in range(1, count + 1):
        for j in range(count):
            sets = with_each[size][j]
            first[sets] += first[sets ^ 1 << j] * weight[size - 1, j]
            last[sets] += last[sets ^ 1 << j] * weight[count - size, j]
    for i in range(count):
        for j in range(count):
            sets = without_each[i][j]
            found[i, j] = weight[i, j] * first[sets] @ last[2**count - 1 ^ sets ^ 1 << j]
    found /= found.sum(axis=1, keepdims=True)
    return found


@cache
def _subsets(count: int) -> tuple[list[list[NDArray[np.int64]]], list[list[NDArray[np.int64]]]]:
    """Return the sets of originals of each size, as bits, with each original, and without it."""
    sets = np.arange(2**count)
    sizes = np.array([int(each).bit_count() for each in sets])
    with_each, without_each = (
        [[sets[(sizes == size) & ((sets >> j & 1 == 1) == wanted)] for j in range(count)] for size in range(count + 1)]
        for wanted in (True, False)
    )
    return with_each, without_each


def linked_in_order(originals: Floats, published: Floats) -> int:
    """Return the correct links of an attacker who assigns both in ascending order: a most likely assignment.

    ``published[i]`` is of the person with ``originals[i]``.
    """
    assigned = np.empty(len(originals), np.int64)
    assigned[np.argsort(published, kind="stable")] = np.argsort(originals, kind="stable")
    return int((assigned == np.arange(len(originals))).sum())


def bound(records: int, epsilon: float) -> float:
    """Return the largest posterior probability that a class can have (docs/privacy/proofs.md).

    Parameters
    ----------
    records : of the class, each of another person
    epsilon : of the record
    """
    return 1 / (1 + (records - 1) * exp(-2 * epsilon))
