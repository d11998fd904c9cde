"""Loops over numbers side by side, of which a processor looks at several at once.

What is left over at the end of such a loop is looked at one by one, which costs as much as all the rest where there are
some fifty numbers. So loops run over whole ``LANES``: there is room behind the numbers that count, and what is computed
there is not looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf

LANES = 32
"""Numbers that one turn of a loop looks at: four vectors of eight."""


def with_room(count: int) -> int:
    """How many numbers there must be room for, so that loops over ``count`` of them may run over whole ``LANES``."""
    return -(-count // LANES) * LANES


@inner_leaf
def whole(count: Int) -> np.uint64:
    """The same for compiled code, and where a loop over the first ``count`` ends."""
    return np.uint64((count + (LANES - 1)) & -LANES)


@leaf
def least(values: NDArray[np.float64], count: Int) -> float:
    """The least of the first ``count`` numbers, infinite where there is none; those up to whole ``LANES`` become so."""
    stop = np.int64(whole(count))
    for i in range(count, stop):
        values[i] = np.inf
    one = two = three = four = np.inf
    for i in range(0, stop, 8):  # four at once, as each comparison waits for the one before it
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
