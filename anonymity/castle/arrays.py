"""The live form of a shard: flat arrays that the compiled procedures share.

A tuple lives in a *slot*; an open cluster in a *row*. Both are reused, so nothing may depend on their numbers:
whatever must be the same after a restore is ordered by position (tuples) or by id (clusters, releases).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.arrays import full, zeros
from anonymity.compiled.counting import Counts, empty_counts
from anonymity.compiled.jit import inner
from anonymity.compiled.random import RandomStream
from anonymity.policy import CastleParameters, Policy, Privacy
from anonymity.release import Out, empty_out
from anonymity.space.boxes_by_attribute import BoxesByAttribute, boxes_by_attribute
from anonymity.space.domain import NONE, Boxes, Domain, boxes, domain
from anonymity.tuples.delays import DELAY_BUCKETS
from state.block import NO_TIME

# Positions in Live.scalars.
NEXT_POSITION, NEXT_CLUSTER, NEXT_RELEASE = 0, 1, 2
OPEN, BUFFERED, OLDEST, YOUNGEST = 3, 4, 5, 6
SUBJECTS, CLOCK = 7, 8
RING_USED, RING_NEXT = 9, 10
OMEGA_USED, OMEGA_NEXT = 11, 12
OUT_RELEASES, OUT_MEMBERS, OUT_SUPPRESSED = 13, 14, 15
SCALARS = 16

# Positions in Live.parameters.
K, L, DELAY_TUPLES, DELAY_EVENT_TIME, MAX_CLUSTERS, GENERALISE, HAS_SUBJECT = range(7)


class Tuples(NamedTuple):
    """Tuples that wait, one a slot.

    Attributes
    ----------
    numeric : (slots, numeric) values
    leaf : (slots, categorical) values, as nodes
    subject : (slots,) keyed hash
    sensitive : (slots, sensitive) codes
    event_time : (slots,) epoch milliseconds
    position : (slots,) in the shard's stream, from 0
    cluster : (slots,) row of its cluster, ``NONE`` where the slot is free
    next, previous : (slots,) neighbours in its cluster, in order of position
    younger, older : (slots,) neighbours among all that wait, in order of position
    """

    numeric: NDArray[np.float64]
    leaf: NDArray[np.int32]
    subject: NDArray[np.uint64]
    sensitive: NDArray[np.uint64]
    event_time: NDArray[np.int64]
    position: NDArray[np.int64]
    cluster: NDArray[np.int32]
    next: NDArray[np.int32]
    previous: NDArray[np.int32]
    younger: NDArray[np.int32]
    older: NDArray[np.int32]


class Clusters(NamedTuple):
    """Gamma.

    Attributes
    ----------
    rows : (rows,) the open clusters' rows, scalars[OPEN] of them in no order, then the free rows
    place : (rows,) where in ``rows`` each row stands
    box : the range intervals of each cluster (CASTLE, Definition 3.1)
    sides : the same by ``place``, so that the first scalars[OPEN] are those of the open clusters
    id : (rows,) counts the clusters of the shard from 0
    head, tail : (rows,) first and last member
    tuples : (rows,) members
    subjects : (rows,) distinct subjects: the paper's C.size
    diversity : (rows, sensitive) distinct sensitive values
    changed : (rows,) whether it differs from what is stored
    """

    rows: NDArray[np.int32]
    place: NDArray[np.int32]
    box: Boxes
    sides: BoxesByAttribute
    id: NDArray[np.int64]
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    tuples: NDArray[np.int64]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    changed: NDArray[np.bool_]


class Heap(NamedTuple):
    """Tuples that wait, by event time and position; empty arrays where there is no event-time delay.

    Attributes
    ----------
    slots : (slots,) a binary heap of scalars[BUFFERED] slots, the first due at its top
    at : (slots,) where in ``slots`` each slot stands
    """

    slots: NDArray[np.int32]
    at: NDArray[np.int32]


class Omega(NamedTuple):
    """Generalisations kept for reuse: a ring, oldest overwritten first.

    Attributes
    ----------
    box : what was published
    subjects : (rows,) distinct subjects behind it
    diversity : (rows, sensitive) distinct sensitive values behind it
    release : (rows,) id of the release it stems from
    matches : (rows,) scratch
    """

    box: Boxes
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    release: NDArray[np.int64]
    matches: NDArray[np.int32]


class Live(NamedTuple):
    """One shard. ``tau`` and ``ring`` hold the losses that tau averages; ``totals`` what has happened so far."""

    scalars: NDArray[np.int64]
    parameters: NDArray[np.int64]
    tau: NDArray[np.float64]
    ring: NDArray[np.float64]
    random: RandomStream
    domain: Domain
    tuples: Tuples
    clusters: Clusters
    counts: Counts
    diversity: NDArray[np.int64]
    heap: Heap
    omega: Omega
    out: Out
    totals: NDArray[np.int64]
    loss_total: NDArray[np.float64]
    delays: NDArray[np.int64]


# Positions in Live.totals; suppressed and kinds take one place for each reason and kind.
RELEASED, MERGES, SPLITS, LONGEST_DELAY, SUPPRESSED, KIND = 0, 1, 2, 3, 4, 7
TOTALS = 12


def parameters(policy: Policy, privacy: Privacy, castle: CastleParameters) -> NDArray[np.int64]:
    """What the procedures read; -1 stands for a delay that is not set."""
    values = np.zeros(7, np.int64)
    values[K], values[L] = privacy.k, privacy.l
    values[DELAY_TUPLES] = NONE if castle.delay_tuples is None else castle.delay_tuples
    values[DELAY_EVENT_TIME] = NONE if castle.delay_event_time is None else castle.delay_event_time
    values[MAX_CLUSTERS] = castle.max_clusters
    values[GENERALISE] = castle.suppression == "generalise"
    values[HAS_SUBJECT] = policy.subject is not None
    return values


def empty_live(
    policy: Policy, privacy: Privacy, castle: CastleParameters, random: RandomStream, clusters: int | None = None
) -> Live:
    """A shard before its first tuple, with room for ``clusters`` open ones (default: ``max_clusters``)."""
    rows = max(castle.max_clusters, clusters or 0)
    sensitive = len(policy.sensitive)
    scalars = np.zeros(SCALARS, np.int64)
    scalars[OLDEST] = scalars[YOUNGEST] = NONE
    scalars[CLOCK] = NO_TIME
    return Live(
        scalars=scalars,
        parameters=parameters(policy, privacy, castle),
        tau=np.zeros(1),
        ring=np.zeros(castle.loss_window),
        random=random,
        domain=domain(policy),
        tuples=_tuples(0, policy),
        clusters=Clusters(
            rows=np.arange(rows, dtype=np.int32),
            place=np.arange(rows, dtype=np.int32),
            box=boxes(rows, policy),
            sides=boxes_by_attribute(rows, policy),
            id=np.zeros(rows, np.int64),
            head=np.full(rows, NONE, np.int32),
            tail=np.full(rows, NONE, np.int32),
            tuples=np.zeros(rows, np.int64),
            subjects=np.zeros(rows, np.int64),
            diversity=np.zeros((rows, sensitive), np.int64),
            changed=np.zeros(rows, np.bool_),
        ),
        counts=empty_counts(0),
        diversity=np.zeros(sensitive, np.int64),
        heap=_heap(0, castle),
        omega=Omega(
            box=boxes(castle.reuse_limit, policy),
            subjects=np.zeros(castle.reuse_limit, np.int64),
            diversity=np.zeros((castle.reuse_limit, sensitive), np.int64),
            release=np.zeros(castle.reuse_limit, np.int64),
            matches=np.zeros(castle.reuse_limit, np.int32),
        ),
        out=empty_out(0, policy),
        totals=np.zeros(TOTALS, np.int64),
        loss_total=np.zeros(1),
        delays=np.zeros(DELAY_BUCKETS, np.int64),
    )


def with_room(live: Live, slots: int, policy: Policy, castle: CastleParameters) -> Live:
    """The same shard with ``slots`` slots or more; what it holds keeps its slots."""
    held = len(live.tuples.position)
    if slots <= held:
        return live
    tuples, heap = _tuples(slots, policy), _heap(slots, castle)
    before: list[NDArray[Any]] = [*live.tuples, *live.heap]
    after: list[NDArray[Any]] = [*tuples, *heap]
    for old, new in zip(before, after, strict=True):
        new[: len(old)] = old
    return live._replace(tuples=tuples, heap=heap, out=empty_out(slots, policy))


def _tuples(slots: int, policy: Policy) -> Tuples:
    return Tuples(
        numeric=zeros((slots, len(policy.numeric))),
        leaf=zeros((slots, len(policy.categorical)), np.int32),
        subject=zeros(slots, np.uint64),
        sensitive=zeros((slots, len(policy.sensitive)), np.uint64),
        event_time=zeros(slots, np.int64),
        position=zeros(slots, np.int64),
        cluster=full(slots, NONE, np.int32),
        next=full(slots, NONE, np.int32),
        previous=full(slots, NONE, np.int32),
        younger=full(slots, NONE, np.int32),
        older=full(slots, NONE, np.int32),
    )


def _heap(slots: int, castle: CastleParameters) -> Heap:
    room = 0 if castle.delay_event_time is None else slots
    return Heap(full(room, NONE, np.int32), full(room, NONE, np.int32))


@inner
def points(tuples: Tuples) -> Boxes:
    """Tuples seen as boxes: a point is an interval of one value."""
    return Boxes(tuples.numeric, tuples.numeric, tuples.leaf)
