"""Splitting a cluster before it is released (CASTLE, Sections 4.1 and 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.castle.arrays import HAS_SUBJECT, K, Live, points
from anonymity.castle.nearest import arrange, find_nearest, pick, take
from anonymity.compiled.counting import stable_order
from anonymity.compiled.jit import Int, inner, procedure
from anonymity.compiled.random import below
from anonymity.space.boxes import assign, enclose, enlargement, room
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
def group_by_subject(live: Live, row: Int) -> Groups:
    """Make one bucket a subject (split, step 2), in order of first appearance."""
    tuples, clusters = live.tuples, live.clusters
    count = clusters.tuples[row]
    slots = np.empty(count, np.int64)
    member = np.int64(clusters.head[row])
    for i in range(count):
        slots[i] = member
        member = np.int64(tuples.next[member])
    start = np.arange(count + 1)
    groups = count
    if live.parameters[HAS_SUBJECT] != 0 and clusters.subjects[row] < count:
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
    box = room(groups, clusters.box)
    domain, others = live.domain, points(tuples)
    for g in range(groups):
        assign(box, g, others, slots[start[g]])
        for i in range(start[g] + 1, start[g + 1]):
            enclose(domain, box, g, others, slots[i])
    return Groups(slots, start[: groups + 1], box, np.full(groups, NONE, np.int64))


@inner
def nearest_part(live: Live, groups: Groups, parts: Boxes, count: Int, group: Int) -> Int:
    """The part that a group enlarges least (split, step 23)."""
    least = np.inf
    nearest: Int = np.int64(0)
    domain = live.domain
    for p in range(count):
        growth = enlargement(domain, parts, p, groups.box, group, least)
        if growth < least:
            least, nearest = growth, p
    return nearest


@procedure
def split(live: Live, groups: Groups) -> Int:
    """Give each group a part of at least k subjects; how many parts there are (CASTLE, function split).

    Where the tuples of one subject differ, the paper takes them for equal; here a bucket is measured by the box
    around all its tuples, because all of them go together.
    """
    k, domain, box = live.parameters[K], live.domain, groups.box
    total = len(groups.part)
    ends = np.array([0, total])
    left = arrange(domain, box, np.arange(total), ends)
    parts, seed = room(total // k, box), room(np.int64(1), box)
    only, count = np.int64(0), np.int64(0)
    while total >= k:
        group = pick(left, only, below(live.random, total))
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
        part = nearest_part(live, groups, parts, count, group)
        groups.part[group] = part
        enclose(domain, parts, part, box, group)
    return count


@inner
def codes(live: Live, members: NDArray[np.int64], attribute: Int) -> NDArray[np.uint64]:
    """The codes of one sensitive attribute of some tuples."""
    found = np.empty(len(members), np.uint64)
    for i in range(len(members)):
        found[i] = live.tuples.sensitive[members[i], attribute]
    return found
