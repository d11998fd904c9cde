"""Mondrian on one shard."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows
from crenel.anonymity.algorithms.mondrian.partition import partition
from crenel.anonymity.algorithms.mondrian.scratch_buffers import work_on


class Mondrian(ShardOfWindows):
    """In-memory state of one shard; its parameters are ``MondrianParameters``."""

    def divided(self) -> Choice:
        work = work_on(self.arrays(), by_loss=self.context.parameters.cut == "loss")
        ends = np.zeros(len(self._buffer), np.int64)
        parts = partition(work, ends)
        return Choice(groups=np.split(work.order[0], ends[: parts - 1]))
