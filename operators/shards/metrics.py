"""Flink metrics of the anonymizer, all in the group ``crenel``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyflink.metrics import MetricGroup

from crenel.anonymity.algorithm import Algorithm, Counters, ShardContext
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.compiled.notice import compilation_timer
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.operators.metrics import SCALE, Metrics
from crenel.operators.shards.classes import CLASS_COUNTERS, Classes
from crenel.operators.shards.stream import WaitingTimes
from crenel.state.counters import declared

MEANINGS = {
    "tuples_in": "records admitted",
    "sampled_out": "records that sampling left out",
    "released": "records published",
    "suppressed_*": "records suppressed, or published fully generalized, by [reason](outputs.md#reasons); that of a "
    "privacy model exists with this model only, and ends in a colon and the column where the model is of one column",
    "rejected_*": "rows rejected, by [reason](outputs.md#reasons)",
    "releases_*": "releases, by [kind](outputs.md#kinds-of-release)",
    "persons_below_k": "persons with a record published under a generalization that held fewer than k members of their "
    "anonymity set; with ``privacy.persons.guarantee: lasting`` only, and 0 except for ``moved: count``",
    "forgotten": "buffered records of persons who were forgotten",
    "linked": "published records that count as ``linkable`` in the audit log; with ``policy.noised`` only",
    "released_alone": "records in singleton releases: all ``reused`` or ``generalized`` ones, and single records of "
    "``again`` and ``widened``",
    "classes_from_*": "equivalence classes of this many persons or more, in percent of k, and below the next bound; "
    "releases of the kinds ``cluster``, ``merged`` and ``split``",
    "loss_sum_x1000": "sum of the loss of all published records; its increase over that of ``released`` is the mean "
    "loss of an interval",
    "diversity_sum": "sum of l over all published records, each in its least diverse sensitive column, without fully "
    "generalized ones; with sensitive columns only",
    "merges": "clusters, or groups, merged with others",
    "splits": "clusters published in parts",
    "windows": "windows closed",
    "synthetic": "published records that the noise of a count added, part of ``released``",
    "late": "records that arrived after their window had closed, part of ``sampled_out``",
    "over_contribution": "records beyond the contribution bound of their person, part of ``sampled_out``",
    "swaps": "groups repaired by a swap",
    "buffered": "records buffered",
    "oldest_waiting": "records admitted since the oldest buffered one",
    "oldest_waiting_s": "seconds of the clock since the oldest buffered record arrived, to ten, or the task started",
    "event_time_standstill_s": "seconds of the clock since event time last passed, while records are buffered; 0 "
    "without a delay or a window in event time, as the next two",
    "readers_without_watermark": "parallel readers of the source from which no watermark has come, while records are "
    "buffered and no event time has passed; 0 from the first watermark on",
    "delay_s": "maximum delay in event time, in seconds, or length of a window",
    "compilation_s": "seconds that this Python process has compiled code; 0 where it was compiled ahead of time",
    "mean_loss_x1000": "mean loss of all published records",
    "least_class_size": "minimum number of persons behind a published generalization since the task started, without "
    "fully generalized rows; 0 before the first",
    "alone_x1000": "share of ``released_alone`` in all published records",
    "mean_diversity_x1000": "mean of the terms of ``diversity_sum``; with sensitive columns only",
    "k": "k in force",
    "delay_tuples": "maximum number of later records for which a record may wait; absent if only event time limits the "
    "delay",
    "open_clusters": "open clusters",
    "tau_x1000": "maximum tau of the shards",
    "carried": "records without a group in the last window",
    "target": "maximum l_t of the shards",
    "fullest_region_x1000": "ratio of the fullest region's share of the records to its expected share; with "
    "``shards.by: regions`` only",
    "fullest_shard_x1000": "the same for other shards, relative to equal shares",
    "share_of_shard_*": "share of the records that this shard receives",
    "unknown_fields": "fields that only a newer schema of the registry has; with a registry only",
    "records_with_unknown_fields": "records with at least one such field",
    "records_with_unknown_field_*": "records with this field",
}
"""Meaning of each metric by name or pattern, for the reference; those of the encoder are the last six."""


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
    context : policy, privacy models and algorithm, which has counters and gauges of its own
    waiting : how long the shards wait
    """

    def __init__(
        self,
        group: MetricGroup,
        shards: Callable[[], Sequence[Counters]],
        context: ShardContext,
        waiting: WaitingTimes,
    ) -> None:
        self._algorithm = algorithm = context.algorithm
        metrics = Metrics(group)
        self._counters: dict[str, Any] = {name: metrics.counter(name) for name in counter_names(algorithm, context)}
        self._classes = classes = Classes(context.privacy.k)
        self._loss = 0.0
        self._released = 0
        metrics.gauge("buffered", lambda: sum(shard.buffered for shard in shards()))
        metrics.gauge("oldest_waiting", lambda: max((shard.oldest_waiting for shard in shards()), default=0))
        metrics.gauge("oldest_waiting_s", lambda: waiting.oldest)
        metrics.gauge("event_time_standstill_s", lambda: waiting.standstill)
        metrics.gauge("readers_without_watermark", lambda: waiting.silent)
        metrics.gauge("delay_s", lambda: max(algorithm.durations.values(), default=0) // 1000)
        compilation = compilation_timer()
        metrics.gauge("compilation_s", lambda: round(compilation.duration) if compilation.done else 0)
        metrics.gauge("mean_loss_x1000", lambda: round(SCALE * self._loss / max(self._released, 1)))
        metrics.gauge("least_class_size", lambda: classes.least)
        metrics.gauge("alone_x1000", lambda: round(SCALE * classes.alone))
        if context.policy.sensitive:
            metrics.gauge("mean_diversity_x1000", lambda: round(SCALE * classes.diversity))
        metrics.gauge("k", lambda: context.privacy.k)
        if (delay := algorithm.delay_tuples) is not None:
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
