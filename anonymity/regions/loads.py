"""Load of regions, or of other shards, compared with expectation.

A stream may drift from the sample from which its regions were learned, and persons differ in their number of records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_REMEMBERED = 1000
"""Tuples per region, on average, after which earlier tuples count half."""

_ENOUGH = 50
"""Tuples per region, on average, before shares are meaningful, and between two updates of the shares."""

_LEAST = 1e-6
"""Minimum expected share of a region, because a file may state a smaller one."""


class Loads:
    """Shares of recent tuples by region.

    Parameters
    ----------
    expected : (regions,) expected share of each, with sum 1
    """

    def __init__(self, expected: NDArray[np.float64]) -> None:
        self._expected = np.maximum(expected, _LEAST)
        self._counts = np.zeros(len(expected))
        self._shares = np.zeros(len(expected))
        self._unseen = 0

    def __len__(self) -> int:
        """Return the number of regions."""
        return len(self._counts)

    def add(self, counts: NDArray[np.int64]) -> None:
        """Count tuples by region."""
        self._counts += counts
        self._unseen += int(counts.sum())
        if self._unseen >= _ENOUGH * len(self._counts):
            # Not each time, because every change of a metric must be reported.
            self._shares, self._unseen = self._counts / self._counts.sum(), 0
        if self._counts.sum() > _REMEMBERED * len(self._counts):
            self._counts /= 2

    def share(self, region: int) -> float:
        """Return the share of a region, from 0 to 1; 0 after too few tuples."""
        return float(self._shares[region])

    @property
    def fullest(self) -> float:
        """Maximum ratio of a region's share to its expected share; 0 after too few tuples."""
        return float((self._shares / self._expected).max())
