"""Queue of all buffered tuples in order of arrival: insertion, removal, and the next due tuple."""

from __future__ import annotations

from typing import Any

import numpy as np

from crenel.anonymity.buffer.arrays import points
from crenel.anonymity.buffer.expiry import schedule, unschedule
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.buffered_values import come, go, impossible
from crenel.anonymity.privacy_models.checks import broken
from crenel.anonymity.privacy_models.value_frequencies import add_value
from crenel.anonymity.space.boxes import observe
from crenel.anonymity.space.domain import NONE

TOO_FEW_SUBJECTS = 1  # a position in crenel.anonymity.model.outcomes.SUPPRESSIONS


@leaf
def number(shard: Any, slot: Int) -> None:
    """Give a new tuple its position, widen the observed ranges by it, and count its sensitive values."""
    now, tuples = shard.now, shard.tuples
    tuples.position[slot] = now.next_position
    now.next_position += 1
    observe(shard.domain, points(tuples), slot, tuples.numeric.shape[1] + tuples.leaf.shape[1])
    add_value(shard.checks.lookup.seen, tuples.sensitive, slot, np.int64(0))


@leaf
def arrive(shard: Any, slot: Int) -> None:
    """Append a tuple to the queue and count its person and values."""
    line_up(shard, slot)
    come(shard.waiting, shard.checks, slot, shard.tuples.subject[slot], shard.tuples.sensitive, shard.of.by_name != 0)


@leaf
def depart(shard: Any, slot: Int) -> None:
    """Remove a tuple from the queue and from the counts; its slot is free after the step."""
    step_out(shard, slot)
    go(shard.waiting, shard.checks, slot, shard.tuples.subject[slot], shard.tuples.sensitive, shard.of.by_name != 0)


@leaf
def line_up(shard: Any, slot: Int) -> None:
    """Append a tuple to the queue."""
    now, tuples = shard.now, shard.tuples
    tuples.older[slot] = now.youngest
    tuples.younger[slot] = NONE
    if now.youngest == NONE:
        now.oldest = slot
    else:
        tuples.younger[now.youngest] = slot
    now.youngest = slot
    now.waiting += 1
    if len(shard.by_position.slots) > 0 or len(shard.by_time.slots) > 0:
        schedule(shard, slot)


@leaf
def step_out(shard: Any, slot: Int) -> None:
    """Remove a tuple from the queue."""
    now, tuples = shard.now, shard.tuples
    if len(shard.by_position.slots) > 0 or len(shard.by_time.slots) > 0:
        unschedule(shard, slot)
    older, younger = tuples.older[slot], tuples.younger[slot]
    if older == NONE:
        now.oldest = younger
    else:
        tuples.younger[older] = younger
    if younger == NONE:
        now.youngest = older
    else:
        tuples.older[younger] = older
    now.waiting -= 1
    tuples.cluster[slot] = NONE


@leaf
def next_due(shard: Any, watermark: Int, ended: bool) -> Int:
    """Return the next due tuple, ``NONE`` where all may wait (CASTLE, Definition 2.2; Algorithm 1, step 11).

    At the end of the input every tuple is due, in order of deadlines: by event time where it bounds the delay, else by
    position.
    """
    now = shard.now
    if now.waiting == 0:
        return NONE
    first = now.oldest
    if len(shard.by_position.slots) > 0:
        first = np.int64(shard.by_position.slots[0])
        if shard.by_position.due[first] < now.next_position:
            return first
    elif shard.of.delay_tuples >= 0 and shard.tuples.position[first] < now.next_position - shard.of.delay_tuples:
        return first
    if len(shard.by_time.slots) > 0:
        first = np.int64(shard.by_time.slots[0])
        if shard.by_time.due[first] <= watermark:
            return first
    return first if ended else NONE


@leaf
def lacking(shard: Any) -> Int:
    """Return the reason why no set of buffered tuples can be released, ``NONE`` where some set may be."""
    if shard.waiting.tally.persons[0] < shard.of.k:
        return np.int64(TOO_FEW_SUBJECTS)
    check = impossible(shard.waiting, shard.checks)
    return np.int64(NONE) if check == NONE else np.int64(shard.checks.reason[check])


@leaf
def lacking_together(shard: Any) -> Int:
    """Return the reason why the whole buffer cannot be one release, ``NONE`` where it can; a subset still might."""
    check = np.int64(broken(shard.checks, shard.waiting.tally))
    return np.int64(NONE) if check == NONE else np.int64(shard.checks.reason[check])
