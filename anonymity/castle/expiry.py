"""Tuples that wait, in order of event time: a binary heap that knows where each tuple stands."""

from __future__ import annotations

import numpy as np

from anonymity.castle.arrays import BUFFERED, Live
from anonymity.compiled.jit import Int, inner


@inner
def _earlier(live: Live, one: Int, other: Int) -> bool:
    tuples = live.tuples
    if tuples.event_time[one] != tuples.event_time[other]:
        return tuples.event_time[one] < tuples.event_time[other]
    return tuples.position[one] < tuples.position[other]


@inner
def _put(live: Live, at: Int, slot: Int) -> None:
    live.heap.slots[at] = slot
    live.heap.at[slot] = at


@inner
def _at(live: Live, at: Int) -> Int:
    return np.int64(live.heap.slots[at])


@inner
def _rise(live: Live, at: Int, slot: Int) -> None:
    while at > 0 and _earlier(live, slot, _at(live, (at - 1) // 2)):
        _put(live, at, _at(live, (at - 1) // 2))
        at = (at - 1) // 2
    _put(live, at, slot)


@inner
def _sink(live: Live, at: Int, slot: Int, size: Int) -> None:
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _earlier(live, _at(live, child + 1), _at(live, child)):
            child += 1
        if not _earlier(live, _at(live, child), slot):
            break
        _put(live, at, _at(live, child))
        at = child
    _put(live, at, slot)


@inner
def schedule(live: Live, slot: Int) -> None:
    """Add a tuple that has just arrived, so that scalars[BUFFERED] counts it."""
    if len(live.heap.slots) > 0:
        _rise(live, live.scalars[BUFFERED] - 1, slot)


@inner
def unschedule(live: Live, slot: Int) -> None:
    """Drop a tuple that is about to depart, so that scalars[BUFFERED] still counts it."""
    if len(live.heap.slots) > 0:
        size = live.scalars[BUFFERED] - 1
        at, moved = np.int64(live.heap.at[slot]), _at(live, size)
        if moved != slot:
            _sink(live, at, moved, size)
            if live.heap.slots[at] == moved:
                _rise(live, at, moved)
