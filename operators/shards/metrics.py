"""Flink metrics of the anonymiser, all in the group ``crenel``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyflink.metrics import MetricGroup

from anonymity.algorithm import Algorithm, Counters
from anonymity.outcomes import KINDS, REJECTIONS
from anonymity.privacy import Privacy

if TYPE_CHECKING:
    from operators.shards.function import KeyedShard

SCALE = 1000
"""Flink's gauges in Python are integers: losses are given in thousandths."""


def counter_names(algorithm: Algorithm, privacy: Privacy) -> tuple[str, ...]:
    """Names of all counters of a job."""
    return (
        *algorithm.counted,
        "forgotten",
        *(("linked",) if privacy.noise_within is not None else ()),
        *(("persons_below_k",) if privacy.lasting is not None else ()),
        *(f"suppressed_{reason}" for reason in privacy.reasons),
        *(f"rejected_{reason}" for reason in REJECTIONS),
        *(f"releases_{kind}" for kind in KINDS),
    )


class ShardMetrics:
    """Counters over all shards of a subtask since it started, and gauges of how they stand.

    Parameters
    ----------
    group : the operator's metric group
    shards : the live shards by key; the gauges look at it
    """

    def __init__(
        self, group: MetricGroup, shards: Mapping[int, KeyedShard], algorithm: Algorithm, privacy: Privacy
    ) -> None:
        self._shards, self._algorithm = shards, algorithm
        group = group.add_group("crenel")
        self._counters: dict[str, Any] = {name: group.counter(name) for name in counter_names(algorithm, privacy)}
        self._loss = 0.0
        self._released = 0
        group.gauge("buffered", lambda: sum(shard.buffered for shard in self._each()))
        group.gauge("oldest_waiting", lambda: max((shard.oldest_waiting for shard in self._each()), default=0))
        group.gauge("mean_loss_x1000", lambda: round(SCALE * self._loss / max(self._released, 1)))
        for name, gauge in algorithm.gauges.items():
            group.gauge(name, lambda gauge=gauge: gauge(self._each()))

    def update(self, before: Counters, after: Counters) -> None:
        """Count what one step of one shard has done."""
        past, now = self._flat(before), self._flat(after)
        for name, amount in now.items():
            if amount != past.get(name, 0):
                self._counters[name].inc(amount - past.get(name, 0))
        self._loss += after.loss_sum - before.loss_sum
        self._released += after.released - before.released

    def reject(self, reason: str, rows: int) -> None:
        """Count rows that were not let in."""
        self._counters[f"rejected_{reason}"].inc(rows)

    def _each(self) -> list[Any]:
        return [shard.counters for shard in self._shards.values()]

    def _flat(self, counters: Counters) -> dict[str, int]:
        names = (*self._algorithm.counted, "forgotten", "linked", "persons_below_k")
        flat = {name: getattr(counters, name, 0) for name in names}
        for group in ("suppressed", "releases"):
            flat |= {f"{group}_{name}": amount for name, amount in getattr(counters, group).items()}
        return {name: amount for name, amount in flat.items() if name in self._counters}
