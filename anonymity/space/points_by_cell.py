"""Points in cells of neighbors, laid out so that vector instructions compare a box with a whole cell.

The points of a cell are contiguous in memory, by attribute: a search that skips most cells then reads a few runs of
memory instead of scattered values. The loops have no branches, as in ``boxes_by_attribute``, and terms common to all
points of a cell are added once. They give the same numbers as ``crenel.anonymity.space.boxes.enlargement``, up to the
order of summation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import LANES, loop_end
from crenel.anonymity.compiled.jit import Int, inner, leaf
from crenel.anonymity.space.boxes import common_ancestor, covers
from crenel.anonymity.space.domain import Boxes, Domain


class PointsByCell(NamedTuple):
    """Points by cell and attribute.

    Attribute a of the i-th point of a cell that begins at ``start`` and has room for ``size`` points is at ``start *
    attributes + a * size + i``.

    Attributes
    ----------
    number : (points * numeric + room,) values of numeric attributes
    leaf : (points * categorical + room,) values of categorical attributes, as nodes
    growth, step : (points of the largest cell + room,) output of ``enlargements_of``, and scratch
    """

    number: NDArray[np.float64]
    leaf: NDArray[np.int32]
    growth: NDArray[np.float64]
    step: NDArray[np.float64]


@inner
def points_by_cell(count: Int, largest: Int, like: Boxes) -> PointsByCell:
    """Return uninitialized cells for ``count`` points with the attributes of ``like``, at most ``largest`` per cell."""
    return PointsByCell(
        np.empty(count * like.lower.shape[1] + LANES, np.float64),
        np.empty(count * like.node.shape[1] + LANES, np.int32),
        np.empty(largest + LANES, np.float64),
        np.empty(largest + LANES, np.float64),
    )


@leaf
def lay(cells: PointsByCell, start: Int, size: Int, place: Int, boxes: Boxes, row: Int) -> None:
    """Write a point, which is a box of width 0, to index ``place`` of a cell, from 0."""
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    for a in range(numeric):
        cells.number[start * numeric + a * size + place] = boxes.lower[row, a]
    for a in range(categorical):
        cells.leaf[start * categorical + a * size + place] = boxes.node[row, a]


@leaf
def move(cells: PointsByCell, start: Int, size: Int, place: Int, other: Int, like: Boxes) -> None:
    """Copy a point of a cell from index ``other`` to ``place``; ``like`` are boxes of the same attributes."""
    numeric, categorical = like.lower.shape[1], like.node.shape[1]
    for a in range(numeric):
        offset = start * numeric + a * size
        cells.number[offset + place] = cells.number[offset + other]
    for a in range(categorical):
        offset = start * categorical + a * size
        cells.leaf[offset + place] = cells.leaf[offset + other]


@leaf
def enlargements_of(
    domain: Domain,
    boxes: Boxes,
    row: Int,
    cells: PointsByCell,
    place: tuple[Int, Int, Int],
    around: Boxes,
    cell: Int,
) -> None:
    """Write to ``growth`` the enlargement of one box for each of the first points of a cell (Definition 3.4).

    Parameters
    ----------
    boxes, row : the box that grows
    place : start of the cell, its size, and the number of points to compare
    around, cell : boxes around whole cells, and the row of this cell's box
    """
    start, size, count = place
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    growth, stop = cells.growth, loop_end(count)
    common = 0.0
    for a in range(categorical):
        node, top = np.int64(boxes.node[row, a]), np.int64(around.node[cell, a])
        if not covers(domain, top, node):
            common += domain.loss[common_ancestor(domain, node, top)] - domain.loss[node]
    for i in range(np.uint64(0), stop):
        growth[i] = common
    for a in range(numeric):
        lower, upper, scale = boxes.lower[row, a], boxes.upper[row, a], domain.scale[a]
        if scale > 0.0 and (around.lower[cell, a] < lower or around.upper[cell, a] > upper):
            offset = np.uint64(start * numeric + a * size)
            for i in range(np.uint64(0), stop):
                below, above = lower - cells.number[offset + i], cells.number[offset + i] - upper
                growth[i] += (below if below > 0.0 else (above if above > 0.0 else 0.0)) * scale
    for a in range(categorical):
        node, top = np.int64(boxes.node[row, a]), np.int64(around.node[cell, a])
        if node != top and covers(domain, top, node):
            _add_ancestor_losses(domain, cells, start * categorical + a * size, count, node, top)


@leaf
def _add_ancestor_losses(domain: Domain, cells: PointsByCell, begin: Int, count: Int, node: Int, top: Int) -> None:
    # Adds the loss of the lowest node above ``node`` and each point, all of them below ``top``; it falls on the way
    # down.
    growth, step, offset, stop = cells.growth, cells.step, np.uint64(begin), loop_end(count)
    # The last loop adds the node's own level, so that most hierarchies take two.
    own, highest = domain.loss[node], domain.loss[top]
    first_own, last_own, above = domain.first[node], domain.last[node], np.int64(domain.parent[node])
    first, last, loss = domain.first[above], domain.last[above], domain.loss[above]
    for i in range(np.uint64(0), stop):
        inside = (first <= cells.leaf[offset + i]) & (cells.leaf[offset + i] <= last)
        step[i] = loss if inside else highest
    while above != top:
        above = np.int64(domain.parent[above])
        first, last, loss = domain.first[above], domain.last[above], domain.loss[above]
        if above != top:
            for i in range(np.uint64(0), stop):
                inside = (first <= cells.leaf[offset + i]) & (cells.leaf[offset + i] <= last)
                lower = loss if inside else highest
                step[i] = lower if lower < step[i] else step[i]
    for i in range(np.uint64(0), stop):
        inside = (first_own <= cells.leaf[offset + i]) & (cells.leaf[offset + i] <= last_own)
        growth[i] += (own if inside else step[i]) - own
