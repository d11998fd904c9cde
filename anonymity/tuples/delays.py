"""The histogram of delays: exact for short ones, within 1/32 for long ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, leaf

DELAY_STEPS = 32
DELAY_BUCKETS = DELAY_STEPS * 60
"""Delays are counted exactly below 64 tuples, then in steps of at most 1/32 of their size."""


@leaf
def delay_bucket(waited: Int) -> Int:
    """The histogram's bucket of a delay in tuples."""
    shift = 0
    while waited >> shift >= 2 * DELAY_STEPS:
        shift += 1
    return shift * DELAY_STEPS + (waited >> shift)


@leaf
def note_delay(delays: NDArray[np.int64], totals: NDArray[np.int64], longest: Int, waited: Int) -> None:
    """Count a delay in tuples; ``longest`` is the place in ``totals`` of the longest of all."""
    delays[delay_bucket(waited)] += 1
    totals[longest] = max(totals[longest], waited)


def delay_of_bucket(bucket: int) -> int:
    """The smallest delay, in tuples, that is counted in a bucket of the histogram."""
    shift = max(bucket // DELAY_STEPS - 1, 0)
    return (bucket - shift * DELAY_STEPS) << shift
