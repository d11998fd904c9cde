"""Nearest release as an anonymization algorithm, with its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from crenel.anonymity.algorithm import ShardContext, add_algorithm
from crenel.anonymity.algorithms.nearest.lasting.shard import ANONYMITY_SETS, LastingNearestShard
from crenel.anonymity.algorithms.nearest.shard import NearestShard
from crenel.anonymity.algorithms.nearest.stored_radii import RADII
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.delayed_algorithm import DelayedAlgorithm
from crenel.anonymity.buffer.stored_clusters import ClusterSnapshot
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.fields import Share, about, setting
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.anonymity.model.privacy_model import known_privacy_models


def _shard(context: ShardContext, snapshot: ClusterSnapshot) -> NearestShard:
    return (NearestShard if context.privacy.lasting is None else LastingNearestShard)(context, snapshot)


@add_algorithm
@setting
class Nearest(DelayedAlgorithm):
    """Nearest release: a due tuple is published with its nearest buffered tuples.

    Attributes
    ----------
    isolation_price : from 0 to 1. Above 0, a class may take an isolated tuple near its deadline in place of a nearer
        one, for the loss of later classes; 0.55 mostly loses 8 to 10 % less at a delay of 1,000 tuples or fewer, and
        takes up to three times the time of the core. Do not set it at a delay of 10,000
    """

    isolation_price: Annotated[
        Share,
        about(
            "a number from 0 to 1: the share of its isolation by which a record near its deadline is cheaper to join"
        ),
    ] = 0.0

    name: ClassVar[str] = "nearest"
    shard: ClassVar = staticmethod(_shard)
    entries: ClassVar[tuple[str, ...]] = (*DelayedAlgorithm.entries, ANONYMITY_SETS, RADII)
    lasting: ClassVar[bool] = True

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        compared = next(model for model in known_privacy_models().values() if model.compares)
        counting = Privacy(2, 2, models={compared.name: compared.example})  # counts values that have been published
        lasting = Privacy(2, 2, persons=Persons(guarantee="lasting", horizon=2000))
        warm_up(cls(Delay(64, 1000), isolation_price=0.5), privacy=lasting if privacy.lasting else counting)

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        return "nearest", "", "each due tuple with its nearest neighbors"

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        yield from super().problems(policy, privacy)
        horizon = None if privacy.lasting is None else privacy.lasting.horizon
        if horizon is None:
            return
        if policy.event_time is None:
            yield "privacy.persons.horizon: policy.event_time names no column; name one, or remove the horizon"
        elif self.delay.event_time is None:
            yield "privacy.persons.horizon: nearest.delay.event_time is missing: rows must leave first"
        elif self.delay.event_time > horizon:
            yield "privacy.persons.horizon: must be nearest.delay.event_time or more: rows leave first"

    def describe_own(self) -> Iterator[tuple[str, str]]:
        if self.isolation_price:
            yield "isolation_price", f"{self.isolation_price:g}: isolated records near their deadline join earlier"
