"""Registration of nearest release as an anonymization algorithm."""

from __future__ import annotations

from collections.abc import Mapping

from crenel.anonymity.algorithm import Shard, ShardContext
from crenel.anonymity.algorithms.nearest.lasting.shard import COMPANIONS, LastingNearest
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters, problems
from crenel.anonymity.algorithms.nearest.shard import Nearest
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.delayed_algorithm import delayed_algorithm
from crenel.anonymity.buffer.stored_clusters import initial_snapshot, read
from crenel.anonymity.model.privacy import Lasting
from crenel.state.shard import StoredShard


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return _made(context)(context, initial_snapshot(context, number, key), remembers=context.remembers)


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return _made(context)(context, read(context, stored, where))


def _made(context: ShardContext) -> type[Nearest]:
    return Nearest if context.privacy.lasting is None else LastingNearest


def _compile() -> None:
    parameters = NearestParameters(delay_tuples=64, delay_event_time=1000)
    warm_up(NEAREST, parameters)
    warm_up(NEAREST, parameters, lasting=Lasting(2000))


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "nearest", "", "each left with those that lie nearest"


NEAREST = delayed_algorithm(
    name="nearest",
    parameters=NearestParameters,
    settings=(),
    new=_new,
    restored=_restored,
    problems=problems,
    counted={},
    gauges={},
    tell=lambda parameters: iter(()),
    summary=_summary,
    compile=_compile,
    entries=(COMPANIONS,),
    lasting=True,
)
