"""Mondrian on one shard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anonymity.batch.windows import ShardOfWindows
from anonymity.mondrian.partition import partition
from anonymity.mondrian.work import work_on


class Mondrian(ShardOfWindows):
    """The live form of one shard; its parameters are ``MondrianParameters``."""

    def divided(self) -> Sequence[NDArray[np.int64]]:
        work = work_on(self.arrays(), by_loss=self.terms.parameters.cut == "loss")
        ends = np.zeros(len(self._held), np.int64)
        parts = partition(work, ends)
        return np.split(work.order[0], ends[: parts - 1])
