"""Loss of CASTLE on Adult by k, l, delay and number of clusters, and on other streams by clusters (Section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from benchmarks.adult import stream
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import REUSE, Setting, Table, in_processes, mean_interval, replay, replays
from experiments.nearest.streams import StreamSetting, settings

_SEEDS = 5
_SETTINGS = (  # attributes, k, l, delta, clusters, loss_window; others are compared with the first
    (10, 10, 1, 1000, 50, 100),
    (10, 10, 2, 1000, 50, 100),
    (10, 5, 1, 1000, 50, 100),
    (10, 50, 1, 1000, 50, 100),
    (10, 100, 1, 10_000, 50, 100),
    (10, 10, 1, 10_000, 50, 100),
    (10, 10, 1, 200, 50, 100),
    (10, 10, 1, 1000, 10, 100),
    (10, 10, 1, 1000, 200, 100),
    (10, 10, 1, 1000, 50, 1),
    (4, 10, 1, 1000, 50, 100),
)

_CLUSTERS = (5, 10, 20, 50, 100)


def results() -> Iterator[Table]:
    """Tabulate the mean loss by setting."""
    table = Table(
        "Loss of CASTLE on Adult (file order, one shard, mean and 95 % confidence interval over seeds)",
        ["quasi-identifiers", "k", "l", "delta", "clusters", "loss_window", "mean loss", "suppressed"],
    )
    streams = {attributes: stream(attributes) for attributes in (4, 10)}
    chosen = [
        Setting(
            streams[attributes],
            Castle(Delay(delta), max_clusters=clusters, loss_window=window, reuse_limit=REUSE),
            Privacy(k, diversity),
        )
        for attributes, k, diversity, delta, clusters, window in _SETTINGS
    ]
    for (attributes, k, diversity, delta, clusters, window), runs in zip(
        _SETTINGS, replays(chosen, _SEEDS), strict=True
    ):
        loss, suppressed = ([getattr(run, figure) for run in runs] for figure in ("loss", "suppressed"))
        table.add(
            *(attributes, k, diversity, f"{delta:,}", clusters, window),
            *(mean_interval(loss), f"{sum(suppressed) / len(runs):.3%}"),
        )
    yield table


def streams() -> Iterator[Table]:
    """Tabulate the loss by number of clusters on several streams, with and without reuse."""
    given = settings()
    table = Table(
        "Mean loss of CASTLE by max_clusters (suppressed)",
        ["max_clusters", "reuse_limit", *(setting.name for setting in given)],
    )
    rows = [(limit, clusters) for limit in (REUSE, 0) for clusters in _CLUSTERS]
    found = in_processes(
        _on_stream,
        [
            (setting, Castle(Delay(setting.delay), max_clusters=clusters, reuse_limit=limit), seed)
            for limit, clusters in rows
            for setting in given
            for seed in setting.seeds
        ],
    )
    for limit, clusters in rows:
        cells = []
        for setting in given:
            runs = [next(found) for _ in setting.seeds]
            cells.append(f"{fmean(loss for loss, _ in runs):.3f} ({fmean(suppressed for _, suppressed in runs):.1%})")
        table.add(clusters, f"{limit:,}", *cells)
    yield table


def _on_stream(given: tuple[StreamSetting, Castle, int]) -> tuple[float, float]:
    setting, algorithm, seed = given
    found = replay(setting.of(seed), algorithm, Privacy(setting.k, setting.l), seed)
    return found.loss, found.suppressed
