"""Stored form of persons and their anonymity sets, after each step and at a restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.lasting.arrays import MOST_VALUES, GroupRows, LastingArrays, PersonRows
from crenel.anonymity.buffer.well_formed import require, require_boxes
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import NONE
from crenel.state.anonymity_sets import STATUS_KEY, AnonymitySets
from crenel.state.codec import readable
from crenel.state.columns import ColumnChange, add_converter

_SPARSE = 4
"""Rewrite the sparsest entry when the stored rows exceed ``_SPARSE`` times the current rows plus ``_FEW``."""

_NEVER = np.iinfo(np.int64).min

_FEW = 1024
"""Number of outdated stored rows that never causes a rewrite."""


class Record:
    """Stored entries, and the number of rows of each that are still current.

    Parameters
    ----------
    offsets : (categorical,) the first node of each hierarchy among the nodes of all
    stored : entries by number, as read
    arrays : arrays that were restored from the entries
    """

    def __init__(self, offsets: NDArray[np.int32], stored: Mapping[int, AnonymitySets], arrays: LastingArrays) -> None:
        self._offsets = offsets
        self._stored = {number: _size(entry) for number, entry in stored.items() if number != STATUS_KEY}
        self._traces = {number: _Traces.of(entry) for number, entry in stored.items() if number != STATUS_KEY}
        self._erased = set[int]()
        for part in (arrays.persons, arrays.groups):
            part.now.dropped = 0  # persons forgotten during the restore are not counted below
        standing = np.concatenate([arrays.persons.entry, arrays.groups.entry])
        self._current = Counter(standing[standing != NONE].tolist())
        self._next = max(stored, default=STATUS_KEY) + 1
        self._passed = stored[STATUS_KEY].status.tolist() if STATUS_KEY in stored else [_NEVER, 0]

    def forget_subject(self, subjects: NDArray[np.uint64]) -> None:
        """Schedule the rewrite or deletion of all entries with data about these persons, however old, in this step.

        That includes earlier boxes of their groups, which may end at values of the persons.
        """
        traces, short_subjects = self._traces, _short(subjects)
        groups = [trace.person_group[np.isin(trace.subject, short_subjects)] for trace in traces.values()]
        of_persons = np.concatenate([np.zeros(0, np.uint32), *groups])
        for number, trace in traces.items():
            if np.isin(trace.subject, short_subjects).any() or np.isin(trace.group, of_persons).any():
                self._erased.add(number)

    def changes(self, arrays: LastingArrays) -> dict[int, bytes | None]:
        """Return the entries to write after a step, ``None`` for those to delete."""
        persons, groups, entries = arrays.persons, arrays.groups, dict[int, bytes | None]()
        for part in (persons, groups):
            self._current.subtract(part.dropped[: part.now.dropped].tolist())
            part.now.dropped = 0
        person_rows, group_rows = self._touched(arrays)
        for part, rows in ((persons, person_rows), (groups, group_rows)):
            before = part.entry[rows]
            self._current.subtract(before[before != NONE].tolist())
            part.entry[rows] = self._next
        if len(person_rows) or len(group_rows):
            entry = entry_of(arrays, self._offsets, person_rows, group_rows)
            entries[self._next] = entry.to_bytes()
            self._stored[self._next] = self._current[self._next] = len(person_rows) + len(group_rows)
            self._traces[self._next] = _Traces.of(entry)
            self._next += 1
        for number in [number for number in self._stored if self._current[number] == 0]:
            del self._stored[number], self._current[number], self._traces[number]
            entries[number] = None
        passed = [int(groups.now.passed), int(persons.now.below_k)]
        if passed != self._passed:
            self._passed = passed
            nobody = np.zeros(0, np.int32)
            entries[STATUS_KEY] = entry_of(arrays, self._offsets, nobody, nobody).to_bytes()
        return entries

    def _touched(self, arrays: LastingArrays) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return persons and groups to store: changed ones, and current ones of entries to rewrite."""
        persons, groups = arrays.persons, arrays.groups
        touched = []
        for part in (persons, groups):
            rows = part.touched[: part.now.touched].copy()
            part.changed[rows] = False
            part.now.touched = 0
            touched.append(rows)
        person_rows, group_rows = touched
        group_rows = group_rows[groups.first[group_rows] != NONE]
        stays = persons.group[person_rows] != NONE
        for i in np.flatnonzero(~stays).tolist():
            stays[i] = _is_loose(arrays, int(person_rows[i]))
        forgotten = person_rows[~stays]
        before = persons.entry[forgotten]
        self._current.subtract(before[before != NONE].tolist())
        persons.entry[forgotten] = NONE
        person_rows = person_rows[stays]
        standing, stored, anew = sum(self._current.values()), sum(self._stored.values()), list[int]()
        if stored > _SPARSE * standing + _FEW:
            anew.append(min(self._stored, key=lambda number: self._current[number] / self._stored[number]))
        anew += self._erased
        self._erased.clear()
        if anew:
            person_rows = np.union1d(person_rows, _rows_of(persons, anew)).astype(np.int32)
            group_rows = np.union1d(group_rows, _rows_of(groups, anew)).astype(np.int32)
        return person_rows, group_rows


def _rows_of(part: PersonRows | GroupRows, entries: list[int]) -> NDArray[np.int32]:
    """Return the rows whose current entry is one of some entries."""
    return np.flatnonzero(np.isin(part.entry[: part.now.used], entries)).astype(np.int32)


class _Traces(NamedTuple):
    """Short forms of the persons, their groups, and the groups in a stored entry, current or not."""

    subject: NDArray[np.uint32]
    person_group: NDArray[np.uint32]
    group: NDArray[np.uint32]

    @classmethod
    def of(cls, entry: AnonymitySets) -> _Traces:
        return cls(_short(entry.subject), _short(entry.person_group), _short(entry.group))


def _short(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the last bits of each hash or id, enough to find the entries that may contain it."""
    return values.astype(np.uint32)


def entry_of(
    arrays: LastingArrays, offsets: NDArray[np.int32], person_rows: NDArray[np.int32], group_rows: NDArray[np.int32]
) -> AnonymitySets:
    """Return the stored form of some persons and groups, by their rows."""
    persons, groups = arrays.persons, arrays.groups
    group, held = persons.group[person_rows], persons.held[person_rows]
    remembered = np.arange(MOST_VALUES) < held[:, :, None]
    return AnonymitySets(
        status=np.array([groups.now.passed, persons.now.below_k], np.int64),
        group=groups.id[group_rows],
        size=groups.members[group_rows],
        forgotten=groups.forgotten[group_rows],
        lower=groups.box.lower[group_rows],
        upper=groups.box.upper[group_rows],
        node=groups.box.node[group_rows] - offsets,
        subject=persons.subject[person_rows],
        person_group=np.where(group == NONE, NONE, groups.id[group]),
        is_member=persons.core[person_rows],
        is_below_k=persons.below[person_rows],
        numeric=persons.numeric[person_rows],
        leaf=persons.leaf[person_rows] - offsets,
        position=persons.position[person_rows],
        event_time=persons.event_time[person_rows],
        value_count=held,
        values=persons.values[person_rows][remembered],
    )


def _is_loose(arrays: LastingArrays, person: int) -> bool:
    """Return whether the latest tuple of a person without group has left the buffer, so no restore could recover it."""
    persons, tuples = arrays.persons, arrays.tuples
    slot, waiting = int(persons.first[person]), []
    while slot != NONE:
        waiting.append(slot)
        slot = int(arrays.rows.next[slot])
    if not waiting:
        return False
    newest = int(tuples.event_time[waiting].max())
    return bool(tuples.position[waiting].max() < persons.position[person] or newest < persons.event_time[person])


def forget_changes(arrays: LastingArrays) -> None:
    """Discard the lists of changes, for a shard that stores nothing."""
    for part in (arrays.persons, arrays.groups):
        part.changed[part.touched[: part.now.touched]] = False
        part.now.touched = part.now.dropped = 0


def read(stored: Mapping[int, bytes], policy: Policy, shard: str) -> dict[int, AnonymitySets]:
    """Read stored entries; raises ``crenel.state.codec.StateError`` for damage and for another policy."""
    entries = {n: AnonymitySets.from_bytes(blob, f"{shard}, step {n}") for n, blob in sorted(stored.items())}
    leaves = np.array([attribute.hierarchy.leaves for attribute in policy.categorical], np.int64)
    with readable(f"anonymity_sets state of {shard}"):
        for entry in entries.values():
            people, sensitive = len(entry.subject), len(policy.sensitive)
            require(entry.status.shape == (2,), "status")
            require_boxes(entry.lower, entry.upper, entry.node, policy)
            for name in ("group", "size", "forgotten"):
                column = getattr(entry, name)
                require(column.shape == (len(entry.node),) and bool((column >= 0).all()), name)
            for name in ("person_group", "is_member", "is_below_k", "position", "event_time"):
                require(getattr(entry, name).shape == (people,), name)
            require(entry.numeric.shape == (people, len(policy.numeric)), "numeric")
            require(entry.leaf.shape == (people, len(policy.categorical)), "leaf")
            require(bool(np.isfinite(entry.numeric).all()), "numeric")
            require(bool(((entry.leaf >= 0) & (entry.leaf < leaves)).all()), "leaf")
            require(entry.value_count.shape == (people, sensitive), "value count")
            require(bool((entry.value_count >= 0).all()), "value count")
            require(len(entry.values) == int(np.minimum(entry.value_count, MOST_VALUES).sum()), "values")
    return entries


def _converted(entries: Mapping[int, bytes], change: ColumnChange, where: str) -> dict[int, bytes]:
    """Return the entries under other sensitive columns; of a new one, no person has a value."""
    changed = {}
    for number, blob in entries.items():
        entry = AnonymitySets.from_bytes(blob, f"{where}, step {number}")
        with readable(f"anonymity_sets state of {where}"):
            remembered = np.arange(MOST_VALUES) < entry.value_count[:, :, None]
            values = np.zeros(remembered.shape, np.uint64)
            values[remembered] = entry.values
            held = change.of_sensitive(entry.value_count, 0)
            kept = change.of_sensitive(values, 0)[np.arange(MOST_VALUES) < held[:, :, None]]
        changed[number] = replace(entry, value_count=held, values=kept).to_bytes()
    return changed


add_converter("anonymity_sets", _converted)


def _size(entry: AnonymitySets) -> int:
    return len(entry.subject) + len(entry.group)
