"""CAIL distance between quasi-identifier values (SUHDSA with l-diversity, Section 3.1).

The paper leaves the categorical term open ("derived from the depth of the lowest common ancestor"). This module uses
Wu and Palmer's, 1 - 2 depth(ancestor) / (depth(one) + depth(other)). It is 0 for equal nodes and 1 where the root is
the only common ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.boxes import common_ancestor
from crenel.anonymity.space.domain import Boxes, Domain


class Scale(NamedTuple):
    """Weights and node depths of the distance.

    Attributes
    ----------
    numeric : (numeric,) weight of each numeric attribute; ``Domain.scale`` divides by the number of quasi-identifiers
    categorical : (categorical,) weight of each categorical attribute / number of quasi-identifiers
    depth : (nodes of all hierarchies,) steps from the root
    """

    numeric: NDArray[np.float64]
    categorical: NDArray[np.float64]
    depth: NDArray[np.float64]


def scale(policy: Policy, weight: Mapping[str, float]) -> Scale:
    """Return the scale of a policy's attributes, with a default weight of 1."""
    depths: list[NDArray[np.float64]] = [np.zeros(0)]
    for attribute in policy.categorical:
        tree = attribute.hierarchy
        depth, step = np.zeros(len(tree.labels)), np.arange(len(tree.labels))
        while (below := step != tree.root).any():
            depth += below
            step = tree.parent[step]
        depths.append(depth)
    attributes = len(policy.attributes)
    return Scale(
        numeric=np.array([weight.get(a.name, 1.0) for a in policy.numeric], np.float64),
        categorical=np.array([weight.get(a.name, 1.0) / attributes for a in policy.categorical], np.float64),
        depth=np.concatenate(depths),
    )


@leaf
def distance(
    domain: Domain, scale: Scale, boxes: Boxes, row: Int, others: Boxes, other_row: Int, limit: float
) -> float:
    """Return the weighted mean of the attributes' distances, each in [0, 1]; for intervals, of the gap between them.

    Terms are never negative. Past ``limit`` the sum stops, and the result is above ``limit`` but not exact.

    Parameters
    ----------
    row, other_row : rows of ``boxes`` and of ``others``, (rows, numeric) and (rows, categorical) each
    """
    total = 0.0
    for a in range(boxes.node.shape[1]):
        node, other = boxes.node[row, a], others.node[other_row, a]
        if node != other:
            shared = scale.depth[common_ancestor(domain, node, other)]
            total += scale.categorical[a] * (1.0 - 2.0 * shared / (scale.depth[node] + scale.depth[other]))
            if total > limit:
                return total
    for a in range(boxes.lower.shape[1]):
        if domain.scale[a] > 0.0:
            gap = 0.0
            if others.upper[other_row, a] < boxes.lower[row, a]:
                gap = boxes.lower[row, a] - others.upper[other_row, a]
            elif others.lower[other_row, a] > boxes.upper[row, a]:
                gap = others.lower[other_row, a] - boxes.upper[row, a]
            total += gap * domain.scale[a] * scale.numeric[a]
            if total > limit:
                return total
    return total
