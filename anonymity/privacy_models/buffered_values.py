"""Counts of persons and sensitive values among all buffered tuples.

They tell whether any set of buffered tuples can satisfy the privacy models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import zeros
from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf, procedure
from crenel.anonymity.privacy_models.checks import (
    Checks,
    falling_counts,
    lack,
    lack_of_counts,
    only_counts,
    only_diversity,
)
from crenel.anonymity.privacy_models.counting import Counts, add, discard, number, unnumber
from crenel.anonymity.privacy_models.lookup import note_number
from crenel.anonymity.privacy_models.tally import Tally, empty_tally
from crenel.state.columns import NO_FURTHER

_NOBODY = -1

_LARGER = 8
"""A class is at most this many times as large as it must be, for a model other than l-diversity."""

# Kinds of owners in the table of counts.
_OF_GROUP, _OF_ALL, _OF_ATTRIBUTE, _OF_VALUE = range(4)


class Waiting(NamedTuple):
    """Counts of the buffered persons, and numbers of their sensitive values.

    Attributes
    ----------
    counts : tuples of each subject, in total and in each group of an algorithm; and the numbers of values
    tally : of all buffered tuples; of values only where a check needs them
    value : (slots, columns) number of each tuple's value among the buffered ones, in the columns of ``Tally.first``;
        negative after its last value of an attribute
    tuples : (attributes, values) tuples with each value
    free : (attributes, values) numbers to assign again, ``freed`` of them
    freed : (attributes,) length of ``free``
    """

    counts: Counts
    tally: Tally
    value: NDArray[np.int32]
    tuples: NDArray[np.int64]
    free: NDArray[np.int32]
    freed: NDArray[np.int64]


def empty_waiting(counts: Counts, attributes: int | Sequence[int], slots: int) -> Waiting:
    """Return counts of no persons, with room for ``slots`` tuples.

    ``attributes`` is that of ``crenel.anonymity.privacy_models.tally.first_columns``.
    """
    tally = empty_tally(attributes, slots)
    return Waiting(
        counts=counts,
        tally=tally,
        value=zeros((slots, int(tally.first[-1])), np.int32),
        tuples=zeros(tally.counts.shape, np.int64),
        free=zeros(tally.counts.shape, np.int32),
        freed=np.zeros(len(tally.values), np.int64),
    )


def with_slots(waiting: Waiting, slots: int) -> Waiting:
    """Return the same counts with room for ``slots`` tuples."""
    larger = empty_waiting(waiting.counts, np.diff(waiting.tally.first).tolist(), slots)
    held = len(waiting.value)
    larger.value[:held] = waiting.value
    used = int(waiting.tally.used.max(initial=0))  # beyond, no page has been touched, and none should be
    for old, new in (
        (waiting.tally.counts, larger.tally.counts),
        (waiting.tally.named, larger.tally.named),
        (waiting.tuples, larger.tuples),
        (waiting.free, larger.free),
    ):
        new[:, :used] = old[:, :used]
    for old, new in (
        (waiting.tally.persons, larger.tally.persons),
        (waiting.tally.values, larger.tally.values),
        (waiting.tally.held, larger.tally.held),
        (waiting.tally.used, larger.tally.used),
        (waiting.freed, larger.freed),
    ):
        new[:] = old
    return larger


def entries_of(columns: int, *, by_name: bool, checked: bool) -> int:
    """Return the maximum number of entries that one tuple takes in the table of counts; ``columns``: of its values."""
    return columns + by_name * (2 + checked * columns)


@leaf
def join_group(waiting: Waiting, group: Int, subject: Int) -> bool:
    """Count a subject's tuple for a group; return whether it is the subject's first there."""
    return add(waiting.counts, 4 * group + _OF_GROUP, subject)


@leaf
def leave_group(waiting: Waiting, group: Int, subject: Int) -> bool:
    """Remove a subject's tuple from a group's count; return whether it was the subject's last there."""
    return discard(waiting.counts, 4 * group + _OF_GROUP, subject)


@inner_leaf
def add_buffered(
    waiting: Waiting, checks: Checks, slot: Int, subject: Int, codes: NDArray[np.uint64], by_name: bool
) -> None:
    """Count a buffered tuple, and number its values."""
    tally = waiting.tally
    attributes = len(waiting.freed)
    if not by_name or add(waiting.counts, np.int64(_OF_ALL), subject):
        tally.persons[0] += 1
    for a in range(attributes):
        for c in range(tally.first[a], tally.first[a + 1]):
            code = codes[slot, c]
            if c > tally.first[a] and code == NO_FURTHER:
                waiting.value[slot, c] = -1
                continue
            fresh = np.int64(tally.used[a])
            if waiting.freed[a] > 0:
                fresh = np.int64(waiting.free[a, waiting.freed[a] - 1])
            value_number = number(waiting.counts, 4 * a + _OF_ATTRIBUTE, code, fresh)
            fresh_value = waiting.tuples[a, value_number] == 0
            if fresh_value and waiting.freed[a] > 0:
                waiting.freed[a] -= 1
            elif fresh_value:
                tally.used[a] += 1
                tally.named[a, value_number] = value_number
            if fresh_value or checks.lookup.seen.follows[a]:  # a known value may have been counted as "others" before
                note_number(checks.lookup, np.int64(a), value_number, code)
            waiting.tuples[a, value_number] += 1
            waiting.value[slot, c] = value_number
            if len(checks.address) > 0 and (
                not by_name or add(waiting.counts, 4 * (value_number * attributes + a) + _OF_VALUE, subject)
            ):
                tally.values[a] += tally.counts[a, value_number] == 0
                tally.counts[a, value_number] += 1
                tally.held[a] += 1


@inner_leaf
def remove_buffered(
    waiting: Waiting, checks: Checks, slot: Int, subject: Int, codes: NDArray[np.uint64], by_name: bool
) -> None:
    """Remove a tuple from the counts."""
    tally = waiting.tally
    attributes = len(waiting.freed)
    if not by_name or discard(waiting.counts, np.int64(_OF_ALL), subject):
        tally.persons[0] -= 1
    for a in range(attributes):
        for c in range(tally.first[a], tally.first[a + 1]):
            value_number = np.int64(waiting.value[slot, c])
            if value_number < 0:
                break
            if len(checks.address) > 0 and (
                not by_name or discard(waiting.counts, 4 * (value_number * attributes + a) + _OF_VALUE, subject)
            ):
                tally.counts[a, value_number] -= 1
                tally.values[a] -= tally.counts[a, value_number] == 0
                tally.held[a] -= 1
            waiting.tuples[a, value_number] -= 1
            if waiting.tuples[a, value_number] == 0:
                unnumber(waiting.counts, 4 * a + _OF_ATTRIBUTE, codes[slot, c])
                waiting.free[a, waiting.freed[a]] = value_number
                waiting.freed[a] += 1


@leaf
def first_unsatisfiable(waiting: Waiting, checks: Checks) -> Int:
    """Return the first check that no set of buffered tuples can satisfy; -1 where there is none.

    ``diversity`` is conservative above l = 2 for a sensitive array, so a subset's may be larger than that of all.
    """
    for check in range(len(checks.address)):
        a = checks.attribute[check]
        several = waiting.tally.first[a + 1] - waiting.tally.first[a] > 1
        if checks.address[check] != 0 or (several and checks.parameter[check] > 2.0):
            if waiting.tally.values[checks.attribute[check]] < checks.values[check]:
                return np.int64(check)
        elif lack(checks, np.int64(check), waiting.tally) > 0.0:
            return np.int64(check)
    return np.int64(_NOBODY)


@procedure
def balanced_size(waiting: Waiting, checks: Checks, k: Int) -> Int:
    """Return the minimum class size, at least k, for which the buffered values suffice for classes of all persons.

    Smaller classes would use up the rare values, so that persons with common ones would be suppressed. For l-diversity,
    a value helps each class once: n persons fill n / size classes, each of which needs l values. Parts of classes
    count. For another model, a class needs members without the most common value. Where it has too few values for all
    sizes up to ``_LARGER`` times k, it is the size that needs the smallest share of them. At least k persons must be
    buffered, and no check be unsatisfiable (``first_unsatisfiable``). The size is k where a model compares with a
    reference: in larger classes, it may need further rare values.
    """
    size, tally = np.int64(k), waiting.tally
    if not only_counts(checks):
        return size
    if only_diversity(checks):
        for check in range(len(checks.address)):
            size = np.int64(_least_size(tally, checks.attribute[check], checks.values[check], size))
        return size
    best, least = size, np.inf
    while size <= min(np.int64(tally.persons[0]), _LARGER * k):
        needed = _needed(tally, checks, size)
        if needed < least:
            best, least = size, needed
        if needed <= 1.0:
            break
        size += 1 + size // 16  # a few dozen sizes, however large k is
    return best


@leaf
def _least_size(tally: Tally, attribute: Int, values: Int, size: Int) -> Int:
    """Return the least size, ``size`` or more, of classes for which the buffered values suffice for l-diversity."""
    if _provided(tally, attribute, values, size) >= values:
        return size
    too_small, size = size, np.int64(tally.persons[0])  # one class of all persons has each value
    while size - too_small > 1:
        middle = (too_small + size) // 2
        if _provided(tally, attribute, values, middle) >= values:
            size = middle
        else:
            too_small = middle
    return size


@leaf
def _provided(tally: Tally, attribute: Int, values: Int, size: Int) -> float:
    """Return the mean number of values in classes of a size that hold all persons; at least ``values`` if it is."""
    persons, helped = tally.persons[0], np.int64(0)
    for i in range(tally.used[attribute]):
        helped += min(tally.counts[attribute, i] * size, persons)
        if helped >= values * persons:
            break
    return float(helped / persons)


@procedure
def _needed(tally: Tally, checks: Checks, size: Int) -> float:
    """Return the largest ratio, of all checks, of what classes of a size need to what the buffer has for each."""
    most = 0.0
    for check in range(len(checks.address)):
        a = checks.attribute[check]
        if checks.address[check] == 0:
            values = checks.values[check]
            most = max(most, values / _provided(tally, a, values, size))
        elif tally.first[a + 1] - tally.first[a] == 1:
            buffered = falling_counts(tally, a)
            rare = tally.persons[0] - buffered[0]
            if rare > 0:
                members = _rare_members(checks, np.int64(check), buffered, rare, size)
                if members > rare:
                    return np.inf  # no such class can be formed
                most = max(most, members * tally.persons[0] / (size * rare))
    return most


@procedure
def _rare_members(checks: Checks, check: Int, buffered: NDArray[np.int64], rare: Int, size: Int) -> Int:
    """Return how many of ``size`` members must have another than the most common value, to satisfy a check.

    Their values are taken in the proportions of the buffer.
    """
    too_few, enough, counts = np.int64(-1), np.int64(size), np.empty_like(buffered)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        counts[0], rest = size - middle, middle
        for i in range(1, len(buffered)):
            counts[i] = middle * buffered[i] // rare
            rest -= counts[i]
        for i in range(1, rest + 1):
            counts[i] += 1  # to one value, the remainders of many would look like a common one
        if lack_of_counts(checks, check, size, counts) <= 0.0:
            enough = middle
        else:
            too_few = middle
    return enough
