"""Boxes in columns by attribute, so that vector instructions compare one box with all of them.

The loops over boxes have no branches, so that a compiler can vectorize them and no branch is mispredicted. They give
the same numbers as ``crenel.anonymity.space.boxes.enlargement``, up to the order of summation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import LANES, loop_end, with_room
from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import NONE, Boxes, Domain

_FEW = 256
"""Maximum number of leaves of a hierarchy with ``rise``.

A change of a box writes ``rise`` for all leaves, while a tuple reads one.
"""


class BoxesByAttribute(NamedTuple):
    """Copies of boxes in columns by attribute: see ``crenel.anonymity.space.boxes_by_attribute``.

    Attributes
    ----------
    lower, upper : (numeric, boxes) interval of each box
    node : (categorical, boxes) the box's node, ``NONE`` before the first
    first, last, loss : (categorical, boxes) leftmost and rightmost leaf below the node, and its ``Domain.loss``
    rise : (leaves, boxes) growth of a box's loss in an attribute when it encloses a leaf
    begin : (categorical,) row of ``rise`` of each attribute's leftmost leaf, ``NONE`` where it has no rows
    growth, step : (boxes,) scratch
    inside : (LANES,) scratch
    matches : (boxes + 1,) output of ``containing``
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    rise: NDArray[np.float64]
    begin: NDArray[np.int64]
    growth: NDArray[np.float64]
    step: NDArray[np.float64]
    inside: NDArray[np.int32]
    matches: NDArray[np.int32]


@leaf
def lay(domain: Domain, laid: BoxesByAttribute, place: Int, boxes: Boxes, row: Int) -> None:
    """Write a box to column ``place``."""
    for a in range(boxes.lower.shape[1]):
        laid.lower[a, place] = boxes.lower[row, a]
        laid.upper[a, place] = boxes.upper[row, a]
    for a in range(boxes.node.shape[1]):
        node = np.int64(boxes.node[row, a])
        if laid.node[a, place] != node:
            laid.node[a, place] = node
            laid.first[a, place] = domain.first[node]
            laid.last[a, place] = domain.last[node]
            laid.loss[a, place] = domain.loss[node]
            if laid.begin[a] != NONE:
                _lay_rise(domain, laid, a, place, node)


@leaf
def _lay_rise(domain: Domain, laid: BoxesByAttribute, attribute: Int, place: Int, node: Int) -> None:
    root, loss = np.int64(domain.root[attribute]), domain.loss[node]
    begin = laid.begin[attribute] - domain.first[root]
    first, last = np.int64(domain.first[node]), np.int64(domain.last[node])
    for below in range(first, last + 1):
        laid.rise[begin + below, place] = 0.0
    while node != root:
        node = np.int64(domain.parent[node])
        rise = domain.loss[node] - loss
        for below in range(domain.first[node], first):
            laid.rise[begin + below, place] = rise
        for below in range(last + 1, domain.last[node] + 1):
            laid.rise[begin + below, place] = rise
        first, last = np.int64(domain.first[node]), np.int64(domain.last[node])


def lay_rows(domain: Domain, laid: BoxesByAttribute, boxes: Boxes, rows: NDArray[np.int64]) -> None:
    """Write boxes to the columns of their row numbers, where ``rise`` is not kept."""
    laid.lower[:, rows], laid.upper[:, rows] = boxes.lower[rows].T, boxes.upper[rows].T
    node = boxes.node[rows].T
    laid.node[:, rows] = node
    laid.first[:, rows], laid.last[:, rows], laid.loss[:, rows] = (
        domain.first[node],
        domain.last[node],
        domain.loss[node],
    )


@leaf
def enlargements_by(domain: Domain, laid: BoxesByAttribute, points: Boxes, row: Int, count: Int) -> None:
    """Write to ``growth`` the enlargement of each of the first boxes for a point (CASTLE, Definition 3.4)."""
    growth, step, stop = laid.growth, laid.step, loop_end(count)
    for i in range(np.uint64(0), stop):
        growth[i] = 0.0
    for a in range(points.lower.shape[1]):
        value, scale = points.lower[row, a], domain.scale[a]
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = laid.lower[a, i] - value, value - laid.upper[a, i]
                beyond = below if below > above else above
                growth[i] += (beyond if beyond > 0.0 else 0.0) * scale
    for a in range(points.node.shape[1]):
        node = np.int64(points.node[row, a])
        if laid.begin[a] != NONE:
            place = laid.begin[a] + node - np.int64(domain.first[domain.root[a]])
            for i in range(np.uint64(0), stop):
                growth[i] += laid.rise[place, i]
        else:
            above = np.int64(domain.parent[node])  # of a root: itself
            _ancestor_losses(domain, laid, above, a, count)
            loss = domain.loss[node]
            for i in range(np.uint64(0), stop):
                growth[i] += (loss if laid.node[a, i] == node else step[i]) - laid.loss[a, i]


@leaf
def containing(
    domain: Domain, laid: BoxesByAttribute, boxes: Boxes, row: Int, start: Int, stop: Int, match_count: Int
) -> Int:
    """Append the boxes from ``start`` to ``stop`` that contain one box to ``matches``, and return their total number.

    ``match_count`` is the number of matches so far. A group of boxes is abandoned as soon as none of it matches.
    """
    inside, matches = laid.inside, laid.matches
    for begin in range(start & -LANES, stop, LANES):
        some = _inside(domain, laid, boxes, row, begin)
        if some != 0:
            for i in range(max(begin, start), min(begin + LANES, stop)):
                matches[match_count] = i
                match_count += inside[i - begin]
    return match_count


@inner_leaf
def _still_inside(
    inside: NDArray[np.int32], low: NDArray[Any], high: NDArray[Any], attribute: Int, begin: Int, least: Any, most: Any
) -> bool:
    """Return whether some box marked ``inside`` covers ``least`` to ``most`` in an attribute; unmark the others."""
    offset, some = np.uint64(begin), np.int32(0)
    for i in range(LANES):
        at_least, at_most = low[attribute, offset + np.uint64(i)], high[attribute, offset + np.uint64(i)]
        inside[i] &= np.int32((at_least <= least) & (most <= at_most))
        some |= inside[i]
    return some != 0


@leaf
def _inside(domain: Domain, laid: BoxesByAttribute, boxes: Boxes, row: Int, begin: Int) -> Int:
    """Mark in ``inside`` the boxes from ``begin`` on that contain one box, and return 1, or 0 where none does."""
    inside = laid.inside
    for i in range(LANES):
        inside[i] = 1
    for a in range(boxes.node.shape[1]):
        first, last = domain.first[boxes.node[row, a]], domain.last[boxes.node[row, a]]
        if not _still_inside(inside, laid.first, laid.last, a, begin, first, last):
            return np.int64(0)
    for a in range(boxes.lower.shape[1]):
        lower, upper = boxes.lower[row, a], boxes.upper[row, a]
        if not _still_inside(inside, laid.lower, laid.upper, a, begin, lower, upper):
            return np.int64(0)
    return np.int64(1)


@leaf
def _ancestor_losses(domain: Domain, laid: BoxesByAttribute, node: Int, attribute: Int, count: Int) -> None:
    """Write to ``step`` the loss of the lowest node above ``node`` and each box; losses fall on the way down."""
    step, stop, root = laid.step, loop_end(count), np.int64(domain.root[attribute])
    top = domain.loss[root]
    first, last, loss = domain.first[node], domain.last[node], domain.loss[node]
    for i in range(np.uint64(0), stop):
        inside = (first <= laid.first[attribute, i]) & (laid.last[attribute, i] <= last)
        step[i] = loss if inside else top
    while node != root:
        node = np.int64(domain.parent[node])
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node]
        if node != root:
            for i in range(np.uint64(0), stop):
                inside = (first <= laid.first[attribute, i]) & (laid.last[attribute, i] <= last)
                lower = loss if inside else top
                step[i] = lower if lower < step[i] else step[i]


def boxes_by_attribute(rows: int, policy: Policy, *, rises: bool = False) -> BoxesByAttribute:
    """Return room for ``rows`` boxes and loops over them, with ``rise`` where ``enlargements_by`` is used."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    rows = with_room(rows)
    leaves = [attribute.hierarchy.leaves for attribute in policy.categorical]
    kept = [count if rises and count <= _FEW else 0 for count in leaves]
    begin = np.where(kept, np.cumsum([0, *kept[:-1]])[: len(kept)], NONE)
    return BoxesByAttribute(
        lower=np.zeros((numeric, rows)),
        upper=np.zeros((numeric, rows)),
        node=np.full((categorical, rows), NONE, np.int32),
        first=np.zeros((categorical, rows), np.int32),
        last=np.zeros((categorical, rows), np.int32),
        loss=np.zeros((categorical, rows)),
        rise=np.zeros((sum(kept), rows)),
        begin=begin.astype(np.int64),
        growth=np.zeros(rows),
        step=np.zeros(rows),
        inside=np.zeros(LANES, np.int32),
        matches=np.zeros(rows + 1, np.int32),
    )
