"""CAIL distance: how far apart values of quasi-identifiers are (SUHDSA with l-diversity, Section 3.1).

The paper leaves the categorical term open ("derived from the depth of the lowest common ancestor"): here it is that of
Wu and Palmer, 1 - 2 depth(ancestor) / (depth(one) + depth(other)), 0 for the same node and 1 where only the root is
above both.
"""

from __future__ import annotations

from anonymity.compiled.jit import Int, leaf
from anonymity.space.boxes import common_ancestor
from anonymity.space.domain import Boxes, Domain
from anonymity.window.arrays import Scale


@leaf
def distance(domain: Domain, scale: Scale, boxes: Boxes, row: Int, others: Boxes, at: Int, limit: float) -> float:
    """Weighted mean over the attributes, each in [0, 1]; of intervals it is the gap between them.

    Terms are never negative: past ``limit`` the sum stops, and what it returns is above ``limit`` but not exact.
    """
    total = 0.0
    for a in range(boxes.node.shape[1]):
        node, other = boxes.node[row, a], others.node[at, a]
        if node != other:
            shared = scale.depth[common_ancestor(domain, node, other)]
            total += scale.categorical[a] * (1.0 - 2.0 * shared / (scale.depth[node] + scale.depth[other]))
            if total > limit:
                return total
    for a in range(boxes.lower.shape[1]):
        if domain.scale[a] > 0.0:
            gap = 0.0
            if others.upper[at, a] < boxes.lower[row, a]:
                gap = boxes.lower[row, a] - others.upper[at, a]
            elif others.lower[at, a] > boxes.upper[row, a]:
                gap = others.lower[at, a] - boxes.upper[row, a]
            total += gap * domain.scale[a] * scale.numeric[a]
            if total > limit:
                return total
    return total
