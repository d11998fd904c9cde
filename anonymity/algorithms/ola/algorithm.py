"""Registration of OLA as an anonymization algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.batch.stored import initial_snapshot, read
from crenel.anonymity.algorithms.batch.windows import ClosedBy, algorithm_of_windows
from crenel.anonymity.algorithms.ola.parameters import OlaParameters
from crenel.anonymity.algorithms.ola.shard import Ola
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.hierarchy import from_paths
from crenel.state.shard import StoredShard


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return Ola(context, initial_snapshot(context, number, key))


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return Ola(context, read(context, stored, where))


def _compile() -> None:
    warm_up(OLA, OlaParameters(ClosedBy(tuples=32)), Categorical("x", from_paths([("x", "*")])))


def _tell(ola: OlaParameters) -> Iterator[tuple[str, str]]:
    yield from ola.window.tell()
    yield "max_suppression", f"{ola.max_suppression:g} of a window"
    yield "metric", ola.metric


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "windows", f"{counts['windows']:,}", "one generalization each, by OLA"


OLA = algorithm_of_windows(
    name="ola",
    parameters=OlaParameters,
    settings=(
        Setting("max_suppression", "max_suppression", "share", "a share of a window's tuples, from 0 to 1"),
        Setting(
            "metric",
            "metric",
            "choice",
            "'precision', 'discernibility' or 'entropy'",
            choices=("precision", "discernibility", "entropy"),
        ),
    ),
    new=_new,
    restored=_restored,
    tell=_tell,
    summary=_summary,
    compile=_compile,
)
