"""Flink metrics of the encoder where a stream has several shards; in the group ``crenel``."""

from __future__ import annotations

from functools import partial

from pyflink.metrics import MetricGroup

from crenel.anonymity.regions.loads import Loads
from crenel.operators.metrics import SCALE, Metrics


def register(group: MetricGroup, loads: Loads, *, regions: bool) -> None:
    """Register gauges for the load of the shards.

    Parameters
    ----------
    group : the encoder's metric group
    loads : of the shards; the gauges read it
    regions : whether shards are regions
    """
    metrics = Metrics(group)
    metrics.gauge(f"fullest_{'region' if regions else 'shard'}_x1000", lambda: round(SCALE * loads.fullest))
    for shard in range(len(loads)):
        metrics.gauge(f"share_of_shard_{shard}_x1000", partial(_share, loads, shard))


def _share(loads: Loads, shard: int) -> int:
    return round(SCALE * loads.share(shard))
