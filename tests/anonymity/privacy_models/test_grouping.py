"""Equal values side by side, against plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.privacy_models.grouping import ItemsByGroup, chain_equal, group, number_equal

KEYS = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 2**64 - 1)), max_size=80)


@entry
def chained(keys: NDArray[np.uint64], same: NDArray[np.int64]) -> int:
    return chain_equal(keys, same)


@entry
def numbered(keys: NDArray[np.uint64], number: NDArray[np.int64]) -> int:
    return number_equal(keys, number)


@entry
def grouped(number: NDArray[np.int64], count: int) -> ItemsByGroup:
    return group(number, count)


@given(KEYS)
def test_each_is_chained_to_the_one_before_it_that_is_alike(keys: list[int]) -> None:
    same = np.empty(len(keys), np.int64)
    found = chained(np.array(keys, np.uint64), same)
    assert found == len(set(keys))
    assert same.tolist() == [max((j for j in range(i) if keys[j] == key), default=-1) for i, key in enumerate(keys)]


@given(KEYS)
def test_equal_ones_and_only_these_have_one_number(keys: list[int]) -> None:
    number = np.empty(len(keys), np.int64)
    found = numbered(np.array(keys, np.uint64), number)
    first = list(dict.fromkeys(keys))
    assert found == len(first)
    assert number.tolist() == [first.index(key) for key in keys]


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(7, 9))
def test_groups_hold_their_items_in_order(number: list[int], count: int) -> None:
    found = grouped(np.array(number, np.int64), count)
    ends = found.start.tolist()
    parts = [found.items[start:stop].tolist() for start, stop in pairwise(ends)]
    assert parts == [[i for i, n in enumerate(number) if n == g] for g in range(count)]
