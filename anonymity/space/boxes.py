"""Distances and losses between regions of the space of quasi-identifiers (CASTLE, Sections 2.2 and 3.2)."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.compiled.jit import Int, inner, leaf
from crenel.anonymity.space.domain import Boxes, Domain


@leaf
def common_ancestor(domain: Domain, one: Int, other: Int) -> Int:
    """The lowest node above both (CASTLE, Definition 3.2)."""
    while domain.first[one] > domain.first[other] or domain.last[one] < domain.last[other]:
        one = domain.parent[one]
    return one


@leaf
def covers(domain: Domain, node: Int, other: Int) -> bool:
    """Whether a node stands above another, or is it."""
    return domain.first[node] <= domain.first[other] and domain.last[other] <= domain.last[node]


@leaf
def info_loss(domain: Domain, boxes: Boxes, row: Int) -> float:
    """InfoLoss of a generalization, in [0, 1] (CASTLE, Section 2.2)."""
    loss, attributes = 0.0, boxes.lower.shape[1] + boxes.node.shape[1]
    for a in range(boxes.lower.shape[1]):
        loss += interval_loss(domain, a, boxes.lower[row, a], boxes.upper[row, a], attributes)
    for a in range(boxes.node.shape[1]):
        loss += domain.loss[boxes.node[row, a]]
    return loss


@leaf
def interval_loss(domain: Domain, a: Int, lower: float, upper: float, attributes: int) -> float:
    """What an interval of a numeric attribute adds to InfoLoss; there are so many attributes."""
    if domain.scale[a] > 0.0:
        return float((upper - lower) * domain.scale[a])
    return _odd_share(domain, a, lower, upper) / attributes


@leaf
def _odd_share(domain: Domain, a: Int, lower: float, upper: float) -> float:
    # Of a range that has no scale: of no width, or one whose width or its inverse is more than float64 holds.
    lowest, highest = domain.lower[a], domain.upper[a]
    if not lowest < highest:
        return 0.0
    if highest - lowest < np.inf:
        return (upper - lower) / (highest - lowest)
    return (0.5 * upper - 0.5 * lower) / (0.5 * highest - 0.5 * lowest)


@leaf
def enlargement(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int, limit: float) -> float:
    """By how much InfoLoss grows when a box encloses another (CASTLE, Definition 3.4).

    An attribute whose range has no scale does not count. Terms are never negative: past ``limit`` the sum stops, and
    what it returns is above ``limit`` but not exact.
    """
    growth = 0.0
    for a in range(boxes.node.shape[1]):  # first, because one step up a tree weighs more than most intervals grow
        node, other = boxes.node[row, a], others.node[other_row, a]
        if not covers(domain, node, other):
            growth += domain.loss[common_ancestor(domain, node, other)] - domain.loss[node]
            if growth > limit:
                return growth
    for a in range(boxes.lower.shape[1]):
        beyond = 0.0
        if others.lower[other_row, a] < boxes.lower[row, a]:
            beyond += boxes.lower[row, a] - others.lower[other_row, a]
        if others.upper[other_row, a] > boxes.upper[row, a]:
            beyond += others.upper[other_row, a] - boxes.upper[row, a]
        if beyond > 0.0 and domain.scale[a] > 0.0:
            growth += beyond * domain.scale[a]
            if growth > limit:
                return growth
    return growth


@leaf
def loss_after(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> float:
    """InfoLoss of a box after it has enclosed another."""
    loss, attributes = 0.0, boxes.lower.shape[1] + boxes.node.shape[1]
    for a in range(boxes.lower.shape[1]):
        lower, upper = boxes.lower[row, a], boxes.upper[row, a]
        if others.lower[other_row, a] < lower:
            lower = others.lower[other_row, a]
        if others.upper[other_row, a] > upper:
            upper = others.upper[other_row, a]
        loss += interval_loss(domain, a, lower, upper, attributes)
    for a in range(boxes.node.shape[1]):
        loss += domain.loss[common_ancestor(domain, boxes.node[row, a], others.node[other_row, a])]
    return loss


@leaf
def contains(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> bool:
    """Whether a published generalization covers another box, or a point."""
    for a in range(boxes.lower.shape[1]):
        if others.lower[other_row, a] < boxes.lower[row, a] or others.upper[other_row, a] > boxes.upper[row, a]:
            return False
    for a in range(boxes.node.shape[1]):
        if not covers(domain, boxes.node[row, a], others.node[other_row, a]):
            return False
    return True


@leaf
def equal(boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> bool:
    """Whether two boxes are the same."""
    for a in range(boxes.lower.shape[1]):
        if boxes.lower[row, a] != others.lower[other_row, a] or boxes.upper[row, a] != others.upper[other_row, a]:
            return False
    for a in range(boxes.node.shape[1]):
        if boxes.node[row, a] != others.node[other_row, a]:
            return False
    return True


@leaf
def assign(boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> None:
    """Make one box a copy of another."""
    for a in range(boxes.lower.shape[1]):
        boxes.lower[row, a] = others.lower[other_row, a]
        boxes.upper[row, a] = others.upper[other_row, a]
    for a in range(boxes.node.shape[1]):
        boxes.node[row, a] = others.node[other_row, a]


@leaf
def enclose(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> None:
    """Enlarge a box, no more than needed, until it covers another."""
    for a in range(boxes.lower.shape[1]):
        if others.lower[other_row, a] < boxes.lower[row, a]:
            boxes.lower[row, a] = others.lower[other_row, a]
        if others.upper[other_row, a] > boxes.upper[row, a]:
            boxes.upper[row, a] = others.upper[other_row, a]
    for a in range(boxes.node.shape[1]):
        boxes.node[row, a] = common_ancestor(domain, boxes.node[row, a], others.node[other_row, a])


@leaf
def observe(domain: Domain, boxes: Boxes, other_row: Int, attributes: Int) -> None:
    """Widen the observed range of attributes that have no declared domain."""
    for a in range(boxes.lower.shape[1]):
        if not domain.declared[a]:
            value = boxes.lower[other_row, a]
            wider = False
            if value < domain.lower[a]:
                domain.lower[a] = value
                wider = True
            if value > domain.upper[a]:
                domain.upper[a] = value
                wider = True
            if wider:
                # Divided twice: the product may overflow, and the inverse of the narrowest ranges does.
                scale = 1.0 / (domain.upper[a] - domain.lower[a]) / attributes
                domain.scale[a] = scale if scale < np.inf else 0.0


@leaf
def fully_generalize(domain: Domain, boxes: Boxes, row: Int) -> None:
    """The most general box: every domain, every root (CASTLE, Section 4.1, suppression)."""
    for a in range(boxes.lower.shape[1]):
        boxes.lower[row, a] = domain.lower[a]
        boxes.upper[row, a] = domain.upper[a]
    for a in range(boxes.node.shape[1]):
        boxes.node[row, a] = domain.root[a]


@leaf
def generalize_outside(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> None:
    """Make a box most general in each attribute in which it does not cover another."""
    for a in range(boxes.lower.shape[1]):
        if others.lower[other_row, a] < boxes.lower[row, a] or others.upper[other_row, a] > boxes.upper[row, a]:
            boxes.lower[row, a] = domain.lower[a]
            boxes.upper[row, a] = domain.upper[a]
    for a in range(boxes.node.shape[1]):
        if not covers(domain, boxes.node[row, a], others.node[other_row, a]):
            boxes.node[row, a] = domain.root[a]


@inner
def empty_boxes(rows: Int, like: Boxes) -> Boxes:
    """Uninitialized boxes with the attributes of others."""
    return Boxes(
        np.empty((rows, like.lower.shape[1]), np.float64),
        np.empty((rows, like.lower.shape[1]), np.float64),
        np.empty((rows, like.node.shape[1]), np.int32),
    )
