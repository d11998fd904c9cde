"""Many boxes side by side, so laid out that one box is compared with all of them at vector speed.

The loops over boxes hold no branch: a compiler turns each into vector instructions, and no guess of the processor is
wrong. They give the same numbers as ``anonymity.space.boxes.enlargement``, up to the order of summation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, inner_leaf, leaf
from anonymity.policy import Policy
from anonymity.space.domain import Boxes, Domain
from anonymity.space.lanes import LANES, whole, with_room


class BoxesByAttribute(NamedTuple):
    """Boxes once more, by attribute: see ``anonymity.space.boxes_by_attribute``.

    Attributes
    ----------
    lower, upper : (numeric, boxes)
    first, last, loss : (categorical, boxes) leftmost and rightmost leaf below the box's node, and its ``Domain.loss``
    growth, step : (boxes,) scratch
    inside : (LANES,) scratch
    matches : (boxes + 1,) what ``containing`` finds
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    growth: NDArray[np.float64]
    step: NDArray[np.float64]
    inside: NDArray[np.int32]
    matches: NDArray[np.int32]


@leaf
def lay(domain: Domain, laid: BoxesByAttribute, place: Int, boxes: Boxes, row: Int) -> None:
    """Write a box to its place."""
    for a in range(boxes.lower.shape[1]):
        laid.lower[a, place] = boxes.lower[row, a]
        laid.upper[a, place] = boxes.upper[row, a]
    for a in range(boxes.node.shape[1]):
        node = boxes.node[row, a]
        laid.first[a, place] = domain.first[node]
        laid.last[a, place] = domain.last[node]
        laid.loss[a, place] = domain.loss[node]


def lay_rows(domain: Domain, laid: BoxesByAttribute, boxes: Boxes, rows: NDArray[np.int64]) -> None:
    """Write some boxes to the places of their rows."""
    laid.lower[:, rows], laid.upper[:, rows] = boxes.lower[rows].T, boxes.upper[rows].T
    node = boxes.node[rows].T
    laid.first[:, rows], laid.last[:, rows], laid.loss[:, rows] = (
        domain.first[node],
        domain.last[node],
        domain.loss[node],
    )


@leaf
def enlargements_by(domain: Domain, laid: BoxesByAttribute, boxes: Boxes, row: Int, count: Int) -> None:
    """Write to ``growth`` how much each of the first boxes grows to enclose one box (CASTLE, Definition 3.4)."""
    growth, step, stop = laid.growth, laid.step, whole(count)
    for i in range(np.uint64(0), stop):
        growth[i] = 0.0
    for a in range(boxes.lower.shape[1]):
        lower, upper, scale = boxes.lower[row, a], boxes.upper[row, a], domain.scale[a]
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = laid.lower[a, i] - lower, upper - laid.upper[a, i]
                growth[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
    for a in range(boxes.node.shape[1]):
        node = np.int64(boxes.node[row, a])
        above = np.int64(domain.parent[node])  # of a root: itself
        _ancestor_losses(domain, laid, above, a, count)
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node]
        for i in range(np.uint64(0), stop):
            inside = (first <= laid.first[a, i]) & (laid.last[a, i] <= last)
            growth[i] += (loss if inside else step[i]) - laid.loss[a, i]


@leaf
def containing(
    domain: Domain, laid: BoxesByAttribute, boxes: Boxes, row: Int, start: Int, stop: Int, found: Int
) -> Int:
    """Append to ``matches``, of which so many were ``found``, which boxes contain one box; how many are found then.

    The boxes from ``start`` to ``stop``. Those that are looked at together are left as soon as none of them does.
    """
    inside, matches = laid.inside, laid.matches
    for begin in range(start & -LANES, stop, LANES):
        some = _inside(domain, laid, boxes, row, begin)
        if some != 0:
            for i in range(max(begin, start), min(begin + LANES, stop)):
                matches[found] = i
                found += inside[i - begin]
    return found


@inner_leaf
def _still_inside(
    inside: NDArray[np.int32], low: NDArray[Any], high: NDArray[Any], attribute: Int, begin: Int, least: Any, most: Any
) -> bool:
    """Whether some that are ``inside`` reach from ``least`` to ``most`` in an attribute; others are so no longer."""
    offset, some = np.uint64(begin), np.int32(0)
    for i in range(LANES):
        at_least, at_most = low[attribute, offset + np.uint64(i)], high[attribute, offset + np.uint64(i)]
        inside[i] &= np.int32((at_least <= least) & (most <= at_most))
        some |= inside[i]
    return some != 0


@leaf
def _inside(domain: Domain, laid: BoxesByAttribute, boxes: Boxes, row: Int, begin: Int) -> Int:
    """Write to ``inside`` which of the boxes from ``begin`` on contain one box: 1, else 0; 0 where none does."""
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
    """Write to ``step`` the loss of the lowest node above ``node`` and each box: losses fall on the way down."""
    step, stop, root = laid.step, whole(count), np.int64(domain.root[attribute])
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


def boxes_by_attribute(rows: int, policy: Policy) -> BoxesByAttribute:
    """Room for ``rows`` boxes, and for loops over them."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    rows = with_room(rows)
    return BoxesByAttribute(
        lower=np.zeros((numeric, rows)),
        upper=np.zeros((numeric, rows)),
        first=np.zeros((categorical, rows), np.int32),
        last=np.zeros((categorical, rows), np.int32),
        loss=np.zeros((categorical, rows)),
        growth=np.zeros(rows),
        step=np.zeros(rows),
        inside=np.zeros(LANES, np.int32),
        matches=np.zeros(rows + 1, np.int32),
    )
