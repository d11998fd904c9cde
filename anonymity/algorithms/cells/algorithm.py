"""Registration of cells as an anonymization algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.anonymity.algorithm import (
    Admission,
    AdmissionStage,
    Algorithm,
    Setting,
    Shard,
    ShardContext,
    add_algorithm,
)
from crenel.anonymity.algorithms.batch.stored import ENTRIES, BatchSnapshot, initial_snapshot, read
from crenel.anonymity.algorithms.cells.contributions import CONTRIBUTIONS
from crenel.anonymity.algorithms.cells.parameters import CellsParameters
from crenel.anonymity.algorithms.cells.shard import Cells
from crenel.anonymity.algorithms.cells.stages import CellStage, PersonStage
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.state.batch import BatchState
from crenel.state.shard import StoredShard


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return _shard(context, initial_snapshot(context, number, key))


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return _shard(context, read(context, stored, where))


def _shard(context: ShardContext, snapshot: BatchSnapshot) -> Shard:
    return CellStage(context, snapshot) if context.admissions else Cells(context, snapshot)


def _new_admission(context: ShardContext, number: int, key: bytes) -> Admission:
    return PersonStage(context, initial_snapshot(context, number, key))


def _restored_admission(context: ShardContext, stored: StoredShard, where: str) -> Admission:
    return PersonStage(context, read(context, stored, where))


def _problems(policy: Policy, privacy: Privacy, parameters: CellsParameters) -> Iterator[str]:
    yield from parameters.problems(policy, privacy)


def _warnings(parameters: CellsParameters) -> Iterator[str]:
    if getattr(parameters.partition, "epsilon", 0.0) is None:
        yield (
            "cells.partition: was learned without differential privacy, so the guarantee does not hold for persons "
            "whose records it was learned from; learn it with 'crenel regions --private', or write 'epsilon: 0' into "
            "the file if it was learned from other persons or declared"
        )
    if parameters.release == "noisy":
        yield (
            "cells.release: noisy publishes synthetic records, and privacy.k counts them, as subjects in audit does; "
            "fewer than k persons may be behind them"
        )


def _compile(_privacy: Privacy) -> None:
    tree = RegionTree.of(Cut(0, 3.0, Region(0.5, 0.0), Region(0.5, 0.0)))
    warm_up(CELLS, CellsParameters(0.9, tree, 4.0, 0.5, window=64), Numeric("x", (0, 6)))
    warm_up(CELLS, CellsParameters(None, tree, 4.0, 0.5, window=64, release="noisy"), Numeric("x", (0, 6)))


def _tell(cells: CellsParameters) -> Iterator[tuple[str, str]]:
    yield "window", "all of the input" if cells.window is None else f"{cells.window} ms of event time"
    if cells.lateness is None:
        yield "lateness", "windows close at the end of the input"
    else:
        yield "lateness", f"a window closes {cells.lateness} ms after its end"
    if cells.release == "sampled":
        yield "sample_rate", f"{cells.sample_rate:g} of the persons of a window, chosen anew in each"
    else:
        yield "release", "as many records of a key as its count with noise says; no record is that of a person"
    if isinstance(cells.partition, RegionTree):
        yield "partition", f"{len(cells.partition)} cells"
    horizon = "the whole stream" if cells.horizon is None else f"{cells.horizon} ms"
    yield "windows", f"a person contributes to {cells.windows} at most over {horizon}"
    yield "epsilon, delta", f"{cells.epsilon:g} and {cells.delta:g} for each person over {horizon}"


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "windows", f"{counts['windows']:,}", f"late {counts['late']:,}, further {counts['over_contribution']:,}"


CELLS = add_algorithm(
    Algorithm(
        name="cells",
        parameters=CellsParameters,
        sections=(),
        settings=(
            Setting("window", "window", "clock duration", "a duration such as '10 min', or null for all of the input"),
            Setting(
                "lateness",
                "lateness",
                "clock duration",
                "a duration such as '1 min', or null where the end of a bounded input closes all windows",
            ),
            Setting(
                "release",
                "release",
                "choice",
                "'sampled' or 'noisy': a sample of persons, or synthetic records by counts with noise",
                choices=("sampled", "noisy"),
            ),
            Setting(
                "sample_rate",
                "sample_rate",
                "above 0 to 1",
                "a number above 0 and below 1; required by 'release: sampled', and refused by 'noisy'",
            ),
            Setting("partition", "partition", "regions", "the path of a file of regions", required=True),
            Setting("epsilon", "epsilon", "weight", "a number above 0, for each person and horizon", required=True),
            Setting("delta", "delta", "share", "a number above 0 and below 1, such as 1.0e-6", required=True),
            Setting("windows", "windows", "positive", "a whole number, 1 or more: windows of a person per horizon"),
            Setting("horizon", "horizon", "clock duration", "a multiple of cells.window, or null for all windows"),
        ),
        example="{window: 10 min, sample_rate: 0.2, partition: FILE, epsilon: 1, delta: 1.0e-6}",
        new=_new,
        restored=_restored,
        state=("batch", BatchState),
        entries=(*ENTRIES, SEEN, CONTRIBUTIONS),
        problems=_problems,
        warnings=_warnings,
        counted={
            "tuples_in": "tuples that count: sampled, or with 'release: noisy' all within the contribution bound",
            "released": "tuples released, synthetic ones included",
            "synthetic": "released tuples that noise added to the count of their key",
            "windows": "windows closed with a tuple that counts",
            "sampled_out": "tuples that do not count, late and further ones included",
            "late": "tuples that arrived after their window had closed",
            "over_contribution": "tuples beyond the contribution bound of their person",
        },
        gauges={},
        tell=_tell,
        summary=_summary,
        compile=_compile,
        synthetic=lambda cells: cells.release == "noisy",
        private=True,
        # Buffered records are of the sample, and contributions have numbers of windows.
        fixed=("window", "release", "sample_rate", "horizon"),
        admission=AdmissionStage(_new_admission, _restored_admission),
        account=lambda privacy, cells: cells.account(privacy.k),
        budgeted=lambda privacy, cells: cells.budgeted(privacy.k),
    )
)
