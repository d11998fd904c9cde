"""Hash table of counts, for cheap distinct counts while tuples arrive and depart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full, zeros
from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.model.errors import InvariantError

_FREE = -1


class Counts(NamedTuple):
    """Open-addressing hash table from (owner, value) to a count.

    Attributes
    ----------
    owner : (slots,) number of the distinct count, from 0 to 2**31 - 1; -1 where the slot is free
    value : (slots,) subject hash or sensitive code
    tuples : (slots,) number of tuples, at least 1; or the number assigned to a value
    used : (1,) number of entries
    """

    owner: NDArray[np.int32]
    value: NDArray[np.uint64]
    tuples: NDArray[np.int32]
    used: NDArray[np.int64]


def empty_counts(entries: int) -> Counts:
    """Return a table with room for ``entries`` at a load of at most five sixths."""
    slots = max(16, 6 * entries // 5 + 1)
    return Counts(full(slots, _FREE, np.int32), zeros(slots, np.uint64), zeros(slots, np.int32), np.zeros(1, np.int64))


def grown(counts: Counts, more: int) -> Counts:
    """Return the counts with room for ``more`` entries; the same table where it has that room already."""
    entries = int(counts.used[0]) + more
    if 5 * len(counts.owner) >= 6 * entries:
        return counts
    larger = empty_counts(5 * entries // 4)
    _copy(counts, larger)
    return larger


@leaf
def _home(owner: Int, value: Int, slots: Int) -> Int:
    mixed = np.uint64(value) ^ (np.uint64(owner) * np.uint64(0x9E3779B97F4A7C15))
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    # The upper half, scaled to the length of the table, which need not be a power of two.
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))


@leaf
def _after(slot: Int, slots: Int) -> Int:
    slot += 1
    return np.int64(0) if slot == slots else slot


@leaf
def _probe(counts: Counts, owner: Int, value: Int) -> Int:
    """Return the slot of an entry, or the free slot where it belongs."""
    slots = len(counts.owner)
    slot = _home(owner, value, slots)
    while counts.owner[slot] != _FREE and (counts.owner[slot] != owner or counts.value[slot] != value):
        slot = _after(slot, slots)
    return slot


@leaf
def _insert(counts: Counts, slot: Int, owner: Int, value: Int, tuples: Int) -> None:
    counts.owner[slot] = owner
    counts.value[slot] = value
    counts.tuples[slot] = tuples
    counts.used[0] += 1


@leaf
def add(counts: Counts, owner: Int, value: Int) -> bool:
    """Increase a count by 1; return whether the entry is new."""
    slot = _probe(counts, owner, value)
    if counts.owner[slot] != _FREE:
        counts.tuples[slot] += 1
        return False
    _insert(counts, slot, owner, value, np.int64(1))
    return True


@leaf
def discard(counts: Counts, owner: Int, value: Int) -> bool:
    """Decrease a count by 1; return whether the entry is gone."""
    slot = _find(counts, owner, value)
    counts.tuples[slot] -= 1
    if counts.tuples[slot] > 0:
        return False
    _remove(counts, slot)
    return True


@leaf
def _find(counts: Counts, owner: Int, value: Int) -> Int:
    slot = _probe(counts, owner, value)
    if counts.owner[slot] == _FREE:
        raise InvariantError("a tuple left that had not been counted")
    return slot


@leaf
def _remove(counts: Counts, slot: Int) -> None:
    # Close the gap (Knuth 6.4, Algorithm R), or searches for entries behind it would stop too early.
    slots = len(counts.owner)
    gap = slot
    while True:
        slot = _after(slot, slots)
        if counts.owner[slot] == _FREE:
            break
        home = _home(counts.owner[slot], counts.value[slot], slots)
        if (slot - home) % slots >= (slot - gap) % slots:
            counts.owner[gap] = counts.owner[slot]
            counts.value[gap] = counts.value[slot]
            counts.tuples[gap] = counts.tuples[slot]
            gap = slot
    counts.owner[gap] = _FREE
    counts.used[0] -= 1


@leaf
def number(counts: Counts, owner: Int, value: Int, fresh: Int) -> Int:
    """Return the number of a value, and assign ``fresh`` where it has none yet."""
    slot = _probe(counts, owner, value)
    if counts.owner[slot] != _FREE:
        return np.int64(counts.tuples[slot])
    _insert(counts, slot, owner, value, fresh)
    return fresh


@leaf
def numbered(counts: Counts, owner: Int, value: Int) -> Int:
    """Return the number of a value, -1 where it has none."""
    slot = _probe(counts, owner, value)
    return np.int64(counts.tuples[slot]) if counts.owner[slot] != _FREE else np.int64(-1)


@leaf
def unnumber(counts: Counts, owner: Int, value: Int) -> None:
    """Remove the number of a value."""
    _remove(counts, _find(counts, owner, value))


@entry
def _copy(source: Counts, target: Counts) -> None:
    for i in range(len(source.owner)):
        if source.owner[i] != _FREE:
            owner, value = np.int64(source.owner[i]), source.value[i]
            _insert(target, _probe(target, owner, value), owner, value, np.int64(source.tuples[i]))
