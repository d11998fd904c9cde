"""Grouping of equal items by hashing.

Sorting instead took a fifth of the run time on a stream of persons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, inner, inner_leaf, leaf, procedure

C = TypeVar("C")

_FREE = -1


class ItemsByGroup(NamedTuple):
    """Items ordered by group.

    Attributes
    ----------
    items : (items,) indices of the items, group by group, in their order
    start : (groups + 1,) index in ``items`` at which each group begins
    """

    items: NDArray[np.int64]
    start: NDArray[np.int64]


@inner
def chain_by(
    keys: NDArray[np.uint64], same: NDArray[np.int64], equal: Callable[[C, Int, Int], bool], context: C
) -> Int:
    """Fill ``same`` with the previous equal item, -1 where there is none; return the number of distinct items.

    The table serves one call, so it needs neither removal nor stored keys. ``crenel.anonymity.privacy_models.counting``
    has both, at 1.7 times the time for sets of up to a thousand items.

    Parameters
    ----------
    keys, same : (items,) a key of each item, alike for equal items; and the result
    equal : compares two items, given ``context`` and their indices, whose keys are alike
    """
    bits = 4
    while (1 << bits) < 2 * len(keys):
        bits += 1
    last, mask, distinct = np.full(1 << bits, _FREE, np.int64), (1 << bits) - 1, np.int64(0)
    for i in range(len(keys)):
        slot = _home(keys[i], bits)
        while last[slot] != _FREE and not (keys[last[slot]] == keys[i] and equal(context, last[slot], np.int64(i))):
            slot = (slot + 1) & mask
        same[i] = last[slot]
        distinct += last[slot] == _FREE
        last[slot] = i
    return distinct


@leaf
def _home(key: Int, bits: Int) -> Int:
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))


@inner_leaf
def _always(keys: NDArray[np.uint64], i: Int, j: Int) -> bool:
    return True


@procedure
def chain_equal(keys: NDArray[np.uint64], same: NDArray[np.int64]) -> Int:
    """Fill ``same`` with the previous item of the same key, -1 where none has it; return the number of keys.

    ``keys`` and ``same`` have the same length.
    """
    return chain_by(keys, same, _always, keys)


@leaf
def number_chains(number: NDArray[np.int64]) -> None:
    """Replace the results of ``chain_by`` by one number per distinct item, from 0 in order of first occurrence."""
    fresh = np.int64(0)
    for i in range(len(number)):
        before = number[i]
        if before == -1:
            number[i] = fresh
            fresh += 1
        else:
            number[i] = number[before]


@procedure
def number_equal(keys: NDArray[np.uint64], number: NDArray[np.int64]) -> Int:
    """Fill ``number`` with one number per distinct key, from 0; return how many there are.

    ``keys`` and ``number`` have the same length.
    """
    distinct = chain_equal(keys, number)
    number_chains(number)
    return distinct


@procedure
def group(number: NDArray[np.int64], count: Int) -> ItemsByGroup:
    """Group items by their number, each of which is below ``count``."""
    start, items = np.zeros(count + 1, np.int64), np.empty(len(number), np.int64)
    for i in range(len(number)):
        start[number[i] + 1] += 1
    for g in range(count):
        start[g + 1] += start[g]
    for i in range(len(number)):
        items[start[number[i]]] = i
        start[number[i]] += 1
    for g in range(count, 0, -1):
        start[g] = start[g - 1]
    start[0] = 0
    return ItemsByGroup(items, start)
