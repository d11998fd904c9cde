"""Gamma, the set of open clusters: insertion, removal, selection and merging (CASTLE, Section 4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.arrays import CastleArrays, points
from crenel.anonymity.buffer.queue import TOO_FEW_SUBJECTS, arrive, depart
from crenel.anonymity.compiled.arrays import least, stable_order
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.privacy_models.buffered_values import join_group, leave_group
from crenel.anonymity.privacy_models.checks import first_violation, satisfies_all
from crenel.anonymity.privacy_models.tally import count_set
from crenel.anonymity.space.boxes import assign, empty_boxes, enclose, enlargement, equal, loss_after
from crenel.anonymity.space.boxes_by_attribute import enlargements_by, lay
from crenel.anonymity.space.domain import NONE, Boxes


@leaf
def _count_in(shard: CastleArrays, row: Int, slot: Int) -> None:
    if shard.config.by_name == 0 or join_group(shard.waiting, row, shard.tuples.subject[slot]):
        shard.clusters.subjects[row] += 1


@leaf
def _count_out(shard: CastleArrays, row: Int, slot: Int) -> None:
    if shard.config.by_name == 0 or leave_group(shard.waiting, row, shard.tuples.subject[slot]):
        shard.clusters.subjects[row] -= 1


@leaf
def append(shard: CastleArrays, row: Int, slot: Int) -> None:
    """Append a tuple to the members of a cluster whose box already covers it."""
    tuples, clusters = shard.tuples, shard.clusters
    tail = clusters.tail[row]
    tuples.previous[slot] = tail
    tuples.next[slot] = NONE
    if tail == NONE:
        clusters.head[row] = slot
    else:
        tuples.next[tail] = slot
    clusters.tail[row] = slot
    clusters.tuples[row] += 1
    tuples.cluster[slot] = row
    _count_in(shard, row, slot)


@leaf
def open_cluster(shard: CastleArrays, slot: Int) -> None:
    """Open a cluster for one tuple (CASTLE, Algorithm 1, step 8)."""
    row = add_row(shard, shard.now.next_cluster)
    shard.now.next_cluster += 1
    assign(shard.clusters.box, row, points(shard.tuples), slot)
    _mirror(shard, row)
    append(shard, row, slot)


@leaf
def _mirror(shard: CastleArrays, row: Int) -> None:
    """Update the by-attribute copy of a cluster whose box or place has changed."""
    clusters = shard.clusters
    lay(shard.metric, clusters.by_attribute, np.int64(clusters.place[row]), clusters.box, row)


@leaf
def add_row(shard: CastleArrays, identity: Int) -> Int:
    """Return the row of a new cluster without members."""
    clusters = shard.clusters
    row = np.int64(clusters.rows[shard.now.open])
    shard.now.open += 1
    clusters.id[row] = identity
    clusters.head[row] = clusters.tail[row] = NONE
    clusters.tuples[row] = clusters.subjects[row] = 0
    clusters.changed[row] = True
    return row


@entry
def relink(shard: CastleArrays, slots: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
    """Append restored tuples, in order of position, to the open clusters of the snapshot."""
    for i in range(shard.now.open):
        _mirror(shard, np.int64(shard.clusters.rows[i]))
    for i in range(len(slots)):
        append(shard, np.int64(rows[i]), np.int64(slots[i]))
        arrive(shard, np.int64(slots[i]))


@leaf
def push(shard: CastleArrays, row: Int, slot: Int) -> None:
    """Push a tuple into a cluster (CASTLE, Algorithm 1, step 10)."""
    enclose(shard.domain, shard.clusters.box, row, points(shard.tuples), slot)
    shard.clusters.changed[row] = True
    _mirror(shard, row)
    append(shard, row, slot)


@procedure
def remove(shard: CastleArrays, slot: Int) -> None:
    """Remove a tuple from its cluster and shrink the box to the other members (CASTLE, Definition 3.1: minimal)."""
    tuples, clusters = shard.tuples, shard.clusters
    row = np.int64(tuples.cluster[slot])
    before, after = tuples.previous[slot], tuples.next[slot]
    if before == NONE:
        clusters.head[row] = after
    else:
        tuples.next[before] = after
    if after == NONE:
        clusters.tail[row] = before
    else:
        tuples.previous[after] = before
    clusters.tuples[row] -= 1
    clusters.changed[row] = True
    _count_out(shard, row, slot)
    if clusters.tuples[row] == 0:
        close_cluster(shard, row)
        return
    only = np.int64(0)
    box, others, domain, following = empty_boxes(np.int64(1), clusters.box), points(tuples), shard.domain, tuples.next
    member = np.int64(clusters.head[row])
    assign(box, only, others, member)
    while member != NONE and not equal(box, only, clusters.box, row):
        enclose(domain, box, only, others, member)
        member = np.int64(following[member])
    assign(clusters.box, row, box, only)
    _mirror(shard, row)


@leaf
def close_cluster(shard: CastleArrays, row: Int) -> None:
    """Delete an empty cluster from Gamma."""
    clusters = shard.clusters
    shard.now.open -= 1
    place, last = clusters.place[row], shard.now.open
    moved = clusters.rows[last]
    clusters.rows[place], clusters.rows[last] = moved, row
    clusters.place[moved], clusters.place[row] = place, last
    _mirror(shard, np.int64(moved))


@leaf
def release_members(shard: CastleArrays, row: Int) -> None:
    """Empty and delete a cluster after its release.

    Members whose ``cluster`` is still set leave the buffer. The others stay buffered: see ``wait_on``.
    """
    clusters, tuples = shard.clusters, shard.tuples
    member = np.int64(clusters.head[row])
    while member != NONE:
        after = np.int64(tuples.next[member])
        _count_out(shard, row, member)
        if tuples.cluster[member] != NONE:
            depart(shard, member)
        member = after
    clusters.tuples[row] = 0
    close_cluster(shard, row)


@procedure
def wait_on(shard: CastleArrays, members: NDArray[np.int64]) -> None:
    """Open one cluster for buffered tuples that have none, in order of position."""
    order = stable_order(shard.tuples.position[members])
    open_cluster(shard, np.int64(members[order[0]]))
    row = np.int64(shard.tuples.cluster[members[order[0]]])
    for i in range(1, len(order)):
        push(shard, row, np.int64(members[order[i]]))


@leaf
def best_selection(shard: CastleArrays, slot: Int) -> Int:
    """Return the row of the best cluster for a tuple, ``NONE`` to open a new one (CASTLE, Section 4.1).

    Where the paper says "any cluster", this function takes the oldest.
    """
    clusters, domain = shard.clusters, shard.domain
    box, others, tau, growth = clusters.box, points(shard.tuples), shard.now.tau, clusters.by_attribute.growth
    enlargements_by(shard.metric, clusters.by_attribute, others, slot, shard.now.open)
    smallest = least(growth, shard.now.open)
    best, best_fits = np.int64(NONE), False
    for i in range(shard.now.open):
        if growth[i] == smallest:
            row = np.int64(clusters.rows[i])
            fits = loss_after(domain, box, row, others, slot) <= tau
            if best == NONE or (fits and not best_fits) or (fits == best_fits and _smaller(shard, row, best)):
                best, best_fits = row, fits
    if not best_fits and shard.now.open < shard.config.max_clusters:
        return NONE
    return best


@leaf
def _smaller(shard: CastleArrays, row: Int, other: Int) -> bool:
    clusters = shard.clusters
    if clusters.subjects[row] != clusters.subjects[other]:
        return clusters.subjects[row] < clusters.subjects[other]
    return clusters.id[row] < clusters.id[other]


@leaf
def satisfied(shard: CastleArrays, row: Int) -> bool:
    """Return whether a cluster has k subjects and satisfies all other privacy models (CASTLE, Definition 4.1)."""
    if shard.clusters.subjects[row] < shard.config.k:
        return False
    return len(shard.checks.address) == 0 or _satisfies_all(shard, row)


@leaf
def unmet_reason(shard: CastleArrays, row: Int) -> Int:
    """Return the reason why a cluster cannot be released, right after ``satisfied`` has counted it."""
    if shard.clusters.subjects[row] < shard.config.k:
        return np.int64(TOO_FEW_SUBJECTS)
    return np.int64(shard.checks.reason[first_violation(shard.checks, shard.counter.tally)])


@procedure
def _satisfies_all(shard: CastleArrays, row: Int) -> bool:
    count_set(
        shard.counter, members_of(shard, row), shard.tuples.subject, shard.waiting.value, shard.config.by_name != 0
    )
    return bool(first_violation(shard.checks, shard.counter.tally) == NONE)


@procedure
def members_of(shard: CastleArrays, row: Int) -> NDArray[np.int64]:
    """Return the slots of a cluster's tuples, (members,), in order of position."""
    members = np.empty(shard.clusters.tuples[row], np.int64)
    member = np.int64(shard.clusters.head[row])
    for i in range(len(members)):
        members[i] = member
        member = np.int64(shard.tuples.next[member])
    return members


@leaf
def is_outlier(shard: CastleArrays, row: Int) -> bool:
    """Return whether over half of Gamma is larger than a cluster (CASTLE, delay_constraint, steps 10 to 14)."""
    larger = 0
    for i in range(shard.now.open):
        if shard.clusters.subjects[shard.clusters.rows[i]] > shard.clusters.subjects[row]:
            larger += 1
    return 2 * larger > shard.now.open


@procedure
def merges_well(shard: CastleArrays, row: Int) -> bool:
    """Return whether ``merge_clusters`` would reach a cluster that satisfies all privacy models.

    The question matters where the union of all Gamma violates a model.
    """
    clusters, domain, only = shard.clusters, shard.domain, np.int64(0)
    box, merged = empty_boxes(np.int64(1), clusters.box), np.zeros(len(clusters.id), np.bool_)
    members = np.empty(shard.now.waiting, np.int64)
    assign(box, only, clusters.box, row)
    other, count = row, 0
    while other != NONE:
        merged[other] = True
        enclose(domain, box, only, clusters.box, other)
        for slot in members_of(shard, other):
            members[count] = slot
            count += 1
        by_name = shard.config.by_name != 0
        count_set(shard.counter, members[:count], shard.tuples.subject, shard.waiting.value, by_name)
        if satisfies_all(shard.checks, shard.config.k, shard.counter.tally):
            return True
        other = _nearest_cluster(shard, box, only, merged)
    return False


@leaf
def _nearest_cluster(shard: CastleArrays, box: Boxes, row: Int, merged: NDArray[np.bool_]) -> Int:
    """Return the open cluster that enlarges a box least, ties to the oldest; ``NONE`` where all are merged."""
    clusters, metric, smallest = shard.clusters, shard.metric, np.inf
    nearest: Int = np.int64(NONE)
    for i in range(shard.now.open):
        other = np.int64(clusters.rows[i])
        if merged[other]:
            continue
        growth = enlargement(metric, box, row, clusters.box, other, smallest)
        if growth < smallest or (growth == smallest and clusters.id[other] < clusters.id[nearest]):
            smallest, nearest = growth, other
    return nearest


@procedure
def merge_clusters(shard: CastleArrays, row: Int) -> None:
    """Merge the nearest clusters into one until it satisfies all privacy models (CASTLE, Section 4.1).

    The paper adds up sizes. This function counts distinct subjects over the union, and l must hold as well.
    """
    clusters, merged = shard.clusters, np.zeros(len(shard.clusters.id), np.bool_)
    merged[row] = True
    while not satisfied(shard, row):
        nearest = _nearest_cluster(shard, clusters.box, row, merged)
        if nearest == NONE:
            raise InvariantError("all of Gamma merged does not satisfy the privacy models")
        enclose(shard.domain, clusters.box, row, clusters.box, nearest)
        member = np.int64(clusters.head[nearest])
        while member != NONE:
            after = np.int64(shard.tuples.next[member])
            _count_out(shard, nearest, member)
            append(shard, row, member)
            member = after
        clusters.tuples[nearest] = 0
        close_cluster(shard, nearest)
        shard.repairs.now.clusters += 1
    _mirror(shard, row)
