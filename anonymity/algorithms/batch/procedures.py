"""Compiled procedures that check and release groups chosen by an algorithm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.arrays import ReleaseArrays
from crenel.anonymity.buffer.departure import (
    Columns,
    enclose_all,
    require_inside,
    suppress,
    validate_and_shuffle,
)
from crenel.anonymity.buffer.release_buffer import CLUSTER, complete
from crenel.anonymity.compiled.arrays import extended
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.privacy_models.checks import first_violation, has_values, lack
from crenel.anonymity.privacy_models.lookup import Lookup, note_number
from crenel.anonymity.privacy_models.tally import count_set
from crenel.anonymity.privacy_models.value_frequencies import ValueFrequencies, add_value
from crenel.anonymity.space.boxes import covers, observe
from crenel.anonymity.space.domain import Boxes, Domain
from crenel.anonymity.space.ends import published_loss, round_outwards


@extended
class BatchArrays(ReleaseArrays):
    """Arrays of all buffered tuples, oldest first, and of the shard's counts.

    Attributes
    ----------
    tuples : columns of the tuples; a tuple's slot is its index
    """

    tuples: Columns


@entry
def observe_all(domain: Domain, points: Boxes) -> None:
    """Widen the observed ranges of the attributes by some tuples."""
    for i in range(len(points.lower)):
        observe(domain, points, i, points.lower.shape[1] + points.node.shape[1])


@entry
def see_all(seen: ValueFrequencies, codes: NDArray[np.uint64]) -> None:
    """Count the sensitive values of some tuples, (tuples, columns)."""
    for i in range(len(codes)):
        add_value(seen, codes, np.int64(i), np.int64(0))


@entry
def note_numbers(lookup: Lookup, attribute: Int, codes: NDArray[np.uint64]) -> None:
    """Record that the values with these codes have the numbers from 0 on."""
    for number in range(len(codes)):
        note_number(lookup, attribute, np.int64(number), codes[number])


@entry
def judge(arrays: BatchArrays, members: NDArray[np.int64]) -> Int:
    """Return the first check that a set of tuples violates; -1: none, -2: it has fewer than k subjects."""
    return judge_set(arrays, members)


@leaf
def judge_set(arrays: BatchArrays, members: NDArray[np.int64]) -> Int:
    """Return the result of ``judge``, for calls from compiled code."""
    count_set(arrays.counter, members, arrays.tuples.subject, arrays.tuples.value, arrays.config.by_name != 0)
    if arrays.counter.tally.persons[0] < arrays.config.k:
        return np.int64(-2)
    return first_violation(arrays.checks, arrays.counter.tally)


@entry
def judge_groups(
    arrays: BatchArrays,
    members: NDArray[np.int64],
    ends: NDArray[np.int64],
    found: NDArray[np.int64],
    lacks: NDArray[np.float64],
) -> None:
    """Judge each group of tuples, ``members[: ends[0]]`` and so on, and write the results to ``found``, (groups,).

    ``lacks`` (groups,) receives the shortfall for a violated check, if each tuple has one value and a subject of its
    own; otherwise 0. It is infinite where a group has too few subjects or values for any part of it to satisfy.
    """
    checks, tally, start = arrays.checks, arrays.counter.tally, np.int64(0)
    for i in range(len(ends)):
        check = found[i] = judge_set(arrays, members[start : ends[i]])
        tuples, lacks[i] = ends[i] - start, 0.0
        start = ends[i]
        if check == -2 or (check >= 0 and not has_values(checks, tally)):
            lacks[i] = np.inf
        elif check >= 0 and tuples == tally.persons[0] == tally.held[checks.attribute[check]]:
            lacks[i] = lack(checks, check, tally)


@entry
def release_groups(arrays: BatchArrays, members: NDArray[np.int64], ends: NDArray[np.int64], published: Boxes) -> None:
    """Release tuples group by group, ``members[: ends[0]]`` under one generalization, and so on.

    ``published`` (groups,) holds their intervals and nodes. Where it has no columns, the default is the minimal
    interval and the lowest common ancestor of the members.
    """
    start = np.int64(0)
    for i in range(len(ends)):
        release(arrays, members[start : ends[i]], published, np.int64(i))
        start = ends[i]


@procedure
def release(arrays: BatchArrays, members: NDArray[np.int64], published: Boxes, row: Int) -> None:
    """Release tuples under one generalization."""
    out, domain, tuples = arrays.out, arrays.domain, arrays.tuples
    number, start = out.filled.releases, out.filled.members
    stop = start + len(members)
    for i in range(len(members)):
        out.members[start + i] = members[i]
    stop, valid = validate_and_shuffle(arrays, tuples, start, stop)
    if not valid:
        for i in range(start, stop):
            suppress(arrays, tuples.position, np.int64(out.members[i]), arrays.noise.config.reason)
        return
    newest = enclose_all(arrays, out.box, number, tuples, out.members[start:stop])
    round_outwards(domain, out.box, number)
    for a in range(published.node.shape[1]):
        if not covers(domain, published.node[row, a], out.box.node[number, a]):
            raise InvariantError("a member lies outside its generalization; nothing of this release was emitted")
        out.box.node[number, a] = published.node[row, a]
    for a in range(published.lower.shape[1]):
        if published.lower[row, a] > out.box.lower[number, a] or published.upper[row, a] < out.box.upper[number, a]:
            raise InvariantError("a member lies outside its generalization; nothing of this release was emitted")
        out.box.lower[number, a], out.box.upper[number, a] = published.lower[row, a], published.upper[row, a]
    require_inside(arrays, tuples, out.box, number, stop)
    loss = published_loss(domain, out.box, number)
    complete(arrays, tuples.position, CLUSTER, arrays.counter.tally.persons[0], loss, stop, newest)


@entry
def suppress_all(arrays: BatchArrays, members: NDArray[np.int64]) -> None:
    """Suppress tuples, given as (tuples, 2) index and reason of each."""
    for i in range(len(members)):
        suppress(arrays, arrays.tuples.position, members[i, 0], members[i, 1])
