"""CASTLE as an anonymization algorithm: its parameters and its registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.delay import problems_of_delay, require_delay
from crenel.anonymity.buffer.delayed_algorithm import delayed_algorithm
from crenel.anonymity.buffer.stored_clusters import initial_snapshot, read
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import Weights
from crenel.state.shard import StoredShard


@dataclass(frozen=True)
class CastleParameters:
    """Parameters of CASTLE (symbols of the paper in brackets).

    Attributes
    ----------
    delay_tuples : maximum delay in tuples of the shard (delta), 0 or more; None: no such bound
    delay_event_time : maximum delay in milliseconds of event time, 0 or more; None: no such bound
    delay_jitter : share of the delay, 0 to 1, by which a tuple's own deadline may come earlier
    max_clusters : maximum number of open clusters (beta), 1 or more
    loss_window : number of recent releases that tau averages (mu), 1 or more
    reuse_limit : maximum number of generalizations kept for reuse (the size of Omega), 0 or more; the oldest are
        dropped first. The paper keeps all. The default keeps none: reuse hardly helps, and the time of a reused
        tuple may reveal its person
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalize`` d as the paper does
    weights : (name, weight) of quasi-identifiers whose weight in distances differs from 1, above 0 and finite
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    delay_jitter: float = 0.0
    max_clusters: int = 50
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"
    weights: Weights = ()

    def __post_init__(self) -> None:
        require_delay(self, "castle", ("max_clusters", 1), ("loss_window", 1), ("reuse_limit", 0))

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy or the privacy models, with its field and the valid values."""
        yield from problems_of_delay(policy, self, "castle")


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return Castle(context, initial_snapshot(context, number, key), remembers=context.remembers)


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return Castle(context, read(context, stored, where))


def _compile(_privacy: Privacy) -> None:
    warm_up(CASTLE, CastleParameters(delay_tuples=64, delay_event_time=1000))


def _tell(castle: CastleParameters) -> Iterator[tuple[str, str]]:
    yield "max_clusters", str(castle.max_clusters)


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "merges", f"{counts['merges']:,}", f"splits {counts['splits']:,}"


CASTLE = delayed_algorithm(
    name="castle",
    parameters=CastleParameters,
    settings=(Setting("max_clusters", "max_clusters", "positive", "a whole number, 1 or more"),),
    new=_new,
    restored=_restored,
    counted={"merges": "clusters merged", "splits": "clusters split"},
    gauges={"open_clusters": lambda shards: sum(shard.open_clusters for shard in shards)},
    tell=_tell,
    summary=_summary,
    compile=_compile,
)
