"""Ends of published intervals, limited to the type of their column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_EXACT = 2.0**53


def within(
    lower: NDArray[np.float64], upper: NDArray[np.float64], extremes: tuple[float, float] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clip interval ends to ``extremes``, the minimum and maximum of the column's type; None: no limit.

    Without a declared domain, noise and rounding may move ends beyond the column's type. Flink's CAST of such a number
    wraps around for an integer, and gives NULL for a DECIMAL.
    """
    return (lower, upper) if extremes is None else (np.clip(lower, *extremes), np.clip(upper, *extremes))


def integer_bounds(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> tuple[list[int], list[int]]:
    """Return the published interval ends of an integer column.

    Values are stored as float64, which is exact below 2**53. Larger ends move outwards by one step of float64, so that
    the interval still covers the rounded integer; they stay within int64.

    Parameters
    ----------
    lower, upper : (releases,) finite
    """
    return _whole(np.floor(lower), -np.inf), _whole(np.ceil(upper), np.inf)


def _whole(ends: NDArray[np.float64], outwards: float) -> list[int]:
    ends = np.where(np.abs(ends) >= _EXACT, np.nextafter(ends, outwards), ends)
    most = np.iinfo(np.int64)
    above, below = ends >= 2.0**63, ends < -(2.0**63)
    whole = np.where(above | below, 0, ends).astype(np.int64)
    whole[above], whole[below] = most.max, most.min
    return list(whole.tolist())
