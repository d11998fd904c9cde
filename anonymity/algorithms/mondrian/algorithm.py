"""Registration of Mondrian as an anonymization algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.batch.stored import initial_snapshot, read
from crenel.anonymity.algorithms.batch.windows import ClosedBy, algorithm_of_windows
from crenel.anonymity.algorithms.mondrian.parameters import MondrianParameters
from crenel.anonymity.algorithms.mondrian.shard import Mondrian
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.state.shard import StoredShard


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return Mondrian(context, initial_snapshot(context, number, key))


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return Mondrian(context, read(context, stored, where))


def _compile() -> None:
    warm_up(MONDRIAN, MondrianParameters(ClosedBy(tuples=32)))


def _tell(mondrian: MondrianParameters) -> Iterator[tuple[str, str]]:
    yield from mondrian.window.tell()
    yield "cut", mondrian.cut


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "windows", f"{counts['windows']:,}", "cut by Mondrian"


MONDRIAN = algorithm_of_windows(
    name="mondrian",
    parameters=MondrianParameters,
    settings=(Setting("cut", "cut", "choice", "'loss' or 'widest'", choices=("loss", "widest")),),
    new=_new,
    restored=_restored,
    tell=_tell,
    summary=_summary,
    compile=_compile,
)
