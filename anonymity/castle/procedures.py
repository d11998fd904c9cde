"""CASTLE's main algorithm and its procedures (Cao et al., TDSC 2011, Section 4), compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.castle.arrays import (
    BUFFERED,
    CLOCK,
    DELAY_EVENT_TIME,
    DELAY_TUPLES,
    GENERALISE,
    HAS_SUBJECT,
    KIND,
    LONGEST_DELAY,
    MERGES,
    NEXT_POSITION,
    NEXT_RELEASE,
    OLDEST,
    OMEGA_NEXT,
    OMEGA_USED,
    OUT_MEMBERS,
    OUT_RELEASES,
    OUT_SUPPRESSED,
    RELEASED,
    RING_NEXT,
    RING_USED,
    SPLITS,
    SUBJECTS,
    SUPPRESSED,
    K,
    L,
    Live,
    points,
)
from anonymity.castle.gamma import (
    arrive,
    best_selection,
    counted,
    depart,
    is_outlier,
    merge_clusters,
    open_cluster,
    push,
    release_members,
    remove,
    satisfied,
)
from anonymity.castle.split import codes, group_by_subject, split
from anonymity.castle.split_l import split_l
from anonymity.compiled.counting import distinct, stable_order
from anonymity.compiled.jit import Int, entry, inner, procedure
from anonymity.compiled.random import below, shuffle
from anonymity.promise.guarantee import guarantee
from anonymity.space.boxes import assign, contains, enclose, fully_generalise, info_loss, observe
from anonymity.space.domain import NONE
from anonymity.tuples.delays import note_delay
from state.block import NO_TIME

CLUSTER, MERGED, SPLIT, REUSED, GENERALISED = range(5)  # positions in anonymity.policy.KINDS
OUTLIER, TOO_FEW_SUBJECTS, TOO_LITTLE_DIVERSITY = range(3)  # positions in anonymity.policy.SUPPRESSIONS


@entry
def castle(live: Live, slots: NDArray[np.int32], watermark: Int, ended: bool) -> None:
    """Let in the tuples in ``slots``, in order, and release what falls due (CASTLE, Algorithm 1).

    ``watermark`` is the event time that has passed; where the input has ``ended``, everything falls due. All of it
    is one function with one call of each large procedure, because each further call is compiled again.
    """
    for i in range(len(slots) + 1):
        if i < len(slots):
            place(live, np.int64(slots[i]))
        due = next_due(live, watermark, ended and i == len(slots))
        while due != NONE:
            delay_constraint(live, due)
            due = next_due(live, watermark, ended and i == len(slots))


@inner
def place(live: Live, slot: Int) -> None:
    """Put a new tuple into the best cluster, or into one of its own (CASTLE, Algorithm 1, steps 5 to 10)."""
    scalars, tuples = live.scalars, live.tuples
    tuples.position[slot] = scalars[NEXT_POSITION]
    scalars[NEXT_POSITION] += 1
    if tuples.event_time[slot] > scalars[CLOCK]:
        scalars[CLOCK] = tuples.event_time[slot]
    observe(live.domain, points(tuples), slot, tuples.numeric.shape[1] + tuples.leaf.shape[1])
    row = best_selection(live, slot)
    if row == NONE:
        open_cluster(live, slot)
    else:
        push(live, row, slot)
    arrive(live, slot)


@inner
def next_due(live: Live, watermark: Int, ended: bool) -> Int:
    """The tuple that must leave next, ``NONE`` where all may wait (CASTLE, Definition 2.2; Algorithm 1, step 11).

    By position the oldest, by event time the earliest. At the end of the input everything is due in order of expiry:
    by event time where that bounds the delay, else by position.
    """
    scalars, tuples, heap = live.scalars, live.tuples, live.heap
    if scalars[BUFFERED] == 0:
        return NONE
    oldest = np.int64(scalars[OLDEST])
    by_tuples, by_time = live.parameters[DELAY_TUPLES], live.parameters[DELAY_EVENT_TIME]
    if by_tuples >= 0 and tuples.position[oldest] < scalars[NEXT_POSITION] - by_tuples:
        return oldest
    if by_time >= 0:
        earliest = np.int64(heap.slots[0])
        if watermark >= NO_TIME + by_time and tuples.event_time[earliest] <= watermark - by_time:
            if tuples.event_time[earliest] + by_time > scalars[CLOCK]:
                scalars[CLOCK] = tuples.event_time[earliest] + by_time
            return earliest
        return earliest if ended else NONE
    return oldest if ended else NONE


@inner
def delay_constraint(live: Live, slot: Int) -> None:
    """Let an expiring tuple leave (CASTLE, Section 4.1, procedure delay_constraint)."""
    row = np.int64(live.tuples.cluster[slot])
    kind: Int = np.int64(CLUSTER)
    if not satisfied(live, row):
        if reuse(live, slot):
            return
        reason = hopeless(live, row)
        if reason != NONE:
            suppress(live, slot, reason)
            return
        merge_clusters(live, row)
        live.totals[MERGES] += 1
        kind = MERGED
    output_cluster(live, row, kind)


@inner
def hopeless(live: Live, row: Int) -> Int:
    """Why a cluster cannot be merged into a release, ``NONE`` where it can (delay_constraint, steps 10 to 19)."""
    if is_outlier(live, row):
        return np.int64(OUTLIER)
    if live.scalars[SUBJECTS] < live.parameters[K]:
        return TOO_FEW_SUBJECTS
    for a in range(counted(live)):
        if live.diversity[a] < live.parameters[L]:
            return TOO_LITTLE_DIVERSITY
    return NONE


@procedure
def reuse(live: Live, slot: Int) -> bool:
    """Release a tuple under a random one of the published generalisations that contain it, if any does.

    Never the best of them: that would tell where the tuple is not (CASTLE, Section 3.2.2).
    """
    omega, scalars = live.omega, live.scalars
    size, used = len(omega.release), scalars[OMEGA_USED]
    found = 0
    at = scalars[OMEGA_NEXT] - used  # oldest first, so that the choice does not depend on where the ring begins
    if at < 0:
        at += size
    domain, box, tuples, matches = live.domain, omega.box, points(live.tuples), omega.matches
    for _ in range(used):
        if contains(domain, box, at, tuples, slot):
            matches[found] = at
            found += 1
        at += 1
        if at == size:
            at = 0
    if found == 0:
        return False
    chosen = np.int64(matches[below(live.random, found)])
    guarantee(live.parameters[K], live.parameters[L], omega.subjects[chosen], omega.diversity[chosen])
    out, release = live.out, scalars[OUT_RELEASES]
    assign(out.box, release, omega.box, chosen)
    for a in range(out.diversity.shape[1]):
        out.diversity[release, a] = omega.diversity[chosen, a]
    _leave_alone(live, slot, np.int64(REUSED), omega.subjects[chosen])
    return True


@procedure
def suppress(live: Live, slot: Int, reason: Int) -> None:
    """Withhold a tuple, or publish it fully generalised as the paper does (delay_constraint, steps 15 and 18)."""
    live.totals[SUPPRESSED + reason] += 1
    if live.parameters[GENERALISE] != 0:
        release = live.scalars[OUT_RELEASES]
        fully_generalise(live.domain, live.out.box, release)
        for a in range(live.out.diversity.shape[1]):
            live.out.diversity[release, a] = 1
        _leave_alone(live, slot, np.int64(GENERALISED), np.int64(1))
        return
    at = live.scalars[OUT_SUPPRESSED]
    live.out.suppressed[at] = slot
    live.out.reason[at] = reason
    live.scalars[OUT_SUPPRESSED] += 1
    _note_delay(live, slot)
    remove(live, slot)
    depart(live, slot)


@procedure
def output_cluster(live: Live, row: Int, kind: Int) -> None:
    """Release a cluster, split first where it is large enough (CASTLE, Section 4.1, procedure output_cluster)."""
    groups = group_by_subject(live, row)
    parts: Int = np.int64(0)
    if live.clusters.subjects[row] >= 2 * live.parameters[K]:
        if counted(live) > 0:
            parts = split_l(live, groups)
        else:
            parts = split(live, groups)
    else:
        groups.part[:] = 0
    if parts > 1:
        kind = SPLIT
        live.totals[SPLITS] += 1
    order = stable_order(groups.part)
    members = np.empty(len(groups.members), np.int64)
    start, stop = 0, 0
    for i in range(len(order)):
        group = order[i]
        for m in range(groups.start[group], groups.start[group + 1]):
            members[stop] = groups.members[m]
            stop += 1
        if i + 1 == len(order) or groups.part[order[i + 1]] != groups.part[group]:
            release_part(live, members[start:stop], kind)
            start = stop
    release_members(live, row)


@inner
def release_part(live: Live, members: NDArray[np.int64], kind: Int) -> None:
    """Release some tuples under one generalisation (output_cluster, steps 6 to 11)."""
    scalars, tuples, out, omega = live.scalars, live.tuples, live.out, live.omega
    release, start = scalars[OUT_RELEASES], scalars[OUT_MEMBERS]
    stop = start + len(members)
    domain, box, others = live.domain, out.box, points(tuples)
    assign(box, release, others, members[0])
    for member in members:
        enclose(domain, box, release, others, member)
    subjects: Int = len(members)
    if live.parameters[HAS_SUBJECT] != 0:
        subjects = distinct(tuples.subject[members])
    for a in range(tuples.sensitive.shape[1]):
        out.diversity[release, a] = distinct(codes(live, members, a))
    guarantee(live.parameters[K], live.parameters[L], subjects, out.diversity[release])
    for i in range(len(members)):
        if not contains(domain, box, release, others, members[i]):
            raise RuntimeError("a member lies outside its generalisation; nothing of this release was emitted")
        _note_delay(live, members[i])
        out.members[start + i] = members[i]
    shuffle(live.random, out.members, start, stop)
    loss = info_loss(domain, box, release)
    _update_tau(live, loss)
    if loss < live.tau[0] and len(omega.release) > 0:
        at = scalars[OMEGA_NEXT]
        assign(omega.box, at, box, release)
        omega.subjects[at] = subjects
        for a in range(tuples.sensitive.shape[1]):
            omega.diversity[at, a] = out.diversity[release, a]
        omega.release[at] = scalars[NEXT_RELEASE]
        scalars[OMEGA_NEXT] = (at + 1) % len(omega.release)
        if scalars[OMEGA_USED] < len(omega.release):
            scalars[OMEGA_USED] += 1
    _close_release(live, kind, subjects, stop)


@inner
def _close_release(live: Live, kind: Int, subjects: Int, stop: Int) -> None:
    scalars, out = live.scalars, live.out
    release = scalars[OUT_RELEASES]
    out.kind[release] = kind
    out.subjects[release] = subjects
    out.loss[release] = info_loss(live.domain, out.box, release)
    out.event_time[release] = scalars[CLOCK]
    out.end[release] = stop
    live.totals[RELEASED] += stop - scalars[OUT_MEMBERS]
    live.totals[KIND + kind] += 1
    live.loss_total[0] += out.loss[release] * (stop - scalars[OUT_MEMBERS])
    scalars[OUT_RELEASES] += 1
    scalars[OUT_MEMBERS] = stop
    scalars[NEXT_RELEASE] += 1


@inner
def _leave_alone(live: Live, slot: Int, kind: Int, subjects: Int) -> None:
    stop = live.scalars[OUT_MEMBERS] + 1
    live.out.members[stop - 1] = slot
    _note_delay(live, slot)
    _close_release(live, kind, subjects, stop)
    remove(live, slot)
    depart(live, slot)


@inner
def _update_tau(live: Live, loss: float) -> None:
    """The mean loss of the most recent releases (CASTLE, Section 3.2.3)."""
    scalars, ring = live.scalars, live.ring
    ring[scalars[RING_NEXT]] = loss
    scalars[RING_NEXT] = (scalars[RING_NEXT] + 1) % len(ring)
    if scalars[RING_USED] < len(ring):
        scalars[RING_USED] += 1
    total = 0.0  # summed anew: a running sum would drift
    for i in range(scalars[RING_USED]):
        total += ring[i]
    live.tau[0] = total / scalars[RING_USED]


@inner
def _note_delay(live: Live, slot: Int) -> None:
    waited = live.scalars[NEXT_POSITION] - 1 - live.tuples.position[slot]
    note_delay(live.delays, live.totals, np.int64(LONGEST_DELAY), waited)
