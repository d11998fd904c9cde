"""Information loss on taxi trips (CASTLEGUARD, Sections VI-A and VI-B)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.castle.shard import CastleShard
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_clusters import initial_snapshot
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from experiments.harness import (
    REUSE,
    TAXI,
    Drawing,
    Floats,
    Stream,
    Table,
    drawing,
    mean_interval,
    panels,
    seeds,
    taxi,
    taxi_stream,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = 5

CLUSTERS = (10, 25, 50, 100, 150, 200, 250)
WINDOWS = (1, 10, 50, 100, 200)
RATES = (0.25, 0.5, 0.75, 1.0)
PHIS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
PAPER = (0.0178, 0.0182)
"""The range of average losses over all sample rates and phi (Section VI-B)."""

_K, _DELTA = 10, 200
_CLUSTERS, _RECENT, _PHI = 25, 100, 10_000.0
_RANGES = {True: "declared domain", False: "observed range, as in the paper"}


@dataclass(frozen=True)
class Run:
    """Releases of one run, and information loss in [0, 1], averaged in four ways.

    Attributes
    ----------
    released : mean of released tuples, each with the loss of its release
    per_release : mean of releases, however many tuples they hold
    tau : mean of the last ``loss_window`` releases when the last tuple has been admitted
    still_open : mean of the clusters that are open at that time, of any size
    suppressed : share of the admitted tuples
    """

    releases: list[Releases]
    released: float
    per_release: float
    tau: float
    still_open: float
    suppressed: float


def run(tuples: Stream, privacy: Privacy, parameters: Castle, noise: SamplingAndNoise | None, seed: int) -> Run:
    """Push a stream through one shard as one block, to the end."""
    terms = ShardContext(tuples.policy, privacy, parameters, tuples.members.schema, noise, remembers=False)
    castle = CastleShard(terms, initial_snapshot(terms, 0, bytes([seed]) * 32))
    releases = [castle.push(block).releases for block in tuples.blocks(len(tuples))]
    still_open, tau = _open_losses(castle), castle.counters.tau
    releases.append(castle.finish().releases)
    counters = castle.counters
    return Run(
        releases,
        released=counters.loss_sum / max(counters.released, 1),
        per_release=float(np.mean(np.concatenate([r.loss for r in releases]))),
        tau=tau,
        still_open=float(np.mean(still_open)),
        suppressed=sum(counters.suppressed.values()) / max(counters.tuples_in, 1),
    )


def _open_losses(castle: CastleShard) -> Floats:
    arrays = castle.arrays
    box, rows = arrays.clusters.box, arrays.clusters.rows[: arrays.now.open]
    widths: Floats = (box.upper[rows] - box.lower[rows]) / (arrays.domain.upper - arrays.domain.lower)
    losses: Floats = widths.mean(axis=1)
    return losses


@cache
def _taxi(declared: bool, persons: bool) -> Stream:
    """Return the trips of 100 persons; not ``persons``: each trip of a person of its own."""
    found = taxi_stream(declared=declared)
    return found if persons else replace(found, policy=replace(found.policy, subject=None), subject=None)


@cache
def runs(
    *,
    declared: bool,
    clusters: int = _CLUSTERS,
    window: int = _RECENT,
    rate: float = 1.0,
    phi: float = _PHI,
    persons: bool = True,
) -> list[Run]:
    """Return one run per seed on the taxi trips, with k = 10, l = 1 and delta = 200."""
    parameters = Castle(Delay(_DELTA), max_clusters=clusters, loss_window=window, reuse_limit=REUSE)
    noise = SamplingAndNoise(rate, phi, range="observed" if not declared else "declared")
    return [run(_taxi(declared, persons), Privacy(_K), parameters, noise, seed) for seed in seeds(SEEDS)]


def lower_bounds(points: Floats, subjects: NDArray[np.int64], k: int, reach: int | None = None) -> Floats:
    """Return a lower bound of the loss of a k-anonymous release with each tuple, (tuples,).

    The loss of a box around several tuples is at least that of the box around two of them, which is their mean distance
    over the attributes. A release holds k - 1 subjects beside the tuple's own, so the (k - 1)th nearest of them bounds
    its loss.

    Parameters
    ----------
    points : (tuples, attributes) values as shares of their range
    subjects : (tuples,)
    reach : maximum number of positions between two tuples of a release, which is the delay; None: any tuples may be
        released together, as with reuse
    """
    subject = np.unique(subjects, return_inverse=True)[1]
    least = []
    for i in range(len(points)):
        near = slice(None) if reach is None else slice(max(i - reach, 0), i + reach + 1)
        nearest = np.full(subject.max() + 1, np.inf)
        np.minimum.at(nearest, subject[near], np.abs(points[near] - points[i]).mean(axis=1))
        least.append(np.sort(nearest)[k - 1])
    return np.array(least)


def _grid(
    title: str, corner: str, rows: Sequence[float], columns: Sequence[float], cell: Callable[[float, float], str]
) -> Table:
    table = Table(title, [corner, *(f"{column:,g}" for column in columns)])
    for row in rows:
        table.add(f"{row:,g}", *(cell(row, column) for column in columns))
    return table


def clusters_table(*, declared: bool) -> Table:
    """Tabulate the loss by max_clusters (b) and loss_window (mu)."""
    return _grid(
        f"Loss against max_clusters and loss_window ({_RANGES[declared]}; sample_rate 1, phi 10,000)",
        "max_clusters \\ loss_window",
        CLUSTERS,
        WINDOWS,
        lambda b, mu: mean_interval([r.released for r in runs(declared=declared, clusters=int(b), window=int(mu))]),
    )


def noise_table(*, declared: bool) -> Table:
    """Tabulate the loss by sample_rate (beta) and phi."""
    return _grid(
        f"Loss against sample_rate and phi ({_RANGES[declared]}; max_clusters 25, loss_window 100)",
        "sample_rate \\ phi",
        RATES,
        PHIS,
        lambda rate, phi: mean_interval([r.released for r in runs(declared=declared, rate=rate, phi=phi)]),
    )


def averages_table() -> Table:
    """Tabulate candidates for the average loss of the paper, in one setting."""
    table = Table(
        "Averages of the loss (max_clusters 25, loss_window 100, sample_rate 1, phi 10,000)",
        ["average of", "declared domain", "observed range", "paper"],
    )
    made = [runs(declared=declared) for declared in (True, False)]
    ways: list[tuple[str, Callable[[Run], float]]] = [
        ("released tuples", lambda r: r.released),
        ("releases", lambda r: r.per_release),
        ("the last 100 releases (tau)", lambda r: r.tau),
        ("clusters still open at the end of the input", lambda r: r.still_open),
    ]
    for name, way in ways:
        table.add(name, *(mean_interval([way(r) for r in group]) for group in made), "")
    alone = [runs(declared=declared, persons=False) for declared in (True, False)]
    table.add(
        "released tuples, each trip its own person", *(mean_interval([r.released for r in of]) for of in alone), ""
    )
    rows = taxi()
    points = rows[[a.name for a in TAXI]].to_numpy(np.float64)
    ends = np.array([a.domain for a in TAXI], np.float64).T, (points.min(0), points.max(0))
    persons, trips = rows["pid"].to_numpy(np.int64), np.arange(len(rows))
    for name, subjects, reach in (
        ("waiting together", persons, _DELTA),
        ("at any time", persons, None),
        ("waiting together, each trip its own", trips, _DELTA),
        ("at any time, each trip its own", trips, None),
    ):
        least = [np.sort(lower_bounds((points - low) / (high - low), subjects, _K, reach)) for low, high in ends]
        table.add(f"released tuples, lower bound: 10 persons {name}", *(f"{each.mean():.4f}" for each in least), "")
        most = [each[: len(rows) * 95 // 100] for each in least]
        table.add("the same without the worst 5 % of trips", *(f"{each.mean():.4f}" for each in most), "")
    table.add("(not said)", "", "", f"{PAPER[0]} to {PAPER[1]}")
    return table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    for declared in (True, False):
        yield clusters_table(declared=declared)
    for declared in (True, False):
        yield noise_table(declared=declared)
    yield averages_table()
    yield drawing("castleguard-clusters", _clusters)
    yield drawing("castleguard-noise", _noise)


def _clusters() -> Figure:
    figure, both = panels(1, 2, (8, 3), sharey=True)
    for panel, declared in zip(both.flat, (True, False), strict=True):
        for window in WINDOWS:
            means = [
                np.mean([r.released for r in runs(declared=declared, clusters=b, window=window)]) for b in CLUSTERS
            ]
            panel.plot(CLUSTERS, means, marker="o", markersize=3, label=f"loss_window {window}")
        panel.set(title="declared domain" if declared else "observed range", xlabel="max_clusters", ylabel="mean loss")
    both[0, 0].set_ylim(bottom=0)
    both[0, 1].legend(fontsize=7)
    return figure


def _noise() -> Figure:
    figure, both = panels(1, 2, (8, 3), sharey=True)
    for panel, declared in zip(both.flat, (True, False), strict=True):
        for rate in RATES:
            means = [np.mean([r.released for r in runs(declared=declared, rate=rate, phi=phi)]) for phi in PHIS]
            panel.semilogx(PHIS, means, marker="o", markersize=3, label=f"sample_rate {rate:g}")
        panel.axhline(float(np.mean(PAPER)), color="black", label="paper")
        panel.set(title="declared domain" if declared else "observed range", xlabel="phi", ylabel="mean loss")
    both[0, 0].set_ylim(bottom=0)
    both[0, 1].legend(fontsize=7, loc=(0.03, 0.16), ncols=2)
    return figure
