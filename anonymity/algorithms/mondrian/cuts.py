"""Recursive partition of a window, with each cut chosen by minimum loss or across the part's widest attribute.

A cut separates a run of places from the rest of the part. For a number, the run holds the lowest values up to a change
of value, so equal values stay on one side. For a category, it holds the tuples below the first children of the part's
node, or below one child.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.mondrian.scratch_buffers import AFTER, BEFORE, WHOLE, PartitionBuffers
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.privacy_models.checks import first_violation
from crenel.anonymity.privacy_models.incremental_tally import forget, put, remove_tuple
from crenel.anonymity.space.boxes import assign, common_ancestor, covers, enclose, info_loss
from crenel.anonymity.space.domain import NONE, Boxes, Domain


@procedure
def find_cut(work: PartitionBuffers, start: Int, stop: Int) -> bool:
    """Find the cut of the part from ``start`` to ``stop``, write it to ``work.cut``, and return whether one exists.

    Both sides satisfy every privacy model. By loss, the cut minimizes the total loss (InfoLoss times tuples, over both
    sides), which must be below that of the whole part. The search tries each change of a number, and each child.
    """
    cut, box = work.cut, work.box
    cut.attribute = NONE
    if stop - start < 2 * work.config.k:
        return False
    assign(box, np.int64(WHOLE), work.points, np.int64(work.order[0, start]))
    for i in range(start + 1, stop):
        widen(work.domain, box, np.int64(WHOLE), work.points, np.int64(work.order[0, i]))
    if work.config.counted != 0:
        forget(work.here)
        forget(work.there)
        for i in range(start, stop):
            put(work.there, work.codes, np.int64(work.order[0, i]), work.config.alone != 0)
    if work.config.by_loss != 0:
        least_loss(work, start, stop)
    else:
        widest(work, start, stop)
    if work.config.counted != 0:
        for i in range(start, stop):
            remove_tuple(work.there, work.codes, np.int64(work.order[0, i]), work.config.alone != 0)
    return bool(cut.attribute != NONE)


@leaf
def least_loss(work: PartitionBuffers, start: Int, stop: Int) -> None:
    """Find the cut of minimum total loss among all cuts."""
    box, numeric = work.box, work.box.lower.shape[1]
    work.cut.loss = (stop - start) * info_loss(work.domain, box, np.int64(WHOLE))
    for a in range(numeric):
        if box.lower[WHOLE, a] < box.upper[WHOLE, a]:
            try_numbers(work, np.int64(a), start, stop)
    for a in range(box.node.shape[1]):
        node = box.node[WHOLE, a]
        if work.domain.first[node] < work.domain.last[node]:
            children = find_children(work, np.int64(a), start, stop)
            try_first_children(work, np.int64(numeric + a), children)
            try_each_child(work, np.int64(numeric + a), children)


@leaf
def try_numbers(work: PartitionBuffers, a: Int, start: Int, stop: Int) -> None:
    """Try all cuts of a number: a downward sweep measures the upper sides, an upward sweep the lower ones."""
    domain, points, box, order = work.domain, work.points, work.box, work.order
    k = np.int64(work.config.k)
    above, below = np.int64(AFTER), np.int64(BEFORE)
    loss = 0.0
    assign(box, above, points, np.int64(order[a, stop - 1]))
    for i in range(stop - 1, start + k - 1, -1):
        if widen(domain, box, above, points, np.int64(order[a, i])):
            loss = info_loss(domain, box, above)
        work.after[i] = loss
    loss = 0.0
    assign(box, below, points, np.int64(order[a, start]))
    last = stop - k
    for i in range(start, last):
        if widen(domain, box, below, points, np.int64(order[a, i])):
            loss = info_loss(domain, box, below)
        if work.config.counted != 0:
            move_here(work, a, i, i + 1)
        tuples = i + 1 - start
        if tuples >= k and points.lower[order[a, i], a] < points.lower[order[a, i + 1], a]:
            total = tuples * loss + (stop - i - 1) * work.after[i + 1]
            if total < work.cut.loss and allowable(work, tuples, stop - i - 1):
                note(work, a, start, i + 1, total)
    if work.config.counted != 0:
        move_back(work, a, start, last)


@leaf
def find_children(work: PartitionBuffers, a: Int, start: Int, stop: Int) -> Int:
    """Find the children of a category's node, with their first places and bounding boxes; return their number."""
    domain, points, child, edge = work.domain, work.points, work.child, work.edge
    row, node = work.box.lower.shape[1] + a, work.box.node[WHOLE, a]
    children, last = np.int64(0), np.int64(-1)
    for i in range(start, stop):
        slot = np.int64(work.order[row, i])
        if points.node[slot, a] > last:
            last = np.int64(domain.last[child_of(domain, node, points.node[slot, a])])
            edge[children] = i
            assign(child, children, points, slot)
            children += 1
        else:
            widen(domain, child, children - 1, points, slot)
    edge[children] = stop
    assign(work.onward, children - 1, child, children - 1)
    for j in range(children - 2, -1, -1):
        assign(work.onward, j, work.onward, j + 1)
        enclose(domain, work.onward, j, child, j)
    return children


@leaf
def try_first_children(work: PartitionBuffers, a: Int, children: Int) -> None:
    """Try the cut behind each child but the last."""
    domain, box, edge, below = work.domain, work.box, work.edge, np.int64(BEFORE)
    assign(box, below, work.child, np.int64(0))
    for j in range(children - 1):
        enclose(domain, box, below, work.child, j)
        if work.config.counted != 0:
            move_here(work, a, edge[j], edge[j + 1])
        tuples, others = edge[j + 1] - edge[0], edge[children] - edge[j + 1]
        total = tuples * info_loss(domain, box, below) + others * info_loss(domain, work.onward, j + 1)
        if total < work.cut.loss and allowable(work, tuples, others):
            note(work, a, edge[0], edge[j + 1], total)
    if work.config.counted != 0:
        move_back(work, a, edge[0], edge[children - 1])


@leaf
def try_each_child(work: PartitionBuffers, a: Int, children: Int) -> None:
    """Try the cut between each inner child and all others."""
    domain, box, edge = work.domain, work.box, work.edge
    below, others = np.int64(BEFORE), np.int64(AFTER)
    assign(box, below, work.child, np.int64(0))
    for j in range(1, children - 1):
        assign(box, others, box, below)
        enclose(domain, box, others, work.onward, j + 1)
        enclose(domain, box, below, work.child, j)
        tuples = edge[j + 1] - edge[j]
        rest = edge[children] - edge[0] - tuples
        total = tuples * info_loss(domain, work.child, j) + rest * info_loss(domain, box, others)
        if total < work.cut.loss and may_be_cut(work, a, edge[j], edge[j + 1], rest):
            note(work, a, edge[j], edge[j + 1], total)


@leaf
def widest(work: PartitionBuffers, start: Int, stop: Int) -> None:
    """Cut the widest attribute that allows a cut, at the place nearest the median (LeFevre, Section 4).

    Widths are shares of the domain, as in InfoLoss. Where many tuples share the median's value, or the children of a
    node are uneven, the paper's cut leaves all of them on one side. This function takes the nearest valid place.
    """
    box, numeric, width = work.box, work.box.lower.shape[1], work.width
    alone, first = np.int64(AFTER), np.int64(work.order[0, start])
    for a in range(len(width)):
        assign(box, alone, work.points, first)
        if a < numeric:
            box.lower[AFTER, a], box.upper[AFTER, a] = box.lower[WHOLE, a], box.upper[WHOLE, a]
        else:
            box.node[AFTER, a - numeric] = box.node[WHOLE, a - numeric]
        width[a] = info_loss(work.domain, box, alone)
    while True:
        best = np.int64(0)
        for a in range(1, len(width)):
            if width[a] > width[best]:
                best = np.int64(a)
        if not width[best] > 0.0:
            return
        width[best] = 0.0
        place = nearest_median(work, best, start, stop)
        if place != NONE and may_be_cut(work, best, start, place, stop - place):
            note(work, best, start, place, 0.0)
            return


@leaf
def nearest_median(work: PartitionBuffers, a: Int, start: Int, stop: Int) -> Int:
    """Return the place nearest the middle for a cut of an attribute, ties to the lower; ``NONE`` if there is none."""
    middle = start + (stop - start) // 2
    for away in range(middle - start + 1):
        for place in (middle - away, middle + away):
            if start < place < stop and divides(work, a, place):
                return place
    return np.int64(NONE)


@leaf
def divides(work: PartitionBuffers, a: Int, place: Int) -> bool:
    """Return whether the number, or the child above the category, changes at a place."""
    points, numeric = work.points, work.box.lower.shape[1]
    left, right = work.order[a, place - 1], work.order[a, place]
    if a < numeric:
        return bool(points.lower[left, a] < points.lower[right, a])
    c = a - numeric
    child = child_of(work.domain, work.box.node[WHOLE, c], points.node[left, c])
    return not covers(work.domain, child, points.node[right, c])


@leaf
def child_of(domain: Domain, node: Int, below: Int) -> Int:
    """Return the child of a node that is an ancestor of a leaf, or the leaf itself."""
    while domain.parent[below] != node:
        below = domain.parent[below]
    return below


@leaf
def may_be_cut(work: PartitionBuffers, a: Int, first: Int, last: Int, others: Int) -> bool:
    """Return whether both sides of a cut satisfy every privacy model; all tuples are ``there`` before and after."""
    if work.config.counted == 0:
        return allowable(work, last - first, others)
    move_here(work, a, first, last)
    may_cut = allowable(work, last - first, others)
    move_back(work, a, first, last)
    return may_cut


@leaf
def allowable(work: PartitionBuffers, tuples: Int, others: Int) -> bool:
    """Return whether both sides satisfy every privacy model, given their numbers of tuples and the tallies."""
    k, here, there = work.config.k, work.here.tally, work.there.tally
    if tuples < k or others < k:
        return False
    if work.config.counted == 0:
        return True
    if here.persons[0] < k or there.persons[0] < k:
        return False
    return bool(first_violation(work.checks, here) == NONE and first_violation(work.checks, there) == NONE)


@leaf
def move_here(work: PartitionBuffers, a: Int, first: Int, last: Int) -> None:
    """Move the tuples of a run of places from the tally ``there`` to ``here``."""
    for i in range(first, last):
        slot = np.int64(work.order[a, i])
        put(work.here, work.codes, slot, work.config.alone != 0)
        remove_tuple(work.there, work.codes, slot, work.config.alone != 0)


@leaf
def move_back(work: PartitionBuffers, a: Int, first: Int, last: Int) -> None:
    """Undo ``move_here``."""
    for i in range(first, last):
        slot = np.int64(work.order[a, i])
        put(work.there, work.codes, slot, work.config.alone != 0)
        remove_tuple(work.here, work.codes, slot, work.config.alone != 0)


@leaf
def note(work: PartitionBuffers, a: Int, first: Int, last: Int, total: float) -> None:
    """Record a cut as the best so far."""
    cut = work.cut
    cut.attribute, cut.first, cut.last, cut.loss = a, first, last, total


@leaf
def widen(domain: Domain, box: Boxes, row: Int, points: Boxes, slot: Int) -> bool:
    """Enlarge a box by the minimum that covers a tuple, and return whether it grew."""
    wider = False
    for a in range(box.lower.shape[1]):
        value = points.lower[slot, a]
        if value < box.lower[row, a]:
            box.lower[row, a] = value
            wider = True
        elif value > box.upper[row, a]:
            box.upper[row, a] = value
            wider = True
    for a in range(box.node.shape[1]):
        node, other = box.node[row, a], points.node[slot, a]
        if not covers(domain, node, other):
            box.node[row, a] = common_ancestor(domain, node, other)
            wider = True
    return wider


@entry
def partition(work: PartitionBuffers, ends: NDArray[np.int64]) -> Int:
    """Cut all tuples into parts that allow no further cut, and return the number of parts.

    This is LeFevre, DeWitt and Ramakrishnan, "Mondrian", ICDE 2006, Section 4. The partition is strict: tuples with the
    same quasi-identifiers are in the same part. The parts are contiguous in ``work.order[0]``, and part i ends before
    ``ends[i]``, (tuples,).
    """
    tuples = work.order.shape[1]
    later = np.empty(tuples + 1, np.int64)  # ends of parts still to be cut, the nearest last
    waiting, parts = 0, np.int64(0)
    start: Int = np.int64(0)
    stop: Int = np.int64(tuples)
    while True:
        if find_cut(work, start, stop):
            later[waiting] = stop
            waiting += 1
            stop = divide(work, start, stop)
            continue
        ends[parts] = stop
        parts += 1
        if waiting == 0:
            return parts
        waiting -= 1
        start, stop = stop, later[waiting]


@leaf
def divide(work: PartitionBuffers, start: Int, stop: Int) -> Int:
    """Move the run of ``work.cut`` to the front of the part in each order, and return the start of the rest."""
    cut, order, inside, spare = work.cut, work.order, work.inside, work.spare
    a, first, last = np.int64(cut.attribute), np.int64(cut.first), np.int64(cut.last)
    for i in range(start, stop):
        inside[order[a, i]] = first <= i < last
    middle = start + last - first
    for row in range(len(order)):
        into, kept = start, np.int64(0)
        for i in range(start, stop):
            slot = order[row, i]
            if inside[slot]:
                order[row, into] = slot
                into += 1
            else:
                spare[kept] = slot
                kept += 1
        for i in range(kept):
            order[row, middle + i] = spare[i]
    return middle
