"""The arrays of a shard whose promise lasts: persons, their companions, and which of their tuples wait."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest import arrays as nearest
from crenel.anonymity.algorithms.nearest.arrays import NearestArrays
from crenel.anonymity.algorithms.nearest.cells import Cells
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.buffer.arrays import Clusters, Expiry, Omega, Tuples
from crenel.anonymity.buffer.release_buffer import ReleaseBuffer, Totals
from crenel.anonymity.compiled.arrays import full, record, zeros
from crenel.anonymity.compiled.random import CounterRandom, RandomStream
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Lasting, Privacy
from crenel.anonymity.noise.release_noise import NoiseArrays
from crenel.anonymity.privacy_models.buffered_values import Waiting
from crenel.anonymity.privacy_models.checks import Checks
from crenel.anonymity.privacy_models.counting import Counts, empty_counts, grown
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally
from crenel.anonymity.privacy_models.tally import Counter
from crenel.anonymity.space.domain import NONE, Boxes, Domain, boxes

MOST_VALUES = 8
"""Different values of a sensitive attribute that are remembered of a person; where l > 1, no more leave."""

MOVED = ("widen", "suppress", "count")
"""What ``Lasting.moved`` may be; ``of.moved`` is a position here."""


class Persons(NamedTuple):
    """Who has tuples that wait, or companions; one a row, which is reused.

    Attributes
    ----------
    now : ``used`` rows, beyond which none was given out; ``freed`` of these may be given out again; ``touched``,
        ``dropped``: entries of these lists in this step; ``below_k``: persons so far who were ``below``
    row : the row of each subject
    free : (rows,) those that may be given out again
    subject : (rows,) keyed hash
    group : (rows,) row of the companions, ``NONE`` where there are none yet
    core : (rows,) whether the person is one of the companions, and not a guest
    below : (rows,) whether a tuple left under a generalization in which fewer than k companions lay
    next : (rows,) who comes next in the group
    first : (rows,) slot of one of the person's tuples that wait, ``NONE`` where none does
    numeric, leaf : (rows, ...) the latest values that came
    position, event_time : (rows,) of the tuple that they came with; the newest event time that came
    values : (rows, sensitive, MOST_VALUES) codes of what was published of a companion
    held : (rows, sensitive) how many; more than ``MOST_VALUES``: there were others
    entry : (rows,) number of the stored entry that holds the person; ``NONE``: none does
    changed : (rows,) whether what is stored differs
    touched : (rows,) the persons of this step that have changed, each once
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


class Groups(NamedTuple):
    """Companions, and their guests; one group a row, which is reused.

    Attributes
    ----------
    now : ``used``, ``freed``, ``touched``, ``dropped`` as of persons; ``known`` groups there are; ``earliest``: no
        person's newest event time is below it; ``passed``: event time up to which persons were forgotten
    free : (rows,)
    id : (rows,) the release in which the companions left first
    box : the generalization under which they leave
    first : (rows,) one of its persons
    companions : (rows,) how many there are, with those who were forgotten on request; 0 where none may leave any more
    struck : (rows,) how many of them were forgotten on request: what came of them last lies in ``box``
    entry, changed, touched, dropped : as of persons
    """

    now: Any
    free: NDArray[np.int32]
    id: NDArray[np.int64]
    box: Boxes
    first: NDArray[np.int32]
    companions: NDArray[np.int32]
    struck: NDArray[np.int32]
    entry: NDArray[np.int64]
    changed: NDArray[np.bool_]
    touched: NDArray[np.int32]
    dropped: NDArray[np.int64]


class Rows(NamedTuple):
    """Whose the tuples are that wait.

    Attributes
    ----------
    person : (slots,) row of its person
    next : (slots,) another tuple of the same person, ``NONE`` where there is no other
    """

    person: NDArray[np.int32]
    next: NDArray[np.int32]


class LastingArrays(NamedTuple):
    """One shard: as ``crenel.anonymity.algorithms.nearest.arrays.NearestArrays``; and who is whose companion.

    Attributes
    ----------
    bound : ``horizon`` in milliseconds, -1: nobody is forgotten; ``moved``, a position in ``MOVED``; ``reason``, that
        of ``LINKABLE``; ``values``: l
    host : (reuse_limit,) row of the group whose generalization each row of Omega is, while ``omega.release`` is its id
    """

    now: Any
    of: Any
    checks: Checks
    ring: NDArray[np.float64]
    random: RandomStream
    lots: CounterRandom
    domain: Domain
    tuples: Tuples
    clusters: Clusters
    waiting: Waiting
    counter: Counter
    by_position: Expiry
    by_time: Expiry
    omega: Omega
    out: ReleaseBuffer
    totals: Totals
    noise: NoiseArrays
    cells: Cells
    codes: NDArray[np.int32]
    trial: IncrementalTally
    group: NDArray[np.int64]
    box: Boxes
    bound: Any
    persons: Persons
    groups: Groups
    rows: Rows
    host: NDArray[np.int32]


def empty_arrays(
    policy: Policy, privacy: Privacy, parameters: NearestParameters, random: RandomStream
) -> LastingArrays:
    """A shard before its first tuple."""
    lasting = privacy.lasting
    assert lasting is not None
    shared = nearest.empty_arrays(policy, privacy, parameters, random)
    return LastingArrays(
        **shared._asdict(),
        bound=_bound(lasting, privacy),
        persons=_persons(0, policy),
        groups=_groups(0, policy),
        rows=_rows(0),
        host=full(parameters.reuse_limit, NONE, np.int32),
    )


def with_slots(arrays: LastingArrays, slots: int, policy: Policy, parameters: NearestParameters) -> LastingArrays:
    """The same shard with ``slots`` slots or more; what it holds keeps its slots."""
    held = len(arrays.rows.person)
    if slots <= held:
        return arrays
    shared = NearestArrays(**{name: getattr(arrays, name) for name in NearestArrays._fields})
    rows = _rows(slots)
    rows.person[:held], rows.next[:held] = arrays.rows
    return arrays._replace(**nearest.with_slots(shared, slots, policy, parameters)._asdict(), rows=rows)


def with_persons(arrays: LastingArrays, more: int, policy: Policy) -> LastingArrays:
    """The same shard with room for ``more`` persons, and for the groups that they can be in."""
    before, groups = arrays.persons, arrays.groups
    held, needed = len(before.subject), int(before.now.used - before.now.freed) + more
    if needed <= held:
        return arrays
    size = max(2 * held, needed, 64)
    persons = _persons(size, policy, before.now, grown(before.row, size - int(before.row.used[0])))
    copy_rows(before, persons, held)
    larger = _groups(size, policy, groups.now)
    copy_rows(groups, larger, len(groups.id))
    return arrays._replace(persons=persons, groups=larger)


def copy_rows(old: Any, new: Any, rows: int) -> None:
    """Copy the first rows of all arrays of a record of arrays."""
    for name, column in zip(old._fields, old, strict=True):
        into = getattr(new, name)
        if isinstance(column, Boxes):
            copy_rows(column, into, rows)
        elif isinstance(column, np.ndarray):
            into[:rows] = column[:rows]


def _bound(lasting: Lasting, privacy: Privacy) -> Any:
    bound = record("horizon moved reason values")
    bound.horizon = NONE if lasting.horizon is None else lasting.horizon
    bound.moved = MOVED.index(lasting.moved)
    bound.reason = privacy.reasons.index(LINKABLE)
    bound.values = privacy.l
    return bound


def _persons(rows: int, policy: Policy, now: Any = None, row: Counts | None = None) -> Persons:
    sensitive = len(policy.sensitive)
    return Persons(
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


def _groups(rows: int, policy: Policy, now: Any = None) -> Groups:
    if now is None:
        now = record("used freed touched dropped known earliest passed")
        now.earliest, now.passed = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    return Groups(
        now=now,
        free=zeros(rows, np.int32),
        id=full(rows, NONE, np.int64),
        box=boxes(rows, policy),
        first=full(rows, NONE, np.int32),
        companions=zeros(rows, np.int32),
        struck=zeros(rows, np.int32),
        entry=full(rows, NONE, np.int64),
        changed=zeros(rows, np.bool_),
        touched=zeros(rows, np.int32),
        dropped=zeros(rows, np.int64),
    )


def _rows(slots: int) -> Rows:
    return Rows(full(slots, NONE, np.int32), full(slots, NONE, np.int32))
