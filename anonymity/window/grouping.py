"""Provisional groups of a window: identical patterns together, then what is near (SUHDSA, Algorithm 1, line 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, leaf
from anonymity.space.boxes import assign, contains, enclose, enlargement, equal, info_loss, loss_after
from anonymity.space.domain import NONE, Boxes, Domain
from anonymity.window.arrays import OPEN, Groups, Points, Scale, Work
from anonymity.window.distance import distance

_UNKNOWN = -1.0
_MIX = np.uint64(0xD6E8FEB86659FD93)


@leaf
def number_values(points: Points, work: Work, held: NDArray[np.int32], count: Int, column: Int) -> Int:
    """Number the different values of a column of ``Points.value`` from 0, into ``Work.code``; how many there are."""
    slots = _clear(work, count)
    found = 0
    for i in range(count):
        slot = np.int64(held[i])
        value = points.value[slot, column]
        at = _home(value, slots)
        while work.table[at] != NONE and points.value[work.table[at], column] != value:
            at = (at + 1) & (slots - 1)
        if work.table[at] == NONE:
            work.table[at] = slot
            work.code[slot, column] = found
            found += 1
        else:
            work.code[slot, column] = work.code[work.table[at], column]
    return found


@leaf
def number_tuples(work: Work, held: NDArray[np.int32], count: Int) -> Int:
    """Each tuple is its own person: number them instead of their subjects."""
    for i in range(count):
        work.code[held[i], 0] = i
    return count


@leaf
def find_patterns(points: Points, work: Work, held: NDArray[np.int32], count: Int) -> Int:
    """Chain tuples whose quasi-identifiers are the same; how many different patterns there are, oldest first."""
    places = Boxes(points.numeric, points.numeric, points.leaf)
    slots = _clear(work, count)
    found = 0
    for i in range(count):
        slot = np.int64(held[i])
        mixed = np.uint64(0)
        for a in range(points.leaf.shape[1]):
            mixed = (mixed ^ np.uint64(points.leaf[slot, a])) * _MIX
            mixed ^= mixed >> np.uint64(32)
        for a in range(points.bits.shape[1]):
            mixed = (mixed ^ points.bits[slot, a]) * _MIX
            mixed ^= mixed >> np.uint64(32)
        at = _home(mixed, slots)
        while work.table[at] != NONE and not equal(places, np.int64(work.first[work.table[at]]), places, slot):
            at = (at + 1) & (slots - 1)
        work.next[slot] = NONE
        if work.table[at] == NONE:
            work.table[at] = found
            work.first[found] = work.last[found] = slot
            work.size[found] = 1
            found += 1
        else:
            pattern = work.table[at]
            work.next[work.last[pattern]] = slot
            work.last[pattern] = slot
            work.size[pattern] += 1
    return found


@leaf
def _clear(work: Work, count: Int) -> Int:
    slots = 16
    while slots < 2 * count:
        slots *= 2
    for i in range(slots):
        work.table[i] = NONE
    return slots


@leaf
def _home(value: np.uint64, slots: Int) -> Int:
    mixed = value * _MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(slots - 1))


@leaf
def group_by_qid(
    domain: Domain,
    scale: Scale,
    points: Points,
    groups: Groups,
    work: Work,
    held: NDArray[np.int32],
    count: Int,
    k: Int,
) -> Int:
    """Put the ``count`` tuples in ``held`` into groups of at least k subjects; how many groups there are.

    A group begins with the commonest pattern and takes the nearest one until it has k subjects; of equally near ones
    that which adds least loss, then the oldest. What is left at the end goes where it adds least loss. Values must
    have been numbered. With fewer than k subjects there is no group.
    """
    places = Boxes(points.numeric, points.numeric, points.leaf)
    patterns = find_patterns(points, work, held, count)
    free = patterns
    for i in range(patterns):
        work.free[i] = i
    for i in range(count):
        work.stamp[i] = NONE
    made = 0
    while free > 0:
        left = grow(domain, scale, groups, work, places, made, commonest(work, free), free, k)
        if groups.subjects[made] < k:
            break
        link(groups, work, made, left, free)
        free = left
        made += 1
    if made > 0:
        for pattern in range(patterns):
            if work.size[pattern] > 0:
                _join(domain, groups, work, places, made, pattern)
    return made


@leaf
def commonest(work: Work, free: Int) -> Int:
    """Where the free pattern with most tuples stands, the oldest of several."""
    best = 0
    for i in range(1, free):
        pattern, other = work.free[i], work.free[best]
        if work.size[pattern] > work.size[other] or (work.size[pattern] == work.size[other] and pattern < other):
            best = i
    return best


@leaf
def grow(
    domain: Domain, scale: Scale, groups: Groups, work: Work, places: Boxes, group: Int, seed: Int, free: Int, k: Int
) -> Int:
    """Let a group take free patterns, first the one at ``seed``, until it has k subjects or none is left.

    Those it took stand behind the free ones, whose number it returns.
    """
    box = groups.box
    groups.subjects[group] = 0
    assign(box, group, places, np.int64(work.first[work.free[seed]]))
    free = _take(groups, work, group, seed, free)
    moved = True
    while groups.subjects[group] < k and free > 0:
        if moved:
            for i in range(free):
                other = np.int64(work.first[work.free[i]])
                work.distance[i] = distance(domain, scale, box, group, places, other, np.inf)
        nearest = _nearest(domain, box, work, places, group, free)
        other = np.int64(work.first[work.free[nearest]])
        moved = not contains(domain, box, group, places, other)
        if moved:
            enclose(domain, box, group, places, other)
        free = _take(groups, work, group, nearest, free)
    return free


@leaf
def _take(groups: Groups, work: Work, group: Int, at: Int, free: Int) -> Int:
    pattern = work.free[at]
    work.free[at] = work.free[free - 1]
    work.distance[at] = work.distance[free - 1]
    work.free[free - 1] = pattern
    slot = np.int64(work.first[pattern])
    while slot != NONE:
        if work.stamp[work.code[slot, 0]] != group:
            work.stamp[work.code[slot, 0]] = group
            groups.subjects[group] += 1
        slot = np.int64(work.next[slot])
    return free - 1


@leaf
def _nearest(domain: Domain, box: Boxes, work: Work, places: Boxes, group: Int, free: Int) -> Int:
    best = 0
    growth = _UNKNOWN
    for i in range(1, free):
        if work.distance[i] < work.distance[best]:
            best, growth = i, _UNKNOWN
        elif work.distance[i] == work.distance[best]:
            if growth < 0.0:
                growth = enlargement(domain, box, group, places, np.int64(work.first[work.free[best]]), np.inf)
            other = enlargement(domain, box, group, places, np.int64(work.first[work.free[i]]), growth)
            if other < growth or (other == growth and work.free[i] < work.free[best]):
                best, growth = i, other
    return best


@leaf
def link(groups: Groups, work: Work, group: Int, start: Int, stop: Int) -> None:
    """Chain the members of a group that has grown: those of the patterns from ``start`` to ``stop``."""
    groups.head[group] = groups.tail[group] = NONE
    groups.tuples[group] = 0
    groups.state[group] = OPEN
    groups.merged[group] = False
    for i in range(stop - 1, start - 1, -1):
        _append(groups, work, group, np.int64(work.free[i]))


@leaf
def _append(groups: Groups, work: Work, group: Int, pattern: Int) -> None:
    if groups.head[group] == NONE:
        groups.head[group] = work.first[pattern]
    else:
        work.next[groups.tail[group]] = work.first[pattern]
    groups.tail[group] = work.last[pattern]
    groups.tuples[group] += work.size[pattern]
    work.size[pattern] = 0  # it is in a group


@leaf
def _join(domain: Domain, groups: Groups, work: Work, places: Boxes, made: Int, pattern: Int) -> None:
    """Put a pattern into the group where all members together lose least by it."""
    at = np.int64(work.first[pattern])
    best, least = 0, np.inf
    for group in range(made):
        after = loss_after(domain, groups.box, group, places, at) * (groups.tuples[group] + work.size[pattern])
        growth = after - info_loss(domain, groups.box, group) * groups.tuples[group]
        if growth < least:
            best, least = group, growth
    enclose(domain, groups.box, best, places, at)
    _append(groups, work, best, pattern)


@leaf
def summarise(domain: Domain, points: Points, groups: Groups, work: Work, group: Int) -> None:
    """Count anew what is known of a group's members, and measure them."""
    places = Boxes(points.numeric, points.numeric, points.leaf)
    slot = np.int64(groups.head[group])
    assign(groups.box, group, places, slot)
    groups.oldest[group], groups.earliest[group] = points.position[slot], points.event_time[slot]
    groups.subjects[group] = groups.tuples[group] = 0
    for a in range(groups.diversity.shape[1]):
        groups.diversity[group, a] = 0
    while slot != NONE:
        enclose(domain, groups.box, group, places, slot)
        groups.tuples[group] += 1
        groups.oldest[group] = min(groups.oldest[group], points.position[slot])
        groups.earliest[group] = min(groups.earliest[group], points.event_time[slot])
        if count_in(work.here, 0, work.code[slot, 0]):
            groups.subjects[group] += 1
        for a in range(groups.diversity.shape[1]):
            if count_in(work.here, a + 1, work.code[slot, a + 1]):
                groups.diversity[group, a] += 1
        slot = np.int64(work.next[slot])
    forget(work.here, groups, work, group)
    groups.loss[group] = info_loss(domain, groups.box, group)


@leaf
def count_in(counts: NDArray[np.int32], column: Int, code: Int) -> bool:
    """Count a code; true where it is the first of its kind."""
    counts[column, code] += 1
    return counts[column, code] == 1


@leaf
def forget(counts: NDArray[np.int32], groups: Groups, work: Work, group: Int) -> None:
    """Set the counts of a group's codes back to 0."""
    slot = np.int64(groups.head[group])
    while slot != NONE:
        for column in range(counts.shape[0]):
            counts[column, work.code[slot, column]] = 0
        slot = np.int64(work.next[slot])
