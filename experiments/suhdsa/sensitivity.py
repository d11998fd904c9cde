"""Sensitivity of window time to repairs: the protocol of the SUHDSA paper's Appendix A, which reports no results.

An observation is ``_WINDOWS`` consecutive windows: repairs per window, p50, p95 and p99 of the processor time of the
windows, and tuples per second. The paper also counts repairs per second; such a rate has the time in its denominator,
so it would correlate with the time by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.parameters import Target
from experiments.harness import Floats, Table, mean_interval, seeds
from experiments.suhdsa.tables import SEEDS, of_majority, ours, run

_WINDOWS = 50
_K = 5  # at k = 10 a window of 10 tuples is one group, which has no neighbor
_VALUES = 5  # income brackets, so that l_t has a range
_RESAMPLES = 1000
MAJORITIES = {"low": 0.5, "middle": 0.7, "high": 0.85}
"""Shares of the commonest of five income brackets; the others are even."""

BETAS, NEIGHBORS = (10, 50, 100), (2, 3)
MEASURES = ("p95", "p99", "tuples/s")
_SWITCH = ("off", "on")


@dataclass(frozen=True)
class Observations:
    """Observations of one setting.

    Attributes
    ----------
    repairs : (observations,) repairs per window
    times : (observations, 3) p50, p95 and p99 in milliseconds
    rate : (observations,) tuples per second of processor time
    """

    repairs: Floats
    times: Floats
    rate: Floats

    def of(self, measure: str) -> Floats:
        """Return one of ``MEASURES``."""
        return self.rate if measure == "tuples/s" else self.times[:, 1 + MEASURES.index(measure)]


def observed(counts: Floats, tuples: Floats, milliseconds: Floats, windows: int = _WINDOWS) -> Observations:
    """Return the observations of one run, from (windows,) columns; the incomplete last one is left out."""
    whole = len(counts) // windows * windows
    repairs, size, spent = (column[:whole].reshape(-1, windows) for column in (counts, tuples, milliseconds))
    return Observations(
        repairs.mean(axis=1),
        np.percentile(spent, [50, 95, 99], axis=1).T,
        size.sum(axis=1) / spent.sum(axis=1) * 1000,
    )


def joined(some: list[Observations]) -> Observations:
    """Return all observations as one."""
    return Observations(
        *(np.concatenate([getattr(one, name) for one in some]) for name in ("repairs", "times", "rate"))
    )


@cache
def setting(skew: str, beta: int, neighbors: int) -> tuple[list[Observations], list[Observations]]:
    """Return the observations of each seed with l_t off, and with l_t on; the two take turns."""
    found: tuple[list[Observations], list[Observations]] = ([], [])
    for seed in seeds(SEEDS):
        stream = of_majority(seed, MAJORITIES[skew], _VALUES)
        for target, into in zip((None, Target(_VALUES)), found, strict=True):
            one = run(ours, stream, _K, 2, Suhdsa(beta, neighbors=neighbors, target=target))
            into.append(observed(one.repairs.astype(np.float64), one.tuples.astype(np.float64), one.milliseconds))
    return found


def pooled(beta: int, adaptive: int) -> Observations:
    """Return the observations with one window, of every skew and number of neighbors; ``adaptive``: 0 or 1."""
    return joined([one for skew, c in product(MAJORITIES, NEIGHBORS) for one in setting(skew, beta, c)[adaptive]])


def slopes(repairs: Floats, measure: Floats) -> tuple[float, float]:
    """Return the slopes of least squares below and above the median of the repairs (two segments)."""
    middle = np.median(repairs)
    return _slope(repairs, measure, repairs <= middle), _slope(repairs, measure, repairs > middle)


def _slope(repairs: Floats, measure: Floats, where: NDArray[np.bool_]) -> float:
    x, y = repairs[where], measure[where]
    spread = x - x.mean() if len(x) else x
    return float((spread * y).sum() / (spread**2).sum()) if len(x) > 1 and spread.any() else np.nan


def resampled(repairs: Floats, measure: Floats, seed: int = 0) -> Floats:
    """Return (resamples, 2) slopes of bootstrap samples."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(repairs), (_RESAMPLES, len(repairs)))
    return np.array([slopes(repairs[rows], measure[rows]) for rows in drawn])


def condition_table() -> Table:
    """Tabulate each setting (Section A.7, summary per condition)."""
    table = Table(
        f"Appendix A: repairs and processor time of a window, k = {_K}, l = 2 (mean and 95 % confidence interval)",
        [
            "skew",
            "window",
            "neighbors",
            "l_t",
            "repairs a window",
            "p50, ms",
            "p95, ms",
            "p99, ms",
            "thousand tuples/s",
        ],
    )
    for skew, beta, c, adaptive in product(MAJORITIES, BETAS, NEIGHBORS, (0, 1)):
        found = setting(skew, beta, c)[adaptive]
        table.add(
            *(skew, beta, c, _SWITCH[adaptive], mean_interval([one.repairs.mean() for one in found], ".2f")),
            *(mean_interval([one.times[:, i].mean() for one in found], ".3f") for i in range(3)),
            mean_interval([one.rate.mean() / 1000 for one in found], ",.0f"),
        )
    return table


def correlation_table() -> Table:
    """Tabulate correlations of repairs with time and throughput (Section A.6)."""
    from scipy.stats import pearsonr, spearmanr

    table = Table(
        "Appendix A: correlation of repairs with time and throughput (Spearman, Pearson; * where p < 0.05 / 36)",
        ["window", "l_t", *MEASURES],
    )
    tests = 2 * len(BETAS) * len(_SWITCH) * len(MEASURES)
    for beta, adaptive in product(BETAS, (0, 1)):
        found = pooled(beta, adaptive)
        cells = []
        for measure in MEASURES:
            made = [test(found.repairs, found.of(measure)) for test in (spearmanr, pearsonr)]
            cells.append(", ".join(f"{one.statistic:.2f}{'*' * (one.pvalue < 0.05 / tests)}" for one in made))
        table.add(beta, _SWITCH[adaptive], *cells)
    return table


def slope_table() -> Table:
    """Tabulate piecewise slopes with the controller off and on, and their reduction (Section A.6)."""
    table = Table(
        f"Appendix A: change per repair of a window, below and above the median of repairs (95 % interval of "
        f"{_RESAMPLES:,} resamples), and its reduction by the controller",
        ["window", "of", "segment", "off", "on", "reduction, (off - on) / off"],
    )
    for beta, measure in product(BETAS, MEASURES):
        off, on = (pooled(beta, adaptive) for adaptive in (0, 1))
        drawn = [resampled(one.repairs, one.of(measure), seed) for seed, one in enumerate((off, on))]
        form = ",.0f" if measure == "tuples/s" else ".4f"
        for i, segment in enumerate(("below", "above")):
            estimates = [slopes(one.repairs, one.of(measure))[i] for one in (off, on)]
            ratio: NDArray[Any] = 1 - drawn[1][:, i] / drawn[0][:, i]
            table.add(
                *(beta, f"{measure}, ms" if measure != "tuples/s" else measure, segment),
                *(f"{one:{form}} ({_interval(some[:, i], form)})" for one, some in zip(estimates, drawn, strict=True)),
                f"{1 - estimates[1] / estimates[0]:.2f} ({_interval(ratio, '.2f')})",
            )
    return table


def _interval(values: NDArray[Any], form: str) -> str:
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return f"{low:{form}} to {high:{form}}"


def results() -> Iterator[Table]:
    """Yield all tables of this module."""
    setting("low", 100, 3)  # compile
    setting.cache_clear()
    yield condition_table()
    yield correlation_table()
    yield slope_table()
