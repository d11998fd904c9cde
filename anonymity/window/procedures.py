"""Windows, l-diversity-enhanced SUHDSA (Lee and Kim, Sensors 2026, Section 3 and Algorithm 1), compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, entry, inner, leaf
from anonymity.space.boxes import observe
from anonymity.space.domain import NONE, Boxes
from anonymity.window.arrays import (
    A_ACTION,
    CARRIED,
    CLOCK,
    CLOSED,
    DELAY_EVENT_TIME,
    DELAY_TUPLES,
    EARLIEST,
    GONE,
    HAS_SUBJECT,
    HELD,
    LEAST_WINDOW,
    MERGE,
    MERGES,
    MOST_TARGET,
    NEXT_POSITION,
    NEXT_WINDOW,
    OUT_ACTIONS,
    OUT_MEMBERS,
    OUT_RELEASES,
    OUT_SUPPRESSED,
    SIZE,
    SUPPRESSED,
    SWAPS,
    TARGET,
    W_CARRIED,
    W_ENTROPY_LEAST,
    W_ENTROPY_MEAN,
    W_GROUPS,
    W_MERGES,
    W_RELEASES,
    W_SATISFIED,
    W_SWAPS,
    W_TARGET,
    W_TUPLES,
    W_UNREPAIRED,
    W_VIOLATIONS,
    WINDOW_EVENT_TIME,
    K,
    L,
    WindowLive,
)
from anonymity.window.controllers import adapt_size, adapt_target, entropy
from anonymity.window.grouping import group_by_qid, number_tuples, number_values, summarise
from anonymity.window.release import least_entropy, leave, release, satisfied
from anonymity.window.repair import least_diversity, repair
from state.block import NO_TIME

_FOREVER = np.iinfo(np.int64).max
_CLOSE = np.int64(-2)  # what falls due where it is no tuple
TOO_FEW_SUBJECTS, TOO_LITTLE_DIVERSITY = 1, 2  # positions in anonymity.policy.SUPPRESSIONS


@entry
def run(live: WindowLive, slots: NDArray[np.int32], at: Int, watermark: Int, ended: bool) -> Int:
    """Let in the tuples in ``slots`` from ``at`` on until a window has closed (scalars[CLOSED]) or none is left.

    ``watermark`` is the event time that had passed before them; where the input has ``ended``, everything falls due.
    Returns how many of ``slots`` are in by then.
    """
    scalars = live.scalars
    while True:
        due = next_due(live, watermark, ended and at == len(slots))
        if due == _CLOSE:
            close(live)
            scalars[CLOSED] = 1
            return at
        if due != NONE:
            suppress(live, due)
        elif at == len(slots):
            scalars[CLOSED] = 0
            return at
        else:
            place(live, np.int64(slots[at]))
            at += 1


@inner
def place(live: WindowLive, slot: Int) -> None:
    """Put a new tuple into the window that is open (Algorithm 1, line 3)."""
    scalars, points = live.scalars, live.points
    points.position[slot] = scalars[NEXT_POSITION]
    points.waits[slot] = True
    scalars[NEXT_POSITION] += 1
    scalars[CLOCK] = max(scalars[CLOCK], points.event_time[slot])
    scalars[EARLIEST] = min(scalars[EARLIEST], points.event_time[slot])
    places = Boxes(points.numeric, points.numeric, points.leaf)
    observe(live.domain, places, slot, points.numeric.shape[1] + points.leaf.shape[1])
    live.held[scalars[HELD]] = slot
    scalars[HELD] += 1


@inner
def next_due(live: WindowLive, watermark: Int, ended: bool) -> Int:
    """What must happen next: ``_CLOSE``, or the place in ``held`` of a tuple to suppress; ``NONE``: all may wait.

    A tuple whose delay is over closes the window if it came since the last close, so each has its chance; one that
    was carried has had it. What falls due by event time does so in its order; a close comes before a suppression.
    """
    scalars, parameters, points = live.scalars, live.parameters, live.points
    held, carried = scalars[HELD], scalars[CARRIED]
    if held == 0:
        return NONE
    new = held - carried
    # At least k new ones, or carried tuples that find no group would close a window with each that comes.
    if scalars[SIZE] > 0 and held >= scalars[SIZE] and new >= min(parameters[K], scalars[SIZE]):
        return _CLOSE
    by_tuples, by_time, window = parameters[DELAY_TUPLES], parameters[DELAY_EVENT_TIME], parameters[WINDOW_EVENT_TIME]
    if by_tuples >= 0 and points.position[live.held[0]] < scalars[NEXT_POSITION] - by_tuples:
        return np.int64(0) if carried > 0 else _CLOSE
    closes = new > 0 and window >= 0 and _passed(points.event_time[live.held[carried]], window, watermark)
    if by_time >= 0 and _passed(scalars[EARLIEST], by_time, watermark):
        earliest = 0
        while points.event_time[live.held[earliest]] != scalars[EARLIEST]:
            earliest += 1
        if not closes or scalars[EARLIEST] + by_time < points.event_time[live.held[carried]] + window:
            scalars[CLOCK] = max(scalars[CLOCK], scalars[EARLIEST] + by_time)
            return np.int64(earliest) if earliest < carried else _CLOSE
    if closes:
        scalars[CLOCK] = max(scalars[CLOCK], points.event_time[live.held[carried]] + window)
        return _CLOSE
    if ended:
        return _CLOSE if new > 0 else np.int64(0)
    return NONE


@leaf
def _passed(since: Int, wait: Int, watermark: Int) -> bool:
    """Whether a watermark has reached ``since + wait``, a sum that may overflow."""
    return bool(watermark >= NO_TIME + wait and since <= watermark - wait)


@inner
def suppress(live: WindowLive, at: Int) -> None:
    """Withhold the carried tuple at a place in ``held``; its delay is over."""
    scalars, held = live.scalars, live.held
    slot = np.int64(held[at])
    reason = np.int64(live.points.reason[slot])
    live.totals[SUPPRESSED + reason] += 1
    live.out.suppressed[scalars[OUT_SUPPRESSED]] = slot
    live.out.reason[scalars[OUT_SUPPRESSED]] = reason
    scalars[OUT_SUPPRESSED] += 1
    leave(live, slot)
    for i in range(at, scalars[HELD] - 1):
        held[i] = held[i + 1]
    scalars[HELD] -= 1
    scalars[CARRIED] -= 1
    find_earliest(live)


@inner
def find_earliest(live: WindowLive) -> None:
    """Bring scalars[EARLIEST] up to date after tuples have left."""
    earliest = _FOREVER
    if live.parameters[DELAY_EVENT_TIME] >= 0:
        for i in range(live.scalars[HELD]):
            earliest = min(earliest, live.points.event_time[live.held[i]])
    live.scalars[EARLIEST] = earliest


@inner
def close(live: WindowLive) -> None:
    """Group, repair and release what is held, and carry the rest (Algorithm 1, lines 5 to 42)."""
    scalars, parameters, log = live.scalars, live.parameters, live.window
    domain, points, groups, work, held = live.domain, live.points, live.groups, live.work, live.held
    count = scalars[HELD]
    log[:] = 0
    log[W_TUPLES] = count
    live.entropy[:] = 0.0
    scalars[OUT_ACTIONS] = 0
    reason: Int = number_window(live)
    made: Int = np.int64(0)
    log[W_TARGET] = scalars[TARGET]
    if reason == NONE:
        reason = np.int64(TOO_LITTLE_DIVERSITY)
        made = group_by_qid(domain, live.scale, points, groups, work, held, count, parameters[K])
        target = scalars[TARGET]
        for group in range(made):
            summarise(domain, points, groups, work, group)
            if least_diversity(groups, group) < target:
                log[W_VIOLATIONS] += 1
        log[W_GROUPS] = made
        if log[W_VIOLATIONS] > 0:
            scalars[OUT_ACTIONS] = repair(
                domain,
                live.scale,
                points,
                groups,
                work,
                parameters,
                live.settings,
                live.actions,
                live.changes,
                made,
                target,
            )
    for i in range(scalars[OUT_ACTIONS]):
        log[W_MERGES if live.actions[i, A_ACTION] == MERGE else W_SWAPS] += 1
    live.totals[MERGES] += log[W_MERGES]
    live.totals[SWAPS] += log[W_SWAPS]
    loss, waited, released = 0.0, 0.0, scalars[OUT_MEMBERS]
    for group in range(made):
        if groups.state[group] == GONE:
            continue
        if least_diversity(groups, group) < scalars[TARGET]:
            log[W_UNREPAIRED] += 1
        if least_diversity(groups, group) < parameters[L]:
            continue
        start = scalars[OUT_MEMBERS]
        release(live, group)
        loss += groups.loss[group] * groups.tuples[group]
        for i in range(start, scalars[OUT_MEMBERS]):
            waited += scalars[NEXT_POSITION] - 1 - points.position[live.out.members[i]]
        log[W_RELEASES] += 1
        log[W_SATISFIED] += satisfied(live, scalars[OUT_RELEASES] - 1)
        mixing = least_entropy(live, start, scalars[OUT_MEMBERS])
        live.entropy[W_ENTROPY_LEAST] = mixing if log[W_RELEASES] == 1 else min(live.entropy[W_ENTROPY_LEAST], mixing)
        live.entropy[W_ENTROPY_MEAN] += (mixing - live.entropy[W_ENTROPY_MEAN]) / log[W_RELEASES]
    carry(live, reason)
    released = scalars[OUT_MEMBERS] - released
    if parameters[LEAST_WINDOW] > 0 and released > 0:
        adapt_size(scalars, parameters, live.settings, live.control, loss / released, waited / released)
    log[W_CARRIED] = scalars[CARRIED]
    scalars[NEXT_WINDOW] += 1


@inner
def number_window(live: WindowLive) -> Int:
    """Number the values of the window that closes, move the target, and tell why nothing could be released, if so."""
    scalars, parameters, points, work = live.scalars, live.parameters, live.points, live.work
    count = scalars[HELD]
    reason: Int = np.int64(NONE)
    if parameters[HAS_SUBJECT] != 0:
        subjects = number_values(points, work, live.held, count, np.int64(0))
    else:
        subjects = number_tuples(work, live.held, count)
    values: Int = np.int64(0)
    even, mixing = 2.0, 0.0
    for column in range(1, work.code.shape[1]):
        different = number_values(points, work, live.held, count, np.int64(column))
        if different < parameters[L]:
            reason = np.int64(TOO_LITTLE_DIVERSITY)
        if parameters[MOST_TARGET] > 0:
            found = entropy(work, np.int64(column), live.held, count)
            share = found / np.log2(different) if different > 1 else 0.0
            if share < even:  # the attribute that is mixed least
                even, mixing, values = share, found, different
    if parameters[MOST_TARGET] > 0:
        adapt_target(scalars, parameters, live.settings, live.control, mixing, values)
    return np.int64(TOO_FEW_SUBJECTS) if subjects < parameters[K] else reason


@inner
def carry(live: WindowLive, reason: Int) -> None:
    """Keep what was not released for the next window."""
    scalars, points, held = live.scalars, live.points, live.held
    kept = 0
    for i in range(scalars[HELD]):
        slot = held[i]
        if points.waits[slot]:
            points.reason[slot] = reason
            held[kept] = slot
            kept += 1
    scalars[HELD] = scalars[CARRIED] = kept
    find_earliest(live)
