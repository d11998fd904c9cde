"""An algorithm of your own: release tuples in order of arrival, as soon as they satisfy the privacy models.

Run it: ``python examples/own_algorithm.py``. Other programs name this module in ``extensions``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

import numpy as np
import pyarrow as pa

import crenel
from crenel.anonymity.algorithm import add_algorithm
from crenel.anonymity.algorithms.batch.shard import BatchAlgorithm, BatchShard, Choice
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.fields import Positive, about, setting
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


class InOrderShard(BatchShard):
    """Shard whose next release is the shortest prefix of the buffer that satisfies the privacy models."""

    def choose(self, watermark: int, *, ended: bool) -> Choice:
        """Return the next release, or the tuples to suppress; neither while the shard may wait."""
        everything = np.arange(len(self.waiting))
        for count in range(self.context.privacy.k, len(everything) + 1):
            if self.broken(everything[:count]) is None:
                return Choice(groups=[everything[:count]])
        if reason := self.broken(everything):
            beyond = everything if ended else everything[: -self.context.algorithm.most]
            return Choice(suppressed=[(int(i), reason) for i in beyond])
        return Choice()


@add_algorithm
@setting
class InOrder(BatchAlgorithm):
    """Release tuples in order of arrival, as soon as they satisfy the privacy models.

    Attributes
    ----------
    most : maximum number of buffered tuples, k or more; the oldest ones beyond are suppressed
    """

    most: Annotated[Positive, about("a whole number, privacy.k or more")] = 100

    name: ClassVar[str] = "in_order"
    shard: ClassVar = InOrderShard
    example: ClassVar[str] = "{most: 100}"
    counted: ClassVar = {"tuples_in": "tuples admitted", "released": "tuples released"}

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        warm_up(cls())

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        return "in order", "", ""

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        if self.most < privacy.k:
            yield f"in_order.most: must be k ({privacy.k}) or more, not {self.most}"

    def describe(self) -> Iterator[tuple[str, str]]:
        yield "most", str(self.most)


def main() -> None:
    """Anonymize invented visits by the algorithm."""
    random = np.random.default_rng(1)
    visits = pa.table(
        {"age": random.integers(18, 90, 1000), "diagnosis": random.choice(["flu", "asthma", "back pain"], 1000)}
    )
    settings = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
        privacy=crenel.Privacy(k=5, l=2),
        algorithm=InOrder(most=50),
        extensions=[__name__],
    )
    result = crenel.anonymize(visits, settings)
    print(result.summary)
    print("verify:", crenel.verify(result, settings).outcome)


if __name__ == "__main__":
    main()
