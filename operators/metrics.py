"""Flink metrics of the anonymiser, all in the group ``crenel``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyflink.metrics import MetricGroup

from anonymity.castle import Counters
from anonymity.policy import KINDS, REJECTIONS, SUPPRESSIONS

if TYPE_CHECKING:
    from operators.castle import Shard

SCALE = 1000
"""Flink's gauges in Python are integers: losses are given in thousandths."""

_PLAIN = ("tuples_in", "sampled_out", "released", "merges", "splits")


class ShardMetrics:
    """Counters over all shards of a subtask since it started, and gauges of how they stand.

    Parameters
    ----------
    group : the operator's metric group
    shards : the live shards by key; the gauges look at it
    """

    def __init__(self, group: MetricGroup, shards: Mapping[int, Shard]) -> None:
        self._shards = shards
        group = group.add_group("crenel")
        names = list(_PLAIN)
        names += [f"suppressed_{reason}" for reason in SUPPRESSIONS]
        names += [f"rejected_{reason}" for reason in REJECTIONS]
        names += [f"releases_{kind}" for kind in KINDS]
        self._counters: dict[str, Any] = {name: group.counter(name) for name in names}
        self._loss = 0.0
        self._released = 0
        group.gauge("open_clusters", lambda: self._sum("open_clusters"))
        group.gauge("buffered", lambda: self._sum("buffered"))
        group.gauge("oldest_waiting", lambda: max(self._each("oldest_waiting"), default=0))
        group.gauge("tau_x1000", lambda: round(SCALE * max(self._each("tau"), default=0.0)))
        group.gauge("mean_loss_x1000", lambda: round(SCALE * self._loss / max(self._released, 1)))

    def update(self, before: Counters, after: Counters) -> None:
        """Count what one step of one shard has done."""
        past, now = _flat(before), _flat(after)
        for name, counter in self._counters.items():
            if now[name] != past[name]:
                counter.inc(now[name] - past[name])
        self._loss += after.loss_sum - before.loss_sum
        self._released += after.released - before.released

    def _each(self, name: str) -> list[Any]:
        return [getattr(shard.castle.counters, name) for shard in self._shards.values()]

    def _sum(self, name: str) -> int:
        return sum(self._each(name))


def _flat(counters: Counters) -> dict[str, int]:
    flat = {name: getattr(counters, name) for name in _PLAIN}
    for group in ("suppressed", "rejected", "releases"):
        flat.update({f"{group}_{name}": amount for name, amount in getattr(counters, group).items()})
    return flat
