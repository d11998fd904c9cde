"""Numbers from 0 for the subjects and sensitive values of a window's tuples, and for pairs of both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.arrays import SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.privacy_models.grouping import number_equal
from crenel.anonymity.privacy_models.lookup import note_number


@leaf
def number_window(shard: SuhdsaArrays) -> None:
    """Write numbers of subjects and values of the tuples in ``held`` to ``Work.code``, by first occurrence.

    If a subject has several tuples (``now.alone`` is 0), the pairs of subject and value get numbers as well. Otherwise
    the tally of ``here`` becomes that of the window, except for the number of persons with each value.
    """
    now, codes, work, held = shard.now, shard.codes, shard.work, shard.held
    count = now.held
    if shard.config.by_name != 0:
        subjects = number_values(codes, work, held, count, np.int64(0))
    else:
        subjects = number_tuples(work, held, count)
    now.alone = subjects == count
    tally = shard.here.tally
    for column in range(1, codes.shape[1]):
        values = number_values(codes, work, held, count, np.int64(column))
        if shard.checks.lookup.held[column - 1] >= 0:
            for i in range(count):
                slot = np.int64(held[i])
                number = np.int64(work.code[slot, column])
                note_number(shard.checks.lookup, np.int64(column - 1), number, codes[slot, column])
        if now.alone == 0:
            _number_pairs(work, held, count, np.int64(column))
        elif column <= len(tally.values):
            tally.values[column - 1], tally.held[column - 1] = values, count
    if now.alone != 0:
        tally.persons[0] = count


@procedure
def number_values(codes: NDArray[np.uint64], work: Work, held: NDArray[np.int32], count: Int, column: Int) -> Int:
    """Assign numbers to the distinct values in a column of ``SuhdsaArrays.codes``, and return their count.

    Parameters
    ----------
    held : (count or more,) slots of the tuples
    """
    keys = np.empty(count, np.uint64)
    for i in range(count):
        keys[i] = codes[held[i], column]
    return _number_into(work, held, keys, column)


@procedure
def _number_into(work: Work, held: NDArray[np.int32], keys: NDArray[np.uint64], column: Int) -> Int:
    number = np.empty(len(keys), np.int64)
    found = number_equal(keys, number)
    for i in range(len(keys)):
        work.code[held[i], column] = number[i]
    return found


@leaf
def number_tuples(work: Work, held: NDArray[np.int32], count: Int) -> Int:
    """Assign numbers to tuples in place of subjects, where each tuple is its own person.

    Parameters
    ----------
    held : (count or more,) slots of the tuples
    """
    for i in range(count):
        work.code[held[i], 0] = i
    return count


@procedure
def _number_pairs(work: Work, held: NDArray[np.int32], count: Int, column: Int) -> None:
    code, keys = work.code, np.empty(count, np.uint64)
    for i in range(count):
        keys[i] = (np.uint64(code[held[i], 0]) << np.uint64(32)) | np.uint64(code[held[i], column])
    _number_into(work, held, keys, column + code.shape[1] // 2)
