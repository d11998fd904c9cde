"""Flink metrics of the anonymizer, all in the group ``crenel``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyflink.metrics import MetricGroup

from crenel.anonymity.algorithm import Algorithm, Counters, ShardContext
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.operators.metrics import SCALE, Metrics
from crenel.operators.shards.classes import OF_CLASSES, Classes
from crenel.operators.shards.keyed_shard import KeyedShard
from crenel.state.counters import declared


def counter_names(algorithm: Algorithm, terms: ShardContext) -> tuple[str, ...]:
    """Return the names of all counters of a job."""
    privacy = terms.privacy
    return (
        *algorithm.counted,
        *(declaration.name for declaration in declared(Counters) if declaration.exists(privacy)),
        *(f"suppressed_{reason}" for reason in privacy.reasons),
        *(f"rejected_{reason}" for reason in REJECTIONS),
        *(f"releases_{kind}" for kind in KINDS),
        "loss_sum_x1000",
        *OF_CLASSES,
        *(("diversity_sum",) if terms.policy.sensitive else ()),
    )


class ShardMetrics:
    """Counters over all shards of a subtask since it started, and gauges of their current state.

    Parameters
    ----------
    group : the operator's metric group
    shards : the live shards by key, which the gauges read
    algorithm : names the counters and gauges
    terms : policy, privacy models and parameters
    """

    def __init__(
        self, group: MetricGroup, shards: Mapping[int, KeyedShard], algorithm: Algorithm, terms: ShardContext
    ) -> None:
        self._shards, self._algorithm = shards, algorithm
        metrics = Metrics(group)
        self._counters: dict[str, Any] = {name: metrics.counter(name) for name in counter_names(algorithm, terms)}
        self._classes = classes = Classes(terms.privacy.k)
        self._loss = 0.0
        self._released = 0
        metrics.gauge("buffered", lambda: sum(shard.buffered for shard in self._each()))
        metrics.gauge("oldest_waiting", lambda: max((shard.oldest_waiting for shard in self._each()), default=0))
        metrics.gauge("mean_loss_x1000", lambda: round(SCALE * self._loss / max(self._released, 1)))
        metrics.gauge("least_class_size", lambda: classes.least)
        metrics.gauge("alone_x1000", lambda: round(SCALE * classes.alone))
        if terms.policy.sensitive:
            metrics.gauge("mean_diversity_x1000", lambda: round(SCALE * classes.diversity))
        metrics.gauge("k", lambda: terms.privacy.k)
        if (delay := algorithm.delay_tuples(terms.parameters)) is not None:
            metrics.gauge("delay_tuples", lambda: delay)
        for name, gauge in algorithm.gauges.items():
            metrics.gauge(name, partial(self._over_all, gauge))

    def update(self, before: Counters, after: Counters, releases: Releases) -> None:
        """Count the effects of one step of one shard, including its releases."""
        past, now = self._flat(before), self._flat(after)
        for name, amount in now.items():
            self._count(name, amount - past.get(name, 0))
        loss = self._loss + after.loss_sum - before.loss_sum
        self._count("loss_sum_x1000", round(SCALE * loss) - round(SCALE * self._loss))
        self._loss = loss
        self._released += after.released - before.released
        for name, amount in self._classes.left(releases).items():
            self._count(name, amount)

    def reject(self, reason: str, rows: int) -> None:
        """Count rejected records."""
        self._count(f"rejected_{reason}", rows)

    def _count(self, name: str, amount: int) -> None:
        if amount:
            self._counters[name].inc(amount)

    def _each(self) -> list[Any]:
        return [shard.counters for shard in self._shards.values()]

    def _over_all(self, gauge: Callable[[Sequence[Any]], int]) -> int:
        return gauge(self._each())

    def _flat(self, counters: Counters) -> dict[str, int]:
        names = (*self._algorithm.counted, *(declaration.name for declaration in declared(Counters)))
        flat = {name: getattr(counters, name, 0) for name in names}
        for group in ("suppressed", "releases"):
            flat |= {f"{group}_{name}": amount for name, amount in getattr(counters, group).items()}
        return {name: amount for name, amount in flat.items() if name in self._counters}
