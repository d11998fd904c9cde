"""Which region each tuple of a block lies in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry

_TOGETHER = 1024
"""Tuples whose values stay near the processor while all of them go down."""


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
    """Walk down a tree with all tuples side by side, as deep as the deepest region lies.

    Nothing branches, and no step waits for the one before: where a tuple turns cannot be foretold, and a processor that
    guesses wrong loses more than a step takes. So each node compares a number and a leaf, one of them with what no
    value reaches.

    Parameters
    ----------
    column : (nodes, 2) of the number and of the leaf that a node looks at
    number_cut, leaf_cut : (nodes,) the lowest ones that go right
    below : (nodes, 2) the nodes left and right; at a region, its own number twice
    numeric, categorical : (rows, numeric) and (rows, categorical), at least one column each
    found : (rows,) gets the node of the region of each
    """
    rows = len(found)
    for start in range(0, rows, _TOGETHER):
        stop = min(start + _TOGETHER, rows)
        for row in range(start, stop):
            found[row] = 0
        for _ in range(depth):
            for row in range(start, stop):
                node = found[row]  # unsigned: else each index would be looked at for a place counted from the end
                right = numeric[np.uint64(row), column[node, 0]] >= number_cut[node]
                right |= categorical[np.uint64(row), column[node, 1]] >= leaf_cut[node]
                found[row] = below[node, np.uint64(right)]
