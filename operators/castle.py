"""CASTLE as a Flink operator: blocks of a shard go in, releases come out, and the shard lives in managed state."""

from __future__ import annotations

from typing import ClassVar

from anonymity.castle.shard import Castle
from anonymity.castle.stored import Memory
from anonymity.compiled.random import shard_key
from anonymity.policy import CastleParameters
from operators.shards.function import ShardFunction
from operators.shards.metrics import SCALE, Gauges
from operators.shards.plan import OperatorPlan
from state.shard import Stored


class CastleFunction(ShardFunction[Castle]):
    """Anonymises the blocks of each shard by clusters; see ``anonymity.castle`` and ``operators.shards``."""

    counted = ("tuples_in", "sampled_out", "released", "merges", "splits")
    gauges: ClassVar[Gauges] = {
        "open_clusters": lambda shards: sum(shard.open_clusters for shard in shards),
        "tau_x1000": lambda shards: round(SCALE * max((shard.tau for shard in shards), default=0.0)),
    }

    def __init__(self, plan: OperatorPlan) -> None:
        super().__init__(plan)
        if not isinstance(plan.parameters, CastleParameters):
            raise TypeError(f"CASTLE works with CastleParameters, not {type(plan.parameters).__name__}")
        self._parameters = plan.parameters

    def new(self, number: int) -> tuple[Castle, Memory]:
        plan = self._plan
        castle = Castle(
            plan.policy,
            plan.privacy,
            self._parameters,
            members=plan.members,
            shard=number,
            key=shard_key(plan.seed, number),
            differential_privacy=plan.differential_privacy,
        )
        return castle, Memory(castle, plan.fingerprint)

    def restored(self, stored: Stored, where: str) -> tuple[Castle, Memory]:
        plan = self._plan
        return Memory.restore(
            plan.policy,
            plan.privacy,
            self._parameters,
            members=plan.members,
            fingerprint=plan.fingerprint,
            stored=stored,
            differential_privacy=plan.differential_privacy,
            where=where,
        )
