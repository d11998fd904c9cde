"""Splitting a cluster before it is released (CASTLE, Sections 4.1 and 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.boxes import assign, enclose, enlargement, points, room
from anonymity.compiled import Int, inner
from anonymity.counting import stable_order
from anonymity.live import HAS_SUBJECT, NONE, Boxes, Domain, K, Live
from anonymity.random import below


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


@inner
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


class Nearest(NamedTuple):
    """The nearest candidates found so far: a heap with the farthest at its top (split, step 8)."""

    distance: NDArray[np.float64]
    item: NDArray[np.int64]


@inner
def find_nearest(
    domain: Domain, box: Boxes, seed: Boxes, items: NDArray[np.int64], start: Int, stop: Int, wanted: int
) -> Nearest:
    """The ``wanted`` of ``items[start:stop]`` that enlarge the box of ``seed`` least, in no order (steps 8 to 12)."""
    size = min(wanted, stop - start)
    found = Nearest(np.full(size, np.inf), np.full(size, NONE, np.int64))
    if size == 0:
        return found
    for i in range(start, stop):
        item = items[i]
        distance = enlargement(domain, seed, np.int64(0), box, item, found.distance[0])
        if distance < found.distance[0]:
            _replace_top(found, distance, item)
    return found


@inner
def _replace_top(heap: Nearest, distance: float, item: Int) -> None:
    at, size = 0, len(heap.item)
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap.distance[child + 1] > heap.distance[child]:
            child += 1
        if heap.distance[child] <= distance:
            break
        heap.distance[at], heap.item[at] = heap.distance[child], heap.item[child]
        at = child
    heap.distance[at], heap.item[at] = distance, item


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


@inner
def split(live: Live, groups: Groups) -> Int:
    """Give each group a part of at least k subjects; how many parts there are (CASTLE, function split).

    Where the tuples of one subject differ, the paper takes them for equal; here a bucket is measured by the box
    around all its tuples, because all of them go together.
    """
    k = live.parameters[K]
    alive = np.arange(len(groups.part))
    left = len(alive)
    parts = room(left // k, groups.box)
    seed = room(np.int64(1), groups.box)
    count = np.int64(0)
    domain = live.domain
    while left >= k:
        chosen = below(live.random, left)
        group = alive[chosen]
        left -= 1
        alive[chosen] = alive[left]
        groups.part[group] = count
        assign(seed, np.int64(0), groups.box, group)
        assign(parts, count, groups.box, group)
        found = find_nearest(domain, groups.box, seed, alive, 0, left, k - 1)
        for i in range(len(found.item)):
            groups.part[found.item[i]] = count
            enclose(domain, parts, count, groups.box, found.item[i])
        kept = 0
        for i in range(left):
            if groups.part[alive[i]] == NONE:
                alive[kept] = alive[i]
                kept += 1
        left = kept
        count += 1
    for i in range(left):
        part = nearest_part(live, groups, parts, count, alive[i])
        groups.part[alive[i]] = part
        enclose(domain, parts, part, groups.box, alive[i])
    return count
