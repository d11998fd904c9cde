"""Bound on the windows to which one person contributes, and its stored entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.well_formed import require
from crenel.state.codec import arrays_of, pack, readable

CONTRIBUTIONS = "contributions"
"""Kind of the stored entries, each with persons and the windows to which they contributed."""

_VERSION = 1


class Contributions:
    """Windows to which each person of a shard has contributed.

    A person contributes to a window with one record, the first. A contribution counts whether or not the coin then
    leaves the record out, so that the bound depends on the person's own records alone.

    Parameters
    ----------
    most : maximum number of windows of a person among ``reach`` consecutive ones, at least 1
    reach : number of consecutive windows; None: all
    stored : entries by number
    where : name of the shard in errors

    Raises
    ------
    crenel.state.codec.StateError
        An entry is damaged or of an unknown version.
    """

    def __init__(self, most: int, reach: int | None, stored: Mapping[int, bytes], where: str = "") -> None:
        self._most, self._reach = most, reach
        self._before: int | None = None
        self._windows: dict[int, list[int]] = {}
        self._new: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._parts: dict[int, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}
        for number, blob in sorted(stored.items()):
            columns = arrays_of(CONTRIBUTIONS, ("subject", "window"), blob, _VERSION, where)
            subject, window = columns["subject"], columns["window"]
            with readable(f"{CONTRIBUTIONS} state of {where}"):
                require(len(subject) == len(window), CONTRIBUTIONS)
            self._parts[number] = (subject, window)
            for person, of in zip(subject.tolist(), window.tolist(), strict=True):
                self._windows.setdefault(person, []).append(of)

    def __len__(self) -> int:
        """Return the number of contributions that are remembered."""
        return sum(map(len, self._windows.values()))

    def admit(self, subject: NDArray[np.uint64], window: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (tuples,) whether each tuple is a contribution, and remember those that are.

        Parameters
        ----------
        subject : (tuples,) keyed hashes, in order of arrival
        window : (tuples,) numbers of their windows
        """
        found = np.zeros(len(subject), np.bool_)
        known = self._windows
        for i, (person, number) in enumerate(zip(subject.tolist(), window.tolist(), strict=True)):
            windows = known.get(person)
            if windows is None:
                known[person] = [number]
            elif number in windows or self._near(windows, number) >= self._most:
                continue
            else:
                windows.append(number)
            found[i] = True
        if found.any():
            self._new.append((subject[found], window[found]))
        return found

    def _near(self, windows: list[int], number: int) -> int:
        """Return how many windows share ``reach`` consecutive ones with a window, or are on the other side of it."""
        if self._reach is None:
            return len(windows)
        return sum(abs(window - number) < self._reach for window in windows)

    def expire(self, before: int) -> None:
        """Forget contributions to windows below ``before``, which no later record can be near to."""
        self._before = before

    def changes(self) -> dict[int, bytes | None]:
        """Return the entries to write since the last call, None for those to delete.

        Each entry is merged with those of similar size, so a contribution is written a logarithmic number of times.
        """
        found: dict[int, bytes | None] = {}
        for number, (persons, windows) in list(self._parts.items()):
            if self._before is not None and windows.max(initial=self._before - 1) < self._before:
                self._drop(persons.tolist(), windows.tolist())
                del self._parts[number]
                found[number] = None
        if not self._new:
            return found
        subject, window = (np.concatenate(columns) for columns in zip(*self._new, strict=True))
        self._new = []
        last = max(self._parts, default=-1)
        number = last + 1
        while self._parts and len(self._parts[last][0]) <= 2 * len(subject):
            earlier = self._parts.pop(last)
            subject, window = np.concatenate((earlier[0], subject)), np.concatenate((earlier[1], window))
            found[last] = None
            number, last = last, max(self._parts, default=-1)
        if self._before is not None and (gone := window < self._before).any():
            self._drop(subject[gone].tolist(), window[gone].tolist())
            subject, window = subject[~gone], window[~gone]
        self._parts[number] = (subject, window)
        found[number] = pack(CONTRIBUTIONS, _VERSION, {"subject": subject, "window": window})
        return found

    def _drop(self, persons: list[int], windows: list[int]) -> None:
        for person, window in zip(persons, windows, strict=True):
            held = self._windows[person]
            held.remove(window)
            if not held:
                del self._windows[person]
