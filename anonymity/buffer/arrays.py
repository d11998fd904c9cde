"""Arrays of one shard, shared by the compiled procedures of CASTLE.

A tuple occupies a *slot*, an open cluster a *row*. The code reuses slots and rows, so no result may depend on their
numbers. State that must survive a restore is ordered by position (tuples) or by id (clusters, releases).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import ReleaseBuffer, ShardTotals, empty_out, empty_totals
from crenel.anonymity.buffer.repair_log import RepairLog, empty_log
from crenel.anonymity.buffer.repair_log import with_slots as log_with_slots
from crenel.anonymity.compiled.arrays import extend, extended, full, record, zeros
from crenel.anonymity.compiled.jit import inner
from crenel.anonymity.compiled.random import CounterRandom, RandomStream, counter_random
from crenel.anonymity.model.delay import DelayedSettings
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import relative_weights
from crenel.anonymity.noise.release_noise import NoiseArrays, within
from crenel.anonymity.noise.release_noise import with_slots as noise_with_slots
from crenel.anonymity.privacy_models.buffered_values import Waiting, empty_waiting
from crenel.anonymity.privacy_models.buffered_values import with_slots as waiting_with_slots
from crenel.anonymity.privacy_models.checks import Checks, checks_of
from crenel.anonymity.privacy_models.counting import empty_counts
from crenel.anonymity.privacy_models.lookup import with_numbers
from crenel.anonymity.privacy_models.tally import Counter, empty_counter, most_values
from crenel.anonymity.space.boxes_by_attribute import BoxesByAttribute, boxes_by_attribute
from crenel.anonymity.space.domain import NONE, Boxes, Domain, boxes, domain


class Tuples(NamedTuple):
    """Buffered tuples, one per slot.

    Attributes
    ----------
    numeric : (slots, numeric) values of the numeric quasi-identifiers
    leaf : (slots, categorical) values of the categorical quasi-identifiers, as hierarchy nodes
    subject : (slots,) keyed hash of the person
    sensitive : (slots, codes) codes of the sensitive values, as in ``crenel.state.block.TupleColumns``
    event_time : (slots,) epoch milliseconds
    position : (slots,) position in the shard's stream, from 0
    cluster : (slots,) row of the tuple's cluster, ``NONE`` where the slot is free
    next, previous : (slots,) neighbors in the tuple's cluster, in order of position
    younger, older : (slots,) neighbors among all buffered tuples, in order of position
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
    """Open clusters of one shard: the set Gamma of CASTLE.

    Attributes
    ----------
    rows : (rows,) the rows of the ``now.open`` open clusters in arbitrary order, then the free rows
    place : (rows,) index of each row in ``rows``
    box : the range intervals of each cluster (CASTLE, Definition 3.1)
    by_attribute : the same intervals, indexed by ``place``; the first ``now.open`` belong to open clusters
    id : (rows,) number of the cluster in the shard, from 0
    head, tail : (rows,) slots of the first and the last member
    tuples : (rows,) number of members
    subjects : (rows,) number of distinct subjects: C.size in the paper
    changed : (rows,) whether the cluster differs from its stored copy
    """

    rows: NDArray[np.int32]
    place: NDArray[np.int32]
    box: Boxes
    by_attribute: BoxesByAttribute
    id: NDArray[np.int64]
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    tuples: NDArray[np.int64]
    subjects: NDArray[np.int64]
    changed: NDArray[np.bool_]


class Expiry(NamedTuple):
    """Buffered tuples in order of deadline, then position.

    The arrays are empty where tuples fall due in order of position, or where no such deadline exists.

    Attributes
    ----------
    slots : (slots,) a binary heap of ``now.waiting`` slots with the next due tuple at its top
    place : (slots,) index of each slot in ``slots``
    due : (slots,) the deadline: the last position, or epoch milliseconds, until which the tuple may wait
    """

    slots: NDArray[np.int32]
    place: NDArray[np.int32]
    due: NDArray[np.int64]


class Omega(NamedTuple):
    """Published generalizations kept for reuse (Omega in CASTLE): a ring that overwrites its oldest row first.

    Attributes
    ----------
    box : the published generalizations
    by_attribute : the same generalizations, by attribute
    subjects : (rows,) distinct subjects in the original release
    diversity : (rows, sensitive) l-diversity of the original release
    release : (rows,) id of the original release
    span : (rows, 2, noised) minimum and maximum of its noised attributes
    """

    box: Boxes
    by_attribute: BoxesByAttribute
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    release: NDArray[np.int64]
    span: NDArray[np.float64]


class ReleaseArrays(NamedTuple):
    """The part of a shard's arrays that every algorithm has (``crenel.anonymity.buffer.departure``).

    Attributes
    ----------
    now : current scalars, among them ``next_position`` and ``next_release``, the next numbers to assign
    config : configured scalars, among them ``k`` and ``by_name``: 1 if the policy names a subject, else 0
    counter : counter for the final check of a release
    """

    now: Any
    config: Any
    checks: Checks
    random: RandomStream
    domain: Domain
    counter: Counter
    out: ReleaseBuffer
    totals: ShardTotals
    noise: NoiseArrays


@extended
class CastleArrays(ReleaseArrays):
    """All arrays of one shard that buffers tuples up to a delay bound.

    Attributes
    ----------
    now : current scalars. ``next_position``, ``next_cluster``, ``next_release``: the next numbers to assign;
        ``waiting``, ``open``: numbers of buffered tuples and open clusters; ``oldest``, ``youngest``: slots;
        ``ring_used``, ``ring_next``, ``omega_used``, ``omega_next``: fill level and next index of the two rings;
        ``merges``, ``splits``: counts so far; ``tau``: mean loss of recent releases
    config : configured scalars. ``k``; ``delay_tuples``, ``delay_event_time``: delay bounds, -1 where there is none;
        ``early_tuples``, ``early_event_time``: the most by which jitter advances a tuple's deadline; ``max_clusters``;
        ``generalize``, ``by_name`` (the policy names a subject), ``keep_all`` (keep each release for reuse, whatever
        its loss): 0 or 1; ``least_values``: minimum of sensitive values per release
    ring : (loss_window,) losses of recent releases, whose mean is tau
    by_position, by_time : deadlines of buffered tuples by position and by event time
    weight : (numeric,) relative weight of each numeric attribute in distances
    metric : ``domain`` with weighted ``scale`` and ``loss``, for distances; losses are those of ``domain``
    repairs : log of the decisions on expiring tuples
    """

    ring: NDArray[np.float64]
    deadline_random: CounterRandom
    tuples: Tuples
    clusters: Clusters
    waiting: Waiting
    by_position: Expiry
    by_time: Expiry
    omega: Omega
    weight: NDArray[np.float64]
    metric: Domain
    repairs: RepairLog


A = TypeVar("A", bound=CastleArrays)


def empty_arrays(
    policy: Policy, privacy: Privacy, settings: DelayedSettings, random: RandomStream, clusters: int = 0
) -> CastleArrays:
    """Return a shard without tuples and with room for at least ``clusters`` and ``max_clusters`` open clusters."""
    rows = max(settings.cluster_limit, clusters)
    sensitive = len(policy.sensitive)
    now = record(
        "next_position next_cluster next_release waiting open oldest youngest "
        "ring_used ring_next omega_used omega_next merges splits",
        "tau",
    )
    now.oldest = now.youngest = NONE
    space, (numeric, categorical) = domain(policy), relative_weights(policy, settings.weights)
    sizes = [len(attribute.hierarchy.labels) for attribute in policy.categorical]
    return CastleArrays(  # type: ignore[call-arg]  # mypy knows no further fields in a subclass of a NamedTuple
        now=now,
        config=_config(policy, privacy, settings),
        checks=checks_of(policy, privacy),
        ring=np.zeros(settings.loss_window),
        random=random,
        deadline_random=counter_random(random.key),
        domain=space,
        tuples=_tuples(0, policy),
        clusters=Clusters(
            rows=np.arange(rows, dtype=np.int32),
            place=np.arange(rows, dtype=np.int32),
            box=boxes(rows, policy),
            by_attribute=boxes_by_attribute(rows, policy, rises=True),
            id=np.zeros(rows, np.int64),
            head=np.full(rows, NONE, np.int32),
            tail=np.full(rows, NONE, np.int32),
            tuples=np.zeros(rows, np.int64),
            subjects=np.zeros(rows, np.int64),
            changed=np.zeros(rows, np.bool_),
        ),
        waiting=empty_waiting(empty_counts(0), policy.widths, 0),
        counter=empty_counter(policy.widths, 0),
        by_position=_expiry(0),
        by_time=_expiry(0),
        omega=Omega(
            box=boxes(settings.reuse_limit, policy),
            by_attribute=boxes_by_attribute(settings.reuse_limit, policy),
            subjects=np.zeros(settings.reuse_limit, np.int64),
            diversity=np.zeros((settings.reuse_limit, sensitive), np.int64),
            release=np.zeros(settings.reuse_limit, np.int64),
            span=np.zeros((settings.reuse_limit, 2, len(policy.noised))),
        ),
        out=empty_out(0, boxes(0, policy), sensitive),
        totals=empty_totals(len(privacy.reasons), len(KINDS)),
        noise=within(policy, privacy, 0),
        weight=numeric,
        metric=space._replace(scale=space.scale * numeric, loss=space.loss * np.repeat(categorical, sizes)),
        repairs=empty_log(),
    )


def _config(policy: Policy, privacy: Privacy, settings: DelayedSettings) -> Any:
    config = record(
        "k delay_tuples delay_event_time early_tuples early_event_time max_clusters generalize by_name least_values "
        "keep_all"
    )
    config.k = privacy.k
    config.delay_tuples = NONE if settings.delay.tuples is None else settings.delay.tuples
    config.delay_event_time = NONE if settings.delay.event_time is None else settings.delay.event_time
    config.early_tuples = int(settings.delay.jitter * (settings.delay.tuples or 0))
    config.early_event_time = int(settings.delay.jitter * (settings.delay.event_time or 0))
    config.max_clusters = settings.cluster_limit
    config.generalize = settings.suppression == "generalize"
    config.by_name = policy.subject is not None
    config.least_values = privacy.least_values
    return config


def with_slots(arrays: A, slots: int, policy: Policy, settings: DelayedSettings) -> A:
    """Return the same shard with at least ``slots`` slots; buffered tuples keep their slots."""
    held = len(arrays.tuples.position)
    if slots <= held:
        return arrays
    tuples = _tuples(slots, policy)
    by_position = _expiry(slots if arrays.config.early_tuples > 0 else 0)
    by_time = _expiry(0 if settings.delay.event_time is None else slots)
    before: list[NDArray[Any]] = [*arrays.tuples, *arrays.by_position, *arrays.by_time]
    after: list[NDArray[Any]] = [*tuples, *by_position, *by_time]
    for old, new in zip(before, after, strict=True):
        new[: len(old)] = old
    sensitive = len(policy.sensitive)
    return extend(
        type(arrays),
        arrays,
        checks=arrays.checks._replace(lookup=with_numbers(arrays.checks.lookup, most_values(policy.widths, slots))),
        tuples=tuples,
        waiting=waiting_with_slots(arrays.waiting, slots),
        counter=empty_counter(policy.widths, slots),
        by_position=by_position,
        by_time=by_time,
        out=empty_out(slots, boxes(slots, policy), sensitive),
        noise=noise_with_slots(arrays.noise, slots),
        repairs=log_with_slots(arrays.repairs, slots),
    )


def _tuples(slots: int, policy: Policy) -> Tuples:
    return Tuples(
        numeric=zeros((slots, len(policy.numeric))),
        leaf=zeros((slots, len(policy.categorical)), np.int32),
        subject=zeros(slots, np.uint64),
        sensitive=zeros((slots, sum(policy.widths)), np.uint64),
        event_time=zeros(slots, np.int64),
        position=zeros(slots, np.int64),
        cluster=full(slots, NONE, np.int32),
        next=zeros(slots, np.int32),
        previous=zeros(slots, np.int32),
        younger=zeros(slots, np.int32),
        older=zeros(slots, np.int32),
    )


def _expiry(slots: int) -> Expiry:
    return Expiry(full(slots, NONE, np.int32), full(slots, NONE, np.int32), zeros(slots, np.int64))


@inner
def points(tuples: Tuples) -> Boxes:
    """Return tuples as boxes: a point is an interval of one value."""
    return Boxes(tuples.numeric, tuples.numeric, tuples.leaf)
