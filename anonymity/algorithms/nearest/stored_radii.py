"""Stored form of the radii of buffered tuples, after each step and at a restore (``crenel.state.radii``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.arrays import NearestArrays
from crenel.anonymity.buffer.well_formed import require
from crenel.anonymity.space.domain import NONE
from crenel.state.codec import readable
from crenel.state.radii import Radii

RADII = "radii"
"""Kind of the stored entries that hold radii."""

_SPARSE = 4
"""Rewrite the sparsest entry when the stored rows exceed ``_SPARSE`` times the current rows plus ``_FEW``."""

_FEW = 1024
"""Number of outdated stored rows that never causes a rewrite."""


def read(stored: Mapping[int, bytes], shard: str) -> dict[int, Radii]:
    """Return stored entries in order; raise ``crenel.state.codec.StateError`` where one is damaged."""
    entries = {number: Radii.from_bytes(blob, f"{shard}, step {number}") for number, blob in sorted(stored.items())}
    with readable(f"radii state of {shard}"):
        for entry in entries.values():
            require(entry.position.shape == entry.radius.shape == (len(entry.position),), "radii")
            require(entry.position.dtype == np.int64 and entry.radius.dtype == np.float64, "radii")
            require(bool(((entry.radius >= 0) & (entry.radius <= 1)).all()), "radii")
    return entries


def restore(arrays: NearestArrays, entries: Mapping[int, Radii]) -> bool:
    """Give restored tuples their stored radii, and return whether each tuple of the line has one."""
    isolation, indices, slots = arrays.isolation, *_line(arrays)
    positions = arrays.tuples.position[slots]
    for number, entry in entries.items():
        index = np.searchsorted(positions, entry.position)
        index[index == len(positions)] = 0
        buffered = positions[index] == entry.position if len(positions) else np.zeros(len(index), np.bool_)
        isolation.radius[indices[index[buffered]]] = entry.radius[buffered]
        isolation.entry[slots[index[buffered]]] = number
    return bool((isolation.entry[slots] != NONE).all())


def move(before: NearestArrays, after: NearestArrays) -> None:
    """Copy radii after tuples moved to other slots, in the same order."""
    (old, slots), (new, moved) = _line(before), _line(after)
    after.isolation.radius[new] = before.isolation.radius[old]
    after.isolation.entry[moved] = before.isolation.entry[slots]


def _line(arrays: NearestArrays) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return places and slots of the tuples in the line, in order of position."""
    isolation = arrays.isolation
    indices = np.arange(isolation.now.begin, isolation.now.end)
    indices = indices[isolation.line.slot[indices] != NONE]
    return indices, isolation.line.slot[indices]


class StoredRadii:
    """Stored entries, and the number of rows of each that are still current.

    Parameters
    ----------
    stored : entries by number, as read
    arrays : arrays that were restored from the entries
    """

    def __init__(self, stored: Mapping[int, Radii], arrays: NearestArrays) -> None:
        standing = arrays.isolation.entry
        self._stored = {number: len(entry.position) for number, entry in stored.items()}
        self._current = Counter(standing[standing != NONE].tolist())
        self._next = max(stored, default=-1) + 1
        self._unchecked = set(stored)

    def changes(self, arrays: NearestArrays) -> dict[int, bytes | None]:
        """Return the entries to write after a step, ``None`` for those to delete."""
        isolation, place, entries = arrays.isolation, arrays.cells.place, dict[int, bytes | None]()
        self._withdraw(isolation.dropped[: isolation.now.dropped])
        slots = isolation.touched[: isolation.now.touched].copy()
        isolation.changed[slots] = False
        isolation.now.dropped = isolation.now.touched = 0
        slots = slots[place[slots] != NONE]
        if sum(self._stored.values()) > _SPARSE * int(isolation.now.alive) + _FEW:
            sparsest = min(self._stored, key=lambda number: self._current[number] / self._stored[number])
            slots = np.union1d(slots, np.flatnonzero(isolation.entry == sparsest)).astype(np.int32)
        if len(slots):
            self._withdraw(isolation.entry[slots])
            slots = slots[np.argsort(arrays.tuples.position[slots])]
            entries[self._next] = Radii(arrays.tuples.position[slots], isolation.radius[place[slots]]).to_bytes()
            isolation.entry[slots] = self._next
            self._stored[self._next] = self._current[self._next] = len(slots)
            self._next += 1
        for number in self._unchecked:
            if self._current[number] == 0:
                del self._stored[number], self._current[number]
                entries[number] = None
        self._unchecked.clear()
        return entries

    def _withdraw(self, entries: NDArray[np.int64]) -> None:
        """Count rows of entries that are current no more."""
        entries = entries[entries != NONE]
        self._current.subtract(entries.tolist())
        self._unchecked.update(entries.tolist())
