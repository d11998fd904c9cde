"""Stored form of persons and their anonymity sets, after each step and at a restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.lasting.arrays import MOST_VALUES, Groups, LastingArrays, Persons
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
        self._stands = Counter(standing[standing != NONE].tolist())
        self._next = max(stored, default=STATUS_KEY) + 1
        self._passed = stored[STATUS_KEY].status.tolist() if STATUS_KEY in stored else [_NEVER, 0]

    def forget_subject(self, subjects: NDArray[np.uint64]) -> None:
        """Schedule the rewrite or deletion of all entries with data about these persons, however old, in this step.

        That includes earlier boxes of their groups, which may end at values of the persons.
        """
        traces, whose = self._traces, _short(subjects)
        groups = [found.person_group[np.isin(found.subject, whose)] for found in traces.values()]
        of_persons = np.concatenate([np.zeros(0, np.uint32), *groups])
        for number, found in traces.items():
            if np.isin(found.subject, whose).any() or np.isin(found.group, of_persons).any():
                self._erased.add(number)

    def changes(self, arrays: LastingArrays) -> dict[int, bytes | None]:
        """Return the entries to write after a step, ``None`` for those to delete."""
        persons, groups, found = arrays.persons, arrays.groups, dict[int, bytes | None]()
        for part in (persons, groups):
            self._stands.subtract(part.dropped[: part.now.dropped].tolist())
            part.now.dropped = 0
        people, companies = self._touched(arrays)
        for part, rows in ((persons, people), (groups, companies)):
            before = part.entry[rows]
            self._stands.subtract(before[before != NONE].tolist())
            part.entry[rows] = self._next
        if len(people) or len(companies):
            entry = entry_of(arrays, self._offsets, people, companies)
            found[self._next] = entry.to_bytes()
            self._stored[self._next] = self._stands[self._next] = len(people) + len(companies)
            self._traces[self._next] = _Traces.of(entry)
            self._next += 1
        for number in [number for number in self._stored if self._stands[number] == 0]:
            del self._stored[number], self._stands[number], self._traces[number]
            found[number] = None
        passed = [int(groups.now.passed), int(persons.now.below_k)]
        if passed != self._passed:
            self._passed = passed
            nobody = np.zeros(0, np.int32)
            found[STATUS_KEY] = entry_of(arrays, self._offsets, nobody, nobody).to_bytes()
        return found

    def _touched(self, arrays: LastingArrays) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return persons and groups to store: changed ones, and current ones of entries to rewrite."""
        persons, groups = arrays.persons, arrays.groups
        touched = []
        for part in (persons, groups):
            rows = part.touched[: part.now.touched].copy()
            part.changed[rows] = False
            part.now.touched = 0
            touched.append(rows)
        people, companies = touched
        companies = companies[groups.first[companies] != NONE]
        stays = persons.group[people] != NONE
        for i in np.flatnonzero(~stays).tolist():
            stays[i] = _is_loose(arrays, int(people[i]))
        forgotten = people[~stays]
        before = persons.entry[forgotten]
        self._stands.subtract(before[before != NONE].tolist())
        persons.entry[forgotten] = NONE
        people = people[stays]
        standing, stored, anew = sum(self._stands.values()), sum(self._stored.values()), list[int]()
        if stored > _SPARSE * standing + _FEW:
            anew.append(min(self._stored, key=lambda number: self._stands[number] / self._stored[number]))
        anew += self._erased
        self._erased.clear()
        if anew:
            people = np.union1d(people, _rows_of(persons, anew)).astype(np.int32)
            companies = np.union1d(companies, _rows_of(groups, anew)).astype(np.int32)
        return people, companies


def _rows_of(part: Persons | Groups, entries: list[int]) -> NDArray[np.int32]:
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
    arrays: LastingArrays, offsets: NDArray[np.int32], people: NDArray[np.int32], companies: NDArray[np.int32]
) -> AnonymitySets:
    """Return the stored form of some persons and groups, by their rows."""
    persons, groups = arrays.persons, arrays.groups
    group, held = persons.group[people], persons.held[people]
    remembered = np.arange(MOST_VALUES) < held[:, :, None]
    return AnonymitySets(
        status=np.array([groups.now.passed, persons.now.below_k], np.int64),
        group=groups.id[companies],
        size=groups.members[companies],
        forgotten=groups.forgotten[companies],
        lower=groups.box.lower[companies],
        upper=groups.box.upper[companies],
        node=groups.box.node[companies] - offsets,
        subject=persons.subject[people],
        person_group=np.where(group == NONE, NONE, groups.id[group]),
        is_member=persons.core[people],
        is_below_k=persons.below[people],
        numeric=persons.numeric[people],
        leaf=persons.leaf[people] - offsets,
        position=persons.position[people],
        event_time=persons.event_time[people],
        value_count=held,
        values=persons.values[people][remembered],
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
    with readable(f"companions state of {shard}"):
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
    found = {}
    for number, blob in entries.items():
        entry = AnonymitySets.from_bytes(blob, f"{where}, step {number}")
        with readable(f"companions state of {where}"):
            remembered = np.arange(MOST_VALUES) < entry.value_count[:, :, None]
            values = np.zeros(remembered.shape, np.uint64)
            values[remembered] = entry.values
            held = change.of_sensitive(entry.value_count, 0)
            kept = change.of_sensitive(values, 0)[np.arange(MOST_VALUES) < held[:, :, None]]
        found[number] = replace(entry, value_count=held, values=kept).to_bytes()
    return found


add_converter("companions", _converted)


def _size(entry: AnonymitySets) -> int:
    return len(entry.subject) + len(entry.group)
