"""Watermarks of each tuple in a block, so that no due tuple waits for the end of its block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf
from crenel.state.block import Block

_NONE = np.zeros(0, np.int64)


def tuple_watermarks(block: Block | None, watermark: int) -> NDArray[np.int64]:
    """Return (tuples,) the watermark at each tuple's arrival, in epoch milliseconds; empty where unknown.

    The watermarks never fall, and none lies below ``watermark``, the one before the block.
    """
    if block is None or block.watermark is None:
        return _NONE
    return np.maximum.accumulate(np.maximum(block.watermark, watermark))


@leaf
def passed(marks: NDArray[np.int64], i: Int, watermark: Int) -> Int:
    """Return the watermark at the arrival of a block's tuple; after the last tuple, that of the last."""
    return np.int64(marks[min(i, len(marks) - 1)]) if len(marks) > 0 else watermark
