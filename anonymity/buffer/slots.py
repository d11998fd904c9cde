"""Where the tuples of a shard live: a slot each, reused once the tuple has left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.buffer.members import Members
from crenel.anonymity.model.policy import Policy

_SPARE = 4
"""Slots are given back where so many times as many are held as are used,"""
_LONG = 8
"""in so many steps, one after the other: what large blocks take in turn is not given back between them."""


class Slots:
    """The slots of one shard, and the published values of the tuples in them.

    Parameters
    ----------
    policy : names the columns that are published as they are
    members : names and types of these, in the order of ``policy.members``
    fewest : slots to begin with, once there is a tuple

    Raises
    ------
    ValueError
        ``members`` are other columns.
    """

    def __init__(self, policy: Policy, members: pa.Schema, fewest: int) -> None:
        if tuple(members.names) != policy.members:
            raise ValueError(f"members: expected the columns {policy.members}, got {tuple(members.names)}")
        self._members = Members(members)
        self._fewest = fewest
        self._count = 0
        self._most = self._spare_steps = 0
        self._free: NDArray[np.int32] = np.zeros(0, np.int32)  # a stack, as long as there are slots
        self._left = 0

    def reserve(self, count: int) -> int | None:
        """Make room for so many more tuples; how many slots there are then, where more had to be made."""
        if self._left >= count:
            return None
        held, self._count = self._count, max(self._fewest, 2 * self._count, self._count + count)
        self._members.reserve(self._count)
        self._free = np.concatenate([np.arange(self._count - 1, held - 1, -1, dtype=np.int32), self._free])
        self._left += self._count - held
        return self._count

    def take(self, count: int, members: pa.RecordBatch) -> NDArray[np.int32]:
        """Free slots for so many tuples with these published values, in their order; ``reserve`` has made room.

        They ascend, so that tuples that come together lie together in memory. Where nothing is published as it is,
        ``members`` has no column and cannot tell how many there are.
        """
        left = self._left - count
        slots = np.sort(self._free[left : self._left])
        self._left = left
        self._most = max(self._most, self._count - left)
        self._members.put(slots, members)
        return slots

    def give_back(self, slots: NDArray[np.int32]) -> tuple[list[Any], ...]:
        """Free slots, and return the published values that were in them, a list for each column."""
        left = self._left
        self._left += len(slots)
        self._free[left : self._left] = slots
        return self._members.take(slots)

    def batch(self, slots: NDArray[np.int32]) -> pa.RecordBatch:
        """The published values in some slots, which stay there."""
        return self._members.batch(slots)

    def spare(self) -> bool:
        """Whether most slots are free for good: after a burst, say. To be asked at the end of each step."""
        most, self._most = self._most, self._count - self._left
        spare = self._count > _SPARE * max(most, self._fewest)
        self._spare_steps = self._spare_steps + 1 if spare else 0
        return self._spare_steps >= _LONG

    def shrink(self, used: NDArray[np.int32]) -> int:
        """Keep what is in the used slots, which become the first ones in this order; how many slots there are then."""
        self._count = max(self._fewest, 2 * len(used))
        self._spare_steps = 0
        self._members = self._members.moved(used, self._count)
        self._free = np.arange(self._count - 1, -1, -1, dtype=np.int32)
        self._left = self._count - len(used)
        return self._count
