"""Persons and groups as they were stored, put back into the arrays of a shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anonymity.nearest.lasting.arrays import MOST_VALUES, LastingArrays
from anonymity.space.domain import NONE
from state.companions import PASSED, Companions

Stored: TypeAlias = list[tuple[int, Companions]]
"""Entries by number, ascending."""


def restore(arrays: LastingArrays, entries: Mapping[int, Companions], offsets: NDArray[np.int32]) -> None:
    """Let persons and groups be as they were stored.

    The shard has room for them, and no tuple waits yet.
    """
    if PASSED in entries:
        arrays.groups.now.passed, arrays.persons.now.below_k = entries[PASSED].passed
    if stored := [(number, entry) for number, entry in sorted(entries.items()) if number != PASSED]:
        people = _people(stored)
        arrays.persons.now.used = len(people.of)
        row = _restore_groups(arrays, stored, np.unique(people.of[people.of != NONE]), offsets)
        _restore_people(arrays, people, row, offsets)


class _People(NamedTuple):
    """Persons as they were stored last.

    Attributes
    ----------
    entry : (persons,) number of the entry that holds each
    values : (persons, sensitive, MOST_VALUES)
    others : as in ``Companions``
    """

    entry: NDArray[np.int64]
    subject: NDArray[np.uint64]
    of: NDArray[np.int64]
    core: NDArray[np.bool_]
    below: NDArray[np.bool_]
    numeric: NDArray[np.float64]
    leaf: NDArray[np.int32]
    position: NDArray[np.int64]
    event_time: NDArray[np.int64]
    held: NDArray[np.int8]
    values: NDArray[np.uint64]


def _people(stored: Stored) -> _People:
    """Of each person what was stored last, without those of groups that were forgotten."""
    numbers = np.concatenate([np.full(len(entry.subject), number) for number, entry in stored])
    held = np.concatenate([entry.held for _, entry in stored])
    values = np.zeros((*held.shape, MOST_VALUES), np.uint64)
    values[np.arange(MOST_VALUES) < held[:, :, None]] = np.concatenate([entry.values for _, entry in stored])
    of = np.concatenate([entry.of for _, entry in stored])
    known = np.concatenate([entry.group for _, entry in stored])
    kept = _last(np.concatenate([entry.subject for _, entry in stored]))
    kept = kept[(of[kept] == NONE) | np.isin(of[kept], known)]
    columns = {
        name: np.concatenate([getattr(entry, name) for _, entry in stored])[kept]
        for name in ("subject", "core", "below", "numeric", "leaf", "position", "event_time")
    }
    return _People(entry=numbers[kept], of=of[kept], held=held[kept], values=values[kept], **columns)


def _last(values: NDArray[Any]) -> NDArray[np.intp]:
    """Where each value is last."""
    _, back = np.unique(values[::-1], return_index=True)
    return np.sort(len(values) - 1 - back)


def _restore_groups(
    arrays: LastingArrays, stored: Stored, wanted: NDArray[np.int64], offsets: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Let the ``wanted`` groups, ascending, be as they were stored last, in the first rows; these."""
    ids = np.concatenate([entry.group for _, entry in stored])
    kept = _last(ids)
    kept = kept[np.isin(ids[kept], wanted)]
    kept = kept[np.argsort(ids[kept])]
    groups, rows = arrays.groups, slice(len(kept))

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(entry, name) for _, entry in stored])[kept]

    groups.id[rows] = wanted
    groups.box.lower[rows], groups.box.upper[rows] = column("lower"), column("upper")
    groups.box.node[rows] = column("node") + offsets
    groups.companions[rows], groups.struck[rows] = column("companions"), column("struck")
    groups.entry[rows] = np.concatenate([np.full(len(entry.group), number) for number, entry in stored])[kept]
    groups.now.used = groups.now.known = len(kept)
    return wanted


def _restore_people(
    arrays: LastingArrays, people: _People, wanted: NDArray[np.int64], offsets: NDArray[np.int32]
) -> None:
    persons, groups, rows = arrays.persons, arrays.groups, slice(len(people.of))
    persons.leaf[rows] = people.leaf + offsets
    for name in ("entry", "subject", "below", "numeric", "position", "event_time", "held", "values"):
        getattr(persons, name)[rows] = getattr(people, name)
    members = np.flatnonzero(people.of != NONE)
    if not len(members):
        return
    group = np.searchsorted(wanted, people.of[members])
    persons.group[members], persons.core[members] = group, people.core[members]
    order = np.argsort(group, kind="stable")
    members, group = members[order], group[order]
    begins = np.flatnonzero(np.diff(group, prepend=NONE))
    groups.first[group[begins]] = members[begins]
    persons.next[members[:-1]] = members[1:]
    persons.next[members[begins[1:] - 1]] = NONE
    groups.now.earliest = people.event_time[members].min()
