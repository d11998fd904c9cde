"""CASTLE as an anonymization algorithm, with its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from crenel.anonymity.algorithm import add_algorithm
from crenel.anonymity.algorithms.castle.shard import CastleShard
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.delayed_algorithm import DelayedAlgorithm
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.fields import Positive, about, setting
from crenel.anonymity.model.privacy import Privacy


@add_algorithm
@setting
class Castle(DelayedAlgorithm):
    """CASTLE: adaptive clusters under a delay bound (Cao et al., CASTLE, Section 4).

    The paper keeps all published generalizations for reuse. The default keeps none: reuse hardly helps, and the time of
    a reused tuple may reveal its person.

    Attributes
    ----------
    max_clusters : maximum number of open clusters (beta in the paper)
    """

    max_clusters: Annotated[Positive, about("a whole number, 1 or more")] = 50

    name: ClassVar[str] = "castle"
    shard: ClassVar = CastleShard
    counted: ClassVar = {**DelayedAlgorithm.counted, "merges": "clusters merged", "splits": "clusters split"}
    gauges: ClassVar = {
        "open_clusters": lambda shards: sum(shard.open_clusters for shard in shards),
        **DelayedAlgorithm.gauges,
    }

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        warm_up(cls(Delay(64, 1000)))

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        return "merges", f"{counts['merges']:,}", f"splits {counts['splits']:,}"

    @property
    def cluster_limit(self) -> int:
        return self.max_clusters

    def describe_own(self) -> Iterator[tuple[str, str]]:
        yield "max_clusters", str(self.max_clusters)
