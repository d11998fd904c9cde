"""Buffered tuples in cells of neighbors, for a nearest-neighbor search that skips most of the buffer.

The cells are the leaves of a tree of cuts, each of one attribute at one value. A full cell is cut in two. The bound of
a cell is the minimum loss that any of its tuples adds to the group. A search begins in the cell of the smallest bound
and skips cells that are too far, so its result does not depend on the cells. The loops contain no branches, as in
``crenel.anonymity.space.boxes_by_attribute``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.arrays import SIZE, SPARSE, NearestArrays, TupleCells
from crenel.anonymity.algorithms.nearest.growth import measure_points
from crenel.anonymity.algorithms.nearest.isolation import append, compact, remove
from crenel.anonymity.compiled.arrays import least, loop_end, stable_order
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.space.domain import NONE, Boxes, Domain

_ANY = -1  # replaces an attribute: tuples alike in all attributes lie on either side

_LEAST = SIZE // 4
"""Minimum number of tuples on each side of a cut."""

_THIN = 2
"""Rebuild the cells when they outnumber full cells ``_THIN``-fold and as many tuples arrived since as are buffered."""


@leaf
def enter(shard: NearestArrays, slot: Int) -> None:
    """Insert a buffered tuple into its cell; with a price of isolation, append it to the line instead."""
    if shard.isolation.now.price > 0.0:
        append(shard, slot)
        return
    cells, full = shard.cells, shard.now.waiting // SIZE + 1
    cells.place[slot] = 0
    cells.now.came += 1
    thin = cells.now.used > _THIN * full + 4 and cells.now.came > shard.now.waiting
    if thin or cells.now.used > SPARSE * full + 4:
        rebuild(shard)
    else:
        _enter(shard, slot)


@procedure
def rebuild(shard: NearestArrays) -> None:
    """Rebuild the cells, or the line, from all buffered tuples that were in one."""
    if shard.isolation.now.price > 0.0:
        compact(shard)
        return
    cells, tuples = shard.cells, shard.tuples
    cells.now.used, cells.now.root, cells.now.came = 1, -1, 0
    cells.held[0] = 0
    slot = np.int64(shard.now.oldest)
    while slot != NONE:
        if cells.place[slot] != NONE:
            _enter(shard, slot)
        slot = np.int64(tuples.younger[slot])


@leaf
def _enter(shard: NearestArrays, slot: Int) -> None:
    cells = shard.cells
    way, before, low = np.int64(cells.now.root), np.int64(NONE), True
    while way >= 0:
        a = np.int64(cells.attribute[way])
        if a == _ANY:
            low = bool(cells.held[-1 - cells.below[way]] < SIZE)
        else:
            low = bool(_value(shard, slot, a) < cells.cut[way])
        before = way
        way = np.int64(cells.below[way] if low else cells.above[way])
    cell = -1 - way
    while cells.held[cell] == SIZE:
        _cut(shard, cell, before, low)
        before = np.int64(cells.now.used) - 2
        a = np.int64(cells.attribute[before])
        low = bool(a != _ANY and _value(shard, slot, a) < cells.cut[before])
        cell = -1 - np.int64(cells.below[before] if low else cells.above[before])
    _put(shard, cell, slot)


@leaf
def _put(shard: NearestArrays, cell: Int, slot: Int) -> None:
    cells, tuples = shard.cells, shard.tuples
    place = cell * SIZE + cells.held[cell]
    cells.slot[place], cells.place[slot] = slot, place
    empty = cells.held[cell] == 0
    for a in range(cells.number.shape[0]):
        value = tuples.numeric[slot, a]
        cells.number[a, place] = value
        cells.lower[a, cell] = value if empty else min(cells.lower[a, cell], value)
        cells.upper[a, cell] = value if empty else max(cells.upper[a, cell], value)
    for a in range(cells.leaf.shape[0]):
        node = tuples.leaf[slot, a]
        cells.leaf[a, place] = node
        cells.first[a, cell] = node if empty else min(cells.first[a, cell], node)
        cells.last[a, cell] = node if empty else max(cells.last[a, cell], node)
    cells.held[cell] += 1


@leaf
def drop(shard: NearestArrays, slot: Int) -> None:
    """Remove a tuple from its cell, where the last tuple of the cell takes its place, or from the line."""
    if shard.isolation.now.price > 0.0:
        remove(shard, slot)
        return
    cells = shard.cells
    place = np.int64(cells.place[slot])
    cell = place // SIZE
    cells.held[cell] -= 1
    last = cell * SIZE + cells.held[cell]
    moved = cells.slot[last]
    cells.slot[place], cells.place[moved] = moved, place
    for a in range(cells.number.shape[0]):
        cells.number[a, place] = cells.number[a, last]
    for a in range(cells.leaf.shape[0]):
        cells.leaf[a, place] = cells.leaf[a, last]
    cells.place[slot] = NONE


@procedure
def _cut(shard: NearestArrays, cell: Int, before: Int, low: bool) -> None:
    """Cut a full cell in two across its widest attribute, near the middle; add a cell where all tuples are alike."""
    cells = shard.cells
    numeric, start = cells.number.shape[0], cell * SIZE
    widths = _widths(shard, cell)
    attribute, cut, values = np.int64(_ANY), 0.0, np.empty(SIZE)
    while attribute == _ANY and widths.max() > 0.0:
        a = np.int64(widths.argmax())
        widths[a] = 0.0
        for i in range(SIZE):
            values[i] = cells.number[a, start + i] if a < numeric else np.float64(cells.leaf[a - numeric, start + i])
        order = stable_order(values)
        for off in range(SIZE // 2 - _LEAST + 1):
            for middle in (SIZE // 2 + off, SIZE // 2 - off):
                if attribute == _ANY and values[order[middle - 1]] < values[order[middle]]:
                    attribute, cut = a, values[order[middle]]
    other, number = np.int64(cells.now.used), np.int64(cells.now.used) - 1
    cells.now.used += 1
    cells.held[other] = 0
    cells.attribute[number], cells.cut[number] = attribute, cut
    cells.below[number], cells.above[number] = -1 - cell, -1 - other
    if before == NONE:
        cells.now.root = number
    elif low:
        cells.below[before] = number
    else:
        cells.above[before] = number
    if attribute == _ANY:
        return
    cells.held[cell] = 0
    moved = cells.slot[start : start + SIZE].copy()
    for i in range(SIZE):
        slot = np.int64(moved[i])
        _put(shard, cell if _value(shard, slot, attribute) < cut else other, slot)


@procedure
def _widths(shard: NearestArrays, cell: Int) -> NDArray[np.float64]:
    """Return the width of a cell in each attribute, as a weighted share of InfoLoss."""
    cells, domain = shard.cells, shard.metric
    numeric = cells.number.shape[0]
    widths = np.zeros(numeric + cells.leaf.shape[0])
    for a in range(numeric):
        if domain.scale[a] > 0.0:
            widths[a] = (cells.upper[a, cell] - cells.lower[a, cell]) * domain.scale[a]
    for a in range(cells.leaf.shape[0]):
        node = np.int64(cells.first[a, cell])
        while domain.last[node] < cells.last[a, cell]:
            node = np.int64(domain.parent[node])
        widths[numeric + a] = domain.loss[node]
    return widths


@leaf
def _value(shard: NearestArrays, slot: Int, attribute: Int) -> float:
    numeric = shard.tuples.numeric.shape[1]
    if attribute < numeric:
        return float(shard.tuples.numeric[slot, attribute])
    return float(shard.tuples.leaf[slot, attribute - numeric])


@leaf
def measure(domain: Domain, cells: TupleCells, box: Boxes, row: Int) -> None:
    """Write to ``bound`` the minimum growth of a box's loss by a tuple of each cell."""
    bound, stop = cells.bound, loop_end(cells.now.used)
    for i in range(np.uint64(0), stop):
        bound[i] = 0.0
    for a in range(box.lower.shape[1]):
        lower, upper, scale = box.lower[row, a], box.upper[row, a], domain.scale[a]
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = lower - cells.upper[a, i], cells.lower[a, i] - upper
                bound[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
    for a in range(box.node.shape[1]):
        _least_losses(domain, cells, np.int64(box.node[row, a]), a)
        for i in range(np.uint64(0), stop):
            bound[i] += cells.step[i]
            cells.part[a, i] = cells.step[i]


@leaf
def measure_again(domain: Domain, cells: TupleCells, box: Boxes, before: Int, after: Int) -> None:
    """Update ``bound`` after a box has grown from row ``before`` to row ``after``."""
    bound, stop = cells.bound, loop_end(cells.now.used)
    for a in range(box.lower.shape[1]):
        lower, upper = box.lower[before, a], box.upper[before, a]
        low, high, scale = box.lower[after, a], box.upper[after, a], domain.scale[a]
        if scale > 0.0 and low < lower:
            for i in range(np.uint64(0), stop):
                old, new = lower - cells.upper[a, i], low - cells.upper[a, i]
                bound[i] += ((new if new > 0.0 else 0.0) - (old if old > 0.0 else 0.0)) * scale
        if scale > 0.0 and high > upper:
            for i in range(np.uint64(0), stop):
                old, new = cells.lower[a, i] - upper, cells.lower[a, i] - high
                bound[i] += ((new if new > 0.0 else 0.0) - (old if old > 0.0 else 0.0)) * scale
    for a in range(box.node.shape[1]):
        if box.node[after, a] != box.node[before, a]:
            _least_losses(domain, cells, np.int64(box.node[after, a]), a)
            for i in range(np.uint64(0), stop):
                bound[i] += cells.step[i] - cells.part[a, i]
                cells.part[a, i] = cells.step[i]


@leaf
def _least_losses(domain: Domain, cells: TupleCells, node: Int, attribute: Int) -> None:
    """Write to ``step`` the minimum growth of a node's loss when it is generalized to cover a tuple of each cell."""
    step, first_of, last_of, stop = cells.step, cells.first, cells.last, loop_end(cells.now.used)
    own = domain.loss[node]
    top = domain.loss[domain.root[attribute]] - own
    for i in range(np.uint64(0), stop):
        step[i] = top
    while node != domain.root[attribute]:
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node] - own
        for i in range(np.uint64(0), stop):
            meets = (first_of[attribute, i] <= last) & (last_of[attribute, i] >= first)
            lower = loss if meets else top
            step[i] = lower if lower < step[i] else step[i]
        node = np.int64(domain.parent[node])


@leaf
def nearest_cell(cells: TupleCells) -> Int:
    """Return the nonempty cell of the smallest bound, ``NONE`` if all are empty; fill ``nonempty_bound``."""
    nonempty_bound, bound, held, count = cells.nonempty_bound, cells.bound, cells.held, np.int64(cells.now.used)
    for i in range(np.uint64(0), loop_end(count)):
        nonempty_bound[i] = bound[i] if held[i] > 0 else np.inf
    smallest = least(nonempty_bound, count)
    for i in range(count):
        if nonempty_bound[i] == smallest and smallest < np.inf:
            return np.int64(i)
    return np.int64(NONE)


@leaf
def visit(domain: Domain, cells: TupleCells, box: Boxes, row: Int, cell: Int) -> None:
    """Write to ``growth`` the growth of a box's loss by each tuple of a cell (CASTLE, Definition 3.4)."""
    start, count = np.int64(cell * SIZE), np.int64(cells.held[cell])
    measure_points(domain, box, row, cells.number, cells.leaf, start, count, cells.growth, cells.growth_step)
