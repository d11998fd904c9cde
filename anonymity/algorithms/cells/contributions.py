"""Bound on the windows to which one person contributes, and its stored entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.well_formed import require
from crenel.anonymity.compiled.jit import Int, entry
from crenel.anonymity.privacy_models.counting import Counts, empty_counts, grown, number
from crenel.state.codec import arrays_of, pack, readable

CONTRIBUTIONS = "contributions"
"""Kind of the stored entries, each with persons and the windows to which they contributed."""

_VERSION = 1

_ALL = 2**62
"""More windows, and a larger distance of windows, than any person has."""

_FEW = 1000
"""Number of expired contributions that are not worth a new table."""


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
        self._checked: int | None = None
        self._table = _empty_table()
        self._new: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._parts: dict[int, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}
        for key, blob in sorted(stored.items()):
            columns = arrays_of(CONTRIBUTIONS, ("subject", "window"), blob, _VERSION, where)
            subject, window = columns["subject"], columns["window"]
            with readable(f"{CONTRIBUTIONS} state of {where}"):
                require(len(subject) == len(window), CONTRIBUTIONS)
            self._parts[key] = (subject, window)
        self._remember_parts()

    def __len__(self) -> int:
        """Return the number of contributions that are remembered."""
        return sum(len(subject) for subject, _ in (*self._parts.values(), *self._new))

    def admit(self, subject: NDArray[np.uint64], window: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (tuples,) whether each tuple is a contribution, and remember those that are.

        Parameters
        ----------
        subject : (tuples,) keyed hashes, in order of arrival
        window : (tuples,) numbers of their windows
        """
        is_contribution = self._admitted(subject, window, self._most, self._reach or _ALL)
        if is_contribution.any():
            self._new.append((subject[is_contribution], window[is_contribution]))
        return is_contribution

    def _admitted(
        self, subject: NDArray[np.uint64], window: NDArray[np.int64], most: int, reach: int
    ) -> NDArray[np.bool_]:
        is_contribution = np.zeros(len(subject), np.bool_)
        self._table = _with_room(self._table, len(subject))
        admit_all(self._table, subject, window, np.int64(most), np.int64(reach), is_contribution)
        return is_contribution

    def _remember_parts(self) -> None:
        self._table = _empty_table()
        for subject, window in self._parts.values():
            self._admitted(subject, window, _ALL, _ALL)

    def expire(self, before: int) -> None:
        """Forget contributions to windows below ``before``, which no later record can be near to."""
        self._before = before

    def changes(self) -> dict[int, bytes | None]:
        """Return the entries to write since the last call, None for those to delete.

        Each entry is merged with those of similar size, so a contribution is written a logarithmic number of times. An
        entry is written once more without its expired contributions when one of them expired ``reach`` windows ago.
        """
        entries: dict[int, bytes | None] = {}
        if self._before is not None and self._before != self._checked:
            self._checked = self._before
            for key, (subject, window) in list(self._parts.items()):
                kept = window >= self._before
                if not kept.any():
                    del self._parts[key]
                    entries[key] = None
                elif window.min() < self._before - (self._reach or _ALL):
                    entries[key] = self._write(key, subject[kept], window[kept])
        if self._new:
            entries |= self._merged()
        # The table keeps contributions that expired, to which no later record is near, until they outnumber the others.
        if int(self._table.used[0]) > 2 * len(self) + _FEW:
            self._remember_parts()
        return entries

    def _merged(self) -> dict[int, bytes | None]:
        """Move the new contributions to an entry, together with earlier entries that are not much larger."""
        entries: dict[int, bytes | None] = {}
        subject, window = (np.concatenate(columns) for columns in zip(*self._new, strict=True))
        self._new = []
        last = max(self._parts, default=-1)
        key = last + 1
        while self._parts and len(self._parts[last][0]) <= 2 * len(subject):
            earlier = self._parts.pop(last)
            subject, window = np.concatenate((earlier[0], subject)), np.concatenate((earlier[1], window))
            entries[last] = None
            key, last = last, max(self._parts, default=-1)
        if self._before is not None and (gone := window < self._before).any():
            subject, window = subject[~gone], window[~gone]
        entries[key] = self._write(key, subject, window)
        return entries

    def _write(self, key: int, subject: NDArray[np.uint64], window: NDArray[np.int64]) -> bytes:
        """Set an entry, and return its stored form."""
        self._parts[key] = (subject, window)
        return pack(CONTRIBUTIONS, _VERSION, {"subject": subject, "window": window})


class _Table(NamedTuple):
    """Contributions in order, as a chain for each person.

    Attributes
    ----------
    persons : number of each person
    newest : (persons,) the person's newest contribution
    window : (contributions,) its window
    earlier : (contributions,) the previous one of the same person; -1: none
    used : (1,) number of contributions
    """

    persons: Counts
    newest: NDArray[np.int64]
    window: NDArray[np.int64]
    earlier: NDArray[np.int64]
    used: NDArray[np.int64]


def _empty_table() -> _Table:
    nothing = np.zeros(0, np.int64)
    return _Table(empty_counts(0), nothing, nothing, nothing, np.zeros(1, np.int64))


def _with_room(table: _Table, more: int) -> _Table:
    """Return the table with room for further contributions."""
    room = int(table.used[0]) + more
    if len(table.window) >= room:
        return table._replace(persons=grown(table.persons, more))
    newest, window, earlier = (
        np.concatenate((column, np.zeros(2 * room - len(column), np.int64))) for column in table[1:4]
    )
    return _Table(grown(table.persons, more), newest, window, earlier, table.used)


@entry
def admit_all(
    table: _Table,
    subject: NDArray[np.uint64],
    window: NDArray[np.int64],
    most: Int,
    reach: Int,
    is_contribution: NDArray[np.bool_],
) -> None:
    """Set ``is_contribution`` where a tuple is one, and add it to the table, which has room for all.

    A tuple is none if its person has one in the same window, or ``most`` in windows at a distance of less than
    ``reach``.
    """
    for i in range(len(subject)):
        fresh = table.persons.used[0]
        person = number(table.persons, np.int64(0), subject[i], fresh)
        at: Int = np.int64(-1) if person == fresh else table.newest[person]
        last, near, again = at, np.int64(0), False
        while at >= 0:
            distance = abs(table.window[at] - window[i])
            again |= distance == 0
            near += distance < reach
            at = table.earlier[at]
        if again or near >= most:
            continue
        used = table.used[0]
        table.window[used], table.earlier[used], table.newest[person] = window[i], last, used
        table.used[0] += 1
        is_contribution[i] = True
