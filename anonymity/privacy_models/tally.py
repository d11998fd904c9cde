"""How many persons of a set have each sensitive value: what every promise but k looks at.

One person counts once for a value, however many tuples they have with it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full, zeros
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.privacy_models.grouping import chain_equal

_FEW = 32
"""Tuples up to which comparing each with each is cheaper than sorting."""


Slots: TypeAlias = NDArray[np.int64] | NDArray[np.int32]


class Tally(NamedTuple):
    """The persons of one set.

    Attributes
    ----------
    persons : (1,) distinct subjects
    values : (attributes,) values that somebody has
    held : (attributes,) persons, summed over the values; ``persons`` where nobody has several
    counts : (attributes, places) persons that have each value; 0 at places of no value
    used : (attributes,) places that were given out
    named : (attributes, places) the number of the value at each place
    """

    persons: NDArray[np.int64]
    values: NDArray[np.int64]
    held: NDArray[np.int64]
    counts: NDArray[np.int64]
    used: NDArray[np.int64]
    named: NDArray[np.int32]


class Counter(NamedTuple):
    """Room for counting one set at a time.

    Attributes
    ----------
    tally : of the set that was counted last
    place : (attributes, values) where in ``tally.counts`` a value stands, by its number; -1 between uses
    same : (tuples,) of each tuple of the set, by its place in it, the one before it of the same subject; -1: none
    """

    tally: Tally
    place: NDArray[np.int32]
    same: NDArray[np.int64]


def empty_tally(attributes: int, places: int) -> Tally:
    """Of no persons, with room for so many values of each attribute."""
    return Tally(
        persons=np.zeros(1, np.int64),
        values=np.zeros(attributes, np.int64),
        held=np.zeros(attributes, np.int64),
        counts=zeros((attributes, places), np.int64),
        used=np.zeros(attributes, np.int64),
        named=zeros((attributes, places), np.int32),
    )


def empty_counter(attributes: int, tuples: int) -> Counter:
    """Room for a set of ``tuples`` tuples whose values are numbered below that."""
    return Counter(empty_tally(attributes, tuples), full((attributes, tuples), -1, np.int32), zeros(tuples, np.int64))


@procedure
def count_set(
    counter: Counter,
    members: Slots,
    subject: NDArray[np.uint64],
    value: NDArray[np.int32],
    known_by_name: bool,
) -> None:
    """Count a set into ``counter.tally``.

    Parameters
    ----------
    members : (tuples,) slots of the set
    subject : (slots,) keyed hashes
    value : (slots, attributes) numbers of the sensitive values
    known_by_name : whether there are subjects; else each tuple is its own person
    """
    tally, place, same = counter.tally, counter.place, counter.same
    persons: Int = len(members)
    if known_by_name:
        persons = _chain_subjects(same, members, subject)
    tally.persons[0] = persons
    repeated = persons < len(members)
    for a in range(value.shape[1]):
        used, held = np.int64(0), np.int64(0)
        for i in range(len(members)):
            number = value[members[i], a]
            if repeated and _seen(same, members, value, i, a):
                continue
            index = place[a, number]
            if index < 0:
                index = np.int32(used)
                place[a, number] = index
                tally.counts[a, index] = 0
                tally.named[a, index] = number
                used += 1
            tally.counts[a, index] += 1
            held += 1
        for i in range(len(members)):
            place[a, value[members[i], a]] = -1
        tally.values[a] = tally.used[a] = used
        tally.held[a] = held


@leaf
def _seen(same: NDArray[np.int64], members: Slots, value: NDArray[np.int32], i: Int, a: Int) -> bool:
    # Whether the subject of the i-th tuple has its value in an earlier one.
    earlier = same[i]
    while earlier >= 0:
        if value[members[earlier], a] == value[members[i], a]:
            return True
        earlier = same[earlier]
    return False


@procedure
def _chain_subjects(same: NDArray[np.int64], members: Slots, subject: NDArray[np.uint64]) -> Int:
    """Fill ``Counter.same``; how many subjects there are."""
    found: Int = np.int64(0)
    if len(members) <= _FEW:
        for i in range(len(members)):
            j = i - 1
            while j >= 0 and subject[members[j]] != subject[members[i]]:
                j -= 1
            same[i] = j
            found += j < 0
        return found
    keys = np.empty(len(members), np.uint64)
    for i in range(len(members)):
        keys[i] = subject[members[i]]
    return chain_equal(keys, same[: len(members)])
