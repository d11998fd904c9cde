"""Compiled procedures of l-diversity-enhanced SUHDSA (Lee and Kim, Sensors 2026, Section 3 and Algorithm 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.arrays import FOREVER, GONE, SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.controllers import adapt_size
from crenel.anonymity.algorithms.suhdsa.grouping import group_by_qid, summarize
from crenel.anonymity.algorithms.suhdsa.log import MERGE
from crenel.anonymity.algorithms.suhdsa.release import release
from crenel.anonymity.algorithms.suhdsa.repair import priority, repair
from crenel.anonymity.algorithms.suhdsa.window_start import begin_window
from crenel.anonymity.buffer.departure import suppress
from crenel.anonymity.buffer.queue import watermark_at
from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.privacy_models.value_frequencies import add_value
from crenel.anonymity.space.boxes import observe
from crenel.anonymity.space.domain import NONE
from crenel.state.block import NO_TIME

_CLOSE = np.int64(-2)  # result of ``next_due``: close the window


@entry
def run(
    shard: SuhdsaArrays, slots: NDArray[np.int32], done: Int, watermarks: NDArray[np.int64], watermark: Int, ended: bool
) -> tuple[Int, Int]:
    """Admit tuples until a window has closed or no tuple is left.

    Parameters
    ----------
    slots : (tuples,) slots of the new tuples, in order
    done : number of them already admitted
    watermarks : result of ``crenel.anonymity.buffer.queue.tuple_watermarks``
    watermark : watermark before the first tuple, in epoch milliseconds
    ended : whether the input has ended after them, so that all buffered tuples are due

    Returns
    -------
    tuple
        Number of ``slots`` admitted, and number of repairs in the window that closed; ``NONE`` if no window closed.
    """
    while True:
        due = next_due(shard, watermark_at(watermarks, done, watermark), ended and done == len(slots))
        if due == _CLOSE:
            return done, close(shard)
        if due != NONE:
            suppress_carried(shard, due)
        elif done == len(slots):
            return done, np.int64(NONE)
        else:
            place(shard, np.int64(slots[done]))
            done += 1


@leaf
def place(shard: SuhdsaArrays, slot: Int) -> None:
    """Add a new tuple to the open window (Algorithm 1, line 3)."""
    now, points, event_time = shard.now, shard.tuples.points, shard.tuples.event_time[slot]
    now.next_position += 1
    if now.held == now.carried:
        now.opened = event_time
    if shard.config.delay_event_time >= 0:
        now.earliest = min(now.earliest, event_time)
    observe(shard.domain, points, slot, points.lower.shape[1] + points.node.shape[1])
    add_value(shard.checks.lookup.seen, shard.codes, slot, np.int64(1))
    shard.held[now.held] = slot
    now.held += 1


@leaf
def next_due(shard: SuhdsaArrays, watermark: Int, ended: bool) -> Int:
    """Return ``_CLOSE``, the index in ``held`` of a tuple to suppress, or ``NONE`` where all tuples may wait.

    A new tuple whose delay is over closes the window, so that it has a chance of release. A carried tuple has already
    had its chance. Events due by event time occur in its order; on a tie, the close precedes the suppression.
    """
    now, config, tuples, held = shard.now, shard.config, shard.tuples, shard.held
    if now.held == 0:
        return NONE
    new = now.held - now.carried
    # With fewer than k new tuples, carried tuples without a group would close a window at each arrival.
    if now.window_tuples > 0 and now.held >= now.window_tuples and new >= min(config.k, now.window_tuples):
        return _CLOSE
    by_tuples, by_time, window = config.delay_tuples, config.delay_event_time, config.event_time
    if by_tuples >= 0 and tuples.position[held[0]] < now.next_position - by_tuples:
        return np.int64(0) if now.carried > 0 else _CLOSE
    closes = new > 0 and window >= 0 and _passed(now.opened, window, watermark)
    if by_time >= 0 and _passed(now.earliest, by_time, watermark):
        earliest = np.int64(0)
        while tuples.event_time[held[earliest]] != now.earliest:
            earliest += 1
        if not closes or now.earliest + by_time < now.opened + window:
            return earliest if earliest < now.carried else _CLOSE
    if closes:
        return _CLOSE
    if ended:
        return _CLOSE if new > 0 else np.int64(0)
    return NONE


@leaf
def _passed(since: Int, wait: Int, watermark: Int) -> bool:
    """Return whether a watermark has reached ``since + wait``, a sum that may overflow."""
    return bool(watermark >= NO_TIME + wait and since <= watermark - wait)


@leaf
def suppress_carried(shard: SuhdsaArrays, index: Int) -> None:
    """Suppress the carried tuple at an index in ``held``, whose delay is over."""
    now, held = shard.now, shard.held
    slot = np.int64(held[index])
    suppress(shard, shard.tuples.position, slot, np.int64(shard.reason[slot]))
    shard.waits[slot] = False
    for i in range(index, now.held - 1):
        held[i] = held[i + 1]
    now.held -= 1
    now.carried -= 1
    find_earliest(shard)


@leaf
def find_earliest(shard: SuhdsaArrays) -> None:
    """Update ``now.earliest`` after tuples have left the buffer."""
    earliest = FOREVER
    if shard.config.delay_event_time >= 0:
        for i in range(shard.now.held):
            earliest = min(earliest, shard.tuples.event_time[shard.held[i]])
    shard.now.earliest = earliest


@leaf
def close(shard: SuhdsaArrays) -> Int:
    """Group, repair and release the buffer, carry the rest (Algorithm 1, lines 5 to 42), and count the repairs."""
    begin_log(shard.log, shard.now.held)
    reason = begin_window(shard)
    actions = close_window(shard, reason)
    carry(shard, reason)
    shard.now.next_window += 1
    return actions


@leaf
def close_window(shard: SuhdsaArrays, reason: Int) -> Int:
    """Group, repair and release the buffer unless a ``reason`` forbids it, and return the number of repairs."""
    now, log = shard.now, shard.log
    made: Int = np.int64(0)
    actions: Int = np.int64(0)
    log.target = now.target
    if reason == NONE:
        made = group_by_qid(shard)
        log.violations = summarize_all(shard, made)
        log.groups = made
        if log.violations > 0:
            actions = repair(shard, made)
    for i in range(actions):
        if shard.actions[i].action == MERGE:
            log.merges += 1
        else:
            log.swaps += 1
    now.merges += log.merges
    now.swaps += log.swaps
    release_groups(shard, made)
    return actions


@leaf
def release_groups(shard: SuhdsaArrays, made: Int) -> None:
    """Release the groups that satisfy the privacy models, and adapt the window size to their cost."""
    now, config, log, groups, out = shard.now, shard.config, shard.log, shard.groups, shard.out
    loss, waited, before = 0.0, 0.0, out.filled.members
    for group in range(made):
        if groups.state[group] == GONE:
            continue
        log.unrepaired += priority(groups, group) > 0.0
        if groups.broken[group] != NONE:
            carry_group(shard, group)
            continue
        start = out.filled.members
        release(shard, group)
        loss += groups.loss[group] * (out.filled.members - start)
        for i in range(start, out.filled.members):
            waited += now.next_position - 1 - shard.tuples.position[out.members[i]]
    released = out.filled.members - before
    if config.least_window > 0 and released > 0:
        adapt_size(now, config, loss / released, waited / released)


@leaf
def summarize_all(shard: SuhdsaArrays, made: Int) -> Int:
    """Summarize all groups and return the number that misses the aim."""
    violations = np.int64(0)
    for group in range(made):
        summarize(shard, group)
        violations += priority(shard.groups, group) > 0.0
    return violations


@leaf
def begin_log(log: Any, tuples: Int) -> None:
    """Begin the record of a window that closes."""
    log.tuples = tuples
    log.groups = log.violations = log.unrepaired = log.swaps = log.merges = 0
    log.releases = log.satisfied = log.carried = log.target = 0
    log.entropy_mean = log.entropy_least = 0.0


@leaf
def carry_group(shard: SuhdsaArrays, group: Int) -> None:
    """Record for each member why its group is not released."""
    groups = shard.groups
    slot = np.int64(groups.head[group])
    while slot != NONE:
        shard.reason[slot] = shard.checks.reason[groups.broken[group]]
        slot = np.int64(shard.work.next[slot])


@leaf
def carry(shard: SuhdsaArrays, reason: Int) -> None:
    """Carry unreleased tuples to the next window; ``reason`` applies to all, ``NONE`` keeps the reason of each."""
    now, held = shard.now, shard.held
    kept = 0
    for i in range(now.held):
        slot = held[i]
        if shard.waits[slot]:
            if reason != NONE:
                shard.reason[slot] = reason
            held[kept] = slot
            kept += 1
    now.held = now.carried = shard.log.carried = kept
    find_earliest(shard)
