"""Boxes of index cells in columns, so that vector instructions find the ones too far from a given box.

The layout is that of ``crenel.anonymity.space.boxes_by_attribute``. The distance of a region from a box is the minimum
growth of the box to enclose anything in the region.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import loop_end
from crenel.anonymity.compiled.jit import Int, inner, leaf
from crenel.anonymity.space.domain import Boxes, Domain


class Regions(NamedTuple):
    """Regions in columns by attribute.

    Attributes
    ----------
    ends : (2 * numeric, regions) the lower ends of all attributes, then the upper ones
    leaves : (2 * categorical, regions) leftmost leaves below the region's nodes, then the rightmost ones
    loss : (categorical, regions) ``Domain.loss`` of the region's nodes
    gap, step : (regions,) output of ``measure_gaps`` and ``measure_growth``, and scratch
    """

    ends: NDArray[np.float64]
    leaves: NDArray[np.int32]
    loss: NDArray[np.float64]
    gap: NDArray[np.float64]
    step: NDArray[np.float64]


@inner
def empty_regions(count: Int, like: Boxes) -> Regions:
    """Return uninitialized regions with the attributes of ``like``."""
    scratch = np.empty(2 * count)
    return Regions(
        np.empty((2 * like.lower.shape[1], count)),
        np.empty((2 * like.node.shape[1], count), np.int32),
        np.empty((like.node.shape[1], count)),
        scratch[:count],
        scratch[count:],
    )


@leaf
def lay_region(domain: Domain, regions: Regions, place: Int, boxes: Boxes, row: Int) -> None:
    """Set a region to a box."""
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    for a in range(numeric):
        regions.ends[a, place] = boxes.lower[row, a]
        regions.ends[numeric + a, place] = boxes.upper[row, a]
    for a in range(categorical):
        regions.leaves[a, place] = domain.first[boxes.node[row, a]]
        regions.leaves[categorical + a, place] = domain.last[boxes.node[row, a]]
        regions.loss[a, place] = domain.loss[boxes.node[row, a]]


@leaf
def measure_gaps(domain: Domain, boxes: Boxes, row: Int, regions: Regions, start: Int, count: Int) -> None:
    """Write to ``gap`` the minimum growth of one box to enclose anything in each of ``count`` regions.

    Regions behind them, up to whole ``LANES``, are included. Terms are summed in the order of
    ``crenel.anonymity.space.boxes``.
    """
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    ends, leaves, gap, step = regions.ends, regions.leaves, regions.gap, regions.step
    begin, stop = np.uint64(start), np.uint64(start) + loop_end(count)
    for i in range(begin, stop):
        gap[i] = 0.0
    for a in range(categorical):
        node, root, left, right = np.int64(boxes.node[row, a]), np.int64(domain.root[a]), a, categorical + a
        if node == root:
            continue
        own, leftmost, rightmost = domain.loss[node], domain.first[node], domain.last[node]
        _ancestor_losses(domain, regions, np.int64(domain.parent[node]), a, start, count)
        for i in range(begin, stop):
            apart = (rightmost < leaves[left, i]) | (leaves[right, i] < leftmost)
            gap[i] += (step[i] - own) if apart else 0.0
    for a in range(numeric):
        lowest, highest, scale, low, high = boxes.lower[row, a], boxes.upper[row, a], domain.scale[a], a, numeric + a
        if scale > 0.0:
            for i in range(begin, stop):
                below, above = lowest - ends[high, i], ends[low, i] - highest
                gap[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale


@leaf
def _ancestor_losses(domain: Domain, regions: Regions, node: Int, attribute: Int, start: Int, count: Int) -> None:
    """Write to ``step`` the loss of the lowest node, from ``node`` upwards, that is above each region."""
    step, leaves, root = regions.step, regions.leaves, np.int64(domain.root[attribute])
    begin, stop = np.uint64(start), np.uint64(start) + loop_end(count)
    left, right, top = attribute, len(regions.loss) + attribute, domain.loss[root]
    for i in range(begin, stop):
        step[i] = top
    while node != root:
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node]
        for i in range(begin, stop):
            inside = (first <= leaves[left, i]) & (leaves[right, i] <= last)
            lower = loss if inside else top
            step[i] = lower if lower < step[i] else step[i]
        node = np.int64(domain.parent[node])


@leaf
def measure_growth(domain: Domain, regions: Regions, count: Int, boxes: Boxes, row: Int) -> None:
    """Write to ``gap`` the growth of each of the first regions to enclose one box (CASTLE, Definition 3.4).

    The numbers equal those of ``crenel.anonymity.space.boxes.enlargement``, where its sum does not stop early.
    """
    numeric, categorical = boxes.lower.shape[1], boxes.node.shape[1]
    ends, growth, step, stop = regions.ends, regions.gap, regions.step, loop_end(count)
    for i in range(np.uint64(0), stop):
        growth[i] = 0.0
    for a in range(categorical):
        _ancestor_losses(domain, regions, np.int64(boxes.node[row, a]), a, np.int64(0), count)
        for i in range(np.uint64(0), stop):
            growth[i] += step[i] - regions.loss[a, i]
    for a in range(numeric):
        lower, upper, scale, low, high = boxes.lower[row, a], boxes.upper[row, a], domain.scale[a], a, numeric + a
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = ends[low, i] - lower, upper - ends[high, i]
                growth[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
