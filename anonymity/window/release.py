"""How a group leaves a window, and what is measured of it."""

from __future__ import annotations

import numpy as np

from anonymity.compiled.counting import distinct
from anonymity.compiled.jit import Int, inner
from anonymity.compiled.random import shuffle
from anonymity.promise.guarantee import guarantee
from anonymity.space.boxes import assign, contains
from anonymity.space.domain import NONE, Boxes
from anonymity.tuples.delays import note_delay
from anonymity.window.arrays import (
    ANCESTOR,
    CLOCK,
    HAS_SUBJECT,
    KIND,
    LONGEST_DELAY,
    MEDIAN,
    NEXT_POSITION,
    NEXT_RELEASE,
    OUT_MEMBERS,
    OUT_RELEASES,
    RELEASED,
    REPRESENTATIVE,
    K,
    L,
    WindowLive,
)
from anonymity.window.controllers import entropy
from anonymity.window.representative import represent

CLUSTER, MERGED = 0, 1  # positions in anonymity.policy.KINDS


@inner
def release(live: WindowLive, group: Int) -> None:
    """Release a group under its generalisation or its representative (Algorithm 1, lines 36 to 40)."""
    scalars, parameters, points, groups, out = live.scalars, live.parameters, live.points, live.groups, live.out
    domain, places = live.domain, Boxes(points.numeric, points.numeric, points.leaf)
    number, start = scalars[OUT_RELEASES], scalars[OUT_MEMBERS]
    stop = start
    slot = np.int64(groups.head[group])
    while slot != NONE:
        out.members[stop] = slot
        stop += 1
        if not contains(domain, groups.box, group, places, slot):
            raise RuntimeError("a member lies outside its generalisation; nothing of this release was emitted")
        leave(live, slot)
        slot = np.int64(live.work.next[slot])
    # Counted once more from what the tuples hold, not from what grouping and repair made of it.
    for column in range(points.value.shape[1]):
        found: Int = stop - start
        if column > 0 or parameters[HAS_SUBJECT] != 0:
            values = np.empty(stop - start, np.uint64)
            for i in range(start, stop):
                values[i - start] = points.value[out.members[i], column]
            found = distinct(values)
        if column > 0:
            out.diversity[number, column - 1] = found
        else:
            out.subjects[number] = found
    guarantee(parameters[K], parameters[L], out.subjects[number], out.diversity[number])
    shuffle(live.random, out.members, start, stop)
    if parameters[REPRESENTATIVE] != 0:
        represent(domain, points, groups, live.work, group, parameters[MEDIAN] != 0, parameters[ANCESTOR] != 0)
        if not contains(domain, groups.box, group, groups.centre, group):
            raise RuntimeError("a representative lies outside its group; nothing of this release was emitted")
        assign(out.box, number, groups.centre, group)
    else:
        assign(out.box, number, groups.box, group)
    kind = MERGED if groups.merged[group] else CLUSTER
    out.kind[number] = kind
    out.loss[number] = groups.loss[group]
    out.event_time[number] = scalars[CLOCK]
    out.end[number] = stop
    live.totals[RELEASED] += stop - start
    live.totals[KIND + kind] += 1
    live.loss_total[0] += groups.loss[group] * (stop - start)
    scalars[OUT_RELEASES] += 1
    scalars[OUT_MEMBERS] = stop
    scalars[NEXT_RELEASE] += 1


@inner
def leave(live: WindowLive, slot: Int) -> None:
    """Note that a tuple leaves, and after how many others."""
    waited = live.scalars[NEXT_POSITION] - 1 - live.points.position[slot]
    note_delay(live.delays, live.totals, np.int64(LONGEST_DELAY), waited)
    live.points.waits[slot] = False


@inner
def satisfied(live: WindowLive, release: Int) -> bool:
    """Whether a release has l values of each sensitive attribute, as counted from its members."""
    for found in live.out.diversity[release]:
        if found < live.parameters[L]:
            return False
    return True


@inner
def least_entropy(live: WindowLive, start: Int, stop: Int) -> float:
    """Entropy in bits of the sensitive values of some released members, the least over the attributes."""
    least = np.inf
    for column in range(1, live.work.code.shape[1]):
        least = min(least, entropy(live.work, np.int64(column), live.out.members[start:stop], stop - start))
    return least if least < np.inf else 0.0
