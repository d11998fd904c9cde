"""Distances and losses between boxes in the space of quasi-identifiers (CASTLE, Sections 2.2 and 3.2)."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.compiled.jit import Int, inner, leaf
from crenel.anonymity.space.domain import Boxes, Domain


@leaf
def common_ancestor(domain: Domain, one: Int, other: Int) -> Int:
    """Return the lowest node above both nodes (CASTLE, Definition 3.2)."""
    while domain.first[one] > domain.first[other] or domain.last[one] < domain.last[other]:
        one = domain.parent[one]
    return one


@leaf
def covers(domain: Domain, node: Int, other: Int) -> bool:
    """Return whether a node is an ancestor of another, or equal to it."""
    return domain.first[node] <= domain.first[other] and domain.last[other] <= domain.last[node]


@leaf
def info_loss(domain: Domain, boxes: Boxes, row: Int) -> float:
    """Return the InfoLoss of a generalization, in [0, 1] (CASTLE, Section 2.2)."""
    loss, attributes = 0.0, boxes.lower.shape[1] + boxes.node.shape[1]
    for a in range(boxes.lower.shape[1]):
        loss += interval_loss(domain, a, boxes.lower[row, a], boxes.upper[row, a], attributes)
    for a in range(boxes.node.shape[1]):
        loss += domain.loss[boxes.node[row, a]]
    return loss


@leaf
def interval_loss(domain: Domain, a: Int, lower: float, upper: float, attributes: int) -> float:
    """Return the contribution of a numeric interval to InfoLoss, for the given number of attributes."""
    if domain.scale[a] > 0.0:
        return float((upper - lower) * domain.scale[a])
    return _odd_share(domain, a, lower, upper) / attributes


@leaf
def _odd_share(domain: Domain, a: Int, lower: float, upper: float) -> float:
    # Share of a range without a scale: of width 0, or with a width or inverse beyond float64.
    lowest, highest = domain.lower[a], domain.upper[a]
    if not lowest < highest:
        return 0.0
    if highest - lowest < np.inf:
        return (upper - lower) / (highest - lowest)
    return (0.5 * upper - 0.5 * lower) / (0.5 * highest - 0.5 * lowest)


@leaf
def enlargement(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int, limit: float) -> float:
    """Return the growth of InfoLoss when a box encloses another (CASTLE, Definition 3.4).

    An attribute whose range has no scale does not count. No term is negative: the sum stops once it exceeds ``limit``,
    and is then not exact.
    """
    growth = 0.0
    for a in range(boxes.node.shape[1]):  # first: one step up a tree usually weighs more
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
    """Return the InfoLoss of a box after it encloses another."""
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
    """Return whether a generalization covers another box, or a point."""
    for a in range(boxes.lower.shape[1]):
        if others.lower[other_row, a] < boxes.lower[row, a] or others.upper[other_row, a] > boxes.upper[row, a]:
            return False
    for a in range(boxes.node.shape[1]):
        if not covers(domain, boxes.node[row, a], others.node[other_row, a]):
            return False
    return True


@leaf
def equal(boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> bool:
    """Return whether two boxes are equal."""
    for a in range(boxes.lower.shape[1]):
        if boxes.lower[row, a] != others.lower[other_row, a] or boxes.upper[row, a] != others.upper[other_row, a]:
            return False
    for a in range(boxes.node.shape[1]):
        if boxes.node[row, a] != others.node[other_row, a]:
            return False
    return True


@leaf
def assign(boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> None:
    """Copy one box to another."""
    for a in range(boxes.lower.shape[1]):
        boxes.lower[row, a] = others.lower[other_row, a]
        boxes.upper[row, a] = others.upper[other_row, a]
    for a in range(boxes.node.shape[1]):
        boxes.node[row, a] = others.node[other_row, a]


@leaf
def enclose(domain: Domain, boxes: Boxes, row: Int, others: Boxes, other_row: Int) -> None:
    """Enlarge a box as little as possible until it covers another."""
    for a in range(boxes.lower.shape[1]):
        if others.lower[other_row, a] < boxes.lower[row, a]:
            boxes.lower[row, a] = others.lower[other_row, a]
        if others.upper[other_row, a] > boxes.upper[row, a]:
            boxes.upper[row, a] = others.upper[other_row, a]
    for a in range(boxes.node.shape[1]):
        boxes.node[row, a] = common_ancestor(domain, boxes.node[row, a], others.node[other_row, a])


@leaf
def observe(domain: Domain, boxes: Boxes, other_row: Int, attributes: Int) -> None:
    """Widen the observed range of attributes without a declared domain."""
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
    """Set a box to the most general one: every domain, every root (CASTLE, Section 4.1, suppression)."""
    for a in range(boxes.lower.shape[1]):
        boxes.lower[row, a] = domain.lower[a]
        boxes.upper[row, a] = domain.upper[a]
    for a in range(boxes.node.shape[1]):
        boxes.node[row, a] = domain.root[a]


@inner
def empty_boxes(rows: Int, like: Boxes) -> Boxes:
    """Return uninitialized boxes with the attributes of others."""
    return Boxes(
        np.empty((rows, like.lower.shape[1]), np.float64),
        np.empty((rows, like.lower.shape[1]), np.float64),
        np.empty((rows, like.node.shape[1]), np.int32),
    )
