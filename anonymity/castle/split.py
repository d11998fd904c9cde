"""Splitting a cluster before it is released (CASTLE, Sections 4.1 and 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.castle.arrays import CastleArrays, points
from anonymity.castle.gamma import members_of
from anonymity.castle.left_over import join_nearest
from anonymity.castle.nearest import arrange, find_nearest, pick, take
from anonymity.compiled.jit import Int, leaf, procedure
from anonymity.compiled.random import below
from anonymity.promise.checks import broken
from anonymity.promise.counting import stable_order
from anonymity.promise.tally import count_set
from anonymity.space.boxes import assign, empty_boxes, enclose, enlargement
from anonymity.space.domain import NONE, Boxes


class Members(NamedTuple):
    """The tuples of a cluster, each of which goes to a part.

    Attributes
    ----------
    slot : (members,) in order of position
    box : (members,) each as a box of no width
    part : (members,) the part of the split it went to, ``NONE`` before
    """

    slot: NDArray[np.int64]
    box: Boxes
    part: NDArray[np.int64]


@procedure
def members_apart(shard: CastleArrays, row: Int) -> Members:
    """The members of a cluster, none of which has a part."""
    slot, others = members_of(shard, row), points(shard.tuples)
    box = empty_boxes(np.int64(len(slot)), shard.clusters.box)
    for i in range(len(slot)):
        assign(box, np.int64(i), others, slot[i])
    return Members(slot, box, np.full(len(slot), NONE, np.int64))


@procedure
def split_by_subject(shard: CastleArrays, members: Members) -> Int:
    """Give each tuple a part that has k tuples of k subjects; how many parts there are (CASTLE, function split).

    A part takes one tuple of each of k buckets, the nearest of each; what is left goes to the nearest part. In the
    paper all tuples of a subject are alike and the bucket that is left goes together; here each goes where it is near.
    """
    k, domain, box, total = shard.of.k, shard.domain, members.box, len(members.part)
    bucket, left = np.empty(total, np.int64), np.zeros(total, np.int64)
    subject = np.empty(total, np.int64)
    for i in range(total):
        subject[i] = np.int64(shard.tuples.subject[members.slot[i]])
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
            if members.part[i] == NONE and bucket[i] == b:
                if chosen == 0:
                    seed = np.int64(i)
                chosen -= 1
        assign(parts, count, box, seed)
        for other in range(buckets):
            distance[other], nearest[other] = np.inf, NONE
        for i in range(total):
            if members.part[i] == NONE and bucket[i] != b:
                limit = distance[bucket[i]]
                growth = enlargement(domain, box, seed, box, np.int64(i), limit)
                if growth < limit:
                    distance[bucket[i]], nearest[bucket[i]] = growth, i
        members.part[seed] = count
        left[b] -= 1
        nonempty -= left[b] == 0
        for _ in range(k - 1):
            b = np.int64(distance.argmin())
            members.part[nearest[b]] = count
            enclose(domain, parts, count, box, nearest[b])
            distance[b] = np.inf
            left[b] -= 1
            nonempty -= left[b] == 0
        count += 1
    join_nearest(domain, parts, count, box, members.part, without_part(members))
    return count


@procedure
def without_part(members: Members) -> NDArray[np.int64]:
    """The members that have no part, in order."""
    found, count = np.empty(len(members.part), np.int64), 0
    for i in range(len(members.part)):
        if members.part[i] == NONE:
            found[count] = i
            count += 1
    return found[:count]


@procedure
def split(shard: CastleArrays, members: Members) -> Int:
    """Give each member a part of at least k, where nobody comes twice (CASTLE, function split).

    How many parts there are.
    """
    k, domain, box = shard.of.k, shard.domain, members.box
    total = len(members.part)
    ends = np.array([0, total])
    left = arrange(domain, box, np.arange(total), ends)
    parts, seed = empty_boxes(total // k, box), empty_boxes(np.int64(1), box)
    only, count = np.int64(0), np.int64(0)
    while total >= k:
        first = pick(left, only, below(shard.random, total))
        take(left, first)
        members.part[first] = count
        assign(seed, only, box, first)
        assign(parts, count, box, first)
        found = find_nearest(domain, seed, left, only, k - 1, first, np.inf)
        for item in found.item:
            take(left, item)
            members.part[item] = count
            enclose(domain, parts, count, box, item)
        total -= k
        count += 1
    joining = np.empty(total, np.int64)
    for i in range(total):
        joining[i] = pick(left, only, np.int64(i))
    join_nearest(domain, parts, count, box, members.part, joining)
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
def join_broken_parts(shard: CastleArrays, members: Members, count: Int) -> Int:
    """Let a part that breaks a promise join the nearest one; how many parts are left.

    All together keep the promises, or the cluster would not be released.
    """
    parts, kept = empty_boxes(count, members.box), np.zeros(count, np.bool_)
    order = stable_order(members.part)
    for i in range(len(order)):
        part = members.part[order[i]]
        if i == 0 or members.part[order[i - 1]] != part:
            assign(parts, part, members.box, order[i])
        enclose(shard.domain, parts, part, members.box, order[i])
    while count > 1:
        part = np.int64(0)
        while part < count and (kept[part] or _keeps_promises(shard, members, order, part)):
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
        for i in range(len(members.part)):
            if members.part[i] == part:
                members.part[i] = nearest
        for i in range(len(members.part)):
            if members.part[i] == last:
                members.part[i] = part
        kept[nearest] = False
        if last != part:
            assign(parts, part, parts, last)
            kept[part] = kept[last]
        order = stable_order(members.part)
        count -= 1
    return count


@procedure
def _keeps_promises(shard: CastleArrays, members: Members, order: NDArray[np.int64], part: Int) -> bool:
    # ``order`` are the members by part.
    begin, end = np.int64(0), np.int64(len(order))
    while begin < end:
        middle = (begin + end) // 2
        if members.part[order[middle]] < part:
            begin = middle + 1
        else:
            end = middle
    slots = np.empty(len(order), np.int64)
    found = 0
    while begin + found < len(order) and members.part[order[begin + found]] == part:
        slots[found] = members.slot[order[begin + found]]
        found += 1
    by_name = shard.of.by_name != 0
    count_set(shard.counter, slots[:found], shard.tuples.subject, shard.waiting.value, by_name)
    return bool(shard.counter.tally.persons[0] >= shard.of.k and broken(shard.checks, shard.counter.tally) == NONE)
