"""Release of a group from a window, and measurement of the release."""

from __future__ import annotations

from typing import Any

import numpy as np

from crenel.anonymity.algorithms.suhdsa.arrays import Points, WindowArrays, places
from crenel.anonymity.algorithms.suhdsa.controllers import entropy
from crenel.anonymity.algorithms.suhdsa.representative import represent
from crenel.anonymity.buffer.release_buffer import CLUSTER, MERGED, Totals, close_release, note_delay
from crenel.anonymity.buffer.release_checks import enclose_all, validate_and_shuffle
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.space.boxes import assign, contains, info_loss
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss, round_outwards
from crenel.state.block import NO_TIME


@leaf
def release(shard: WindowArrays, group: Int) -> None:
    """Release a group under its generalization or its representative (Algorithm 1, lines 36 to 40).

    Where noise within releases leaves too few members for a release, they stay buffered for the next window.
    """
    now, of, points, groups, out, work = shard.now, shard.of, shard.points, shard.groups, shard.out, shard.work
    domain, where = shard.domain, places(shard.points)
    number, start = out.filled.releases, out.filled.members
    stop = start
    newest: Int = NO_TIME
    slot = np.int64(groups.head[group])
    while slot != NONE:
        out.members[stop] = slot
        stop += 1
        newest = max(newest, points.event_time[slot])
        if not contains(domain, groups.box, group, where, slot):
            raise InvariantError("a member lies outside its generalization; nothing of this release was emitted")
        slot = np.int64(work.next[slot])
    # Count the members again, independently of the results of grouping and repair.
    sensitive = points.value.shape[1] - 1
    withheld, whole = out.filled.suppressed, stop
    stop, leaves = validate_and_shuffle(shard, points.value[:, 0], work.code[:, 1 : 1 + sensitive], start, stop)
    for i in range(withheld, out.filled.suppressed):
        leave(now, points, shard.totals, np.int64(out.suppressed[i]))
    for i in range(start, stop):
        if leaves:
            leave(now, points, shard.totals, np.int64(out.members[i]))
        else:
            points.reason[out.members[i]] = shard.noise.of.reason
    if not leaves:
        return
    if stop < whole:
        newest = _regroup(shard, group, start, stop)
    loss = groups.loss[group]
    if of.representative != 0:
        represent(points, groups, work, group, of.median != 0, of.ancestor != 0)
        if not contains(domain, groups.box, group, groups.center, group):
            raise InvariantError("a representative lies outside its group; nothing of this release was emitted")
        assign(out.box, number, groups.center, group)
    else:
        assign(out.box, number, groups.box, group)
        round_outwards(domain, out.box, number)
        loss = published_loss(domain, out.box, number)
    kind = MERGED if groups.merged[group] else CLUSTER
    close_release(out, shard.totals, kind, shard.counter.tally.persons[0], loss, stop, newest)
    now.next_release += 1
    _note(shard, start, stop)


@leaf
def _regroup(shard: WindowArrays, group: Int, start: Int, stop: Int) -> Int:
    """Restrict a group to the members of the next release, and return the newest event time."""
    groups, members, following = shard.groups, shard.out.members, shard.work.next
    groups.head[group], groups.tuples[group] = members[start], stop - start
    for i in range(start, stop):
        following[members[i]] = members[i + 1] if i + 1 < stop else NONE
    where, times = places(shard.points), shard.points.event_time
    newest = enclose_all(shard.domain, groups.box, group, where, members[start:stop], times)
    groups.loss[group] = info_loss(shard.domain, groups.box, group)
    return newest


@leaf
def _note(shard: WindowArrays, start: Int, stop: Int) -> None:
    """Record the last release in the log of its window; its members are ``start`` to ``stop``."""
    log = shard.log
    log.releases += 1
    log.satisfied += _satisfied(shard)
    mixing = _least_entropy(shard, start, stop)
    log.entropy_least = mixing if log.releases == 1 else min(log.entropy_least, mixing)
    log.entropy_mean += (mixing - log.entropy_mean) / log.releases


@leaf
def leave(now: Any, points: Points, totals: Totals, slot: Int) -> None:
    """Record that a tuple leaves the buffer, and its delay in tuples."""
    note_delay(totals, now.next_position - 1 - points.position[slot])
    points.waits[slot] = False


@leaf
def _satisfied(shard: WindowArrays) -> bool:
    """Return whether the last release is l-diverse in each sensitive attribute, as counted from its members."""
    out = shard.out
    for a in range(out.diversity.shape[1]):
        if out.diversity[out.filled.releases - 1, a] < shard.of.least_target:
            return False
    return True


@leaf
def _least_entropy(shard: WindowArrays, start: Int, stop: Int) -> float:
    """Return the entropy in bits of released members' sensitive values, the minimum over the attributes."""
    least = np.inf
    for column in range(1, shard.points.value.shape[1]):
        least = min(least, entropy(shard.work, np.int64(column), shard.out.members[start:stop], stop - start))
    return least if least < np.inf else 0.0
