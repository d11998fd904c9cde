"""Arrays of a shard with a lasting guarantee: persons, their anonymity sets, and the owners of buffered tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest import arrays as nearest
from crenel.anonymity.algorithms.nearest.arrays import NearestArrays
from crenel.anonymity.compiled.arrays import extend, extended, full, record, zeros
from crenel.anonymity.compiled.random import RandomStream
from crenel.anonymity.model.delay import DelayedSettings
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.anonymity.privacy_models.counting import Counts, empty_counts, grown
from crenel.anonymity.space.domain import NONE, Boxes, boxes

MOST_VALUES = 8
"""Number of distinct sensitive values remembered per person and attribute; with l > 1, no more are published."""

MOVED = ("widen", "suppress", "count")
"""Values of ``Persons.moved``; ``bound.moved`` is a position here."""


class PersonRows(NamedTuple):
    """Persons with buffered tuples or an anonymity set, one per row; rows are recycled.

    Attributes
    ----------
    now : ``used``: number of rows ever assigned; ``freed``: number of these that are free again; ``touched``,
        ``dropped``: lengths of these lists in this step; ``below_k``: number of persons so far that were ``below``
    row : row of each subject
    free : (rows,) rows that are free again
    subject : (rows,) keyed hash of the person
    group : (rows,) row of the anonymity set, ``NONE`` before the first release
    core : (rows,) whether the person is a member of the anonymity set, not a borrower
    below : (rows,) whether a tuple was published under a generalization that covers fewer than k of the set
    next : (rows,) next person of the same group
    first : (rows,) slot of one of the person's buffered tuples, ``NONE`` if there is none
    numeric, leaf : (rows, ...) the person's latest values
    position, event_time : (rows,) position of the tuple with the latest values; newest event time of the person
    values : (rows, sensitive, MOST_VALUES) codes of a member's published sensitive values
    held : (rows, sensitive) number of these values; above ``MOST_VALUES`` there were others
    entry : (rows,) number of the stored entry of the person, ``NONE`` if there is none
    changed : (rows,) whether the person differs from the stored entry
    touched : (rows,) persons that changed in this step, each once
    dropped : (rows,) stored entries of persons that were forgotten in this step
    """

    now: Any
    row: Counts
    free: NDArray[np.int32]
    subject: NDArray[np.uint64]
    group: NDArray[np.int32]
    core: NDArray[np.bool_]
    below: NDArray[np.bool_]
    next: NDArray[np.int32]
    first: NDArray[np.int32]
    numeric: NDArray[np.float64]
    leaf: NDArray[np.int32]
    position: NDArray[np.int64]
    event_time: NDArray[np.int64]
    values: NDArray[np.uint64]
    held: NDArray[np.int8]
    entry: NDArray[np.int64]
    changed: NDArray[np.bool_]
    touched: NDArray[np.int32]
    dropped: NDArray[np.int64]


class GroupRows(NamedTuple):
    """Anonymity sets and their borrowers, one group per row; rows are recycled.

    Attributes
    ----------
    now : ``used``, ``freed``, ``touched``, ``dropped`` as of persons; ``known``: number of groups; ``earliest``: lower
        bound of the persons' newest event times; ``passed``: watermark, rounded down to a step of the horizon
    free : (rows,) rows that are free again
    id : (rows,) ``release_id`` of the group's first release
    box : generalization of the group's releases
    first : (rows,) one person of the group
    members : (rows,) size of the anonymity set, with members forgotten on request; 0 where no more may be published
    forgotten : (rows,) number of members forgotten on request; above 0, ``box`` is fully general
    entry, changed, touched, dropped : as of persons
    """

    now: Any
    free: NDArray[np.int32]
    id: NDArray[np.int64]
    box: Boxes
    first: NDArray[np.int32]
    members: NDArray[np.int32]
    forgotten: NDArray[np.int32]
    entry: NDArray[np.int64]
    changed: NDArray[np.bool_]
    touched: NDArray[np.int32]
    dropped: NDArray[np.int64]


class TupleOwners(NamedTuple):
    """Owners of the buffered tuples.

    Attributes
    ----------
    person : (slots,) row of the tuple's person
    next : (slots,) another buffered tuple of the same person, ``NONE`` if there is none
    """

    person: NDArray[np.int32]
    next: NDArray[np.int32]


@extended
class LastingArrays(NearestArrays):
    """Arrays of one shard: those of ``NearestArrays``, and persons with their anonymity sets.

    Attributes
    ----------
    bound : ``horizon`` in milliseconds, -1: no person is forgotten; ``step``: milliseconds in which it is noticed that
        the horizon has passed, and by which a tuple may be late; ``moved``: position in ``MOVED``; ``reason``: that of
        ``LINKABLE``; ``values``: l
    host : (reuse_limit,) row of the group behind each row of Omega, valid while ``omega.release`` is the group's id
    """

    bound: Any
    persons: PersonRows
    groups: GroupRows
    rows: TupleOwners
    host: NDArray[np.int32]


def empty_arrays(policy: Policy, privacy: Privacy, settings: Any, random: RandomStream) -> LastingArrays:
    """Return the arrays of a shard before its first tuple."""
    lasting = privacy.lasting
    assert lasting is not None
    return extend(
        LastingArrays,
        nearest.empty_arrays(policy, privacy, settings, random),
        bound=_bound(lasting, privacy),
        persons=_persons(0, policy),
        groups=_groups(0, policy),
        rows=_rows(0),
        host=full(settings.reuse_limit, NONE, np.int32),
    )


def with_slots(arrays: LastingArrays, slots: int, policy: Policy, settings: DelayedSettings) -> LastingArrays:
    """Return the arrays with at least ``slots`` slots; buffered tuples keep their slots."""
    before = len(arrays.rows.person)
    if slots <= before:
        return arrays
    rows = _rows(slots)
    rows.person[:before], rows.next[:before] = arrays.rows
    return extend(LastingArrays, nearest.with_slots(arrays, slots, policy, settings), rows=rows)


def with_persons(arrays: LastingArrays, more: int, policy: Policy) -> LastingArrays:
    """Return the arrays with room for ``more`` persons and for their groups."""
    before, groups = arrays.persons, arrays.groups
    held, needed = len(before.subject), int(before.now.used - before.now.freed) + more
    if needed <= held:
        return arrays
    size = max(2 * held, needed, 64)
    persons = _persons(size, policy, before.now, grown(before.row, size - int(before.row.used[0])))
    copy_rows(before, persons, held)
    larger = _groups(size, policy, groups.now)
    copy_rows(groups, larger, len(groups.id))
    return extend(LastingArrays, arrays, persons=persons, groups=larger)


def copy_rows(old: Any, new: Any, rows: int) -> None:
    """Copy the first rows of all arrays of a record, nested boxes included."""
    for name, column in zip(old._fields, old, strict=True):
        into = getattr(new, name)
        if isinstance(column, Boxes):
            copy_rows(column, into, rows)
        elif isinstance(column, np.ndarray):
            into[:rows] = column[:rows]


def _bound(lasting: Persons, privacy: Privacy) -> Any:
    bound = record("horizon step moved reason values")
    bound.horizon = NONE if lasting.horizon is None else lasting.horizon
    bound.step = max(bound.horizon // 8, 1)
    bound.moved = MOVED.index(lasting.moved)
    bound.reason = privacy.reasons.index(LINKABLE)
    bound.values = privacy.l
    return bound


def _persons(rows: int, policy: Policy, now: Any = None, row: Counts | None = None) -> PersonRows:
    sensitive = len(policy.sensitive)
    return PersonRows(
        now=record("used freed touched dropped below_k") if now is None else now,
        row=empty_counts(rows) if row is None else row,
        free=zeros(rows, np.int32),
        subject=zeros(rows, np.uint64),
        group=full(rows, NONE, np.int32),
        core=zeros(rows, np.bool_),
        below=zeros(rows, np.bool_),
        next=full(rows, NONE, np.int32),
        first=full(rows, NONE, np.int32),
        numeric=zeros((rows, len(policy.numeric))),
        leaf=zeros((rows, len(policy.categorical)), np.int32),
        position=zeros(rows, np.int64),
        event_time=zeros(rows, np.int64),
        values=zeros((rows, sensitive, MOST_VALUES), np.uint64),
        held=zeros((rows, sensitive), np.int8),
        entry=full(rows, NONE, np.int64),
        changed=zeros(rows, np.bool_),
        touched=zeros(rows, np.int32),
        dropped=zeros(rows, np.int64),
    )


def _groups(rows: int, policy: Policy, now: Any = None) -> GroupRows:
    if now is None:
        now = record("used freed touched dropped known earliest passed")
        now.earliest, now.passed = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    return GroupRows(
        now=now,
        free=zeros(rows, np.int32),
        id=full(rows, NONE, np.int64),
        box=boxes(rows, policy),
        first=full(rows, NONE, np.int32),
        members=zeros(rows, np.int32),
        forgotten=zeros(rows, np.int32),
        entry=full(rows, NONE, np.int64),
        changed=zeros(rows, np.bool_),
        touched=zeros(rows, np.int32),
        dropped=zeros(rows, np.int64),
    )


def _rows(slots: int) -> TupleOwners:
    return TupleOwners(full(slots, NONE, np.int32), full(slots, NONE, np.int32))
