"""Stored frequencies of values: written entries, refused entries, and values that count as others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from crenel.anonymity.buffer.stored_frequencies import SEEN, StoredSeen
from crenel.anonymity.privacy_models.value_frequencies import (
    ENTRY_VALUES,
    MOST_SEEN,
    ValueFrequencies,
    empty_seen,
    remove_value,
)
from crenel.state.codec import StateError
from crenel.state.shard import SeenValues
from tests.golden.frequencies import CODES, add_codes


def stored(seen: ValueFrequencies) -> dict[int, bytes]:
    """Return the entries that a step writes."""
    written = StoredSeen(empty_seen(seen.follows.tolist()), {}, "").changes(seen)[SEEN]
    return {key: blob for key, blob in written.items() if blob is not None}


def counts(seen: ValueFrequencies) -> list[tuple[int, dict[int, int]]]:
    """Return the tuples of each column, and those of each value."""
    return [
        (int(seen.total[a]), {int(c): int(n) for c, n in zip(seen.code[a], seen.amount[a], strict=True) if c})
        for a in range(len(seen.follows))
    ]


def test_what_is_stored_is_restored_and_only_what_has_changed_is_written_again() -> None:
    seen = empty_seen([True, False])
    add_codes(seen, [7, *range(1, 200)])
    entries = stored(seen)
    assert sorted(entries) == [0, 1, 2, 3]
    add_codes(seen, [150])
    again = stored(seen)
    assert sorted(again) == [0, 150 // ENTRY_VALUES]
    restored = empty_seen([True, False])
    StoredSeen(restored, entries | again, "shard 3")
    assert counts(restored) == counts(seen)
    add_codes(restored, [7, 500])
    add_codes(seen, [7, 500])
    assert counts(restored) == counts(seen)


def test_beyond_the_most_that_are_counted_values_count_as_others() -> None:
    seen = empty_seen([True])
    add_codes(seen, [*range(1, MOST_SEEN + 10), MOST_SEEN + 5])
    ((total, values),) = counts(seen)
    assert (total, len(values), sum(values.values())) == (MOST_SEEN + 10, MOST_SEEN, MOST_SEEN)


def test_after_somebody_is_forgotten_no_value_stays_that_fewer_than_k_tuples_have() -> None:
    seen = empty_seen([True])
    add_codes(seen, [1, 1, 1, 2, 2, 3])
    remove_value(seen, np.array([[1]], np.uint64), 2)
    assert counts(seen) == [(5, {1: 2, 2: 2})]
    restored = empty_seen([True])
    StoredSeen(restored, stored(seen), "")
    assert counts(restored) == counts(seen)


def test_what_is_not_compared_any_more_is_removed() -> None:
    seen = empty_seen([True, True])
    add_codes(seen, [1, 2])
    nothing = empty_seen([True, False])
    record = StoredSeen(nothing, stored(seen), "")
    assert record.changes(nothing) == {SEEN: {MOST_SEEN // ENTRY_VALUES: None}}
    assert record.changes(nothing) == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: SeenValues(entry.code, entry.amount[:1], entry.total),
        lambda entry: SeenValues(entry.code, -entry.amount, entry.total),
        lambda entry: SeenValues(entry.code, entry.amount, entry.total - 1),
        lambda entry: SeenValues(entry.code[[0, 0]], entry.amount, entry.total),
    ],
)
def test_damaged_entries_are_refused(damage: Callable[[SeenValues], SeenValues]) -> None:
    seen = empty_seen([True])
    add_codes(seen, [1, 2])
    entry = SeenValues.from_bytes(stored(seen)[0])
    with pytest.raises(StateError, match="seen state of shard 3"):
        StoredSeen(empty_seen([True]), {0: damage(entry).to_bytes()}, "shard 3")


def test_the_format_is_read_for_ever() -> None:
    restored = empty_seen([True])
    StoredSeen(restored, {0: CODES}, "")
    assert counts(restored) == [(4, {11: 3, 2**64 - 1: 1})]
