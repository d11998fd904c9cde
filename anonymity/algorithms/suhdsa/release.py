"""Release of a group from a window, and measurement of the release."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.suhdsa.arrays import SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.controllers import entropy
from crenel.anonymity.algorithms.suhdsa.representative import represent
from crenel.anonymity.buffer.departure import enclose_all, require_inside, validate_and_shuffle
from crenel.anonymity.buffer.release_buffer import CLUSTER, MERGED, complete
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.space.boxes import assign, contains, info_loss
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss, round_outwards
from crenel.state.block import NO_TIME


@leaf
def release(shard: SuhdsaArrays, group: Int) -> None:
    """Release a group under its generalization or its representative (Algorithm 1, lines 36 to 40).

    Where noise within releases leaves too few members for a release, they stay buffered for the next window.
    """
    domain, tuples, groups, out = shard.domain, shard.tuples, shard.groups, shard.out
    number, start = out.filled.releases, out.filled.members
    suppressed, whole = out.filled.suppressed, start
    slot = np.int64(groups.head[group])
    while slot != NONE:
        out.members[whole] = slot
        whole += 1
        slot = np.int64(shard.work.next[slot])
    # Check the box and count the members again, independently of the results of grouping and repair.
    require_inside(shard, tuples, groups.box, group, whole)
    stop, valid = validate_and_shuffle(shard, tuples, start, whole)
    for i in range(suppressed, out.filled.suppressed):
        shard.waits[out.suppressed[i]] = False
    for i in range(start, stop):
        if valid:
            shard.waits[out.members[i]] = False
        else:
            shard.reason[out.members[i]] = shard.noise.config.reason
    if not valid:
        return
    if stop < whole:
        _regroup(shard, group, start, stop)
    newest = NO_TIME
    for i in range(start, stop):
        newest = max(newest, tuples.event_time[out.members[i]])
    loss = groups.loss[group]
    if shard.config.representative != 0:
        represent(tuples.points, groups, shard.work, group, shard.config.median != 0, shard.config.ancestor != 0)
        if not contains(domain, groups.box, group, groups.center, group):
            raise InvariantError("a representative lies outside its group; nothing of this release was emitted")
        assign(out.box, number, groups.center, group)
    else:
        assign(out.box, number, groups.box, group)
        round_outwards(domain, out.box, number)
        loss = published_loss(domain, out.box, number)
    kind = MERGED if groups.merged[group] else CLUSTER
    complete(shard, tuples.position, kind, shard.counter.tally.persons[0], loss, stop, newest)
    _note(shard, start, stop)


@leaf
def _regroup(shard: SuhdsaArrays, group: Int, start: Int, stop: Int) -> None:
    """Restrict a group to the members of the next release."""
    groups, members, following = shard.groups, shard.out.members, shard.work.next
    groups.head[group], groups.tuples[group] = members[start], stop - start
    for i in range(start, stop):
        following[members[i]] = members[i + 1] if i + 1 < stop else NONE
    enclose_all(shard, groups.box, group, shard.tuples, members[start:stop])
    groups.loss[group] = info_loss(shard.domain, groups.box, group)


@leaf
def _note(shard: SuhdsaArrays, start: Int, stop: Int) -> None:
    """Record the last release in the log of its window; its members are ``start`` to ``stop``."""
    log = shard.log
    log.releases += 1
    log.satisfied += _satisfied(shard)
    mixing = _least_entropy(shard, start, stop)
    log.entropy_least = mixing if log.releases == 1 else min(log.entropy_least, mixing)
    log.entropy_mean += (mixing - log.entropy_mean) / log.releases


@leaf
def _satisfied(shard: SuhdsaArrays) -> bool:
    """Return whether the last release is l-diverse in each sensitive attribute, as counted from its members."""
    out = shard.out
    for a in range(out.diversity.shape[1]):
        if out.diversity[out.filled.releases - 1, a] < shard.config.least_target:
            return False
    return True


@leaf
def _least_entropy(shard: SuhdsaArrays, start: Int, stop: Int) -> float:
    """Return the entropy in bits of released members' sensitive values, the minimum over the attributes."""
    least = np.inf
    for column in range(1, shard.codes.shape[1]):
        least = min(least, entropy(shard.work, np.int64(column), shard.out.members[start:stop], stop - start))
    return least if least < np.inf else 0.0
