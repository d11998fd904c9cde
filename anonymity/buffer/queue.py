"""Queue of all buffered tuples in order of arrival; the loop that admits tuples and releases those that are due."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.arrays import A, CastleArrays, points
from crenel.anonymity.buffer.expiry import schedule, unschedule
from crenel.anonymity.buffer.repair_log import begin_decision, end_decision
from crenel.anonymity.compiled.jit import Int, inner, leaf
from crenel.anonymity.privacy_models.buffered_values import add_buffered, first_unsatisfiable, remove_buffered
from crenel.anonymity.privacy_models.checks import first_violation
from crenel.anonymity.privacy_models.value_frequencies import add_value
from crenel.anonymity.space.boxes import observe
from crenel.anonymity.space.domain import NONE
from crenel.state.block import Block

NO_WATERMARKS = np.zeros(0, np.int64)
"""``tuple_watermarks`` where they are unknown."""

TOO_FEW_SUBJECTS = 1  # a position in crenel.anonymity.model.outcomes.SUPPRESSIONS


def tuple_watermarks(block: Block | None, watermark: int) -> NDArray[np.int64]:
    """Return (tuples,) the watermark at each tuple's arrival, in epoch milliseconds; empty where unknown.

    With them, no due tuple waits for the end of its block. They never fall, and none lies below ``watermark``, the one
    before the block.
    """
    if block is None or block.watermark is None:
        return NO_WATERMARKS
    return np.maximum.accumulate(np.maximum(block.watermark, watermark))


@leaf
def watermark_at(watermarks: NDArray[np.int64], i: Int, watermark: Int) -> Int:
    """Return the watermark at the arrival of a block's tuple; after the last tuple, that of the last.

    Parameters
    ----------
    watermarks : result of ``tuple_watermarks``
    watermark : watermark before the block
    """
    return np.int64(watermarks[min(i, len(watermarks) - 1)]) if len(watermarks) > 0 else watermark


@inner
def admit_and_release(
    shard: A,
    slots: NDArray[np.int32],
    watermarks: NDArray[np.int64],
    watermark: Int,
    ended: bool,
    admit: Callable[[A, Int], None],
    release_due: Callable[[A, Int, bool], None],
) -> None:
    """Admit the tuples in ``slots``, in order, and release the tuples that are due (CASTLE, Algorithm 1).

    Parameters
    ----------
    watermarks : result of ``tuple_watermarks``
    watermark : watermark before the first tuple, in epoch milliseconds
    ended : whether the input has ended, so that all buffered tuples are due
    admit : adds one tuple to the buffer
    release_due : decides on all tuples that are due at a watermark, or on all, as ``decide_due``
    """
    for i in range(len(slots) + 1):
        now = watermark_at(watermarks, i, watermark)
        if i < len(slots):
            if len(watermarks) > 0:
                release_due(shard, now, False)
            admit(shard, np.int64(slots[i]))
        release_due(shard, now, ended and i == len(slots))


@inner
def decide_due(shard: A, watermark: Int, ended: bool, decide: Callable[[A, Int], None]) -> bool:
    """Publish or suppress each tuple that is due, by ``decide``; return whether any was due."""
    due = next_due(shard, watermark, ended)
    any_due = due != NONE
    while due != NONE:
        begin_decision(shard)
        decide(shard, due)
        end_decision(shard)
        due = next_due(shard, watermark, ended)
    return bool(any_due)


@leaf
def number(shard: CastleArrays, slot: Int) -> None:
    """Give a new tuple its position, widen the observed ranges by it, and count its sensitive values."""
    now, tuples = shard.now, shard.tuples
    tuples.position[slot] = now.next_position
    now.next_position += 1
    observe(shard.domain, points(tuples), slot, tuples.numeric.shape[1] + tuples.leaf.shape[1])
    for a in range(len(shard.weight)):
        shard.metric.scale[a] = shard.domain.scale[a] * shard.weight[a]
    add_value(shard.checks.lookup.seen, tuples.sensitive, slot, np.int64(0))


@leaf
def arrive(shard: CastleArrays, slot: Int) -> None:
    """Append a tuple to the queue and count its person and values."""
    line_up(shard, slot)
    add_buffered(
        shard.waiting, shard.checks, slot, shard.tuples.subject[slot], shard.tuples.sensitive, shard.config.by_name != 0
    )


@leaf
def depart(shard: CastleArrays, slot: Int) -> None:
    """Remove a tuple from the queue and from the counts; its slot is free after the step."""
    step_out(shard, slot)
    remove_buffered(
        shard.waiting, shard.checks, slot, shard.tuples.subject[slot], shard.tuples.sensitive, shard.config.by_name != 0
    )


@leaf
def line_up(shard: CastleArrays, slot: Int) -> None:
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
def step_out(shard: CastleArrays, slot: Int) -> None:
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
def next_due(shard: CastleArrays, watermark: Int, ended: bool) -> Int:
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
    elif (
        shard.config.delay_tuples >= 0 and shard.tuples.position[first] < now.next_position - shard.config.delay_tuples
    ):
        return first
    if len(shard.by_time.slots) > 0:
        first = np.int64(shard.by_time.slots[0])
        if shard.by_time.due[first] <= watermark:
            return first
    return first if ended else NONE


@leaf
def blocking_reason(shard: CastleArrays) -> Int:
    """Return the reason why no set of buffered tuples can be released, ``NONE`` where some set may be."""
    if shard.waiting.tally.persons[0] < shard.config.k:
        return np.int64(TOO_FEW_SUBJECTS)
    check = first_unsatisfiable(shard.waiting, shard.checks)
    return np.int64(NONE) if check == NONE else np.int64(shard.checks.reason[check])


@leaf
def blocking_reason_of_all(shard: CastleArrays) -> Int:
    """Return the reason why the whole buffer cannot be one release, ``NONE`` where it can; a subset still might."""
    check = np.int64(first_violation(shard.checks, shard.waiting.tally))
    return np.int64(NONE) if check == NONE else np.int64(shard.checks.reason[check])
