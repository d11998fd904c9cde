"""The live form of a shard: flat arrays that the compiled procedures share.

A tuple lives in a *slot*; an open cluster in a *row*. Both are reused, so nothing may depend on their numbers:
whatever must be the same after a restore is ordered by position (tuples) or by id (clusters, releases).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.counting import Counts, empty_counts
from anonymity.pages import full, zeros
from anonymity.policy import CastleParameters, Policy, Privacy
from anonymity.random import RandomStream
from state.block import NO_TIME

NONE = -1
"""No slot, no row."""

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


class Domain(NamedTuple):
    """What losses are measured against; a loss is divided by the number of quasi-identifiers already.

    Attributes
    ----------
    lower, upper : (numeric,) declared bounds, or the range observed so far (lower > upper: nothing yet)
    declared : (numeric,) whether they were declared
    scale : (numeric,) 1 / (upper - lower) / quasi-identifiers, 0 where that is no finite number
    parent, first, last : (nodes of all hierarchies,) node above; leftmost and rightmost leaf, as nodes
    loss : (nodes of all hierarchies,) VInfoLoss / quasi-identifiers
    root : (categorical,) the root of each hierarchy
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    declared: NDArray[np.bool_]
    scale: NDArray[np.float64]
    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    root: NDArray[np.int32]


class Boxes(NamedTuple):
    """Regions of the space of quasi-identifiers, one a row.

    Attributes
    ----------
    lower, upper : (rows, numeric) interval of each numeric attribute
    node : (rows, categorical) lowest node above all values of each categorical attribute
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]


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


class Sides(NamedTuple):
    """Boxes once more, by attribute: see ``anonymity.sides``.

    Attributes
    ----------
    lower, upper : (numeric, boxes)
    first, last, loss : (categorical, boxes) leftmost and rightmost leaf below the box's node, and its ``Domain.loss``
    growth, step : (boxes,) scratch
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    growth: NDArray[np.float64]
    step: NDArray[np.float64]


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
    sides: Sides
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


class Out(NamedTuple):
    """What one step releases; ``anonymity.releases.Releases`` tells the meaning of each column."""

    box: Boxes
    kind: NDArray[np.int8]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    event_time: NDArray[np.int64]
    end: NDArray[np.int64]
    members: NDArray[np.int32]
    suppressed: NDArray[np.int32]
    reason: NDArray[np.int8]


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

DELAY_STEPS = 32
DELAY_BUCKETS = DELAY_STEPS * 60
"""Delays are counted exactly below 64 tuples, then in steps of at most 1/32 of their size."""


def node_offsets(policy: Policy) -> NDArray[np.int32]:
    """(categorical,) the first node of each hierarchy among the nodes of all."""
    sizes = [len(attribute.hierarchy.labels) for attribute in policy.categorical]
    return np.cumsum([0, *sizes[:-1]], dtype=np.int32)[: len(sizes)]


def domain(policy: Policy) -> Domain:
    """The domain before the first tuple."""
    n = len(policy.quasi_identifiers)
    declared = np.array([a.domain is not None for a in policy.numeric], np.bool_)
    bounds = np.array([a.domain or (np.inf, -np.inf) for a in policy.numeric], np.float64).reshape(-1, 2)
    parts = []
    for attribute, offset in zip(policy.categorical, node_offsets(policy), strict=True):
        tree = attribute.hierarchy
        parts.append((tree.parent + offset, tree.first + offset, tree.last + offset, tree.loss / n, tree.root + offset))
    parent, first, last, loss, root = zip(*parts, strict=True) if parts else ((), (), (), (), ())
    return Domain(
        lower=bounds[:, 0].copy(),
        upper=bounds[:, 1].copy(),
        declared=declared,
        scale=scales(bounds[:, 0], bounds[:, 1], n),
        parent=np.concatenate([np.zeros(0, np.int32), *parent]).astype(np.int32),
        first=np.concatenate([np.zeros(0, np.int32), *first]).astype(np.int32),
        last=np.concatenate([np.zeros(0, np.int32), *last]).astype(np.int32),
        loss=np.concatenate([np.zeros(0), *loss]),
        root=np.array(root, np.int32),
    )


def scales(lower: NDArray[np.float64], upper: NDArray[np.float64], attributes: int) -> NDArray[np.float64]:
    """``Domain.scale`` of some ranges; an empty one has its lower bound above the upper."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = 1.0 / (upper - lower) / attributes
    return np.where(np.isfinite(inverse) & (upper > lower), inverse, 0.0)


def boxes(rows: int, policy: Policy) -> Boxes:
    """Room for ``rows`` boxes."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    return Boxes(zeros((rows, numeric)), zeros((rows, numeric)), zeros((rows, categorical), np.int32))


def _sides(rows: int, policy: Policy) -> Sides:
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    return Sides(
        lower=np.zeros((numeric, rows)),
        upper=np.zeros((numeric, rows)),
        first=np.zeros((categorical, rows), np.int32),
        last=np.zeros((categorical, rows), np.int32),
        loss=np.zeros((categorical, rows)),
        growth=np.zeros(rows),
        step=np.zeros(rows),
    )


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
            sides=_sides(rows, policy),
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


def empty_out(slots: int, policy: Policy) -> Out:
    """Room for what one step releases of ``slots`` tuples."""
    return Out(
        box=boxes(slots, policy),
        kind=zeros(slots, np.int8),
        subjects=zeros(slots, np.int64),
        diversity=zeros((slots, len(policy.sensitive)), np.int64),
        loss=zeros(slots),
        event_time=zeros(slots, np.int64),
        end=zeros(slots, np.int64),
        members=zeros(slots, np.int32),
        suppressed=zeros(slots, np.int32),
        reason=zeros(slots, np.int8),
    )
