"""Which region each tuple of a block lies in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import entry

NO_CUT = -1
"""The attribute of a node that is a region."""


@entry
def assign_regions(
    attribute: NDArray[np.int32],
    cut: NDArray[np.float64],
    below: NDArray[np.int32],
    numeric: NDArray[np.float64],
    categorical: NDArray[np.int32],
    found: NDArray[np.int64],
) -> None:
    """Walk down the tree with each tuple.

    Parameters
    ----------
    attribute, cut, below : (nodes,), (nodes,) and (nodes, 2) as ``anonymity.regions.tree.RegionTree`` has them
    numeric, categorical : (rows, numeric) and (rows, categorical) of a block
    found : (rows,) gets the region of each
    """
    numbers = numeric.shape[1]
    for row in range(len(found)):
        node = 0
        while attribute[node] != NO_CUT:
            column = attribute[node]
            value = numeric[row, column] if column < numbers else np.float64(categorical[row, column - numbers])
            # What is no number goes right.
            node = below[node, 0 if value < cut[node] else 1]
        found[row] = below[node, 0]
