"""Stored blocks of a shard, and the number of tuples of each that are still buffered."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_SPARSE = 4
"""A block is rewritten when its stored tuples outnumber its buffered ones by this factor."""


class StoredBlocks:
    """Index of the stored blocks of one shard.

    A block is stored on arrival under a sequence number, and removed when its last tuple has departed. A sparse block,
    most of whose tuples have departed, is rewritten with its buffered tuples only. Stored data is therefore bounded by
    buffered data, and each tuple is written at most one and a third times on average.

    Parameters
    ----------
    next_number : number of the next block
    """

    def __init__(self, next_number: int = 0) -> None:
        self.next_number = next_number
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._first: NDArray[np.int64] = np.zeros(0, np.int64)
        self._end: NDArray[np.int64] = np.zeros(0, np.int64)
        self._stored: NDArray[np.int64] = np.zeros(0, np.int64)
        self._waiting: NDArray[np.int64] = np.zeros(0, np.int64)
        self._slots: dict[int, NDArray[np.int32]] = {}

    def number(self) -> int:
        """Return a number for a new block, whether it will be stored or not."""
        self.next_number += 1
        return self.next_number - 1

    def add(self, number: int, slots: NDArray[np.int32], positions: NDArray[np.int64], waiting: int) -> None:
        """Add a stored block, newer than all others, with slots and positions of its tuples, ascending."""
        self._numbers = np.append(self._numbers, number)
        self._first = np.append(self._first, positions[0])
        self._end = np.append(self._end, positions[-1] + 1)
        self._stored = np.append(self._stored, len(slots))
        self._waiting = np.append(self._waiting, waiting)
        self._slots[number] = slots.copy()

    def depart(self, positions: NDArray[np.int64]) -> list[int]:
        """Count the departure of stored tuples, and return the numbers of the blocks to remove."""
        index = np.searchsorted(self._first, positions, side="right") - 1
        self._waiting -= np.bincount(index, minlength=len(self._waiting))
        kept = self._waiting > 0
        removed: list[int] = self._numbers[~kept].tolist()
        for number in removed:
            del self._slots[number]
        self._numbers, self._first, self._end = self._numbers[kept], self._first[kept], self._end[kept]
        self._stored, self._waiting = self._stored[kept], self._waiting[kept]
        return removed

    def sparse(self) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield number and slots of each sparse block, to be rewritten; a slot may hold a newer tuple by now."""
        for number in self._numbers[self._stored > _SPARSE * self._waiting].tolist():
            yield number, self._slots[number]

    def partly_departed(self) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield number and slots of each block that stores departed tuples."""
        for number in self._numbers[self._stored > self._waiting].tolist():
            yield number, self._slots[number]

    def containing(self, positions: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield number and slots of each block that stores the tuples at some positions."""
        for index in np.unique(np.searchsorted(self._first, positions, side="right") - 1).tolist():
            number = int(self._numbers[index])
            yield number, self._slots[number]

    def rewrite(self, number: int, slots: NDArray[np.int32], positions: NDArray[np.int64]) -> None:
        """Record that a block was rewritten with these buffered tuples only."""
        index = int(np.flatnonzero(self._numbers == number)[0])
        self._first[index], self._end[index] = positions[0], positions[-1] + 1
        self._stored[index] = self._waiting[index] = len(slots)
        self._slots[number] = slots.copy()

    def span(self, number: int) -> tuple[int, int]:
        """Return the position of a block's first stored tuple, and the one after its last."""
        index = int(np.flatnonzero(self._numbers == number)[0])
        return int(self._first[index]), int(self._end[index])

    def covers(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (positions,) whether each position lies inside a stored block."""
        index = np.searchsorted(self._first, positions, side="right") - 1
        known = index >= 0
        is_covered = np.zeros(len(positions), np.bool_)
        is_covered[known] = positions[known] < self._end[index[known]]
        return is_covered

    def renumber(self, slots: NDArray[np.int32]) -> None:
        """Update the slots after tuples moved: (slots,) the new slot by the old one, -1 where no tuple is buffered."""
        moved = {number: slots[old] for number, old in self._slots.items()}
        self._slots = {number: new[new >= 0] for number, new in moved.items()}
