"""Which blocks of a shard are stored, and how many of each block's tuples still wait."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class StoredBlocks:
    """A block is stored when it comes, under a number that counts the blocks, and removed when its last tuple has left.

    Attributes
    ----------
    next_number : number of the next block
    firsts : (stored blocks,) position at which each begins, ascending
    """

    def __init__(self) -> None:
        self.next_number = 0
        self.firsts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._waiting: NDArray[np.int64] = np.zeros(0, np.int64)

    def settle(self, left: NDArray[np.int64]) -> dict[int, bytes | None]:
        """Count tuples that left, by position, and none of which came since the last ``add``; the entries to remove."""
        index = np.searchsorted(self.firsts, left, side="right") - 1
        self._waiting -= np.bincount(index, minlength=len(self._waiting))
        kept = self._waiting > 0
        removed: dict[int, bytes | None] = dict.fromkeys(self._numbers[~kept].tolist())
        self._numbers, self.firsts, self._waiting = self._numbers[kept], self.firsts[kept], self._waiting[kept]
        return removed

    def number(self) -> int:
        """A number for a block that has come, stored or not."""
        self.next_number += 1
        return self.next_number - 1

    def add(self, number: int, first: int, waiting: int) -> None:
        """Note a stored block: the position at which it begins, and how many of its tuples wait."""
        self._numbers = np.append(self._numbers, number)
        self.firsts = np.append(self.firsts, first)
        self._waiting = np.append(self._waiting, waiting)
