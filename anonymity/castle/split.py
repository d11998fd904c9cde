"""Splitting a cluster before it is released (CASTLE, Sections 4.1 and 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.castle.arrays import CastleArrays, points
from anonymity.castle.gamma import members_of
from anonymity.castle.nearest import arrange, find_nearest, pick, take
from anonymity.compiled.jit import Int, leaf, procedure
from anonymity.compiled.random import below
from anonymity.promise.checks import broken
from anonymity.promise.counting import stable_order
from anonymity.promise.tally import count_set
from anonymity.space.boxes import assign, empty_boxes, enclose, enlargement
from anonymity.space.domain import NONE, Boxes


class Groups(NamedTuple):
    """The members of a cluster by subject: those of one subject stay together.

    Attributes
    ----------
    members : (members,) slots, those of one group side by side, in order of position
    start : (groups + 1,) where each group begins in ``members``
    box : what each group covers
    part : (groups,) the part of the split it went to, ``NONE`` before
    """

    members: NDArray[np.int64]
    start: NDArray[np.int64]
    box: Boxes
    part: NDArray[np.int64]


@procedure
def group_by_subject(shard: CastleArrays, row: Int) -> Groups:
    """Make one bucket a subject (split, step 2), in order of first appearance."""
    tuples, clusters = shard.tuples, shard.clusters
    slots = members_of(shard, row)
    count = len(slots)
    start = np.arange(count + 1)
    groups = count
    if shard.of.by_name != 0 and clusters.subjects[row] < count:
        subject = np.empty(count, np.int64)
        for i in range(count):
            subject[i] = np.int64(tuples.subject[slots[i]])
        order = stable_order(subject)
        first = np.empty(count, np.int64)  # of each tuple, the first one of its subject
        for i in range(count):
            same = i > 0 and subject[order[i]] == subject[order[i - 1]]
            first[order[i]] = first[order[i - 1]] if same else order[i]
        order = stable_order(first)
        groups = 0
        for i in range(count):
            if i == 0 or first[order[i]] != first[order[i - 1]]:
                start[groups] = i
                groups += 1
        start[groups] = count
        slots = slots[order]
    box = empty_boxes(groups, clusters.box)
    domain, others = shard.domain, points(tuples)
    for g in range(groups):
        assign(box, g, others, slots[start[g]])
        for i in range(start[g] + 1, start[g + 1]):
            enclose(domain, box, g, others, slots[i])
    return Groups(slots, start[: groups + 1], box, np.full(groups, NONE, np.int64))


@procedure
def one_tuple_each(shard: CastleArrays, row: Int) -> Groups:
    """Make a group of each tuple of a cluster, in order of position."""
    slots, others = members_of(shard, row), points(shard.tuples)
    box = empty_boxes(np.int64(len(slots)), shard.clusters.box)
    for i in range(len(slots)):
        assign(box, np.int64(i), others, slots[i])
    return Groups(slots, np.arange(len(slots) + 1), box, np.full(len(slots), NONE, np.int64))


@procedure
def split_by_subject(shard: CastleArrays, groups: Groups) -> Int:
    """Give each tuple a part that has k tuples of k subjects; how many parts there are (CASTLE, function split).

    A part takes one tuple of each of k buckets, the nearest of each; what is left goes to the nearest part. In the
    paper all tuples of a subject are alike and the bucket that is left goes together; here each goes where it is near.
    """
    k, domain, box, total = shard.of.k, shard.domain, groups.box, len(groups.part)
    bucket, left = np.empty(total, np.int64), np.zeros(total, np.int64)
    subject = np.empty(total, np.int64)
    for i in range(total):
        subject[i] = np.int64(shard.tuples.subject[groups.members[i]])
    order = stable_order(subject)
    buckets: Int = np.int64(0)
    for i in range(total):
        if i > 0 and subject[order[i]] != subject[order[i - 1]]:
            buckets += 1
        bucket[order[i]] = buckets
        left[buckets] += 1
    buckets += 1
    nonempty, count = np.int64(buckets), np.int64(0)
    parts = empty_boxes(np.int64(total // k), box)
    seed, distance, nearest = np.int64(0), np.empty(buckets), np.empty(buckets, np.int64)
    while nonempty >= k:
        chosen = below(shard.random, nonempty)
        b = np.int64(0)
        while left[b] == 0 or chosen > 0:
            chosen -= left[b] > 0
            b += 1
        chosen = below(shard.random, left[b])
        for i in range(total):
            if groups.part[i] == NONE and bucket[i] == b:
                if chosen == 0:
                    seed = np.int64(i)
                chosen -= 1
        assign(parts, count, box, seed)
        for other in range(buckets):
            distance[other], nearest[other] = np.inf, NONE
        for i in range(total):
            if groups.part[i] == NONE and bucket[i] != b:
                limit = distance[bucket[i]]
                growth = enlargement(domain, box, seed, box, np.int64(i), limit)
                if growth < limit:
                    distance[bucket[i]], nearest[bucket[i]] = growth, i
        groups.part[seed] = count
        left[b] -= 1
        nonempty -= left[b] == 0
        for _ in range(k - 1):
            b = np.int64(distance.argmin())
            groups.part[nearest[b]] = count
            enclose(domain, parts, count, box, nearest[b])
            distance[b] = np.inf
            left[b] -= 1
            nonempty -= left[b] == 0
        count += 1
    for i in range(total):
        if groups.part[i] == NONE:
            part = nearest_part(shard, groups, parts, count, np.int64(i))
            groups.part[i] = part
            enclose(domain, parts, part, box, np.int64(i))
    return count


@leaf
def nearest_part(shard: CastleArrays, groups: Groups, parts: Boxes, count: Int, group: Int) -> Int:
    """The part that a group enlarges least (split, step 23)."""
    least = np.inf
    nearest: Int = np.int64(0)
    domain = shard.domain
    for p in range(count):
        growth = enlargement(domain, parts, p, groups.box, group, least)
        if growth < least:
            least, nearest = growth, p
    return nearest


@procedure
def split(shard: CastleArrays, groups: Groups) -> Int:
    """Give each group a part of at least k subjects; how many parts there are (CASTLE, function split).

    Where the tuples of one subject differ, the paper takes them for equal; here a bucket is measured by the box
    around all its tuples, because all of them go together.
    """
    k, domain, box = shard.of.k, shard.domain, groups.box
    total = len(groups.part)
    ends = np.array([0, total])
    left = arrange(domain, box, np.arange(total), ends)
    parts, seed = empty_boxes(total // k, box), empty_boxes(np.int64(1), box)
    only, count = np.int64(0), np.int64(0)
    while total >= k:
        group = pick(left, only, below(shard.random, total))
        take(left, group)
        groups.part[group] = count
        assign(seed, only, box, group)
        assign(parts, count, box, group)
        found = find_nearest(domain, seed, left, only, k - 1, group)
        for item in found.item:
            take(left, item)
            groups.part[item] = count
            enclose(domain, parts, count, box, item)
        total -= k
        count += 1
    for i in range(total):
        group = pick(left, only, np.int64(i))
        part = nearest_part(shard, groups, parts, count, group)
        groups.part[group] = part
        enclose(domain, parts, part, box, group)
    return count


@leaf
def may_break(shard: CastleArrays, row: Int) -> bool:
    """Whether parts of a cluster might break a promise.

    Not where l of one column is all that is asked and nobody comes twice: ``split_l`` gives each part l values then.
    """
    checks, clusters = shard.checks, shard.clusters
    if len(checks.address) == 0:
        return False
    if len(checks.address) > 1 or checks.address[0] != 0:
        return True
    return bool(clusters.subjects[row] < clusters.tuples[row])


@procedure
def join_broken_parts(shard: CastleArrays, groups: Groups, count: Int) -> Int:
    """Let a part that breaks a promise join the nearest one; how many parts are left.

    All together keep the promises, or the cluster would not be released.
    """
    parts, kept = empty_boxes(count, groups.box), np.zeros(count, np.bool_)
    order = stable_order(groups.part)
    for i in range(len(order)):
        part = groups.part[order[i]]
        if i == 0 or groups.part[order[i - 1]] != part:
            assign(parts, part, groups.box, order[i])
        enclose(shard.domain, parts, part, groups.box, order[i])
    while count > 1:
        part = np.int64(0)
        while part < count and (kept[part] or _keeps_promises(shard, groups, order, part)):
            kept[part] = True
            part += 1
        if part == count:
            break
        least = np.inf
        nearest: Int = np.int64(NONE)
        for other in range(count):
            if other != part:
                growth = enlargement(shard.domain, parts, part, parts, np.int64(other), least)
                if growth < least:
                    least, nearest = growth, np.int64(other)
        enclose(shard.domain, parts, nearest, parts, part)
        last = count - 1
        for g in range(len(groups.part)):
            if groups.part[g] == part:
                groups.part[g] = nearest
        for g in range(len(groups.part)):
            if groups.part[g] == last:
                groups.part[g] = part
        kept[nearest] = False
        if last != part:
            assign(parts, part, parts, last)
            kept[part] = kept[last]
        order = stable_order(groups.part)
        count -= 1
    return count


@procedure
def _keeps_promises(shard: CastleArrays, groups: Groups, order: NDArray[np.int64], part: Int) -> bool:
    # ``order`` are the groups by part.
    begin, end = np.int64(0), np.int64(len(order))
    while begin < end:
        middle = (begin + end) // 2
        if groups.part[order[middle]] < part:
            begin = middle + 1
        else:
            end = middle
    members = np.empty(len(groups.members), np.int64)
    found = 0
    while begin < len(order) and groups.part[order[begin]] == part:
        group = order[begin]
        for i in range(groups.start[group], groups.start[group + 1]):
            members[found] = groups.members[i]
            found += 1
        begin += 1
    by_name = shard.of.by_name != 0
    count_set(shard.counter, members[:found], shard.tuples.subject, shard.waiting.value, by_name)
    return bool(shard.counter.tally.persons[0] >= shard.of.k and broken(shard.checks, shard.counter.tally) == NONE)
