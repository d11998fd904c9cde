"""How a group leaves a window, and what is measured of it."""

from __future__ import annotations

import numpy as np

from anonymity.compiled.jit import Int, inner
from anonymity.compiled.random import shuffle
from anonymity.promise.checks import guarantee
from anonymity.promise.tally import count_set
from anonymity.space.boxes import assign, contains
from anonymity.space.domain import NONE
from anonymity.tuples.leaving import CLUSTER, MERGED, close_release, note_delay
from anonymity.window.arrays import WindowArrays, places
from anonymity.window.controllers import entropy
from anonymity.window.representative import represent
from state.block import NO_TIME


@inner
def release(shard: WindowArrays, group: Int) -> None:
    """Release a group under its generalisation or its representative (Algorithm 1, lines 36 to 40)."""
    of, points, groups, out, work = shard.of, shard.points, shard.groups, shard.out, shard.work
    domain, where = shard.domain, places(shard.points)
    number, start = out.filled.releases, out.filled.members
    stop = start
    newest = NO_TIME
    slot = np.int64(groups.head[group])
    while slot != NONE:
        out.members[stop] = slot
        stop += 1
        newest = max(newest, points.event_time[slot])
        if not contains(domain, groups.box, group, where, slot):
            raise RuntimeError("a member lies outside its generalisation; nothing of this release was emitted")
        leave(shard, slot)
        slot = np.int64(work.next[slot])
    # Counted once more from its members, not from what grouping and repair made of it.
    tally, sensitive = shard.counter.tally, points.value.shape[1] - 1
    count_set(
        shard.counter, out.members[start:stop], points.value[:, 0], work.code[:, 1 : 1 + sensitive], of.by_name != 0
    )
    guarantee(shard.checks, of.k, tally, out.diversity[number])
    shuffle(shard.random, out.members, start, stop)
    if of.representative != 0:
        represent(points, groups, work, group, of.median != 0, of.ancestor != 0)
        if not contains(domain, groups.box, group, groups.centre, group):
            raise RuntimeError("a representative lies outside its group; nothing of this release was emitted")
        assign(out.box, number, groups.centre, group)
    else:
        assign(out.box, number, groups.box, group)
    kind = MERGED if groups.merged[group] else CLUSTER
    close_release(out, shard.totals, kind, tally.persons[0], groups.loss[group], stop, newest)
    shard.now.next_release += 1


@inner
def leave(shard: WindowArrays, slot: Int) -> None:
    """Note that a tuple leaves, and after how many others."""
    note_delay(shard.totals, shard.now.next_position - 1 - shard.points.position[slot])
    shard.points.waits[slot] = False


@inner
def satisfied(shard: WindowArrays, release: Int) -> bool:
    """Whether a release is l-diverse in each sensitive attribute, as counted from its members."""
    for found in shard.out.diversity[release]:
        if found < shard.of.least_target:
            return False
    return True


@inner
def least_entropy(shard: WindowArrays, start: Int, stop: Int) -> float:
    """Entropy in bits of the sensitive values of some released members, the least over the attributes."""
    least = np.inf
    for column in range(1, shard.points.value.shape[1]):
        least = min(least, entropy(shard.work, np.int64(column), shard.out.members[start:stop], stop - start))
    return least if least < np.inf else 0.0
