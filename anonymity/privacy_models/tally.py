"""Number of persons in a set with each sensitive value, and l-diversity by it.

A person counts once for a value, however many of the person's tuples have it. A tuple has several values of a
sensitive array, and its person counts once for each, as a person with several tuples does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full, zeros
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.privacy_models.grouping import chain_equal

_FEW = 32
"""Maximum number of tuples for which pairwise comparison is cheaper than hashing."""


Slots: TypeAlias = NDArray[np.int64] | NDArray[np.int32]


class Tally(NamedTuple):
    """Counts of the persons of one set.

    Attributes
    ----------
    persons : (1,) distinct subjects
    values : (attributes,) distinct values in the set
    held : (attributes,) persons summed over the values; equals ``persons`` where nobody has several values
    counts : (attributes, places) persons with each value; 0 at places without a value
    used : (attributes,) number of assigned places
    named : (attributes, places) the number of the value at each place
    first : (attributes + 1,) first column of each attribute among the values of a tuple, and the number of columns
    """

    persons: NDArray[np.int64]
    values: NDArray[np.int64]
    held: NDArray[np.int64]
    counts: NDArray[np.int64]
    used: NDArray[np.int64]
    named: NDArray[np.int32]
    first: NDArray[np.int64]


class Counter(NamedTuple):
    """Working arrays for counting one set at a time.

    Attributes
    ----------
    tally : of the last counted set
    place : (attributes, values) index in ``tally.counts`` of each value number; -1 between uses
    same : (tuples,) index of the previous tuple of the same subject in the set; -1 where there is none
    """

    tally: Tally
    place: NDArray[np.int32]
    same: NDArray[np.int64]


def first_columns(attributes: int | Sequence[int]) -> NDArray[np.int64]:
    """Return ``Tally.first``.

    Parameters
    ----------
    attributes : number of attributes, or the maximum number of values that a tuple has of each
    """
    widths = np.ones(attributes, np.int64) if isinstance(attributes, int) else np.array(attributes, np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])


def most_values(attributes: int | Sequence[int], tuples: int) -> int:
    """Return the maximum number of distinct values of an attribute among some tuples."""
    return tuples if isinstance(attributes, int) else tuples * max(attributes, default=1)


def empty_tally(attributes: int | Sequence[int], tuples: int) -> Tally:
    """Return a tally of no persons, with room for the values of ``tuples`` tuples.

    ``attributes`` is that of ``first_columns``.
    """
    first, capacity = first_columns(attributes), most_values(attributes, tuples)
    attributes = len(first) - 1
    return Tally(
        persons=np.zeros(1, np.int64),
        values=np.zeros(attributes, np.int64),
        held=np.zeros(attributes, np.int64),
        counts=zeros((attributes, capacity), np.int64),
        used=np.zeros(attributes, np.int64),
        named=zeros((attributes, capacity), np.int32),
        first=first,
    )


def empty_counter(attributes: int | Sequence[int], tuples: int) -> Counter:
    """Return working arrays for sets of up to ``tuples`` tuples; value numbers are below their ``most_values``."""
    tally = empty_tally(attributes, tuples)
    return Counter(tally, full(tally.counts.shape, -1, np.int32), zeros(tuples, np.int64))


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
    value : (slots, columns) numbers of the sensitive values, in the columns of ``Tally.first``; the distinct values of
        one tuple come first in the columns of their attribute, negative numbers in the others
    known_by_name : whether the policy names a subject; otherwise each tuple is its own person
    """
    tally, place, same = counter.tally, counter.place, counter.same
    persons: Int = len(members)
    if known_by_name:
        persons = _chain_subjects(same, members, subject)
    tally.persons[0] = persons
    repeated = persons < len(members)
    for a in range(len(tally.values)):
        used, held = np.int64(0), np.int64(0)
        first, stop = tally.first[a], tally.first[a + 1]
        for i in range(len(members)):
            for c in range(first, stop):
                number = value[members[i], c]
                if number < 0:
                    break
                if repeated and _seen(same, members, value, i, number, first, stop):
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
        for index in range(used):
            place[a, tally.named[a, index]] = -1
        tally.values[a] = tally.used[a] = used
        tally.held[a] = held


@leaf
def _seen(
    same: NDArray[np.int64], members: Slots, value: NDArray[np.int32], i: Int, number: Int, first: Int, stop: Int
) -> bool:
    # Whether an earlier tuple of the i-th tuple's subject has the value of a number.
    earlier = same[i]
    while earlier >= 0:
        for c in range(first, stop):
            if value[members[earlier], c] == number:
                return True
        earlier = same[earlier]
    return False


@procedure
def _chain_subjects(same: NDArray[np.int64], members: Slots, subject: NDArray[np.uint64]) -> Int:
    """Fill ``Counter.same``; return the number of subjects."""
    subjects: Int = np.int64(0)
    if len(members) <= _FEW:
        for i in range(len(members)):
            j = i - 1
            while j >= 0 and subject[members[j]] != subject[members[i]]:
                j -= 1
            same[i] = j
            subjects += j < 0
        return subjects
    keys = np.empty(len(members), np.uint64)
    for i in range(len(members)):
        keys[i] = subject[members[i]]
    return chain_equal(keys, same[: len(members)])


@leaf
def diversity(tally: Tally, attribute: Int) -> Int:
    """Return the largest l for which the counts of the most common values prove a set l-diverse.

    A set is l-diverse if no l - 1 values include a value of every person in it. Otherwise an attacker would know that
    each person has one of l - 1 values. Where no person has several values, this is distinct l-diversity.

    Take the l - 1 most common values and sum their counts of persons. If the sum is below the number of persons, these
    values cannot include a value of every person. Any other l - 1 values have a smaller sum or the same one. The test
    is therefore sufficient. It is also necessary for l = 2, and where no person has several values.
    """
    persons = tally.persons[0]
    if tally.held[attribute] == persons:  # nobody has several values
        return tally.values[attribute]
    largest_l, total = np.int64(1), np.int64(0)
    below = np.int64(2**62)
    while True:
        most, times = np.int64(0), np.int64(0)
        for i in range(tally.used[attribute]):
            count = tally.counts[attribute, i]
            if count < below and count > most:
                most, times = count, np.int64(1)
            elif count == most:
                times += 1
        if most == 0:
            return largest_l
        for _ in range(times):
            total += most
            if total >= persons:
                return largest_l
            largest_l += 1
        below = most
