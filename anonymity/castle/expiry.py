"""Tuples that wait, in order of event time: a binary heap that knows where each tuple stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from anonymity.compiled.jit import Int, leaf, procedure


@leaf
def _earlier(shard: Any, one: Int, other: Int) -> bool:
    tuples = shard.tuples
    if tuples.event_time[one] != tuples.event_time[other]:
        return tuples.event_time[one] < tuples.event_time[other]
    return tuples.position[one] < tuples.position[other]


@leaf
def _put(shard: Any, place: Int, slot: Int) -> None:
    shard.expiry.slots[place] = slot
    shard.expiry.place[slot] = place


@leaf
def _slot(shard: Any, place: Int) -> Int:
    return np.int64(shard.expiry.slots[place])


@leaf
def _rise(shard: Any, place: Int, slot: Int) -> None:
    while place > 0 and _earlier(shard, slot, _slot(shard, (place - 1) // 2)):
        _put(shard, place, _slot(shard, (place - 1) // 2))
        place = (place - 1) // 2
    _put(shard, place, slot)


@leaf
def _sink(shard: Any, place: Int, slot: Int, size: Int) -> None:
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _earlier(shard, _slot(shard, child + 1), _slot(shard, child)):
            child += 1
        if not _earlier(shard, _slot(shard, child), slot):
            break
        _put(shard, place, _slot(shard, child))
        place = child
    _put(shard, place, slot)


@procedure
def schedule(shard: Any, slot: Int) -> None:
    """Add a tuple that has just arrived, so that ``now.waiting`` counts it."""
    _rise(shard, shard.now.waiting - 1, slot)


@procedure
def unschedule(shard: Any, slot: Int) -> None:
    """Drop a tuple that is about to depart, so that ``now.waiting`` still counts it."""
    size = shard.now.waiting - 1
    place, moved = np.int64(shard.expiry.place[slot]), _slot(shard, size)
    if moved != slot:
        _sink(shard, place, moved, size)
        if shard.expiry.slots[place] == moved:
            _rise(shard, place, moved)
