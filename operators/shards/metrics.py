"""Flink metrics of the anonymizer, all in the group ``crenel``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyflink.metrics import MetricGroup

from crenel.anonymity.algorithm import Algorithm, Counters, ShardContext
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.operators.metrics import SCALE, Metrics
from crenel.operators.shards.classes import CLASS_COUNTERS, Classes
from crenel.state.counters import declared


def counter_names(algorithm: Algorithm, context: ShardContext) -> tuple[str, ...]:
    """Return the names of all counters of a job."""
    privacy = context.privacy
    return (
        *algorithm.counted,
        *(declaration.name for declaration in declared(Counters) if declaration.exists(privacy)),
        *(f"suppressed_{reason}" for reason in privacy.reasons),
        *(f"rejected_{reason}" for reason in REJECTIONS),
        *(f"releases_{kind}" for kind in KINDS),
        "loss_sum_x1000",
        *CLASS_COUNTERS,
        *(("diversity_sum",) if context.policy.sensitive else ()),
    )


class ShardMetrics:
    """Counters over all shards of a subtask since it started, and gauges of their current state.

    Parameters
    ----------
    group : the operator's metric group
    shards : function that returns the counters of each live shard, for the gauges
    algorithm : names the counters and gauges
    context : policy, privacy models and parameters
    """

    def __init__(
        self,
        group: MetricGroup,
        shards: Callable[[], Sequence[Counters]],
        algorithm: Algorithm,
        context: ShardContext,
    ) -> None:
        self._algorithm = algorithm
        metrics = Metrics(group)
        self._counters: dict[str, Any] = {name: metrics.counter(name) for name in counter_names(algorithm, context)}
        self._classes = classes = Classes(context.privacy.k)
        self._loss = 0.0
        self._released = 0
        metrics.gauge("buffered", lambda: sum(shard.buffered for shard in shards()))
        metrics.gauge("oldest_waiting", lambda: max((shard.oldest_waiting for shard in shards()), default=0))
        metrics.gauge("mean_loss_x1000", lambda: round(SCALE * self._loss / max(self._released, 1)))
        metrics.gauge("least_class_size", lambda: classes.least)
        metrics.gauge("alone_x1000", lambda: round(SCALE * classes.alone))
        if context.policy.sensitive:
            metrics.gauge("mean_diversity_x1000", lambda: round(SCALE * classes.diversity))
        metrics.gauge("k", lambda: context.privacy.k)
        if (delay := algorithm.delay_tuples(context.parameters)) is not None:
            metrics.gauge("delay_tuples", lambda: delay)
        for name, gauge in algorithm.gauges.items():
            metrics.gauge(name, partial(_over_all, gauge, shards))

    def update(self, before: Counters, after: Counters, releases: Releases) -> None:
        """Count the effects of one step of one shard, including its releases."""
        past, now = self._flat(before), self._flat(after)
        for name, amount in now.items():
            self._count(name, amount - past.get(name, 0))
        loss = self._loss + after.loss_sum - before.loss_sum
        self._count("loss_sum_x1000", round(SCALE * loss) - round(SCALE * self._loss))
        self._loss = loss
        self._released += after.released - before.released
        for name, amount in self._classes.add(releases).items():
            self._count(name, amount)

    def reject(self, reason: str, rows: int) -> None:
        """Count rejected records."""
        self._count(f"rejected_{reason}", rows)

    def _count(self, name: str, amount: int) -> None:
        if amount:
            self._counters[name].inc(amount)

    def _flat(self, counters: Counters) -> dict[str, int]:
        names = (*self._algorithm.counted, *(declaration.name for declaration in declared(Counters)))
        flat = {name: getattr(counters, name, 0) for name in names}
        for group in ("suppressed", "releases"):
            flat |= {f"{group}_{name}": amount for name, amount in getattr(counters, group).items()}
        return {name: amount for name, amount in flat.items() if name in self._counters}


def _over_all(gauge: Callable[[Sequence[Counters]], int], shards: Callable[[], Sequence[Counters]]) -> int:
    return gauge(shards())
