"""Mondrian as an anonymization algorithm: its parameters, its shard and its registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.stored import initial_snapshot, read
from crenel.anonymity.algorithms.batch.windows import ClosedBy, ShardOfWindows, algorithm_of_windows
from crenel.anonymity.algorithms.mondrian.cuts import partition
from crenel.anonymity.algorithms.mondrian.scratch_buffers import work_on
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.shard import StoredShard


@dataclass(frozen=True)
class MondrianParameters:
    """Parameters of Mondrian.

    Attributes
    ----------
    window : bounds that close a window
    cut : choice of a part's cut, by minimum ``loss`` or across its ``widest`` attribute, as in the paper
    """

    window: ClosedBy = field(default_factory=ClosedBy)
    cut: Literal["loss", "widest"] = "loss"

    def __post_init__(self) -> None:
        self.window.require("mondrian")

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        yield from self.window.problems(policy, privacy, "mondrian")


class Mondrian(ShardOfWindows):
    """In-memory state of one shard; its parameters are ``MondrianParameters``."""

    def divided(self) -> Choice:
        work = work_on(self.arrays(), by_loss=self.context.parameters.cut == "loss")
        ends = np.zeros(len(self._buffer), np.int64)
        parts = partition(work, ends)
        return Choice(groups=np.split(work.order[0], ends[: parts - 1]))


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return Mondrian(context, initial_snapshot(context, number, key))


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return Mondrian(context, read(context, stored, where))


def _compile(_privacy: Privacy) -> None:
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
