"""Loops over numbers side by side, of which a processor handles several at once.

Handling the remainder of such a loop one by one would cost as much as the rest for about fifty numbers. So loops run
over whole ``LANES``. The arrays have room for them, and results beyond the count are ignored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf

LANES = 32
"""Numbers per turn of a loop: four vectors of eight."""


def with_room(count: int) -> int:
    """Return the array length that loops over ``count`` numbers in whole ``LANES`` need."""
    return -(-count // LANES) * LANES


@inner_leaf
def whole(count: Int) -> np.uint64:
    """Return the end of a loop over the first ``count`` numbers in whole ``LANES``, for compiled code."""
    return np.uint64((count + (LANES - 1)) & -LANES)


@leaf
def least(values: NDArray[np.float64], count: Int) -> float:
    """Return the minimum of the first ``count`` numbers, infinite without any.

    Numbers behind them, up to whole ``LANES``, are overwritten with infinity.
    """
    stop = np.int64(whole(count))
    for i in range(count, stop):
        values[i] = np.inf
    one = two = three = four = np.inf
    for i in range(0, stop, 8):  # four at once, because each comparison waits for the one before it
        first = values[i] if values[i] < values[i + 4] else values[i + 4]
        second = values[i + 1] if values[i + 1] < values[i + 5] else values[i + 5]
        third = values[i + 2] if values[i + 2] < values[i + 6] else values[i + 6]
        fourth = values[i + 3] if values[i + 3] < values[i + 7] else values[i + 7]
        one = first if first < one else one
        two = second if second < two else two
        three = third if third < three else three
        four = fourth if fourth < four else four
    one = two if two < one else one
    three = four if four < three else three
    return three if three < one else one
