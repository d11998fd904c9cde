"""Compiled procedures of nearest release, which publishes an expiring tuple with its nearest neighbors only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.arrays import NearestArrays
from crenel.anonymity.algorithms.nearest.cells import drop, enter, make_anew
from crenel.anonymity.algorithms.nearest.grow import WAITS, grow, reuse_is_better
from crenel.anonymity.buffer.arrays import points
from crenel.anonymity.buffer.departure import release_part, reuse, suppress
from crenel.anonymity.buffer.omega import reusable
from crenel.anonymity.buffer.queue import arrive, depart, lacking, lacking_together, next_due, number
from crenel.anonymity.buffer.release_buffer import CLUSTER
from crenel.anonymity.buffer.watermarks import passed
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.space.boxes import assign, enclose
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss


@entry
def nearest(
    shard: NearestArrays, slots: NDArray[np.int32], marks: NDArray[np.int64], watermark: Int, ended: bool
) -> None:
    """Admit the tuples in ``slots``, in order, and release the tuples that are due.

    Parameters
    ----------
    marks : watermark at the arrival of each tuple, empty where unknown (``crenel.anonymity.buffer.watermarks``)
    watermark : watermark before the first tuple, in epoch milliseconds
    ended : whether the input has ended, so that all buffered tuples are due
    """
    for i in range(len(slots) + 1):
        now = passed(marks, i, watermark)
        if i < len(slots):
            if len(marks) > 0:
                release_due(shard, now, ended=False)
            place(shard, np.int64(slots[i]))
        release_due(shard, now, ended=ended and i == len(slots))


@procedure
def release_due(shard: NearestArrays, watermark: Int, ended: bool) -> None:
    """Publish or suppress each tuple that is due."""
    due = next_due(shard, watermark, ended)
    while due != NONE:
        serve(shard, due)
        due = next_due(shard, watermark, ended)


@entry
def relink(shard: NearestArrays, slots: NDArray[np.int32]) -> None:
    """Return restored tuples to the buffer, in order of position."""
    for i in range(len(slots)):
        wait(shard, np.int64(slots[i]))


@entry
def forget(shard: NearestArrays, slots: NDArray[np.int32]) -> None:
    """Remove tuples from the buffer."""
    for i in range(len(slots)):
        leave(shard, np.int64(slots[i]))


@entry
def lay(shard: NearestArrays) -> None:
    """Rebuild the cells from all buffered tuples."""
    make_anew(shard)


@leaf
def place(shard: NearestArrays, slot: Int) -> None:
    """Number a new tuple and add it to the buffer."""
    number(shard, slot)
    wait(shard, slot)


@leaf
def wait(shard: NearestArrays, slot: Int) -> None:
    """Append a tuple to the buffer, as the youngest, and insert it into its cell."""
    shard.tuples.cluster[slot] = WAITS
    arrive(shard, slot)
    enter(shard, slot)
    for a in range(shard.codes.shape[1] - 1):
        shard.codes[slot, 1 + a] = shard.waiting.value[slot, a]


@procedure
def serve(shard: NearestArrays, slot: Int) -> None:
    """Publish an expiring tuple by reuse or with the group grown around it, or suppress it."""
    members: Int = np.int64(0)
    reason, published, other_loss = lacking(shard), reusable(shard, slot), np.inf
    if published != NONE:
        other_loss = published_loss(shard.domain, shard.omega.box, published)
    if reason == NONE:
        together = lacking_together(shard)
        members = grow(shard, slot, other_loss, together == NONE)
        if members == 0:
            reason = together
        if members == 0 and reason == NONE:
            members = collect_group(shard)
            if reuse_is_better(shard, other_loss):
                members = np.int64(-1)
    if published != NONE and (reason != NONE or members < 0):
        reuse(shard, slot, published)
        leave(shard, slot)
    elif reason != NONE:
        suppress(shard, slot, reason)
        leave(shard, slot)
    else:
        release_group(shard, members, slot)


@leaf
def collect_group(shard: NearestArrays) -> Int:
    """Make all buffered tuples the group and return their number."""
    tuples, members, slot = shard.tuples, np.int64(0), np.int64(shard.now.oldest)
    assign(shard.box, np.int64(0), points(tuples), slot)
    while slot != NONE:
        enclose(shard.domain, shard.box, np.int64(0), points(tuples), slot)
        shard.group[members] = slot
        members += 1
        slot = np.int64(tuples.younger[slot])
    return members


@leaf
def release_group(shard: NearestArrays, members: Int, due: Int) -> None:
    """Release the grown group; other tuples inside its generalization stay buffered."""
    group, tuples = shard.group, shard.tuples
    for i in range(members):
        group[members + i] = group[i]
    release_part(shard, group[members : 2 * members], due, np.int64(CLUSTER))
    for i in range(members):
        if tuples.cluster[group[i]] == NONE:  # noise within releases has left too few of the group
            tuples.cluster[group[i]] = WAITS
        else:
            leave(shard, group[i])


@leaf
def leave(shard: NearestArrays, slot: Int) -> None:
    """Remove a tuple from its cell and from the buffer."""
    drop(shard, slot)
    depart(shard, slot)
