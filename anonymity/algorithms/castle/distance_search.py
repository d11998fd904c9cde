"""Nearest-neighbor search for a split: unassigned members for a part, and a part for each remaining member.

CASTLE's function split (steps 8 to 12) scans all unassigned members for each part, so its cost would grow with the
square of the cluster size. This module keeps the members in cells of neighbors and skips each cell whose nearest corner
is too far. The result is the same, at a cost that hardly grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import LANES, least, loop_end
from crenel.anonymity.compiled.jit import Int, inner, leaf, procedure
from crenel.anonymity.space.boxes import assign, empty_boxes, enclose, enlargement
from crenel.anonymity.space.domain import NONE, Boxes, Domain
from crenel.anonymity.space.points_by_cell import PointsByCell, enlargements_of, lay, move, points_by_cell
from crenel.anonymity.space.regions_by_attribute import Regions, empty_regions, lay_region, measure_gaps, measure_growth

_REGION = 96
"""Maximum number of groups in a cell. Half of it costs a quarter more time, twice as much costs slightly more."""

_DISTRICT = 8
"""Number of adjacent cells in a district, which the search skips together where all of them are too far."""

_SAMPLE = 256
"""Minimum number of groups sampled to find the widest attribute of a large range."""

_CUT = 192
"""Minimum size of a bucket that is worth cutting into cells."""


class UnassignedIndex(NamedTuple):
    """Groups without a part, by bucket and cell.

    Attributes
    ----------
    items : (groups,) groups ordered by cell; the first ``size`` groups of a cell have no part
    laid : each of ``items`` as a point
    place, cell : (all groups,) index in ``items`` and cell of each group
    start : (cells + 1,) index of each cell's first entry in ``items``
    size : (cells,) number of groups without a part in each cell
    box : bounding box of each cell
    regions : the same boxes, then one box around each district of ``_DISTRICT`` cells, with scratch space to measure
        both; empty where each bucket is one cell
    districts : index of the first district in ``regions``
    bucket : (buckets + 1,) the first cell of each bucket
    """

    items: NDArray[np.int64]
    laid: PointsByCell
    place: NDArray[np.int64]
    cell: NDArray[np.int64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    box: Boxes
    regions: Regions
    districts: Int
    bucket: NDArray[np.int64]


class NearestHeap(NamedTuple):
    """Nearest groups so far, as a heap with the farthest at its top (split, step 8)."""

    distance: NDArray[np.float64]
    item: NDArray[np.int64]


@procedure
def arrange(domain: Domain, box: Boxes, items: NDArray[np.int64], ends: NDArray[np.int64]) -> UnassignedIndex:
    """Arrange groups in cells within each bucket; bucket b is ``items[ends[b]:ends[b + 1]]``."""
    items = items.copy()
    most = len(ends) + 4 * len(items) // _REGION
    start = np.zeros(most + 1, np.int64)
    bucket = np.zeros(len(ends), np.int64)
    waiting = np.empty(64, np.int64)  # stack of the ends of uncut ranges
    count = np.int64(0)
    for b in range(len(ends) - 1):
        large = ends[b + 1] - ends[b] > _CUT
        waiting[0] = ends[b + 1]
        pending = 1
        while pending > 0:
            first, stop = start[count], waiting[pending - 1]
            if large and stop - first > _REGION:
                waiting[pending] = first + (stop - first) // 2
                _halve(domain, box, items, first, waiting[pending], stop)
                pending += 1
            else:
                count += 1
                start[count] = stop
                pending -= 1
        bucket[b + 1] = count
    size = np.empty(count, np.int64)
    place = np.empty(len(box.lower), np.int64)
    cell = np.empty(len(box.lower), np.int64)
    largest: Int = np.int64(0)
    for r in range(count):
        size[r] = start[r + 1] - start[r]
        largest = max(largest, size[r])
    around, laid = empty_boxes(count, box), points_by_cell(len(items), largest, box)
    for r in range(count):
        for i in range(start[r], start[r + 1]):
            if i == start[r]:
                assign(around, r, box, items[i])
            enclose(domain, around, r, box, items[i])
            lay(laid, start[r], size[r], i - start[r], box, items[i])
            place[items[i]] = i
            cell[items[i]] = r
    begin = (count - 1) // _DISTRICT * _DISTRICT + LANES
    regions = _regions(domain, around, count, begin) if count > len(ends) - 1 else empty_regions(np.int64(0), box)
    return UnassignedIndex(items, laid, place, cell, start[: count + 1], size, around, regions, begin, bucket)


@procedure
def _regions(domain: Domain, around: Boxes, count: Int, begin: Int) -> Regions:
    # The first ``count`` regions are the boxes, then copies of the last one up to ``begin``, then the districts.
    districts = (count - 1) // _DISTRICT + 1
    regions = empty_regions(begin + districts - 1 + LANES, around)
    for r in range(begin):
        lay_region(domain, regions, np.int64(r), around, np.int64(min(r, count - 1)))
    district, only = empty_boxes(np.int64(1), around), np.int64(0)
    for d in range(districts - 1 + LANES):
        if d < districts:
            assign(district, only, around, d * _DISTRICT)
            for r in range(d * _DISTRICT, min(d * _DISTRICT + _DISTRICT, count)):
                enclose(domain, district, only, around, np.int64(r))
        lay_region(domain, regions, begin + d, district, only)
    return regions


@procedure
def _halve(domain: Domain, box: Boxes, items: NDArray[np.int64], first: Int, middle: Int, stop: Int) -> None:
    # Move the half with the smaller values of the widest attribute to the front.
    around, only = empty_boxes(np.int64(1), box), np.int64(0)
    assign(around, only, box, items[first])
    for i in range(first, stop, 1 + (stop - first) // _SAMPLE):
        enclose(domain, around, only, box, items[i])
    numeric = box.lower.shape[1]
    widest, width = 0, -1.0
    for a in range(numeric):
        spread = (around.upper[only, a] - around.lower[only, a]) * domain.scale[a]
        if spread > width:
            widest, width = a, spread
    for a in range(box.node.shape[1]):
        if domain.loss[around.node[only, a]] > width:
            widest, width = numeric + a, domain.loss[around.node[only, a]]
    keys = np.empty(stop - first, np.float64)
    for i in range(first, stop):
        if widest < numeric:
            keys[i - first] = box.lower[items[i], widest]
        else:
            keys[i - first] = domain.first[box.node[items[i], widest - numeric]]
    _select(keys, items[first:stop], middle - first)


@inner
def _select(keys: NDArray[np.float64], items: NDArray[np.int64], wanted: Int) -> None:
    # Quickselect with three-way partitions: no key before ``wanted`` is larger than a key behind it.
    low, high = np.int64(0), np.int64(len(keys) - 1)
    while low < high:
        pivot = keys[(low + high) // 2]
        smaller, place, larger = low, low, high
        while place <= larger:
            if keys[place] < pivot:
                keys[place], keys[smaller] = keys[smaller], keys[place]
                items[place], items[smaller] = items[smaller], items[place]
                smaller += 1
                place += 1
            elif keys[place] > pivot:
                keys[place], keys[larger] = keys[larger], keys[place]
                items[place], items[larger] = items[larger], items[place]
                larger -= 1
            else:
                place += 1
        if wanted < smaller:
            high = smaller - 1
        elif wanted > larger:
            low = larger + 1
        else:
            return


@leaf
def take(left: UnassignedIndex, group: Int) -> None:
    """Remove a group from the groups without a part."""
    place, cell = left.place[group], left.cell[group]
    left.size[cell] -= 1
    start = left.start[cell]
    last = start + left.size[cell]
    moved = left.items[last]
    left.items[place], left.items[last] = moved, group
    move(left.laid, start, left.start[cell + 1] - start, place - start, last - start, left.box)
    left.place[moved], left.place[group] = place, last


@leaf
def pick(left: UnassignedIndex, bucket: Int, number: Int) -> Int:
    """Return the group at index ``number`` (from 0) among the groups of a bucket without a part."""
    cell = left.bucket[bucket]
    while number >= left.size[cell]:
        number -= left.size[cell]
        cell += 1
    return left.items[left.start[cell] + number]


@inner
def find_nearest(
    domain: Domain, seed: Boxes, left: UnassignedIndex, bucket: Int, wanted: Int, near: Int, limit: float
) -> NearestHeap:
    """Return the ``wanted`` groups without a part in a bucket that enlarge the box of ``seed`` least, unordered.

    The result is shorter where the bucket has fewer groups. Groups that enlarge the box by ``limit`` or more do not
    count; ``NONE`` stands in their place. The search begins in the cell of the group ``near``.
    """
    total = np.int64(0)
    for r in range(left.bucket[bucket], left.bucket[bucket + 1]):
        total += left.size[r]
    size = wanted if wanted < total else total
    nearest = NearestHeap(np.full(size, limit), np.full(size, NONE, np.int64))
    if size == 0:
        return nearest
    first, last = left.bucket[bucket], left.bucket[bucket + 1] - 1
    lowest, highest = first // _DISTRICT, last // _DISTRICT
    gap, districts, only = left.regions.gap, left.districts, np.int64(0)
    if first < last:
        measure_gaps(domain, seed, only, left.regions, districts + lowest, highest - lowest + 1)
    begin = left.cell[near]
    if begin < first or begin > last:
        begin = _closest(domain, seed, left, first, last)
    if left.size[begin] > 0:
        _search(domain, seed, left, begin, nearest)
    if first == last:
        return nearest
    # Search outward from the first cell. Cells close in order are close in space, so near groups soon exclude
    # far cells.
    district = begin // _DISTRICT
    for step in range(max(district - lowest, highest - district) + 1):
        for side in range(2):
            here = district - step if side == 0 else district + step
            if here < lowest or here > highest or (side == 1 and step == 0):
                continue
            if gap[districts + here] >= nearest.distance[0]:
                continue
            measure_gaps(domain, seed, only, left.regions, here * _DISTRICT, np.int64(_DISTRICT))
            for r in range(max(first, here * _DISTRICT), min(last, here * _DISTRICT + _DISTRICT - 1) + 1):
                if r != begin and left.size[r] > 0 and gap[r] < nearest.distance[0]:
                    _search(domain, seed, left, np.int64(r), nearest)
    return nearest


@leaf
def _closest(domain: Domain, seed: Boxes, left: UnassignedIndex, first: Int, last: Int) -> Int:
    # Return a cell between ``first`` and ``last`` to begin the search in; the districts are already measured.
    if first == last:
        return first
    gap, least, district = left.regions.gap, np.inf, first // _DISTRICT
    for d in range(first // _DISTRICT, last // _DISTRICT + 1):
        if gap[left.districts + d] < least:
            least, district = gap[left.districts + d], d
    measure_gaps(domain, seed, np.int64(0), left.regions, district * _DISTRICT, np.int64(_DISTRICT))
    least, cell = np.inf, first
    for r in range(max(first, district * _DISTRICT), min(last, district * _DISTRICT + _DISTRICT - 1) + 1):
        if left.size[r] > 0 and gap[r] < least:
            least, cell = gap[r], r
    return np.int64(cell)


@leaf
def _search(domain: Domain, seed: Boxes, left: UnassignedIndex, cell: Int, heap: NearestHeap) -> None:
    start, size, distance = left.start[cell], left.size[cell], left.laid.growth
    width = left.start[cell + 1] - start
    enlargements_of(domain, seed, np.int64(0), left.laid, (start, width, size), left.box, cell)
    for i in range(size):
        if distance[i] < heap.distance[0]:
            _replace_top(heap, distance[i], left.items[start + i])


@leaf
def _replace_top(heap: NearestHeap, distance: float, item: Int) -> None:
    place, size = 0, len(heap.item)
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap.distance[child + 1] > heap.distance[child]:
            child += 1
        if heap.distance[child] <= distance:
            break
        heap.distance[place], heap.item[place] = heap.distance[child], heap.item[child]
        place = child
    heap.distance[place], heap.item[place] = distance, item


_MANY = 32
"""Number of parts from which the vectorized search is worth its setup."""


@procedure
def assign_remaining(
    domain: Domain, parts: Boxes, count: Int, box: Boxes, part: NDArray[np.int64], joining: NDArray[np.int64]
) -> None:
    """Assign each remaining member to the part that it enlarges least, one after the other (split, step 23).

    Parameters
    ----------
    parts, count : boxes of the parts; the first ``count`` are in use and grow
    box, part : (members,) box of each member, and number of its part
    joining : members without a part, in the order of assignment
    """
    if count < _MANY:
        for member in joining:
            part[member] = _nearest_part(domain, parts, count, box, member)
            enclose(domain, parts, part[member], box, member)
        return
    laid = empty_regions(np.int64(loop_end(count)), parts)
    for p in range(len(laid.gap)):  # behind the last part, copies of it fill the vector lanes
        lay_region(domain, laid, np.int64(p), parts, np.int64(min(p, count - 1)))
    for member in joining:
        measure_growth(domain, laid, count, box, member)
        smallest, nearest = least(laid.gap, count), np.int64(0)
        while nearest < count - 1 and laid.gap[nearest] != smallest:
            nearest += 1
        part[member] = nearest
        enclose(domain, parts, nearest, box, member)
        lay_region(domain, laid, nearest, parts, nearest)


@leaf
def _nearest_part(domain: Domain, parts: Boxes, count: Int, box: Boxes, member: Int) -> Int:
    smallest = np.inf
    nearest: Int = np.int64(0)
    for p in range(count):
        growth = enlargement(domain, parts, p, box, member, smallest)
        if growth < smallest:
            smallest, nearest = growth, p
    return nearest
