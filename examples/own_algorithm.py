"""An algorithm of your own: release tuples in order of arrival, as soon as they satisfy the privacy models.

Run it: ``python examples/own_algorithm.py``. Other programs name this module in ``extensions``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import crenel
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
    """Parameters of the algorithm.

    Attributes
    ----------
    most : maximum number of buffered tuples; the oldest ones beyond are suppressed
    """

    most: int = 100

    def __post_init__(self) -> None:
        if self.most < 1:
            raise PolicyError(f"in_order.most: must be 1 or more, not {self.most}")


class InOrder(BatchShard):
    """Shard whose next release is the shortest prefix of the buffer that satisfies the privacy models."""

    def choose(self, watermark: int, *, ended: bool) -> Choice:
        """Return the next release, or the tuples to suppress; neither while the shard may wait."""
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


IN_ORDER: Algorithm = add_algorithm(
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
        compile=lambda privacy: warm_up(IN_ORDER, InOrderParameters()),
    )
)


def main() -> None:
    """Anonymize invented visits by the algorithm."""
    random = np.random.default_rng(1)
    visits = pa.table(
        {"age": random.integers(18, 90, 1000), "diagnosis": random.choice(["flu", "asthma", "back pain"], 1000)}
    )
    settings = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
        privacy=crenel.Privacy(k=5, l=2),
        algorithm=crenel.CustomAlgorithm("in_order", {"most": 50}),
        extensions=[__name__],
    )
    result = crenel.anonymize(visits, settings)
    print(result.summary)
    print("verify:", crenel.verify(result, settings).outcome)


if __name__ == "__main__":
    main()
