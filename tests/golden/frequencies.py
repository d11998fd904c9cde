"""A stored entry of how common values have been, of version 1, and how tests let values come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crenel.anonymity.algorithms.batch.procedures import see_all
from crenel.anonymity.privacy_models.value_frequencies import ValueFrequencies

CODES = bytes.fromhex(
    "43524e4c0c01000300674b28d6047538011000000000000000636f646502000000000000000b00000000000000ffffffffff"
    "ffffff066938011000000000000000616d6f756e740200000000000000030000000000000001000000000000000569380108"
    "00000000000000746f74616c01000000000000000400000000000000"
)
"""Four tuples, of which three have one value and one another."""


def add_codes(seen: ValueFrequencies, codes: Sequence[int]) -> None:
    """Let tuples come that have the same code in every column."""
    column = np.array(codes, np.uint64)
    see_all(seen, np.stack([column] * len(seen.follows), axis=1))
