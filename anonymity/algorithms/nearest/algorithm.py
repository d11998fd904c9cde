"""Nearest release as an anonymization algorithm: its parameters and its registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.nearest.lasting.shard import COMPANIONS, LastingNearest
from crenel.anonymity.algorithms.nearest.shard import Nearest
from crenel.anonymity.algorithms.nearest.stored_radii import RADII
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.delay import problems_of_delay, require_delay
from crenel.anonymity.buffer.delayed_algorithm import delayed_algorithm
from crenel.anonymity.buffer.stored_clusters import initial_snapshot, read
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Lasting, Privacy
from crenel.anonymity.model.weights import Weights
from crenel.anonymity.privacy_models.t_closeness import T
from crenel.state.shard import StoredShard


@dataclass(frozen=True)
class NearestParameters:
    """Parameters of nearest release.

    Attributes
    ----------
    delay_tuples : maximum delay in tuples of the shard, 0 or more; None: no such bound
    delay_event_time : maximum delay in milliseconds of event time, 0 or more; None: no such bound
    delay_jitter : share of the delay, 0 to 1, by which a tuple's own deadline may come earlier
    loss_window : number of recent releases that the mean loss tau averages, 1 or more
    reuse_limit : maximum number of generalizations kept for reuse, 0 or more; the oldest are dropped first. The
        default keeps none: a reused tuple is published alone, and an attacker with timing knowledge may
        re-identify its person
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalize`` d
    weights : (name, weight) of quasi-identifiers whose weight in distances differs from 1, above 0 and finite
    isolation_price : 0 to 1. Above 0, a class may take an isolated tuple near its deadline in place of a nearer one,
        for the loss of later classes: its growth of the loss counts less by this share of its isolation
        (``crenel.anonymity.algorithms.nearest.isolation``)
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    delay_jitter: float = 0.0
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"
    weights: Weights = ()
    isolation_price: float = 0.0

    max_clusters: ClassVar[int] = 1
    """Code shared with CASTLE sees the buffer as one cluster (``crenel.anonymity.algorithms.nearest.shard``)."""

    def __post_init__(self) -> None:
        require_delay(self, "nearest", ("loss_window", 1), ("reuse_limit", 0))
        if not 0 <= self.isolation_price <= 1:
            raise PolicyError(f"nearest.isolation_price: must be from 0 to 1, not {self.isolation_price}")

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy or the privacy models, with its field and the valid values."""
        yield from problems_of_delay(policy, self, "nearest")
        horizon = None if privacy.lasting is None else privacy.lasting.horizon
        if horizon is None:
            return
        if policy.event_time is None:
            yield "privacy.persons.horizon: policy.event_time names no column; name one, or remove the horizon"
        elif self.delay_event_time is None:
            yield "privacy.persons.horizon: nearest.delay.event_time is missing: rows must leave first"
        elif self.delay_event_time > horizon:
            yield "privacy.persons.horizon: must be nearest.delay.event_time or more: rows leave first"


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return _made(context)(context, initial_snapshot(context, number, key), remembers=context.remembers)


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return _made(context)(context, read(context, stored, where))


def _made(context: ShardContext) -> type[Nearest]:
    return Nearest if context.privacy.lasting is None else LastingNearest


def _compile(privacy: Privacy) -> None:
    parameters = NearestParameters(delay_tuples=64, delay_event_time=1000, isolation_price=0.5)
    counting = Privacy(2, 2, ((T, 1.0),))  # counts values that have been published
    warm_up(NEAREST, parameters, privacy=Privacy(2, 2, lasting=Lasting(2000)) if privacy.lasting else counting)


def _tell(parameters: NearestParameters) -> Iterator[tuple[str, str]]:
    if parameters.isolation_price:
        yield "isolation_price", f"{parameters.isolation_price:g}: isolated records near their deadline join earlier"


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "nearest", "", "each due tuple with its nearest neighbors"


NEAREST = delayed_algorithm(
    name="nearest",
    parameters=NearestParameters,
    settings=(
        Setting(
            "isolation_price",
            "isolation_price",
            "share",
            "a number from 0 to 1: the share of its isolation by which a record near its deadline is cheaper to join",
        ),
    ),
    new=_new,
    restored=_restored,
    counted={},
    gauges={},
    tell=_tell,
    summary=_summary,
    compile=_compile,
    entries=(COMPANIONS, RADII),
    lasting=True,
)
