"""Splits of a cluster before its release (CASTLE, Sections 4.1 and 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.distance_search import (
    UnassignedIndex,
    arrange,
    assign_remaining,
    find_nearest,
    pick,
    take,
)
from crenel.anonymity.algorithms.castle.gamma import members_of
from crenel.anonymity.buffer.arrays import CastleArrays, points
from crenel.anonymity.compiled.arrays import stable_order
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.compiled.random import randbelow
from crenel.anonymity.privacy_models.checks import first_violation
from crenel.anonymity.privacy_models.grouping import ItemsByGroup, group, number_equal
from crenel.anonymity.privacy_models.tally import count_set
from crenel.anonymity.space.boxes import assign, empty_boxes, enclose, enlargement
from crenel.anonymity.space.domain import NONE, Boxes, Domain


class ClusterMembers(NamedTuple):
    """Tuples of a cluster, each of which is assigned to a part.

    Attributes
    ----------
    slot : (members,) slots, in order of position
    box : (members,) each tuple as a box of no width
    part : (members,) part of the split, ``NONE`` before assignment
    """

    slot: NDArray[np.int64]
    box: Boxes
    part: NDArray[np.int64]


@procedure
def members_apart(shard: CastleArrays, row: Int) -> ClusterMembers:
    """Return the members of a cluster, without parts."""
    slot, others = members_of(shard, row), points(shard.tuples)
    box = empty_boxes(np.int64(len(slot)), shard.clusters.box)
    for i in range(len(slot)):
        assign(box, np.int64(i), others, slot[i])
    return ClusterMembers(slot, box, np.full(len(slot), NONE, np.int64))


@procedure
def split_by_subject(shard: CastleArrays, members: ClusterMembers) -> Int:
    """Split into parts of at least k tuples of k subjects; return the number of parts (CASTLE, function split).

    A part takes one tuple from each of k buckets, the nearest of each. Each remaining tuple joins the nearest part.
    In the paper all tuples of a subject are alike, and a remaining bucket moves as a whole.
    """
    k, domain, box, total = shard.config.k, shard.metric, members.box, len(members.part)
    subject, bucket = np.empty(total, np.uint64), np.empty(total, np.int64)
    for i in range(total):
        subject[i] = shard.tuples.subject[members.slot[i]]
    buckets: Int = number_equal(subject, bucket)
    grouped, size = group(bucket, buckets), np.zeros(buckets, np.int64)
    for i in range(total):
        size[bucket[i]] += 1
    left = arrange(domain, box, np.arange(total), np.array([0, total]))
    parts, around = empty_boxes(np.int64(total // k), box), empty_boxes(np.int64(1), box)
    latest = np.full(buckets, NONE, np.int64)  # part of each bucket's latest assigned tuple
    nonempty, count = np.int64(buckets), np.int64(0)
    while nonempty >= k:
        chosen, b = randbelow(shard.random, nonempty), np.int64(0)
        while size[b] == 0 or chosen > 0:
            chosen -= size[b] > 0
            b += 1
        chosen, place = randbelow(shard.random, size[b]), grouped.start[b]
        while members.part[grouped.items[place]] != NONE or chosen > 0:
            chosen -= members.part[grouped.items[place]] == NONE
            place += 1
        seed = grouped.items[place]
        latest[b] = count
        assign(parts, count, box, seed)
        assign(around, np.int64(0), box, seed)
        take(left, seed)
        members.part[seed] = count
        size[b] -= 1
        nonempty -= size[b] == 0
        for item in _nearest_of_each(domain, around, left, MemberSubjects(bucket, latest, count), k - 1, seed):
            take(left, item)
            members.part[item] = count
            enclose(domain, parts, count, box, item)
            size[bucket[item]] -= 1
            nonempty -= size[bucket[item]] == 0
        count += 1
    assign_remaining(domain, parts, count, box, members.part, without_part(members))
    return count


class MemberSubjects(NamedTuple):
    """Subjects of the members, where a subject may have several tuples.

    Attributes
    ----------
    bucket : (members,) number of each member's subject
    latest : (subjects,) latest part with a tuple of each subject, ``NONE`` where there is none
    part : part that is being filled
    """

    bucket: NDArray[np.int64]
    latest: NDArray[np.int64]
    part: Int


@procedure
def _nearest_of_each(
    domain: Domain, around: Boxes, left: UnassignedIndex, persons: MemberSubjects, wanted: Int, near: Int
) -> NDArray[np.int64]:
    """Return the nearest tuple of each of the ``wanted`` nearest subjects that the part lacks.

    ``persons.latest`` then names the part for these subjects, of which at least ``wanted`` must exist. The other
    parameters are those of ``find_nearest``.
    """
    items, drawn = np.empty(wanted, np.int64), wanted
    while True:
        nearest, count = find_nearest(domain, around, left, np.int64(0), drawn, near, np.inf), 0
        for i in stable_order(nearest.distance):
            person = persons.bucket[nearest.item[i]]
            if count < wanted and persons.latest[person] != persons.part:
                persons.latest[person] = persons.part
                items[count] = nearest.item[i]
                count += 1
        if count == wanted:
            return items
        for i in range(count):  # the nearest tuples have too few subjects
            persons.latest[persons.bucket[items[i]]] = NONE
        drawn *= 2


@procedure
def without_part(members: ClusterMembers) -> NDArray[np.int64]:
    """Return the members without a part, in order."""
    unassigned, count = np.empty(len(members.part), np.int64), 0
    for i in range(len(members.part)):
        if members.part[i] == NONE:
            unassigned[count] = i
            count += 1
    return unassigned[:count]


@procedure
def split(shard: CastleArrays, members: ClusterMembers) -> Int:
    """Split into parts of at least k members and return the number of parts (CASTLE, function split).

    Each subject has only one member.
    """
    k, domain, box = shard.config.k, shard.metric, members.box
    total = len(members.part)
    ends = np.array([0, total])
    left = arrange(domain, box, np.arange(total), ends)
    parts, seed = empty_boxes(total // k, box), empty_boxes(np.int64(1), box)
    only, count = np.int64(0), np.int64(0)
    while total >= k:
        first = pick(left, only, randbelow(shard.random, total))
        take(left, first)
        members.part[first] = count
        assign(seed, only, box, first)
        assign(parts, count, box, first)
        neighbors = find_nearest(domain, seed, left, only, k - 1, first, np.inf)
        for item in neighbors.item:
            take(left, item)
            members.part[item] = count
            enclose(domain, parts, count, box, item)
        total -= k
        count += 1
    joining = np.empty(total, np.int64)
    for i in range(total):
        joining[i] = pick(left, only, np.int64(i))
    assign_remaining(domain, parts, count, box, members.part, joining)
    return count


@leaf
def may_break(shard: CastleArrays, row: Int) -> bool:
    """Return whether parts of a cluster might violate a privacy model.

    They cannot where l-diversity of one column is the only model and each subject has one tuple with one value:
    ``split_l`` then gives each part l values.
    """
    checks, clusters = shard.checks, shard.clusters
    if len(checks.address) == 0:
        return False
    tally = shard.counter.tally
    if len(checks.address) > 1 or checks.address[0] != 0 or tally.first[-1] > len(tally.values):
        return True
    return bool(clusters.subjects[row] < clusters.tuples[row])


@procedure
def join_broken_parts(shard: CastleArrays, members: ClusterMembers, count: Int) -> Int:
    """Merge each part that violates a privacy model into the nearest part; return the number of parts that remain.

    The union of all parts satisfies the privacy models, or the cluster would not be released.
    """
    parts, kept = empty_boxes(count, members.box), np.zeros(count, np.bool_)
    grouped = group(members.part, count)
    for i in range(len(grouped.items)):
        part = members.part[grouped.items[i]]
        if grouped.start[part] == i:
            assign(parts, part, members.box, grouped.items[i])
        enclose(shard.domain, parts, part, members.box, grouped.items[i])
    while count > 1:
        part = np.int64(0)
        while part < count and (kept[part] or _satisfies_all(shard, members, grouped, part)):
            kept[part] = True
            part += 1
        if part == count:
            break
        least = np.inf
        nearest: Int = np.int64(NONE)
        for other in range(count):
            if other != part:
                growth = enlargement(shard.metric, parts, part, parts, np.int64(other), least)
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
        count -= 1
        grouped = group(members.part, count)
    return count


@procedure
def _satisfies_all(shard: CastleArrays, members: ClusterMembers, grouped: ItemsByGroup, part: Int) -> bool:
    slots = members.slot[grouped.items[grouped.start[part] : grouped.start[part + 1]]]
    count_set(shard.counter, slots, shard.tuples.subject, shard.waiting.value, shard.config.by_name != 0)
    return bool(
        shard.counter.tally.persons[0] >= shard.config.k and first_violation(shard.checks, shard.counter.tally) == NONE
    )
