"""Gamma: how tuples get into clusters, and out of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.castle.arrays import (
    BUFFERED,
    HAS_SUBJECT,
    MAX_CLUSTERS,
    NEXT_CLUSTER,
    OLDEST,
    OPEN,
    SUBJECTS,
    YOUNGEST,
    K,
    L,
    Live,
    points,
)
from anonymity.castle.expiry import schedule, unschedule
from anonymity.compiled.counting import add, discard
from anonymity.compiled.jit import Int, entry, inner, procedure
from anonymity.space.boxes import assign, enclose, enlargement, equal, loss_after, room
from anonymity.space.boxes_by_attribute import enlargements_by, lay
from anonymity.space.domain import NONE

_EVERYTHING = np.int64(-1)  # stands for a row: all that waits
_SUBJECT = np.int64(-1)  # stands for a sensitive attribute; not literals, or numba compiles a function for each


@inner
def counted(live: Live) -> Int:
    """How many sensitive attributes are counted: none for l = 1, which every tuple satisfies."""
    return live.tuples.sensitive.shape[1] if live.parameters[L] > 1 else 0


@inner
def _owner(row: Int, attribute: Int, attributes: Int) -> Int:
    return (row + 1) * (attributes + 1) + attribute + 1


@inner
def _count_in(live: Live, row: Int, slot: Int) -> None:
    attributes = counted(live)
    clusters = live.clusters
    if live.parameters[HAS_SUBJECT] == 0:
        clusters.subjects[row] += 1
    elif add(live.counts, _owner(row, _SUBJECT, attributes), live.tuples.subject[slot]):
        clusters.subjects[row] += 1
    for a in range(attributes):
        if add(live.counts, _owner(row, a, attributes), live.tuples.sensitive[slot, a]):
            clusters.diversity[row, a] += 1


@inner
def _count_out(live: Live, row: Int, slot: Int) -> None:
    attributes = counted(live)
    clusters = live.clusters
    if live.parameters[HAS_SUBJECT] == 0:
        clusters.subjects[row] -= 1
    elif discard(live.counts, _owner(row, _SUBJECT, attributes), live.tuples.subject[slot]):
        clusters.subjects[row] -= 1
    for a in range(attributes):
        if discard(live.counts, _owner(row, a, attributes), live.tuples.sensitive[slot, a]):
            clusters.diversity[row, a] -= 1


@inner
def arrive(live: Live, slot: Int) -> None:
    """Put a tuple at the young end of all that wait."""
    scalars, tuples = live.scalars, live.tuples
    attributes = counted(live)
    tuples.older[slot] = scalars[YOUNGEST]
    tuples.younger[slot] = NONE
    if scalars[YOUNGEST] == NONE:
        scalars[OLDEST] = slot
    else:
        tuples.younger[scalars[YOUNGEST]] = slot
    scalars[YOUNGEST] = slot
    scalars[BUFFERED] += 1
    schedule(live, slot)
    # Distinct over all that waits: what tells whether any merge could reach k and l (CASTLE, Section 4.1, step 17).
    if live.parameters[HAS_SUBJECT] == 0 or add(
        live.counts, _owner(_EVERYTHING, _SUBJECT, attributes), tuples.subject[slot]
    ):
        scalars[SUBJECTS] += 1
    for a in range(attributes):
        if add(live.counts, _owner(_EVERYTHING, a, attributes), tuples.sensitive[slot, a]):
            live.diversity[a] += 1


@inner
def depart(live: Live, slot: Int) -> None:
    """Take a tuple out of all that wait; its slot is free once the step is over."""
    scalars, tuples = live.scalars, live.tuples
    attributes = counted(live)
    unschedule(live, slot)
    older, younger = tuples.older[slot], tuples.younger[slot]
    if older == NONE:
        scalars[OLDEST] = younger
    else:
        tuples.younger[older] = younger
    if younger == NONE:
        scalars[YOUNGEST] = older
    else:
        tuples.older[younger] = older
    scalars[BUFFERED] -= 1
    tuples.cluster[slot] = NONE
    if live.parameters[HAS_SUBJECT] == 0 or discard(
        live.counts, _owner(_EVERYTHING, _SUBJECT, attributes), tuples.subject[slot]
    ):
        scalars[SUBJECTS] -= 1
    for a in range(attributes):
        if discard(live.counts, _owner(_EVERYTHING, a, attributes), tuples.sensitive[slot, a]):
            live.diversity[a] -= 1


@inner
def append(live: Live, row: Int, slot: Int) -> None:
    """Link a tuple behind the members of a cluster, whose box has room for it already."""
    tuples, clusters = live.tuples, live.clusters
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
    _count_in(live, row, slot)


@inner
def open_cluster(live: Live, slot: Int) -> None:
    """A new cluster over one tuple (CASTLE, Algorithm 1, step 8)."""
    row = add_row(live, live.scalars[NEXT_CLUSTER])
    live.scalars[NEXT_CLUSTER] += 1
    assign(live.clusters.box, row, points(live.tuples), slot)
    _mirror(live, row)
    append(live, row, slot)


@inner
def _mirror(live: Live, row: Int) -> None:
    """Bring the sides of a cluster, whose box or place has changed, up to date."""
    clusters = live.clusters
    lay(live.domain, clusters.sides, np.int64(clusters.place[row]), clusters.box, row)


@inner
def add_row(live: Live, identity: Int) -> Int:
    """A row for a cluster that has no member yet."""
    clusters = live.clusters
    row = np.int64(clusters.rows[live.scalars[OPEN]])
    live.scalars[OPEN] += 1
    clusters.id[row] = identity
    clusters.head[row] = clusters.tail[row] = NONE
    clusters.tuples[row] = clusters.subjects[row] = 0
    for a in range(clusters.diversity.shape[1]):
        clusters.diversity[row, a] = 0
    clusters.changed[row] = True
    return row


@entry
def relink(live: Live, slots: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
    """Link restored tuples, in order of position, into the open clusters that they were in."""
    for i in range(live.scalars[OPEN]):
        _mirror(live, np.int64(live.clusters.rows[i]))
    for i in range(len(slots)):
        append(live, np.int64(rows[i]), np.int64(slots[i]))
        arrive(live, np.int64(slots[i]))


@inner
def push(live: Live, row: Int, slot: Int) -> None:
    """Push a tuple into a cluster (CASTLE, Algorithm 1, step 10)."""
    enclose(live.domain, live.clusters.box, row, points(live.tuples), slot)
    live.clusters.changed[row] = True
    _mirror(live, row)
    append(live, row, slot)


@procedure
def remove(live: Live, slot: Int) -> None:
    """Take one tuple out of its cluster; the cluster shrinks to what is left (CASTLE, Definition 3.1: minimal)."""
    tuples, clusters = live.tuples, live.clusters
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
    _count_out(live, row, slot)
    if clusters.tuples[row] == 0:
        close_cluster(live, row)
        return
    only = np.int64(0)
    box, others, domain, following = room(np.int64(1), clusters.box), points(tuples), live.domain, tuples.next
    member = np.int64(clusters.head[row])
    assign(box, only, others, member)
    while member != NONE and not equal(box, only, clusters.box, row):
        enclose(domain, box, only, others, member)
        member = np.int64(following[member])
    assign(clusters.box, row, box, only)
    _mirror(live, row)


@inner
def close_cluster(live: Live, row: Int) -> None:
    """Delete a cluster that has no member left from Gamma."""
    clusters = live.clusters
    live.scalars[OPEN] -= 1
    place, last = clusters.place[row], live.scalars[OPEN]
    moved = clusters.rows[last]
    clusters.rows[place], clusters.rows[last] = moved, row
    clusters.place[moved], clusters.place[row] = place, last
    _mirror(live, np.int64(moved))


@inner
def release_members(live: Live, row: Int) -> None:
    """Empty a cluster whose members have all been released, and delete it."""
    clusters = live.clusters
    member = np.int64(clusters.head[row])
    while member != NONE:
        after = np.int64(live.tuples.next[member])
        _count_out(live, row, member)
        depart(live, member)
        member = after
    clusters.tuples[row] = 0
    close_cluster(live, row)


@inner
def best_selection(live: Live, slot: Int) -> Int:
    """The row of the cluster to push a tuple into, ``NONE`` to open a new one (CASTLE, Section 4.1).

    Where the paper says "any cluster", it is the oldest.
    """
    clusters, domain = live.clusters, live.domain
    box, others, tau, growth = clusters.box, points(live.tuples), live.tau[0], clusters.sides.growth
    enlargements_by(domain, clusters.sides, others, slot, live.scalars[OPEN])
    least = np.inf
    for i in range(live.scalars[OPEN]):
        least = min(least, growth[i])
    best, best_fits = np.int64(NONE), False
    for i in range(live.scalars[OPEN]):
        if growth[i] == least:
            row = np.int64(clusters.rows[i])
            fits = loss_after(domain, box, row, others, slot) <= tau
            if best == NONE or (fits and not best_fits) or (fits == best_fits and _smaller(live, row, best)):
                best, best_fits = row, fits
    if not best_fits and live.scalars[OPEN] < live.parameters[MAX_CLUSTERS]:
        return NONE
    return best


@inner
def _smaller(live: Live, row: Int, other: Int) -> bool:
    clusters = live.clusters
    if clusters.subjects[row] != clusters.subjects[other]:
        return clusters.subjects[row] < clusters.subjects[other]
    return clusters.id[row] < clusters.id[other]


@inner
def satisfied(live: Live, row: Int) -> bool:
    """Whether a cluster has k subjects and l values of each sensitive attribute (CASTLE, Definition 4.1)."""
    if live.clusters.subjects[row] < live.parameters[K]:
        return False
    for a in range(counted(live)):
        if live.clusters.diversity[row, a] < live.parameters[L]:
            return False
    return True


@inner
def is_outlier(live: Live, row: Int) -> bool:
    """Whether more than half of Gamma is larger than a cluster (CASTLE, delay_constraint, steps 10 to 14)."""
    larger = 0
    for i in range(live.scalars[OPEN]):
        if live.clusters.subjects[live.clusters.rows[i]] > live.clusters.subjects[row]:
            larger += 1
    return 2 * larger > live.scalars[OPEN]


@procedure
def merge_clusters(live: Live, row: Int) -> None:
    """Merge the nearest clusters into one until it has k subjects and l values (CASTLE, Section 4.1).

    The paper adds up sizes; here distinct subjects are counted over the union, and l must hold as well.
    """
    clusters = live.clusters
    while not satisfied(live, row):
        least = np.inf
        nearest = np.int64(NONE)
        domain, box = live.domain, clusters.box
        for i in range(live.scalars[OPEN]):
            other = np.int64(clusters.rows[i])
            if other == row:
                continue
            growth = enlargement(domain, box, row, box, other, least)
            if growth < least or (growth == least and clusters.id[other] < clusters.id[nearest]):
                least, nearest = growth, other
        if nearest == NONE:
            raise RuntimeError("Gamma does not hold enough subjects or sensitive values to merge")
        enclose(live.domain, clusters.box, row, clusters.box, nearest)
        member = np.int64(clusters.head[nearest])
        while member != NONE:
            after = np.int64(live.tuples.next[member])
            _count_out(live, nearest, member)
            append(live, row, member)
            member = after
        clusters.tuples[nearest] = 0
        close_cluster(live, nearest)
    _mirror(live, row)
