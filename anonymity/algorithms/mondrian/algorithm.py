"""Mondrian as an anonymization algorithm: its settings and its shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np

from crenel.anonymity.algorithm import add_algorithm
from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows, WindowedAlgorithm
from crenel.anonymity.algorithms.mondrian.cuts import partition
from crenel.anonymity.algorithms.mondrian.scratch_buffers import work_on
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.fields import about, setting
from crenel.anonymity.model.privacy import Privacy


class MondrianShard(ShardOfWindows):
    """In-memory state of one shard of ``Mondrian``."""

    def divided(self) -> Choice:
        work = work_on(self.arrays(), by_loss=self.context.algorithm.cut == "loss")
        ends = np.zeros(len(self._buffer), np.int64)
        parts = partition(work, ends)
        return Choice(groups=np.split(work.order[0], ends[: parts - 1]))


@add_algorithm
@setting
class Mondrian(WindowedAlgorithm):
    """Mondrian: each window is cut recursively into equivalence classes.

    Attributes
    ----------
    cut : ``"loss"``: a partition is cut where that lowers the loss most; ``"widest"``: across its widest attribute, as
        in the paper
    """

    cut: Annotated[Literal["loss", "widest"], about("'loss' or 'widest'")] = "loss"

    name: ClassVar[str] = "mondrian"
    shard: ClassVar = MondrianShard

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        warm_up(cls(Window(tuples=32)))

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        return "windows", f"{counts['windows']:,}", "cut by Mondrian"

    def describe(self) -> Iterator[tuple[str, str]]:
        yield from super().describe()
        yield "cut", self.cut
