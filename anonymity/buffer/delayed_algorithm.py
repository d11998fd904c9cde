"""Settings that algorithms share which buffer tuples up to a delay bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.buffer.repair_rows import OUTPUT
from crenel.anonymity.buffer.stored_clusters import ENTRIES, initial_snapshot, read
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.model.delay import DelayedSettings
from crenel.anonymity.model.fields import setting
from crenel.anonymity.model.outcomes import REUSE_RISK
from crenel.anonymity.model.policy import Policy, without_domain
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import describe_weights, problems_of_weights
from crenel.state.castle import CastleState
from crenel.state.shard import StoredShard


@setting
class DelayedAlgorithm(Algorithm, DelayedSettings):
    """An algorithm whose shards are ``DelayedShard``.

    Attributes
    ----------
    shard : class of the shards, or a function that makes one, from a ``ShardContext`` and a ``ClusterSnapshot``
    """

    shard: ClassVar[Any]
    example: ClassVar[str] = "{delay: {tuples: 1000}}"
    state: ClassVar = ("shard", CastleState)
    entries: ClassVar[tuple[str, ...]] = (*ENTRIES, SEEN)
    counted: ClassVar = {
        "tuples_in": "tuples admitted",
        "sampled_out": "tuples that sampling left out",
        "released": "tuples released",
    }
    gauges: ClassVar = {"tau_x1000": lambda shards: round(1000 * max((shard.tau for shard in shards), default=0.0))}
    noise: ClassVar[bool] = True
    arrays: ClassVar[bool] = True
    outputs: ClassVar = (OUTPUT,)

    @classmethod
    def new(cls, context: ShardContext, number: int, key: bytes) -> Shard:
        return cls.shard(context, initial_snapshot(context, number, key))

    @classmethod
    def restored(cls, context: ShardContext, stored: StoredShard, where: str) -> Shard:
        return cls.shard(context, read(context, stored, where))

    @property
    def reuses(self) -> bool:
        return self.reuse_limit > 0

    @property
    def generalizes_suppressed(self) -> bool:
        return self.suppression == "generalize"

    @property
    def delay_tuples(self) -> int | None:
        return self.delay.tuples

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        if self.generalizes_suppressed:
            for name in without_domain(policy):
                yield (
                    f"policy.quasi_identifiers.{name}.domain: is missing; {self.name}.suppression: generalize "
                    "publishes the whole range, and without a domain that is the range seen so far, whose ends are "
                    "values of persons; give a domain, or withhold"
                )
        if self.delay.event_time is not None and policy.event_time is None:
            yield (
                f"{self.name}.delay.event_time: policy.event_time names no column; name one, or give delay.tuples alone"
            )
        yield from problems_of_weights(policy, self.weights, self.name)

    def warnings(self) -> Iterator[str]:
        if self.reuse_limit:
            yield (
                f"{self.name}.reuse_limit: is {self.reuse_limit}, so tuples are published alone under an earlier "
                f"generalization. {REUSE_RISK}. Set it to 0, unless no recipient can know when records arrive"
            )
        alone = ("reuse_limit", self.reuse_limit), ("suppression", self.generalizes_suppressed)
        named = " and ".join(f"{self.name}.{name}" for name, given in alone if given)
        if named and self.delay.jitter == 0:
            yield (
                f"{self.name}.delay.jitter: is 0, and by {named} tuples are published alone, exactly at the end of "
                "their delay. An attacker with knowledge of a person's arrival time can find the row; give a share of "
                "the delay, such as 0.25, or publish none alone (reuse_limit: 0, suppression: withhold)"
            )

    def describe(self) -> Iterator[tuple[str, str]]:
        yield from self.delay.describe()
        yield "delay.jitter", f"{self.delay.jitter:g}: a deadline of its own for each tuple, within the delay's end"
        yield from self.describe_own()
        yield "loss_window", str(self.loss_window)
        yield "reuse_limit", str(self.reuse_limit)
        yield "suppression", self.suppression
        yield "weights", describe_weights(self.weights)

    def describe_own(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that only this algorithm has, as ``describe`` does."""
        return iter(())
