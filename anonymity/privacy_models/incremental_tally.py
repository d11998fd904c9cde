"""Tally of a set under trial changes: the shortfall after tuples are added, removed or exchanged.

The tuples of a window carry numbers for persons, for values of each sensitive attribute, and for pairs of both. The
pairs let one person count once for a value. Where no person has two tuples, only values need numbers, and an exchange
of two tuples is evaluated without changing the tally. A tuple may have several distinct values of one attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full, zeros
from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf
from crenel.anonymity.privacy_models.checks import Checks, lack, only_diversity
from crenel.anonymity.privacy_models.tally import Tally, empty_tally


class IncrementalTally(NamedTuple):
    """Tally of one set, with its working arrays.

    Attributes
    ----------
    tally : of the set
    place : (attributes, values) index in ``tally.counts`` of each value number; -1 where it has none
    people : (persons,) tuples of each person, where some person has several
    attribute : (columns,) the attribute of each column of a tuple's values
    pairs : (attributes, pairs) tuples of each person and value, where some person has several
    lacks : (1, checks) the shortfall of the set, as written by ``after_exchange``
    """

    tally: Tally
    place: NDArray[np.int32]
    people: NDArray[np.int32]
    attribute: NDArray[np.int64]
    pairs: NDArray[np.int32]
    lacks: NDArray[np.float64]


def empty_trial(attributes: int | Sequence[int], tuples: int, checks: Checks) -> IncrementalTally:
    """Return an empty set with room for the numbers of ``tuples`` tuples; without checks it has no attributes.

    ``attributes`` is that of ``crenel.anonymity.privacy_models.tally.first_columns``.
    """
    tally = empty_tally(attributes if len(checks.address) else 0, tuples)
    return IncrementalTally(
        tally=tally,
        place=full(tally.counts.shape, -1, np.int32),
        people=zeros(tuples, np.int32),
        attribute=np.repeat(np.arange(len(tally.values)), np.diff(tally.first)),
        pairs=zeros(tally.counts.shape, np.int32),
        lacks=np.zeros((1, len(checks.address))),
    )


@leaf
def put(trial: IncrementalTally, codes: NDArray[np.int32], slot: Int, alone: bool) -> None:
    """Add a tuple.

    Parameters
    ----------
    codes : (slots, 1 + 2 columns) numbers of each tuple's person, values, and pairs of both; negative in the columns of
        an attribute after the last value
    slot : slot of the tuple
    alone : whether no person of the window has two tuples; persons and pairs then need no numbers
    """
    tally = trial.tally
    columns = len(trial.attribute)
    if alone:
        tally.persons[0] += 1
    else:
        trial.people[codes[slot, 0]] += 1
        if trial.people[codes[slot, 0]] == 1:
            tally.persons[0] += 1
    for c in range(columns):
        a, value = trial.attribute[c], codes[slot, 1 + c]
        if value < 0:
            continue
        if not alone:
            pair = codes[slot, 1 + columns + c]
            trial.pairs[a, pair] += 1
            if trial.pairs[a, pair] > 1:
                continue
        place = np.int64(trial.place[a, value])
        if place < 0:
            place = np.int64(tally.used[a])
            trial.place[a, value] = place
            tally.named[a, place] = value
            tally.counts[a, place] = 0
            tally.used[a] += 1
        tally.values[a] += tally.counts[a, place] == 0
        tally.counts[a, place] += 1
        tally.held[a] += 1


@inner_leaf
def put_chain(
    trial: IncrementalTally, codes: NDArray[np.int32], following: NDArray[np.int32], first: Int, alone: bool
) -> None:
    """Add the tuples of a chain.

    Parameters
    ----------
    codes, alone : as for ``put``
    following : (slots,) the next tuple of each; negative after the last
    first : slot of the first
    """
    slot = first
    if not alone:
        while slot >= 0:
            put(trial, codes, slot, alone)
            slot = np.int64(following[slot])
        return
    tuples = np.int64(0)
    while slot >= 0:
        tuples += 1
        slot = np.int64(following[slot])
    tally = trial.tally
    tally.persons[0] += tuples
    for c in range(len(trial.attribute)):
        a = trial.attribute[c]
        used, values, held = np.int64(tally.used[a]), np.int64(tally.values[a]), np.int64(0)
        slot = first
        while slot >= 0:
            value = codes[slot, 1 + c]
            if value < 0:
                slot = np.int64(following[slot])
                continue
            place = np.int64(trial.place[a, value])
            if place < 0:
                place = used
                used += 1
                trial.place[a, value] = place
                tally.named[a, place] = value
                tally.counts[a, place] = 0
            values += tally.counts[a, place] == 0
            tally.counts[a, place] += 1
            held += 1
            slot = np.int64(following[slot])
        tally.used[a], tally.values[a] = used, values
        tally.held[a] += held


@leaf
def remove_tuple(trial: IncrementalTally, codes: NDArray[np.int32], slot: Int, alone: bool) -> None:
    """Remove a tuple that ``put`` added; parameters as for ``put``."""
    tally = trial.tally
    columns = len(trial.attribute)
    if alone:
        tally.persons[0] -= 1
    else:
        trial.people[codes[slot, 0]] -= 1
        if trial.people[codes[slot, 0]] == 0:
            tally.persons[0] -= 1
    for c in range(columns):
        a, value = trial.attribute[c], codes[slot, 1 + c]
        if value < 0:
            continue
        if not alone:
            pair = codes[slot, 1 + columns + c]
            trial.pairs[a, pair] -= 1
            if trial.pairs[a, pair] > 0:
                continue
        place = trial.place[a, value]
        tally.counts[a, place] -= 1
        tally.values[a] -= tally.counts[a, place] == 0
        tally.held[a] -= 1


@inner_leaf
def forget(trial: IncrementalTally) -> None:
    """Empty the set; where some person has several tuples, all tuples must have been removed before."""
    tally = trial.tally
    tally.persons[0] = 0
    for a in range(len(tally.values)):
        for place in range(tally.used[a]):
            trial.place[a, tally.named[a, place]] = -1
        tally.used[a] = tally.values[a] = tally.held[a] = 0


@inner_leaf
def weigh(checks: Checks, tally: Tally, lacks: NDArray[np.float64], row: Int) -> None:
    """Write the shortfall of a set for each check to a row of ``lacks`` (rows, checks)."""
    for check in range(len(checks.address)):
        lacks[row, check] = lack(checks, np.int64(check), tally)


@leaf
def after_exchange(
    trial: IncrementalTally, checks: Checks, codes: NDArray[np.int32], leaves: Int, comes: Int, alone: bool
) -> Int:
    """Return the persons of a set after one tuple replaces another, and write its shortfall to ``trial.lacks``.

    Parameters
    ----------
    codes : (slots, 1 + 2 attributes) as for ``put``
    leaves, comes : slots of a tuple in the set, and of its replacement
    alone : whether no person of the window has two tuples
    """
    if alone and only_diversity(checks):
        for check in range(len(checks.address)):
            a = checks.attribute[check]
            values = trial.tally.values[a]
            old, new = codes[leaves, 1 + a], codes[comes, 1 + a]
            if old != new:
                values += lacks_value(trial, a, new)
                values -= trial.tally.counts[a, trial.place[a, old]] == 1
            trial.lacks[0, check] = max(checks.parameter[check] - values, 0.0)
        return trial.tally.persons[0]
    return _exchanged(trial, checks, codes, leaves, comes, alone)


@leaf
def _exchanged(
    trial: IncrementalTally, checks: Checks, codes: NDArray[np.int32], leaves: Int, comes: Int, alone: bool
) -> Int:
    remove_tuple(trial, codes, leaves, alone)
    put(trial, codes, comes, alone)
    persons = trial.tally.persons[0]
    weigh(checks, trial.tally, trial.lacks, np.int64(0))
    remove_tuple(trial, codes, comes, alone)
    put(trial, codes, leaves, alone)
    return persons


@inner_leaf
def exchange_helps(
    here: IncrementalTally, there: IncrementalTally, checks: Checks, codes: NDArray[np.int32], leaves: Int, comes: Int
) -> bool:
    """Return whether an exchange of two tuples reduces the shortfall of ``here`` and harms neither set.

    This is valid for l-diversity alone, and only where no person has two tuples: counts of the two values then decide.

    Parameters
    ----------
    codes : (slots, 1 + 2 attributes) as for ``put``
    leaves, comes : slots of a tuple of the set ``here`` and of one of the set ``there``
    """
    helps = False
    for check in range(len(checks.address)):
        a = checks.attribute[check]
        old, new = codes[leaves, 1 + a], codes[comes, 1 + a]
        if old == new:
            continue
        gain_here = lacks_value(here, a, new) - (here.tally.counts[a, here.place[a, old]] == 1)
        gain_there = lacks_value(there, a, old) - (there.tally.counts[a, there.place[a, new]] == 1)
        values_here, values_there, wanted = here.tally.values[a], there.tally.values[a], checks.parameter[check]
        if (gain_here < 0 and values_here + gain_here < wanted) or (
            gain_there < 0 and values_there + gain_there < wanted
        ):
            return False
        helps |= gain_here > 0 and values_here < wanted
    return helps


@inner_leaf
def can_reduce_shortfall(
    trial: IncrementalTally,
    checks: Checks,
    lacks: NDArray[np.float64],
    row: Int,
    codes: NDArray[np.int32],
    slot: Int,
    alone: bool,
) -> bool:
    """Return whether adding a tuple could reduce the shortfall of a set; may be True where it could not.

    Where no person has several values, l-diversity needs a value that the set lacks.

    Parameters
    ----------
    lacks, row : (rows, checks) the shortfall of the set, as written by ``weigh``
    codes, slot, alone : the tuple, as for ``put``
    """
    for check in range(len(checks.address)):
        if lacks[row, check] > 0.0:
            a = checks.attribute[check]
            c = trial.tally.first[a]
            several = not alone or trial.tally.first[a + 1] - c > 1
            if several or checks.address[check] != 0 or lacks_value(trial, a, codes[slot, 1 + c]):
                return True
    return False


@inner_leaf
def lacks_value(trial: IncrementalTally, attribute: Int, value: Int) -> bool:
    """Return whether no person of a set has a value, given by its number."""
    place = trial.place[attribute, value]
    return bool(place < 0 or trial.tally.counts[attribute, place] == 0)
