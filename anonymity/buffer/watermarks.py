"""What event time had passed when each tuple of a block came: so none waits for the end of its block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf
from crenel.state.block import Block

_NONE = np.zeros(0, np.int64)


def tuple_watermarks(block: Block | None, watermark: int) -> NDArray[np.int64]:
    """(tuples,) epoch milliseconds that event time had passed when each tuple came; empty where nobody knows.

    They never fall, and none is below ``watermark``, which had passed before all of them.
    """
    if block is None or block.watermark is None:
        return _NONE
    return np.maximum.accumulate(np.maximum(block.watermark, watermark))


@leaf
def passed(marks: NDArray[np.int64], i: Int, watermark: Int) -> Int:
    """What event time had passed when a tuple of a block came; behind the last of them, when that one did."""
    return np.int64(marks[min(i, len(marks) - 1)]) if len(marks) > 0 else watermark
