"""Provisional groups of a window: identical patterns first, then the nearest (SUHDSA, Algorithm 1, line 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.arrays import OPEN, SuhdsaArrays, WindowGroups, points_of
from crenel.anonymity.algorithms.suhdsa.distance import distance
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf, procedure
from crenel.anonymity.privacy_models.checks import first_violation
from crenel.anonymity.privacy_models.grouping import chain_by, number_chains
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, forget, put_chain, remove_tuple, weigh
from crenel.anonymity.privacy_models.tally import diversity
from crenel.anonymity.space.boxes import assign, contains, enclose, enlargement, equal, info_loss, loss_after
from crenel.anonymity.space.domain import NONE, Boxes, Domain

_UNKNOWN = -1.0
_MIX = np.uint64(0xD6E8FEB86659FD93)


@procedure
def find_patterns(points: Boxes, bits: NDArray[np.uint64], work: Work, held: NDArray[np.int32], count: Int) -> Int:
    """Chain tuples with equal quasi-identifiers, and return the number of distinct patterns, oldest first.

    Parameters
    ----------
    bits : the numbers of ``points``, as in ``SuhdsaArrays``
    held : (count or more,) slots of the tuples
    """
    keys, number = np.empty(count, np.uint64), np.empty(count, np.int64)
    for i in range(count):
        slot = np.int64(held[i])
        mixed = np.uint64(0)
        for a in range(points.node.shape[1]):
            mixed = (mixed ^ np.uint64(points.node[slot, a])) * _MIX
            mixed ^= mixed >> np.uint64(32)
        for a in range(bits.shape[1]):
            mixed = (mixed ^ bits[slot, a]) * _MIX
            mixed ^= mixed >> np.uint64(32)
        keys[i] = mixed
    found = chain_by(keys, number, _same_pattern, (points, held))
    number_chains(number)
    for pattern in range(found):
        work.size[pattern] = 0
    for i in range(count):
        slot, pattern = np.int64(held[i]), number[i]
        work.next[slot] = NONE
        if work.size[pattern] == 0:
            work.first[pattern] = slot
        else:
            work.next[work.last[pattern]] = slot
        work.last[pattern] = slot
        work.size[pattern] += 1
    return found


@inner_leaf
def _same_pattern(tuples: tuple[Boxes, NDArray[np.int32]], i: Int, j: Int) -> bool:
    where, held = tuples
    return equal(where, np.int64(held[i]), where, np.int64(held[j]))


@leaf
def group_by_qid(shard: SuhdsaArrays) -> Int:
    """Put the tuples in ``held`` into groups of at least k subjects, and return the number of groups.

    A group begins with the most common pattern and adds the nearest one until it has k subjects. Ties go to the pattern
    that adds least loss, then to the oldest. Each pattern left at the end joins the group where it adds least loss.
    ``number_window`` must run first. With fewer than k subjects there is no group.
    """
    groups, work, where = shard.groups, shard.work, points_of(shard)
    patterns = begin_grouping(shard)
    free = patterns
    made = 0
    while free > 0:
        left = grow(shard, made, commonest(work, free), free)
        if groups.subjects[made] < shard.config.k:
            break
        link(groups, work, made, left, free)
        free = left
        made += 1
    if made > 0:
        for pattern in range(patterns):
            if work.size[pattern] > 0:
                _join(shard.domain, groups, work, where, made, pattern)
    return made


@leaf
def begin_grouping(shard: SuhdsaArrays) -> Int:
    """Find the patterns, mark all as free, and return their number."""
    work, count = shard.work, shard.now.held
    patterns = find_patterns(points_of(shard), shard.bits, work, shard.held, count)
    for i in range(patterns):
        work.free[i] = i
    for i in range(count):
        work.stamp[i] = NONE
    return patterns


@leaf
def commonest(work: Work, free: Int) -> Int:
    """Return the index in ``work.free`` of the most common pattern, ties to the oldest."""
    best = 0
    for i in range(1, free):
        pattern, other = work.free[i], work.free[best]
        if work.size[pattern] > work.size[other] or (work.size[pattern] == work.size[other] and pattern < other):
            best = i
    return best


@leaf
def grow(shard: SuhdsaArrays, group: Int, seed: Int, free: Int) -> Int:
    """Add free patterns to a group, first the one at ``seed``, until it has k subjects or no pattern is free.

    Return the number of patterns that stay free; those of the group follow them in ``work.free``.
    """
    domain, scale, groups, work, k = shard.domain, shard.scale, shard.groups, shard.work, shard.config.k
    where, box = points_of(shard), shard.groups.box
    groups.subjects[group] = 0
    assign(box, group, where, np.int64(work.first[work.free[seed]]))
    free = _take(groups, work, group, seed, free)
    moved = True
    while groups.subjects[group] < k and free > 0:
        if moved:
            for i in range(free):
                other = np.int64(work.first[work.free[i]])
                work.distance[i] = distance(domain, scale, box, group, where, other, np.inf)
        nearest = _nearest(domain, box, work, where, group, free)
        other = np.int64(work.first[work.free[nearest]])
        moved = not contains(domain, box, group, where, other)
        if moved:
            enclose(domain, box, group, where, other)
        free = _take(groups, work, group, nearest, free)
    return free


@leaf
def _take(groups: WindowGroups, work: Work, group: Int, place: Int, free: Int) -> Int:
    pattern = work.free[place]
    work.free[place] = work.free[free - 1]
    work.distance[place] = work.distance[free - 1]
    work.free[free - 1] = pattern
    slot = np.int64(work.first[pattern])
    while slot != NONE:
        if work.stamp[work.code[slot, 0]] != group:
            work.stamp[work.code[slot, 0]] = group
            groups.subjects[group] += 1
        slot = np.int64(work.next[slot])
    return free - 1


@leaf
def _nearest(domain: Domain, box: Boxes, work: Work, where: Boxes, group: Int, free: Int) -> Int:
    best = 0
    growth = _UNKNOWN
    for i in range(1, free):
        if work.distance[i] < work.distance[best]:
            best, growth = i, _UNKNOWN
        elif work.distance[i] == work.distance[best]:
            if growth < 0.0:
                growth = enlargement(domain, box, group, where, np.int64(work.first[work.free[best]]), np.inf)
            other = enlargement(domain, box, group, where, np.int64(work.first[work.free[i]]), growth)
            if other < growth or (other == growth and work.free[i] < work.free[best]):
                best, growth = i, other
    return best


@leaf
def link(groups: WindowGroups, work: Work, group: Int, start: Int, stop: Int) -> None:
    """Chain the members of a grown group: those of the patterns from ``start`` to ``stop`` in ``work.free``."""
    groups.head[group] = groups.tail[group] = NONE
    groups.tuples[group] = 0
    groups.state[group] = OPEN
    groups.merged[group] = False
    for i in range(stop - 1, start - 1, -1):
        _append(groups, work, group, np.int64(work.free[i]))


@leaf
def _append(groups: WindowGroups, work: Work, group: Int, pattern: Int) -> None:
    if groups.head[group] == NONE:
        groups.head[group] = work.first[pattern]
    else:
        work.next[groups.tail[group]] = work.first[pattern]
    groups.tail[group] = work.last[pattern]
    groups.tuples[group] += work.size[pattern]
    work.size[pattern] = 0  # marks the pattern as grouped


@leaf
def _join(domain: Domain, groups: WindowGroups, work: Work, where: Boxes, made: Int, pattern: Int) -> None:
    """Add a pattern to the group whose total loss over all members grows least."""
    first = np.int64(work.first[pattern])
    best, least = 0, np.inf
    for group in range(made):
        after = loss_after(domain, groups.box, group, where, first) * (groups.tuples[group] + work.size[pattern])
        growth = after - info_loss(domain, groups.box, group) * groups.tuples[group]
        if growth < least:
            best, least = group, growth
    enclose(domain, groups.box, best, where, first)
    _append(groups, work, best, pattern)


@leaf
def summarize(shard: SuhdsaArrays, group: Int) -> None:
    """Recompute the statistics of a group from its members, check it, and measure its loss."""
    domain, groups, work, trial = shard.domain, shard.groups, shard.work, shard.here
    alone, where = shard.now.alone != 0, points_of(shard)
    position, event_time = shard.tuples.position, shard.tuples.event_time
    slot = np.int64(groups.head[group])
    assign(groups.box, group, where, slot)
    oldest, earliest, tuples = position[slot], event_time[slot], 0
    while slot != NONE:
        enclose(domain, groups.box, group, where, slot)
        oldest = min(oldest, position[slot])
        earliest = min(earliest, event_time[slot])
        tuples += 1
        slot = np.int64(work.next[slot])
    groups.oldest[group], groups.earliest[group] = oldest, earliest
    groups.tuples[group] = groups.subjects[group] = tuples
    groups.loss[group] = info_loss(domain, groups.box, group)
    groups.broken[group] = NONE
    if alone and groups.lacks.shape[1] == 0:
        return
    count_group(trial, groups, work, group, alone)
    groups.subjects[group] = trial.tally.persons[0]
    for a in range(groups.diversity.shape[1]):
        groups.diversity[group, a] = diversity(trial.tally, np.int64(a))
    weigh(shard.aims, trial.tally, groups.lacks, group)
    # The aims are at least as strict as the privacy models, so a group without shortfall violates none.
    if lacking(groups, group) > 0.0:
        groups.broken[group] = first_violation(shard.checks, trial.tally)
    forget_group(trial, groups, work, group, alone)


@leaf
def lacking(groups: WindowGroups, group: Int) -> float:
    """Return the shortfall of a group, summed over all aims."""
    total = 0.0
    for check in range(groups.lacks.shape[1]):
        total += groups.lacks[group, check]
    return total


@inner_leaf
def count_group(trial: IncrementalTally, groups: WindowGroups, work: Work, group: Int, alone: bool) -> None:
    """Add a group's members to a tally."""
    put_chain(trial, work.code, work.next, np.int64(groups.head[group]), alone)


@leaf
def discount_group(trial: IncrementalTally, groups: WindowGroups, work: Work, group: Int, alone: bool) -> None:
    """Remove a group's members from a tally."""
    slot = np.int64(groups.head[group])
    while slot != NONE:
        remove_tuple(trial, work.code, slot, alone)
        slot = np.int64(work.next[slot])


@inner_leaf
def forget_group(trial: IncrementalTally, groups: WindowGroups, work: Work, group: Int, alone: bool) -> None:
    """Reset a tally that holds a group's members."""
    if not alone:
        discount_group(trial, groups, work, group, alone)
    forget(trial)
