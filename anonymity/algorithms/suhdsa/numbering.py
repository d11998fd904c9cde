"""Numbers from 0 for the subjects and sensitive values of a window's tuples, and for pairs of both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.arrays import Points, SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.lookup import note_number
from crenel.anonymity.space.domain import NONE

_MIX = np.uint64(0xD6E8FEB86659FD93)


@leaf
def number_window(shard: SuhdsaArrays) -> None:
    """Number subjects and values of the tuples in ``held`` into ``Work.code``, in order of first occurrence.

    If a subject has several tuples (``now.alone`` is 0), the pairs of subject and value get numbers as well. Otherwise
    the tally of ``here`` becomes that of the window, except for the number of persons with each value.
    """
    now, points, work, held = shard.now, shard.points, shard.work, shard.held
    count = now.held
    if shard.of.by_name != 0:
        subjects = number_values(points, work, held, count, np.int64(0))
    else:
        subjects = number_tuples(work, held, count)
    now.alone = subjects == count
    tally = shard.here.tally
    for column in range(1, points.value.shape[1]):
        values = number_values(points, work, held, count, np.int64(column))
        if shard.checks.lookup.held[column - 1] >= 0:
            for i in range(count):
                slot = np.int64(held[i])
                number = np.int64(work.code[slot, column])
                note_number(shard.checks.lookup, np.int64(column - 1), number, points.value[slot, column])
        if now.alone == 0:
            _number_pairs(work, held, count, np.int64(column))
        elif column <= len(tally.values):
            tally.values[column - 1], tally.held[column - 1] = values, count
    if now.alone != 0:
        tally.persons[0] = count


@leaf
def number_values(points: Points, work: Work, held: NDArray[np.int32], count: Int, column: Int) -> Int:
    """Number the distinct values in a column of ``Points.value``, and return their count.

    Parameters
    ----------
    held : (count or more,) slots of the tuples
    """
    slots = clear(work, count)
    found = 0
    for i in range(count):
        slot = np.int64(held[i])
        value = points.value[slot, column]
        probe = home(value, slots)
        while work.table[probe] != NONE and points.value[work.table[probe], column] != value:
            probe = (probe + 1) & (slots - 1)
        if work.table[probe] == NONE:
            work.table[probe] = slot
            work.code[slot, column] = found
            found += 1
        else:
            work.code[slot, column] = work.code[work.table[probe], column]
    return found


@leaf
def number_tuples(work: Work, held: NDArray[np.int32], count: Int) -> Int:
    """Number the tuples in place of subjects, where each tuple is its own person.

    Parameters
    ----------
    held : (count or more,) slots of the tuples
    """
    for i in range(count):
        work.code[held[i], 0] = i
    return count


@leaf
def _number_pairs(work: Work, held: NDArray[np.int32], count: Int, column: Int) -> None:
    code = work.code
    into = column + code.shape[1] // 2
    slots = clear(work, count)
    found = 0
    for i in range(count):
        slot = np.int64(held[i])
        person, value = code[slot, 0], code[slot, column]
        probe = home((np.uint64(person) << np.uint64(32)) | np.uint64(value), slots)
        while work.table[probe] != NONE and (
            code[work.table[probe], 0] != person or code[work.table[probe], column] != value
        ):
            probe = (probe + 1) & (slots - 1)
        if work.table[probe] == NONE:
            work.table[probe] = slot
            code[slot, into] = found
            found += 1
        else:
            code[slot, into] = code[work.table[probe], into]


@leaf
def clear(work: Work, count: Int) -> Int:
    """Clear ``Work.table`` for ``count`` entries, and return its size in use, a power of two."""
    slots = 16
    while slots < 2 * count:
        slots *= 2
    for i in range(slots):
        work.table[i] = NONE
    return slots


@leaf
def home(value: np.uint64, slots: Int) -> Int:
    """Return the first place in the table to probe for a value."""
    mixed = value * _MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(slots - 1))
