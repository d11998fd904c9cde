"""Counts of tuples by owner and value are those of a ``collections.Counter``, whatever is added, removed or grown."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.privacy_models.counting import Counts, add, discard, empty_counts, grown
from tests.support.example_counts import examples

OWNERS = st.sampled_from((0, 1, 2, 7, 2**31 - 1))
VALUES = st.sampled_from((0, 1, 2, 3, 2**32, 2**63, 2**64 - 1))
SMALLEST = 16  # slots


@entry
def added(counts: Counts, owner: int, value: Any) -> bool:
    return add(counts, owner, value)


@entry
def discarded(counts: Counts, owner: int, value: Any) -> bool:
    return discard(counts, owner, value)


def held(counts: Counts) -> Counter[tuple[int, int]]:
    taken = np.flatnonzero(counts.owner != -1)
    columns = (counts.owner[taken].tolist(), counts.value[taken].tolist(), counts.tuples[taken].tolist())
    entries = [((owner, value), count) for owner, value, count in zip(*columns, strict=True)]
    assert len(dict(entries)) == len(entries) == counts.used[0]  # each key stands once
    return Counter(dict(entries))


def test_a_sixth_of_a_table_is_free() -> None:
    assert [len(empty_counts(entries).owner) for entries in (0, 1, 12, 13, 100, 1000)] == [16, 16, 16, 16, 121, 1201]


@given(st.lists(st.tuples(st.integers(0, 2), OWNERS, VALUES), max_size=300))
@settings(deadline=None, max_examples=examples(300))
def test_counts_are_those_of_a_counter(steps: list[tuple[int, int, int]]) -> None:
    # The table of 16 slots gets nearly full, so entries collide and wrap around its end.
    counts, expected = empty_counts(0), Counter[tuple[int, int]]()
    for what, owner, value in steps:
        key = (owner, value)
        if what < 2 and (key in expected or len(expected) < SMALLEST - 1):
            assert added(counts, owner, np.uint64(value)) == (key not in expected)
            expected[key] += 1
        elif what == 2 and key in expected:
            expected[key] -= 1
            assert discarded(counts, owner, np.uint64(value)) == (expected[key] == 0)
            expected += Counter()  # drops what is at zero
        assert held(counts) == expected


@given(st.lists(st.tuples(OWNERS, VALUES), max_size=60), st.integers(0, 500))
@settings(deadline=None)
def test_a_grown_table_counts_on(keys: list[tuple[int, int]], entries: int) -> None:
    counts, expected = empty_counts(40), Counter(keys)
    for owner, value in keys:
        added(counts, owner, np.uint64(value))
    wanted = len(expected) + entries
    larger = grown(counts, entries)
    assert len(larger.owner) >= 1.2 * wanted
    assert (larger is counts) == (len(counts.owner) >= 1.2 * wanted)
    assert held(larger) == expected
    for owner, value in keys:
        expected[owner, value] -= 1
        assert discarded(larger, owner, np.uint64(value)) == (expected[owner, value] == 0)
    assert held(larger) == Counter()


def test_discarding_what_was_not_counted_is_an_error() -> None:
    counts = empty_counts(0)
    added(counts, 1, np.uint64(5))
    with pytest.raises(InvariantError, match="had not been counted"):
        discarded(counts, 2, np.uint64(5))
