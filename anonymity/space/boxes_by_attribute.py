"""Many boxes side by side, so laid out that one box is compared with all of them at vector speed.

The loops over boxes hold no branch: a compiler turns each into vector instructions, and no guess of the processor is
wrong. They give the same numbers as ``anonymity.space.boxes.enlargement``, up to the order of summation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, leaf
from anonymity.policy import Policy
from anonymity.space.domain import Boxes, Domain


class BoxesByAttribute(NamedTuple):
    """Boxes once more, by attribute: see ``anonymity.space.boxes_by_attribute``.

    Attributes
    ----------
    lower, upper : (numeric, boxes)
    first, last, loss : (categorical, boxes) leftmost and rightmost leaf below the box's node, and its ``Domain.loss``
    growth, step : (boxes,) scratch
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    growth: NDArray[np.float64]
    step: NDArray[np.float64]


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
    growth, step, stop = laid.growth, laid.step, np.uint64(count)
    for i in range(np.uint64(0), stop):
        growth[i] = 0.0
    for a in range(boxes.lower.shape[1]):
        lower, upper, scale = boxes.lower[row, a], boxes.upper[row, a], domain.scale[a]
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = laid.lower[a, i] - lower, upper - laid.upper[a, i]
                growth[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
    for a in range(boxes.node.shape[1]):
        _ancestor_losses(domain, laid, np.int64(boxes.node[row, a]), a, count)
        for i in range(np.uint64(0), stop):
            growth[i] += step[i] - laid.loss[a, i]


@leaf
def containing(domain: Domain, laid: BoxesByAttribute, boxes: Boxes, row: Int, count: Int) -> None:
    """Write to ``step`` which of the first boxes contain one box: 1, else 0."""
    step, stop = laid.step, np.uint64(count)
    for i in range(np.uint64(0), stop):
        step[i] = 1.0
    for a in range(boxes.lower.shape[1]):
        lower, upper = boxes.lower[row, a], boxes.upper[row, a]
        for i in range(np.uint64(0), stop):
            inside = (laid.lower[a, i] <= lower) & (upper <= laid.upper[a, i])
            step[i] = step[i] if inside else 0.0
    for a in range(boxes.node.shape[1]):
        first, last = domain.first[boxes.node[row, a]], domain.last[boxes.node[row, a]]
        for i in range(np.uint64(0), stop):
            inside = (laid.first[a, i] <= first) & (last <= laid.last[a, i])
            step[i] = step[i] if inside else 0.0


@leaf
def _ancestor_losses(domain: Domain, laid: BoxesByAttribute, node: Int, attribute: Int, count: Int) -> None:
    """Write to ``step`` the loss of the lowest node above ``node`` and each box: losses fall on the way down."""
    step, stop = laid.step, np.uint64(count)
    top = domain.loss[domain.root[attribute]]
    for i in range(np.uint64(0), stop):
        step[i] = top
    while node != domain.root[attribute]:
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node]
        for i in range(np.uint64(0), stop):
            inside = first <= laid.first[attribute, i] and laid.last[attribute, i] <= last
            lower = loss if inside else top
            step[i] = lower if lower < step[i] else step[i]
        node = np.int64(domain.parent[node])


def boxes_by_attribute(rows: int, policy: Policy) -> BoxesByAttribute:
    """Room for ``rows`` boxes."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    return BoxesByAttribute(
        lower=np.zeros((numeric, rows)),
        upper=np.zeros((numeric, rows)),
        first=np.zeros((categorical, rows), np.int32),
        last=np.zeros((categorical, rows), np.int32),
        loss=np.zeros((categorical, rows)),
        growth=np.zeros(rows),
        step=np.zeros(rows),
    )
