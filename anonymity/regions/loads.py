"""How full regions, or other shards, are against what is expected of them.

A stream drifts away from the sample that its regions were learned from, and persons differ in how many rows they have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_REMEMBERED = 1000
"""Tuples of a region, on average, after which those that came are counted half."""

_ENOUGH = 50
"""Tuples of a region, on average, from which shares say something, and after which they are looked at again."""

_LEAST = 1e-6
"""What a region is expected to get at least, as a share: of a file that says less nothing follows."""


class Loads:
    """Shares of the tuples that came lately.

    Parameters
    ----------
    expected : (regions,) the share of each, all of them 1
    """

    def __init__(self, expected: NDArray[np.float64]) -> None:
        self._expected = np.maximum(expected, _LEAST)
        self._counts = np.zeros(len(expected))
        self._shares = np.zeros(len(expected))
        self._unseen = 0

    def __len__(self) -> int:
        """How many regions there are."""
        return len(self._counts)

    def add(self, counts: NDArray[np.int64]) -> None:
        """Count tuples, so many of each region."""
        self._counts += counts
        self._unseen += int(counts.sum())
        if self._unseen >= _ENOUGH * len(self._counts):
            # Not each time: what changes has to be told.
            self._shares, self._unseen = self._counts / self._counts.sum(), 0
        if self._counts.sum() > _REMEMBERED * len(self._counts):
            self._counts /= 2

    def share(self, region: int) -> float:
        """The share of a region, from 0 to 1; 0 where too few tuples have come."""
        return float(self._shares[region])

    @property
    def fullest(self) -> float:
        """How many times its expected share the region has that has most of it; 0 where too few tuples have come."""
        return float((self._shares / self._expected).max())
