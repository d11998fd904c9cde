"""An algorithm in one file: what came first leaves first, as soon as it keeps the promises together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crenel.anonymity.algorithm import Algorithm, Setting, Shard, ShardContext, add_algorithm
from crenel.anonymity.algorithms.batch.shard import BatchShard, Choice
from crenel.anonymity.algorithms.batch.stored import ENTRIES, initial_snapshot, read
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.batch import BatchState
from crenel.state.shard import StoredShard


@dataclass(frozen=True)
class InOrderParameters:
    """``most`` : tuples that wait at most; the oldest are suppressed beyond."""

    most: int = 100

    def __post_init__(self) -> None:
        if self.most < 1:
            raise PolicyError(f"in_order.most: must be 1 or more, not {self.most}")


class InOrder(BatchShard):
    def choose(self, watermark: int, *, ended: bool) -> Choice:
        everything = np.arange(len(self.waiting))
        for count in range(self.context.privacy.k, len(everything) + 1):
            if self.broken(everything[:count]) is None:
                return Choice(groups=[everything[:count]])
        if reason := self.broken(everything):
            beyond = everything if ended else everything[: -self.context.parameters.most]
            return Choice(suppressed=[(int(i), reason) for i in beyond])
        return Choice()


def _problems(policy: Policy, privacy: Privacy, parameters: InOrderParameters) -> Iterator[str]:
    if parameters.most < privacy.k:
        yield f"in_order.most: must be k ({privacy.k}) or more, not {parameters.most}"


def _new(terms: ShardContext, number: int, key: bytes) -> Shard:
    return InOrder(terms, initial_snapshot(terms, number, key))


def _restored(terms: ShardContext, stored: StoredShard, where: str) -> Shard:
    return InOrder(terms, read(terms, stored, where))


IN_ORDER = add_algorithm(
    Algorithm(
        name="in_order",
        parameters=InOrderParameters,
        settings=(Setting("most", "most", "positive", "a whole number, privacy.k or more"),),
        sections=(),
        example="{most: 100}",
        new=_new,
        restored=_restored,
        state=("batch", BatchState),
        entries=ENTRIES,
        problems=_problems,
        counted={"tuples_in": "tuples admitted", "released": "tuples released"},
        gauges={},
        tell=lambda parameters: iter([("most", str(parameters.most))]),
        summary=lambda counts: ("in order", "", ""),
        compile=lambda: warm_up(IN_ORDER, InOrderParameters()),
    )
)
