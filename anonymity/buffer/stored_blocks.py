"""Which blocks of a shard are stored, and how many of each block's tuples still wait."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_SPARSE = 4
"""A stored block is rewritten when so many times as many tuples are stored in it as wait."""


class StoredBlocks:
    """A block is stored when it comes, under a number that counts the blocks, and removed when its last tuple has left.

    One of which little is left is sparse, and stored anew with what waits: so what is stored is bounded by what waits,
    and each tuple is written no more than one and a third times.

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
        """A number for a block that has come, stored or not."""
        self.next_number += 1
        return self.next_number - 1

    def add(self, number: int, slots: NDArray[np.int32], positions: NDArray[np.int64], waiting: int) -> None:
        """Note a stored block, younger than all others: slots and positions of its tuples, ascending."""
        self._numbers = np.append(self._numbers, number)
        self._first = np.append(self._first, positions[0])
        self._end = np.append(self._end, positions[-1] + 1)
        self._stored = np.append(self._stored, len(slots))
        self._waiting = np.append(self._waiting, waiting)
        self._slots[number] = slots.copy()

    def leave(self, positions: NDArray[np.int64]) -> list[int]:
        """Count stored tuples that left; the numbers of the blocks that are to be removed."""
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
        """Number and slots of each block that is to be stored anew; a slot may hold another tuple by now."""
        for number in self._numbers[self._stored > _SPARSE * self._waiting].tolist():
            yield number, self._slots[number]

    def partly_left(self) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """The same of each block in which anybody is stored who has left."""
        for number in self._numbers[self._stored > self._waiting].tolist():
            yield number, self._slots[number]

    def holding(self, positions: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """The same of each block in which tuples at some positions are stored."""
        for index in np.unique(np.searchsorted(self._first, positions, side="right") - 1).tolist():
            number = int(self._numbers[index])
            yield number, self._slots[number]

    def rewrite(self, number: int, slots: NDArray[np.int32], positions: NDArray[np.int64]) -> None:
        """Note what of a block is stored now: all of it waits."""
        index = int(np.flatnonzero(self._numbers == number)[0])
        self._first[index], self._end[index] = positions[0], positions[-1] + 1
        self._stored[index] = self._waiting[index] = len(slots)
        self._slots[number] = slots.copy()

    def span(self, number: int) -> tuple[int, int]:
        """The positions from the first stored tuple of a block to behind the last."""
        index = int(np.flatnonzero(self._numbers == number)[0])
        return int(self._first[index]), int(self._end[index])

    def within(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which positions lie within a stored block."""
        index = np.searchsorted(self._first, positions, side="right") - 1
        known = index >= 0
        found = np.zeros(len(positions), np.bool_)
        found[known] = positions[known] < self._end[index[known]]
        return found

    def renumber(self, slots: NDArray[np.int32]) -> None:
        """Tuples were moved: (slots,) the new slot by the old one, -1 where no tuple waits."""
        moved = {number: slots[held] for number, held in self._slots.items()}
        self._slots = {number: held[held >= 0] for number, held in moved.items()}
