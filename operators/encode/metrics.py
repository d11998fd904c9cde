"""Flink metrics of the encoder, where a stream is divided by regions; in the group ``crenel``."""

from __future__ import annotations

from pyflink.metrics import MetricGroup

from anonymity.regions.loads import Loads
from operators.shards.metrics import SCALE


def register(group: MetricGroup, loads: Loads) -> None:
    """Show how full the regions are.

    Parameters
    ----------
    group : the encoder's metric group
    loads : of the regions; the gauges look at it
    """
    group = group.add_group("crenel")
    group.gauge("fullest_region_x1000", lambda: round(SCALE * loads.fullest))
    for region in range(len(loads)):
        group.gauge(f"share_of_shard_{region}_x1000", lambda region=region: round(SCALE * loads.share(region)))
