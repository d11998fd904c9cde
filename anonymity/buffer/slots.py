"""Slots that hold the tuples of a shard, reused once their tuples have departed, and the tuples of given subjects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.buffer.members import Members
from crenel.anonymity.model.policy import Policy

_SPARE = 4
"""Capacity is spare where it exceeds usage by this factor."""
_LONG = 8
"""Spare slots are freed after this many consecutive steps, so that alternating large blocks do not free them."""


class Slots:
    """Slots of one shard, and the published values of the tuples in them.

    Parameters
    ----------
    policy : names the published columns
    members : names and types of these columns, in the order of ``policy.members``
    fewest : number of slots after the first tuple

    Raises
    ------
    ValueError
        ``members`` has other columns than the policy.
    """

    def __init__(self, policy: Policy, members: pa.Schema, fewest: int) -> None:
        if tuple(members.names) != policy.members:
            raise ValueError(f"members: expected the columns {policy.members}, got {tuple(members.names)}")
        self._members = Members(members)
        self._fewest = fewest
        self._count = 0
        self._most = self._spare_steps = 0
        self._free: NDArray[np.int32] = np.zeros(0, np.int32)  # a stack with room for all slots
        self._left = 0

    def reserve(self, count: int) -> int | None:
        """Make room for ``count`` more tuples; return the new number of slots, or None where the room sufficed."""
        if self._left >= count:
            return None
        held, self._count = self._count, max(self._fewest, 2 * self._count, self._count + count)
        self._members.reserve(self._count)
        self._free = np.concatenate([np.arange(self._count - 1, held - 1, -1, dtype=np.int32), self._free])
        self._left += self._count - held
        return self._count

    def take(self, count: int, members: pa.RecordBatch) -> NDArray[np.int32]:
        """Take free slots for ``count`` tuples and store their published values.

        The slots are in the tuples' order and ascend, so that tuples of one block lie close in memory. ``reserve`` must
        have made room. ``count`` is needed because ``members`` has no columns, and no length, where the policy
        publishes none.
        """
        left = self._left - count
        slots = np.sort(self._free[left : self._left])
        self._left = left
        self._most = max(self._most, self._count - left)
        self._members.put(slots, members)
        return slots

    def give_back(self, slots: NDArray[np.int32]) -> tuple[list[Any], ...]:
        """Free slots, and return the published values that were in them, one list per column."""
        left = self._left
        self._left += len(slots)
        self._free[left : self._left] = slots
        return self._members.take(slots)

    def batch(self, slots: NDArray[np.int32]) -> pa.RecordBatch:
        """Return the published values in some slots without removing them."""
        return self._members.batch(slots)

    def spare(self) -> bool:
        """Return whether capacity has exceeded usage for long, as after a burst; call it at the end of each step."""
        most, self._most = self._most, self._count - self._left
        spare = self._count > _SPARE * max(most, self._fewest)
        self._spare_steps = self._spare_steps + 1 if spare else 0
        return self._spare_steps >= _LONG

    def shrink(self, used: NDArray[np.int32]) -> int:
        """Move the used slots, in the given order, to the first ones, and free the rest; return the new number."""
        self._count = max(self._fewest, 2 * len(used))
        self._spare_steps = 0
        self._members = self._members.moved(used, self._count)
        self._free = np.arange(self._count - 1, -1, -1, dtype=np.int32)
        self._left = self._count - len(used)
        return self._count


def mask_of_subjects(
    policy: Policy, subject: NDArray[np.uint64] | None, subjects: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Return (tuples,) whether each tuple belongs to one of the persons to forget.

    Parameters
    ----------
    subject : (tuples,) keyed hashes of the tuples' persons
    subjects : (persons,) keyed hashes of the persons to forget

    Raises
    ------
    ValueError
        The policy names no subject.
    """
    if policy.subject is None or subject is None:
        raise ValueError("policy.subject: is missing; nobody can be forgotten who is not known by it")
    return np.isin(subject, subjects)
