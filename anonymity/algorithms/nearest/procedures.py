"""Compiled procedures of nearest release, which publishes an expiring tuple with its nearest neighbors only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.arrays import NearestArrays
from crenel.anonymity.algorithms.nearest.cells import drop, enter, rebuild
from crenel.anonymity.algorithms.nearest.grow import WAITS, choose_group
from crenel.anonymity.algorithms.nearest.isolation import measure_radius
from crenel.anonymity.buffer.departure import release_class, reuse, suppress_or_generalize
from crenel.anonymity.buffer.omega import reusable
from crenel.anonymity.buffer.queue import admit_and_release, arrive, decide_due, depart, number
from crenel.anonymity.buffer.release_buffer import CLUSTER
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss


@entry
def nearest(
    shard: NearestArrays, slots: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: Int, ended: bool
) -> None:
    """Admit tuples and release the tuples that are due; parameters as those of ``admit_and_release``."""
    admit_and_release(shard, slots, watermarks, watermark, ended, place, release_due)


@procedure
def release_due(shard: NearestArrays, watermark: Int, ended: bool) -> None:
    """Publish or suppress each tuple that is due."""
    decide_due(shard, watermark, ended, release_tuple)


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
def rebuild_cells(shard: NearestArrays) -> None:
    """Rebuild the cells from all buffered tuples."""
    rebuild(shard)


@entry
def measure_radii(shard: NearestArrays) -> None:
    """Measure the radii of all tuples of the line, as if these alone had arrived."""
    now, line = shard.isolation.now, shard.isolation.line
    for place in range(now.begin, now.end):
        shard.isolation.radius[place] = 1.0 if line.slot[place] != NONE else -1.0
    for place in range(now.begin, now.end):
        if line.slot[place] != NONE:
            measure_radius(shard, np.int64(line.slot[place]))


@leaf
def place(shard: NearestArrays, slot: Int) -> None:
    """Assign a number to a new tuple and add it to the buffer."""
    number(shard, slot)
    wait(shard, slot)
    if shard.isolation.now.price > 0.0:
        measure_radius(shard, slot)


@leaf
def wait(shard: NearestArrays, slot: Int) -> None:
    """Append a tuple to the buffer, as the youngest, and insert it into its cell."""
    shard.tuples.cluster[slot] = WAITS
    arrive(shard, slot)
    enter(shard, slot)
    for a in range(shard.codes.shape[1] - 1):
        shard.codes[slot, 1 + a] = shard.waiting.value[slot, a]


@procedure
def release_tuple(shard: NearestArrays, slot: Int) -> None:
    """Publish an expiring tuple by reuse or with the group grown around it, or suppress it."""
    published, other_loss = reusable(shard, slot), np.inf
    if published != NONE:
        other_loss = published_loss(shard.domain, shard.omega.box, published)
    members, reason = choose_group(shard, slot, other_loss, _enclose_no_more)
    if published != NONE and (reason != NONE or members < 0):
        reuse(shard, slot, published)
        leave(shard, slot)
    elif reason != NONE:
        suppress_or_generalize(shard, slot, reason)
        leave(shard, slot)
    else:
        release_group(shard, members, slot)


@leaf
def _enclose_no_more(shard: NearestArrays, members: Int) -> bool:
    return False


@leaf
def release_group(shard: NearestArrays, members: Int, due: Int) -> None:
    """Release the grown group; other tuples inside its generalization stay buffered."""
    group, tuples = shard.group, shard.tuples
    for i in range(members):
        group[members + i] = group[i]
    release_class(shard, group[members : 2 * members], due, np.int64(CLUSTER))
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
