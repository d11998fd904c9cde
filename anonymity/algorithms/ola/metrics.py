"""What a generalization of all of a window loses (El Emam and others, 2009, "Information loss"); less is better.

- ``precision``: mean over the attributes of level / highest level (Sweeney's Prec, as a loss)
- ``discernibility``: squares of the sizes of all classes, those that are suppressed among them (DM*). The penalty that
  Bayardo and Agrawal (2005) put on a suppressed tuple, the size of the window, is not monotonic: a node above one that
  satisfies could lose less, and the lattice could not be searched
- ``entropy``: bits by which a tuple's values are uncertain, given what they became, over all tuples and attributes
  (non-uniform entropy: Gionis and Tassa, 2007)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.ola.lattice import Node


def precision(node: Node, levels: Node) -> float:
    """0: nothing generalized, 1: everything."""
    shares = [level / (size - 1) for level, size in zip(node, levels, strict=True) if size > 1]
    return sum(shares) / max(len(levels), 1)


def discernibility(sizes: NDArray[np.int64]) -> float:
    """Of the sizes of all classes."""
    return float((sizes.astype(np.float64) ** 2).sum())


def entropies(leaf: NDArray[np.int32], levels: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
    """Bits lost at each level of each attribute.

    Parameters
    ----------
    leaf : (tuples, attributes)
    levels : of each attribute (levels, leaves), the node of each leaf at each level
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
