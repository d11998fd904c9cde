"""CASTLE's main algorithm and its procedures (Cao et al., TDSC 2011, Section 4), compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.gamma import (
    best_selection,
    is_outlier,
    merge_clusters,
    merges_well,
    open_cluster,
    push,
    release_members,
    remove,
    satisfied,
    unmet_reason,
    wait_on,
)
from crenel.anonymity.algorithms.castle.split import (
    join_broken_parts,
    may_break,
    members_apart,
    split,
    split_by_subject,
)
from crenel.anonymity.algorithms.castle.split_l import split_l
from crenel.anonymity.buffer.arrays import CastleArrays
from crenel.anonymity.buffer.departure import release_class, reuse, suppress_or_generalize
from crenel.anonymity.buffer.omega import reusable
from crenel.anonymity.buffer.queue import (
    admit_and_release,
    arrive,
    blocking_reason,
    blocking_reason_of_all,
    decide_due,
    depart,
    number,
)
from crenel.anonymity.buffer.release_buffer import CLUSTER, MERGED, SPLIT
from crenel.anonymity.buffer.repair_log import note_shortfall
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.privacy_models.grouping import group
from crenel.anonymity.space.domain import NONE

OUTLIER = 0  # a position in crenel.anonymity.model.outcomes.SUPPRESSIONS


@entry
def castle(
    shard: CastleArrays, slots: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: Int, ended: bool
) -> None:
    """Admit tuples and release the tuples that are due; parameters as those of ``admit_and_release``."""
    admit_and_release(shard, slots, watermarks, watermark, ended, place, release_due)


@procedure
def release_due(shard: CastleArrays, watermark: Int, ended: bool) -> None:
    """Publish or suppress each tuple that is due."""
    decide_due(shard, watermark, ended, delay_constraint)


@leaf
def place(shard: CastleArrays, slot: Int) -> None:
    """Put a new tuple into the best cluster or into a new one (CASTLE, Algorithm 1, steps 5 to 10)."""
    number(shard, slot)
    row = best_selection(shard, slot)
    if row == NONE:
        open_cluster(shard, slot)
    else:
        push(shard, row, slot)
    arrive(shard, slot)


@entry
def forget(shard: CastleArrays, slots: NDArray[np.int32]) -> None:
    """Remove buffered tuples from their clusters, which shrink, and from the buffer."""
    for i in range(len(slots)):
        remove(shard, np.int64(slots[i]))
        depart(shard, np.int64(slots[i]))


@procedure
def delay_constraint(shard: CastleArrays, slot: Int) -> None:
    """Publish or suppress an expiring tuple (CASTLE, Section 4.1, procedure delay_constraint)."""
    row = np.int64(shard.tuples.cluster[slot])
    kind: Int = np.int64(CLUSTER)
    clusters, log = shard.clusters, shard.repairs.now
    log.tuples, log.subjects, log.clusters, log.joined = clusters.tuples[row], clusters.subjects[row], 1, 0
    if not satisfied(shard, row):
        if log.enabled != 0:
            note_shortfall(shard, clusters.box, row, unmet_reason(shard, row))
        published = reusable(shard, slot)
        reason = np.int64(NONE) if published != NONE else unsatisfiable(shard, row)
        if published != NONE or reason != NONE:
            if published != NONE:
                reuse(shard, slot, published)
            else:
                suppress_or_generalize(shard, slot, reason)
            remove(shard, slot)
            depart(shard, slot)
            return
        merge_clusters(shard, row)
        shard.now.merges += 1
        kind = np.int64(MERGED)
    output_cluster(shard, row, slot, kind)


@leaf
def unsatisfiable(shard: CastleArrays, row: Int) -> Int:
    """Return the reason against a merge into a release, ``NONE`` without one (delay_constraint, steps 10 to 19)."""
    if is_outlier(shard, row):
        return np.int64(OUTLIER)
    reason = blocking_reason(shard)
    if reason == NONE:
        reason = blocking_reason_of_all(shard)
        if reason != NONE and merges_well(shard, row):
            reason = np.int64(NONE)
    return reason


@procedure
def output_cluster(shard: CastleArrays, row: Int, due: Int, kind: Int) -> None:
    """Release a cluster, after a split where it is large enough (CASTLE, Section 4.1, procedure output_cluster).

    Where noise within releases leaves too few members of a part, those other than ``due`` stay buffered, in one
    cluster.
    """
    clusters = shard.clusters
    parts: Int = np.int64(0)
    members = members_apart(shard, row)
    if clusters.tuples[row] < 2 * shard.config.k:
        members.part[:] = 0
    elif clusters.subjects[row] < clusters.tuples[row]:
        parts = split_by_subject(shard, members)
    elif shard.config.least_values > 1:
        parts = split_l(shard, members)
    else:
        parts = split(shard, members)
    if parts > 1 and may_break(shard, row):
        shard.repairs.now.joined = parts
        parts = join_broken_parts(shard, members, parts)
        shard.repairs.now.joined -= parts
    if parts > 1:
        kind = np.int64(SPLIT)
        shard.now.splits += 1
    grouped = group(members.part, max(parts, np.int64(1)))
    slots, waiting = members.slot[grouped.items], 0
    for part in range(len(grouped.start) - 1):
        start, stop = grouped.start[part], grouped.start[part + 1]
        for m in range(start, start + release_class(shard, slots[start:stop], due, kind)):
            slots[waiting] = slots[m]
            waiting += 1
    release_members(shard, row)
    if waiting > 0:
        wait_on(shard, slots[:waiting])
