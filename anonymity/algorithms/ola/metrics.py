"""Loss metrics of a window's generalization (El Emam and others, 2009, "Information loss"); less is better.

- ``precision``: mean over the attributes of level / highest level (Sweeney's Prec, as a loss)
- ``discernibility``: sum of the squared sizes of all classes, suppressed ones included (DM*). Bayardo and Agrawal
  (2005) charge the window's size per suppressed tuple. That penalty is not monotonic: a node above a satisfying one
  could lose less, and the lattice could not be searched
- ``entropy``: bits of uncertainty about a tuple's values given their generalization, over all tuples and attributes
  (non-uniform entropy: Gionis and Tassa, 2007)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.ola.lattice import Node


def precision(node: Node, levels: Node) -> float:
    """Return the precision loss of a node, from 0 (nothing generalized) to 1 (everything)."""
    shares = [level / (size - 1) for level, size in zip(node, levels, strict=True) if size > 1]
    return sum(shares) / max(len(levels), 1)


def discernibility(sizes: NDArray[np.int64]) -> float:
    """Return the discernibility loss, given the sizes of all classes."""
    return float((sizes.astype(np.float64) ** 2).sum())


def entropies(leaf: NDArray[np.int32], levels: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
    """Return the bits lost at each level of each attribute.

    Parameters
    ----------
    leaf : (tuples, attributes) leaf of each value
    levels : for each attribute (levels, leaves), the node of each leaf at each level
    """
    found = []
    for a, nodes in enumerate(levels):
        tuples = np.bincount(leaf[:, a], minlength=nodes.shape[1]).astype(np.float64)
        bits = np.zeros(len(nodes))
        for level, of in enumerate(nodes):
            above = np.bincount(of, weights=tuples)[of]
            some = tuples > 0
            bits[level] = (tuples[some] * np.log2(above[some] / tuples[some])).sum()
        found.append(bits)
    return found
