"""Flink metrics of the anonymiser, all in the group ``crenel``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pyflink.metrics import MetricGroup

from anonymity.castle.shard import Counters
from anonymity.policy import KINDS, REJECTIONS, SUPPRESSIONS
from anonymity.window.shard import WindowCounters

if TYPE_CHECKING:
    from operators.shards.function import Shard

SCALE = 1000
"""Flink's gauges in Python are integers: losses are given in thousandths."""

Gauges: TypeAlias = Mapping[str, Callable[[Sequence[Any]], int]]
"""Gauges by name, each over the counters of all shards of a subtask."""


class ShardMetrics:
    """Counters over all shards of a subtask since it started, and gauges of how they stand.

    Parameters
    ----------
    group : the operator's metric group
    shards : the live shards by key; the gauges look at it
    counted : names of the counters of the algorithm, beside those by reason and kind
    gauges : those of the algorithm
    """

    def __init__(
        self,
        group: MetricGroup,
        shards: Mapping[int, Shard[Any]],
        counted: Sequence[str],
        gauges: Gauges,
    ) -> None:
        self._shards = shards
        self._counted = counted
        group = group.add_group("crenel")
        names = list(counted)
        names += [f"suppressed_{reason}" for reason in SUPPRESSIONS]
        names += [f"rejected_{reason}" for reason in REJECTIONS]
        names += [f"releases_{kind}" for kind in KINDS]
        self._counters: dict[str, Any] = {name: group.counter(name) for name in names}
        self._loss = 0.0
        self._released = 0
        group.gauge("buffered", lambda: sum(shard.buffered for shard in self._each()))
        group.gauge("oldest_waiting", lambda: max((shard.oldest_waiting for shard in self._each()), default=0))
        group.gauge("mean_loss_x1000", lambda: round(SCALE * self._loss / max(self._released, 1)))
        for name, gauge in gauges.items():
            group.gauge(name, lambda gauge=gauge: gauge(self._each()))

    def update(self, before: Counters | WindowCounters, after: Counters | WindowCounters) -> None:
        """Count what one step of one shard has done."""
        past, now = self._flat(before), self._flat(after)
        for name, counter in self._counters.items():
            if now[name] != past[name]:
                counter.inc(now[name] - past[name])
        self._loss += after.loss_sum - before.loss_sum
        self._released += after.released - before.released

    def _each(self) -> list[Any]:
        return [shard.counters for shard in self._shards.values()]

    def _flat(self, counters: Counters | WindowCounters) -> dict[str, int]:
        flat = {name: getattr(counters, name) for name in self._counted}
        for group in ("suppressed", "rejected", "releases"):
            flat.update({f"{group}_{name}": amount for name, amount in getattr(counters, group).items()})
        return flat
