"""Deadlines of buffered tuples: a binary heap that knows the index of each tuple.

A due tuple may be published alone under a reused generalization. A fixed delay would then reveal its arrival time and
its person. Therefore each tuple may draw a deadline of its own on arrival.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.buffer.arrays import CastleArrays, Expiry
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.compiled.random import uniform_at

_LAST = np.iinfo(np.int64).max


@procedure
def schedule(shard: CastleArrays, slot: Int) -> None:
    """Set the deadlines of a tuple that has just arrived; ``now.waiting`` counts it already.

    Deadlines are uniform between (1 - jitter) of the delay and the whole delay, with one share for position and event
    time. The share depends on the tuple's position alone, so a restore does not change it.
    """
    config, position = shard.config, np.int64(shard.tuples.position[slot])
    share = (
        uniform_at(shard.deadline_random, position) if config.early_tuples > 0 or config.early_event_time > 0 else 0.0
    )
    if len(shard.by_position.slots) > 0:
        _set(
            shard, shard.by_position, slot, position, config.delay_tuples - np.int64(share * (config.early_tuples + 1))
        )
    if len(shard.by_time.slots) > 0:
        came = np.int64(shard.tuples.event_time[slot])
        _set(
            shard, shard.by_time, slot, came, config.delay_event_time - np.int64(share * (config.early_event_time + 1))
        )


@procedure
def unschedule(shard: CastleArrays, slot: Int) -> None:
    """Remove the deadlines of a tuple that is about to depart; ``now.waiting`` still counts it."""
    if len(shard.by_position.slots) > 0:
        _drop(shard, shard.by_position, slot)
    if len(shard.by_time.slots) > 0:
        _drop(shard, shard.by_time, slot)


@leaf
def _set(shard: CastleArrays, expiry: Expiry, slot: Int, since: Int, wait: Int) -> None:
    expiry.due[slot] = since + wait if since <= _LAST - wait else _LAST
    _rise(shard, expiry, shard.now.waiting - 1, slot)


@leaf
def _drop(shard: CastleArrays, expiry: Expiry, slot: Int) -> None:
    size = shard.now.waiting - 1
    place, moved = np.int64(expiry.place[slot]), _slot(expiry, size)
    if moved != slot:
        _sink(shard, expiry, place, moved)
        if expiry.slots[place] == moved:
            _rise(shard, expiry, place, moved)


@leaf
def _earlier(shard: CastleArrays, expiry: Expiry, one: Int, other: Int) -> bool:
    if expiry.due[one] != expiry.due[other]:
        return bool(expiry.due[one] < expiry.due[other])
    return bool(shard.tuples.position[one] < shard.tuples.position[other])


@leaf
def _put(expiry: Expiry, place: Int, slot: Int) -> None:
    expiry.slots[place] = slot
    expiry.place[slot] = place


@leaf
def _slot(expiry: Expiry, place: Int) -> Int:
    return np.int64(expiry.slots[place])


@leaf
def _rise(shard: CastleArrays, expiry: Expiry, place: Int, slot: Int) -> None:
    while place > 0 and _earlier(shard, expiry, slot, _slot(expiry, (place - 1) // 2)):
        _put(expiry, place, _slot(expiry, (place - 1) // 2))
        place = (place - 1) // 2
    _put(expiry, place, slot)


@leaf
def _sink(shard: CastleArrays, expiry: Expiry, place: Int, slot: Int) -> None:
    size = shard.now.waiting - 1
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _earlier(shard, expiry, _slot(expiry, child + 1), _slot(expiry, child)):
            child += 1
        if not _earlier(shard, expiry, _slot(expiry, child), slot):
            break
        _put(expiry, place, _slot(expiry, child))
        place = child
    _put(expiry, place, slot)
