"""Assignment of the tuples of a block to regions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry

_TOGETHER = 1024
"""Number of tuples processed at once, so that their values stay in the processor's cache."""


@entry
def assign_regions(
    column: NDArray[np.uint32],
    number_cut: NDArray[np.float64],
    leaf_cut: NDArray[np.int32],
    below: NDArray[np.uint32],
    depth: Int,
    numeric: NDArray[np.float64],
    categorical: NDArray[np.int32],
    found: NDArray[np.uint32],
) -> None:
    """Move all tuples down a tree side by side, as many steps as the deepest region lies.

    The loop has no branches and no dependent steps: mispredicted branches would cost more than the additional steps.
    Therefore each node compares both a number and a leaf, one of them with a cut that no value reaches.

    Parameters
    ----------
    column : (nodes, 2) columns of the number and of the leaf that a node compares
    number_cut, leaf_cut : (nodes,) the lowest number and leaf that go right
    below : (nodes, 2) the left and right child; at a region, its own node twice
    numeric, categorical : (rows, numeric) and (rows, categorical), at least one column each
    found : (rows,) receives the node of each tuple's region
    """
    rows = len(found)
    for start in range(0, rows, _TOGETHER):
        stop = min(start + _TOGETHER, rows)
        for row in range(start, stop):
            found[row] = 0
        for _ in range(depth):
            for row in range(start, stop):
                node = found[row]  # unsigned, or compiled code would test each index for a negative value
                right = numeric[np.uint64(row), column[node, 0]] >= number_cut[node]
                right |= categorical[np.uint64(row), column[node, 1]] >= leaf_cut[node]
                found[row] = below[node, np.uint64(right)]
