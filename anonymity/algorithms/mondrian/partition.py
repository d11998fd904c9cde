"""Recursive partition of a window (LeFevre, DeWitt and Ramakrishnan, "Mondrian", ICDE 2006, Section 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.mondrian.cuts import find_cut
from crenel.anonymity.algorithms.mondrian.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, entry, leaf


@entry
def partition(work: Work, ends: NDArray[np.int64]) -> Int:
    """Cut all tuples into parts that allow no further cut, and return the number of parts.

    The parts are contiguous in ``work.order[0]``, and part i ends before ``ends[i]``, (tuples,). The partition is
    strict: tuples with the same quasi-identifiers are in the same part.
    """
    tuples = work.order.shape[1]
    later = np.empty(tuples + 1, np.int64)  # ends of parts still to be cut, the nearest last
    waiting, parts = 0, np.int64(0)
    start: Int = np.int64(0)
    stop: Int = np.int64(tuples)
    while True:
        if find_cut(work, start, stop):
            later[waiting] = stop
            waiting += 1
            stop = divide(work, start, stop)
            continue
        ends[parts] = stop
        parts += 1
        if waiting == 0:
            return parts
        waiting -= 1
        start, stop = stop, later[waiting]


@leaf
def divide(work: Work, start: Int, stop: Int) -> Int:
    """Move the run of ``work.cut`` to the front of the part in each order, and return the start of the rest."""
    cut, order, inside, spare = work.cut, work.order, work.inside, work.spare
    a, first, last = np.int64(cut.attribute), np.int64(cut.first), np.int64(cut.last)
    for i in range(start, stop):
        inside[order[a, i]] = first <= i < last
    middle = start + last - first
    for row in range(len(order)):
        into, kept = start, np.int64(0)
        for i in range(start, stop):
            slot = order[row, i]
            if inside[slot]:
                order[row, into] = slot
                into += 1
            else:
                spare[kept] = slot
                kept += 1
        for i in range(kept):
            order[row, middle + i] = spare[i]
    return middle
