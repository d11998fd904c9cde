"""Information loss on taxi trips (CASTLEGUARD, Sections VI-A and VI-B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult import REUSE, Stream
from benchmarks.castleguard.streams import SEEDS, TAXI, Floats, Run, run, stream, taxi
from benchmarks.table import Table
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise

CLUSTERS = (10, 25, 50, 100, 150, 200, 250)
WINDOWS = (1, 10, 50, 100, 200)
RATES = (0.25, 0.5, 0.75, 1.0)
PHIS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
PAPER = (0.0178, 0.0182)
"""The range of average losses over all sample rates and phi (Section VI-B)."""

_K, _DELTA = 10, 200
_CLUSTERS, _WINDOW, _PHI = 25, 100, 10_000.0
_RANGES = {True: "declared domain", False: "range seen so far, as in the paper"}


@cache
def _taxi(declared: bool) -> Stream:
    return stream(taxi(), TAXI, "FareAmount", "pid", declared=declared)


def runs(
    *,
    declared: bool,
    clusters: int = _CLUSTERS,
    window: int = _WINDOW,
    rate: float = 1.0,
    phi: float = _PHI,
) -> list[Run]:
    """One run a seed on the taxi trips, with k = 10, l = 1 and delta = 200."""
    parameters = CastleParameters(_DELTA, max_clusters=clusters, loss_window=window, reuse_limit=REUSE)
    noise = SamplingAndNoise(rate, phi, observed_range=not declared)
    return [run(_taxi(declared), Privacy(_K), parameters, noise, seed) for seed in SEEDS]


def least_losses(points: Floats, subjects: NDArray[np.int64], k: int, reach: int | None = None) -> Floats:
    """(tuples,) What the loss of a k-anonymous release that holds the tuple cannot go below.

    A box around a tuple and others loses at least as much as the box around the tuple and any one of them, which is
    their mean distance over the attributes. A release holds k - 1 subjects beside the tuple's own; so what counts is
    the (k - 1)th nearest of them.

    Parameters
    ----------
    points : (tuples, attributes) values as shares of their range
    subjects : (tuples,)
    reach : most positions between two tuples of a release, where a tuple may wait for so many later ones; None: any
        tuples may be released together, as is the case with reuse
    """
    subject = np.unique(subjects, return_inverse=True)[1]
    least = []
    for i in range(len(points)):
        near = slice(None) if reach is None else slice(max(i - reach, 0), i + reach + 1)
        nearest = np.full(subject.max() + 1, np.inf)
        np.minimum.at(nearest, subject[near], np.abs(points[near] - points[i]).mean(axis=1))
        least.append(np.sort(nearest)[k - 1])
    return np.array(least)


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Mean and range: ``0.120 (0.110 to 0.128)``."""
    return f"{np.mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _grid(
    title: str, corner: str, rows: Sequence[float], columns: Sequence[float], cell: Callable[[float, float], str]
) -> Table:
    table = Table(title, [corner, *(f"{column:,g}" for column in columns)])
    for row in rows:
        table.add(f"{row:,g}", *(cell(row, column) for column in columns))
    return table


def clusters_table(*, declared: bool) -> Table:
    """Loss against max_clusters (b) and loss_window (mu)."""
    return _grid(
        f"Loss against max_clusters and loss_window ({_RANGES[declared]}; sample_rate 1, phi 10,000)",
        "max_clusters \\ loss_window",
        CLUSTERS,
        WINDOWS,
        lambda b, mu: spread([r.released for r in runs(declared=declared, clusters=int(b), window=int(mu))]),
    )


def noise_table(*, declared: bool) -> Table:
    """Loss against sample_rate (beta) and phi."""
    return _grid(
        f"Loss against sample_rate and phi ({_RANGES[declared]}; max_clusters 25, loss_window 100)",
        "sample_rate \\ phi",
        RATES,
        PHIS,
        lambda rate, phi: spread([r.released for r in runs(declared=declared, rate=rate, phi=phi)]),
    )


def ways_table() -> Table:
    """What could be called the average loss, in one setting, beside the paper's figure."""
    table = Table(
        "Ways to average the loss (max_clusters 25, loss_window 100, sample_rate 1, phi 10,000)",
        ["average of", "declared domain", "range seen so far", "paper"],
    )
    made = [runs(declared=declared) for declared in (True, False)]
    ways: list[tuple[str, Callable[[Run], float]]] = [
        ("released tuples", lambda r: r.released),
        ("releases", lambda r: r.per_release),
        ("the last 100 releases (tau)", lambda r: r.tau),
        ("clusters still open at the end of the input", lambda r: r.still_open),
    ]
    for name, way in ways:
        table.add(name, *(spread([way(r) for r in group]) for group in made), "")
    rows = taxi()
    points = rows[[a.name for a in TAXI]].to_numpy(np.float64)
    ends = np.array([a.domain for a in TAXI], np.float64).T, (points.min(0), points.max(0))
    for name, reach in (("waiting together", _DELTA), ("at any time", None)):
        least = [
            np.sort(least_losses((points - low) / (high - low), rows["pid"].to_numpy(np.int64), _K, reach))
            for low, high in ends
        ]
        table.add(f"released tuples, lower bound: 10 people {name}", *(f"{each.mean():.4f}" for each in least), "")
        most = [each[: len(rows) * 95 // 100] for each in least]
        table.add("the same without the worst 5 % of trips", *(f"{each.mean():.4f}" for each in most), "")
    table.add("(not said)", "", "", f"{PAPER[0]} to {PAPER[1]}")
    return table


def tables() -> list[Table]:
    """All tables of this file."""
    return [
        *(clusters_table(declared=declared) for declared in (True, False)),
        *(noise_table(declared=declared) for declared in (True, False)),
        ways_table(),
    ]
