"""Loss of CASTLE on Adult by k, l, delay and number of clusters (CASTLE, Section 5)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adult import stream
from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.builtin import CASTLE
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import REUSE, Setting, Table, mean_interval, replays

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


def results() -> Iterator[Table]:
    """Tabulate the mean loss by setting."""
    table = Table(
        "Loss of CASTLE on Adult (file order, one shard, mean and 95 % confidence interval over seeds)",
        ["quasi-identifiers", "k", "l", "delta", "clusters", "loss_window", "mean loss", "suppressed"],
    )
    streams = {attributes: stream(attributes) for attributes in (4, 10)}
    settings = [
        Setting(
            streams[attributes],
            CASTLE,
            Privacy(k, diversity),
            CastleParameters(delta, max_clusters=clusters, loss_window=window, reuse_limit=REUSE),
        )
        for attributes, k, diversity, delta, clusters, window in _SETTINGS
    ]
    for (attributes, k, diversity, delta, clusters, window), runs in zip(
        _SETTINGS, replays(settings, _SEEDS), strict=True
    ):
        loss, suppressed = ([getattr(run, figure) for run in runs] for figure in ("loss", "suppressed"))
        table.add(
            *(attributes, k, diversity, f"{delta:,}", clusters, window),
            *(mean_interval(loss), f"{sum(suppressed) / len(runs):.3%}"),
        )
    yield table
