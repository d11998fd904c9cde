"""Registration of CASTLE as an anonymization algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.castle.parameters import CastleParameters, problems
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.delayed_algorithm import delayed_algorithm
from crenel.anonymity.buffer.stored_clusters import initial_snapshot, read
from crenel.state.shard import StoredShard


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return Castle(context, initial_snapshot(context, number, key), remembers=context.remembers)


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return Castle(context, read(context, stored, where))


def _compile() -> None:
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
    problems=problems,
    counted={"merges": "clusters merged", "splits": "clusters split"},
    gauges={"open_clusters": lambda shards: sum(shard.open_clusters for shard in shards)},
    tell=_tell,
    summary=_summary,
    compile=_compile,
)
