"""The histogram of delays: exact for short ones, within 1/32 for long ones."""

from __future__ import annotations

from anonymity.compiled import Int, leaf
from anonymity.live import DELAY_STEPS


@leaf
def delay_bucket(waited: Int) -> Int:
    """The histogram's bucket of a delay in tuples."""
    shift = 0
    while waited >> shift >= 2 * DELAY_STEPS:
        shift += 1
    return shift * DELAY_STEPS + (waited >> shift)
