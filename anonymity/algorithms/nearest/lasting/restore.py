"""Restoration of stored persons and groups into the arrays of a shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.lasting.arrays import MOST_VALUES, LastingArrays
from crenel.anonymity.space.domain import NONE
from crenel.state.anonymity_sets import STATUS_KEY, AnonymitySets


def restore(arrays: LastingArrays, entries: Mapping[int, AnonymitySets], offsets: NDArray[np.int32]) -> None:
    """Restore persons and groups from their latest stored entries.

    The arrays have room for them, and no tuple is buffered yet.
    """
    if STATUS_KEY in entries:
        arrays.groups.now.passed, arrays.persons.now.below_k = entries[STATUS_KEY].status
    numbers = [number for number in sorted(entries) if number != STATUS_KEY]
    if not numbers:
        return
    stored = AnonymitySets.joined([entries[number] for number in numbers])
    people, groups = _last(stored.subject), _last(stored.group)
    people = people[
        (stored.person_group[people] == NONE) | np.isin(stored.person_group[people], stored.group)
    ]  # groups may be forgotten
    groups = groups[np.isin(stored.group[groups], stored.person_group[people])]
    groups = groups[np.argsort(stored.group[groups])]
    _restore_groups(arrays, stored, groups, offsets)
    _restore_people(arrays, stored, people, offsets)
    for part, kept, name in ((arrays.persons, people, "subject"), (arrays.groups, groups, "group")):
        part.entry[: len(kept)] = np.repeat(numbers, [len(getattr(entries[number], name)) for number in numbers])[kept]


def _last(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return the last index of each distinct value."""
    _, back = np.unique(values[::-1], return_index=True)
    return np.sort(len(values) - 1 - back)


def _restore_groups(
    arrays: LastingArrays, stored: AnonymitySets, kept: NDArray[np.intp], offsets: NDArray[np.int32]
) -> None:
    """Restore the stored groups at ``kept``, with ascending ids, into the first rows."""
    groups, rows = arrays.groups, slice(len(kept))
    groups.id[rows] = stored.group[kept]
    groups.box.lower[rows], groups.box.upper[rows] = stored.lower[kept], stored.upper[kept]
    groups.box.node[rows] = stored.node[kept] + offsets
    groups.members[rows], groups.forgotten[rows] = stored.size[kept], stored.forgotten[kept]
    groups.now.used = groups.now.known = len(kept)


def _restore_people(
    arrays: LastingArrays, stored: AnonymitySets, kept: NDArray[np.intp], offsets: NDArray[np.int32]
) -> None:
    """Restore the stored persons at ``kept`` into the first rows, and link them to their groups."""
    persons, groups, rows = arrays.persons, arrays.groups, slice(len(kept))
    for name in ("subject", "numeric", "position", "event_time"):
        getattr(persons, name)[rows] = getattr(stored, name)[kept]
    persons.below[rows], persons.held[rows] = stored.is_below_k[kept], stored.value_count[kept]
    persons.leaf[rows] = stored.leaf[kept] + offsets
    values = np.zeros((*stored.value_count.shape, MOST_VALUES), np.uint64)
    values[np.arange(MOST_VALUES) < stored.value_count[:, :, None]] = stored.values
    persons.values[rows] = values[kept]
    persons.now.used = len(kept)
    members = np.flatnonzero(stored.person_group[kept] != NONE)
    if not len(members):
        return
    group = np.searchsorted(groups.id[: groups.now.used], stored.person_group[kept][members])
    persons.group[members], persons.core[members] = group, stored.is_member[kept][members]
    order = np.argsort(group, kind="stable")
    members, group = members[order], group[order]
    begins = np.flatnonzero(np.diff(group, prepend=NONE))
    groups.first[group[begins]] = members[begins]
    persons.next[members[:-1]] = members[1:]
    persons.next[members[begins[1:] - 1]] = NONE
    groups.now.earliest = persons.event_time[members].min()
