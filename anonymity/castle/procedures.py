"""CASTLE's main algorithm and its procedures (Cao et al., TDSC 2011, Section 4), compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.castle.arrays import CastleArrays, points
from anonymity.castle.gamma import (
    arrive,
    best_selection,
    depart,
    is_outlier,
    merge_clusters,
    open_cluster,
    push,
    release_members,
    remove,
    satisfied,
    wait_on,
)
from anonymity.castle.omega import keep, reusable, update_tau
from anonymity.castle.split import group_by_subject, join_broken_parts, may_break, split
from anonymity.castle.split_l import split_l
from anonymity.compiled.jit import Int, entry, leaf, procedure
from anonymity.noise.draw import add_noise, note_scale, span_domain, widen
from anonymity.promise.checks import guarantee_counted
from anonymity.promise.counting import stable_order
from anonymity.promise.waiting import impossible
from anonymity.space.boxes import assign, contains, fully_generalise, info_loss, observe
from anonymity.space.domain import NONE
from anonymity.tuples.leaving import (
    CLUSTER,
    GENERALISED,
    MERGED,
    REUSED,
    SPLIT,
    close_release,
    note_delay,
    withhold,
)
from anonymity.tuples.together import enclose_all, leave_together
from state.block import NO_TIME

OUTLIER, TOO_FEW_SUBJECTS = 0, 1  # positions in anonymity.policy.SUPPRESSIONS


@entry
def castle(shard: CastleArrays, slots: NDArray[np.int32], watermark: Int, ended: bool) -> None:
    """Let in the tuples in ``slots``, in order, and release what falls due (CASTLE, Algorithm 1).

    ``watermark`` is the event time that has passed; where the input has ``ended``, everything falls due.
    """
    for i in range(len(slots) + 1):
        if i < len(slots):
            place(shard, np.int64(slots[i]))
        due = next_due(shard, watermark, ended and i == len(slots))
        while due != NONE:
            delay_constraint(shard, due)
            due = next_due(shard, watermark, ended and i == len(slots))


@leaf
def place(shard: CastleArrays, slot: Int) -> None:
    """Put a new tuple into the best cluster, or into one of its own (CASTLE, Algorithm 1, steps 5 to 10)."""
    now, tuples = shard.now, shard.tuples
    tuples.position[slot] = now.next_position
    now.next_position += 1
    observe(shard.domain, points(tuples), slot, tuples.numeric.shape[1] + tuples.leaf.shape[1])
    row = best_selection(shard, slot)
    if row == NONE:
        open_cluster(shard, slot)
    else:
        push(shard, row, slot)
    arrive(shard, slot)


@leaf
def next_due(shard: CastleArrays, watermark: Int, ended: bool) -> Int:
    """The tuple that must leave next, ``NONE`` where all may wait (CASTLE, Definition 2.2; Algorithm 1, step 11).

    By position the oldest, by event time the earliest. At the end of the input everything is due in order of expiry:
    by event time where that bounds the delay, else by position.
    """
    now, tuples = shard.now, shard.tuples
    if now.waiting == 0:
        return NONE
    oldest = now.oldest
    by_tuples, by_time = shard.of.delay_tuples, shard.of.delay_event_time
    if by_tuples >= 0 and tuples.position[oldest] < now.next_position - by_tuples:
        return oldest
    if by_time >= 0:
        earliest = np.int64(shard.expiry.slots[0])
        if watermark >= NO_TIME + by_time and tuples.event_time[earliest] <= watermark - by_time:
            return earliest
        return earliest if ended else NONE
    return oldest if ended else NONE


@procedure
def delay_constraint(shard: CastleArrays, slot: Int) -> None:
    """Let an expiring tuple leave (CASTLE, Section 4.1, procedure delay_constraint)."""
    row = np.int64(shard.tuples.cluster[slot])
    kind: Int = np.int64(CLUSTER)
    if not satisfied(shard, row):
        published = reusable(shard, slot)
        if published != NONE:
            reuse(shard, slot, published)
            return
        reason = hopeless(shard, row)
        if reason != NONE:
            suppress(shard, slot, reason)
            return
        merge_clusters(shard, row)
        shard.now.merges += 1
        kind = np.int64(MERGED)
    output_cluster(shard, row, slot, kind)


@leaf
def hopeless(shard: CastleArrays, row: Int) -> Int:
    """Why a cluster cannot be merged into a release, ``NONE`` where it can (delay_constraint, steps 10 to 19)."""
    if is_outlier(shard, row):
        return np.int64(OUTLIER)
    if shard.waiting.tally.persons[0] < shard.of.k:
        return np.int64(TOO_FEW_SUBJECTS)
    check = impossible(shard.waiting, shard.checks)
    return np.int64(NONE) if check == NONE else shard.checks.reason[check]


@leaf
def reuse(shard: CastleArrays, slot: Int, published: Int) -> None:
    """Release a tuple under a generalisation of Omega."""
    omega, out = shard.omega, shard.out
    release = out.filled.releases
    guarantee_counted(shard.checks, shard.of.k, omega.subjects[published], omega.diversity[published])
    assign(out.box, release, omega.box, published)
    for a in range(out.diversity.shape[1]):
        out.diversity[release, a] = omega.diversity[published, a]
    widen(shard.noise, omega.span[published], slot)
    _leave_alone(shard, slot, np.int64(REUSED), omega.subjects[published])


@leaf
def suppress(shard: CastleArrays, slot: Int, reason: Int) -> None:
    """Withhold a tuple, or publish it fully generalised as the paper does (delay_constraint, steps 15 and 18)."""
    if shard.of.generalise != 0:
        shard.totals.suppressed[reason] += 1
        release = shard.out.filled.releases
        fully_generalise(shard.domain, shard.out.box, release)
        for a in range(shard.out.diversity.shape[1]):
            shard.out.diversity[release, a] = 1
        span_domain(shard.noise)
        _leave_alone(shard, slot, np.int64(GENERALISED), np.int64(1))
        return
    withhold(shard.out, shard.totals, slot, reason)
    _note_delay(shard, slot)
    remove(shard, slot)
    depart(shard, slot)


@procedure
def output_cluster(shard: CastleArrays, row: Int, due: Int, kind: Int) -> None:
    """Release a cluster, split first where it is large enough (CASTLE, Section 4.1, procedure output_cluster).

    Its members but ``due`` go on waiting, together, where noise within releases has left too few of a part.
    """
    groups = group_by_subject(shard, row)
    parts: Int = np.int64(0)
    if shard.clusters.subjects[row] >= 2 * shard.of.k:
        if shard.of.least_values > 1:
            parts = split_l(shard, groups)
        else:
            parts = split(shard, groups)
        if parts > 1 and may_break(shard, row):
            parts = join_broken_parts(shard, groups, parts)
    else:
        groups.part[:] = 0
    if parts > 1:
        kind = np.int64(SPLIT)
        shard.now.splits += 1
    order = stable_order(groups.part)
    members = np.empty(len(groups.members), np.int64)
    start, stop, waiting = 0, 0, 0
    for i in range(len(order)):
        group = order[i]
        for m in range(groups.start[group], groups.start[group + 1]):
            members[stop] = groups.members[m]
            stop += 1
        if i + 1 == len(order) or groups.part[order[i + 1]] != groups.part[group]:
            for m in range(start, start + release_part(shard, members[start:stop], due, kind)):
                members[waiting] = members[m]
                waiting += 1
            start = stop
    release_members(shard, row)
    if waiting > 0:
        wait_on(shard, members[:waiting])


@leaf
def release_part(shard: CastleArrays, members: NDArray[np.int64], due: Int, kind: Int) -> Int:
    """Release some tuples under one generalisation (output_cluster, steps 6 to 11).

    Where they cannot leave together, all but ``due`` may wait on: they come first in ``members`` then, and have no
    cluster; how many.
    """
    tuples, out, tally = shard.tuples, shard.out, shard.counter.tally
    release, start = out.filled.releases, out.filled.members
    stop = start + len(members)
    domain, box, others = shard.domain, out.box, points(tuples)
    for i in range(len(members)):
        out.members[start + i] = members[i]
    withheld = out.filled.suppressed
    stop, leaves = leave_together(shard, tuples.subject, shard.waiting.value, start, stop)
    waiting: Int = np.int64(0)
    if not leaves:
        waiting = _keep_waiting(shard, members, due, start, stop)
    for i in range(withheld, out.filled.suppressed):
        _note_delay(shard, np.int64(out.suppressed[i]))
    if not leaves:
        return waiting
    newest = enclose_all(domain, box, release, others, out.members[start:stop], tuples.event_time)
    for i in range(start, stop):
        _note_delay(shard, np.int64(out.members[i]))
        if not contains(domain, box, release, others, np.int64(out.members[i])):
            raise RuntimeError("a member lies outside its generalisation; nothing of this release was emitted")
    loss = info_loss(domain, box, release)
    update_tau(shard, loss)
    keep(shard, release, tally.persons[0], loss)
    close_release(out, shard.totals, kind, tally.persons[0], loss, stop, newest)
    shard.now.next_release += 1
    return waiting


@leaf
def _keep_waiting(shard: CastleArrays, members: NDArray[np.int64], due: Int, start: Int, stop: Int) -> Int:
    waiting = np.int64(0)
    for i in range(start, stop):
        slot = np.int64(shard.out.members[i])
        if slot == due:
            withhold(shard.out, shard.totals, slot, shard.noise.of.reason)
        else:
            shard.tuples.cluster[slot] = NONE
            members[waiting] = slot
            waiting += 1
    return waiting


@leaf
def _leave_alone(shard: CastleArrays, slot: Int, kind: Int, subjects: Int) -> None:
    out = shard.out
    start = out.filled.members
    stop = start + 1
    out.members[start] = slot
    _note_delay(shard, slot)
    if shard.noise.value.shape[1] > 0:
        note_scale(shard.noise, out.filled.releases)
        add_noise(shard.noise, shard.random, out.members[start:stop])
        shard.noise.linked[slot] = False  # among whom it is, is not known any more
    loss = info_loss(shard.domain, out.box, out.filled.releases)
    close_release(out, shard.totals, kind, subjects, loss, stop, shard.tuples.event_time[slot])
    shard.now.next_release += 1
    remove(shard, slot)
    depart(shard, slot)


@leaf
def _note_delay(shard: CastleArrays, slot: Int) -> None:
    note_delay(shard.totals, shard.now.next_position - 1 - shard.tuples.position[slot])
