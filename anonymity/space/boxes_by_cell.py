"""Boxes in cells of neighbours, so laid out that one box is compared with a whole cell at vector speed.

The boxes of a cell lie side by side in memory, by attribute: a search that passes over most cells then reads a few
runs of memory and not one value here and one there. The loops hold no branch, as those of
``boxes_by_attribute``, and what all boxes of a cell have in common is added once. They give the same numbers as
``anonymity.space.boxes.enlargement``, up to the order of summation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, inner, leaf
from anonymity.space.boxes import common_ancestor, covers
from anonymity.space.domain import Boxes, Domain


class BoxesByCell(NamedTuple):
    """Boxes by cell and attribute.

    Attribute a of the i-th box of a cell that begins at ``start`` and has room for ``size`` boxes stands at
    ``start * attributes + a * size + i``.

    Attributes
    ----------
    lower, upper : (boxes * numeric,)
    first, last : (boxes * categorical,) leftmost and rightmost leaf below the box's node
    growth, step : (boxes of the largest cell,) what ``enlargements_of`` writes, and scratch
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    growth: NDArray[np.float64]
    step: NDArray[np.float64]


@inner
def boxes_by_cell(count: Int, largest: Int, like: Boxes) -> BoxesByCell:
    """Uninitialised cells of ``count`` boxes with the attributes of others, at most ``largest`` in each."""
    numeric, categorical = like.lower.shape[1], like.node.shape[1]
    return BoxesByCell(
        np.empty(count * numeric, np.float64),
        np.empty(count * numeric, np.float64),
        np.empty(count * categorical, np.int32),
        np.empty(count * categorical, np.int32),
        np.empty(largest, np.float64),
        np.empty(largest, np.float64),
    )


@leaf
def lay(domain: Domain, cells: BoxesByCell, start: Int, size: Int, place: Int, boxes: Boxes, row: Int) -> None:
    """Write a box to a place of a cell, from 0."""
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    for a in range(numeric):
        offset = start * numeric + a * size + place
        cells.lower[offset] = boxes.lower[row, a]
        cells.upper[offset] = boxes.upper[row, a]
    for a in range(categorical):
        offset = start * categorical + a * size + place
        cells.first[offset] = domain.first[boxes.node[row, a]]
        cells.last[offset] = domain.last[boxes.node[row, a]]


@leaf
def move(cells: BoxesByCell, start: Int, size: Int, place: Int, other: Int, like: Boxes) -> None:
    """Copy what stands at another place of a cell to this one; ``like`` are boxes of the same attributes."""
    numeric, categorical = like.lower.shape[1], like.node.shape[1]
    for a in range(numeric):
        offset = start * numeric + a * size
        cells.lower[offset + place] = cells.lower[offset + other]
        cells.upper[offset + place] = cells.upper[offset + other]
    for a in range(categorical):
        offset = start * categorical + a * size
        cells.first[offset + place] = cells.first[offset + other]
        cells.last[offset + place] = cells.last[offset + other]


@leaf
def enlargements_of(
    domain: Domain,
    boxes: Boxes,
    row: Int,
    cells: BoxesByCell,
    place: tuple[Int, Int, Int],
    around: Boxes,
    cell: Int,
) -> None:
    """Write to ``growth`` how much one box grows to enclose each of the first boxes of a cell (Definition 3.4).

    Parameters
    ----------
    boxes, row : the one that grows
    place : where the cell begins, its size, and how many of its boxes are looked at
    around, cell : a box around all of the cell, and its row
    """
    start, size, count = place
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    growth, stop = cells.growth, np.uint64(count)
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
                below, above = lower - cells.lower[offset + i], cells.upper[offset + i] - upper
                growth[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
    for a in range(categorical):
        node, top = np.int64(boxes.node[row, a]), np.int64(around.node[cell, a])
        if node != top and covers(domain, top, node):
            _add_ancestor_losses(domain, cells, start * categorical + a * size, count, node, top)


@leaf
def _add_ancestor_losses(domain: Domain, cells: BoxesByCell, begin: Int, count: Int, node: Int, top: Int) -> None:
    # The loss of the lowest node above ``node`` and each box, all of which lie below ``top``; it falls on the way down.
    growth, step, offset, stop = cells.growth, cells.step, np.uint64(begin), np.uint64(count)
    own, highest = domain.loss[node], domain.loss[top]
    for i in range(np.uint64(0), stop):
        step[i] = highest
    while node != top:
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node]
        for i in range(np.uint64(0), stop):
            inside = first <= cells.first[offset + i] and cells.last[offset + i] <= last
            lower = loss if inside else highest
            step[i] = lower if lower < step[i] else step[i]
        node = np.int64(domain.parent[node])
    for i in range(np.uint64(0), stop):
        growth[i] += step[i] - own
