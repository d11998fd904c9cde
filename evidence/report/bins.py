"""Histograms of whole numbers and shares, each in a few bins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from crenel.evidence.report.context import number

_TINY = 1e-9
"""Values below this count as 0, because no label distinguishes them from it."""

_MOST = 12


def bins_of_whole(values: NDArray[np.int64], rows: NDArray[np.int64]) -> list[tuple[str, int]]:
    """Count rows by a whole number: one bin per value, or bins of growing width where there are many values.

    Parameters
    ----------
    values, rows : (n,) a number from 0, and the number of rows that have it
    """
    if not rows.sum():
        return []
    values, rows = values[rows > 0], rows[rows > 0]
    least, most = int(values.min()), int(values.max())
    if most - least < _MOST:
        edges = np.arange(least, most + 2)
    elif most < 3 * max(least, 1):
        step = -(-(most + 1 - least) // _MOST)
        edges = np.arange(least, most + step + 1, step)
    else:
        edges = np.unique(np.geomspace(max(least, 1), most + 1, _MOST + 1).round().astype(np.int64))
        edges[0] = least
    place = np.searchsorted(edges, values, side="right") - 1
    amounts = np.bincount(place, rows, len(edges) - 1)
    last = int(np.flatnonzero(amounts)[-1])
    return [
        (_between(int(low), min(int(high) - 1, most)), round(amount))
        for low, high, amount in zip(edges[: last + 1], edges[1:], amounts.tolist(), strict=False)
    ]


def bins_of_counts(counts: Mapping[int, int]) -> list[tuple[str, int]]:
    """Count rows by a whole number, as ``bins_of_whole`` does; ``counts``: rows by number."""
    return bins_of_whole(*_arrays(counts))


def quantile_of_counts(counts: Mapping[int, int], q: float) -> float:
    """Return the number that at least a share ``q`` of the rows do not exceed, as ``weighted_quantile`` does."""
    return weighted_quantile(*_arrays(counts), q)


def _arrays(counts: Mapping[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)


def bins_of_real(values: NDArray[np.float64], rows: NDArray[np.int64]) -> list[tuple[str, int]]:
    """Count rows by a number from 0, in bins of equal width."""
    if not rows.sum():
        return []
    most = float(values.max())
    step = nice(most / (_MOST - 2)) if most > _TINY else 1.0
    place = np.floor(values / step + 1e-9).astype(np.int64)
    amounts = np.bincount(place, rows)
    return [
        (f"{number(round(i * step, 12))} to {number(round((i + 1) * step, 12))}", round(a))
        for i, a in enumerate(amounts)
    ]


def nice(width: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(
        next((times * power for times in (1, 2, 2.5, 5, 10) if times * power >= width * (1 - 1e-9)), 10 * power)
    )


def weighted_quantile(values: NDArray[np.int64] | NDArray[np.float64], weights: NDArray[np.int64], q: float) -> float:
    """Return the smallest value that at least a share ``q`` of the weight does not exceed; some weight is above 0."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, q * reached[-1])])


def _between(low: int, high: int) -> str:
    return f"{low:,}" if low >= high else f"{low:,} to {high:,}"
