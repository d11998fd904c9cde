"""What windows are compared with: k-anonymity alone, built on the same pieces. For benchmarks, not for data.

The paper compares with its own reimplementations of both, and quotes their authors for what they do.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, entry, inner
from anonymity.policy import Policy, PolicyError, Privacy
from anonymity.space.domain import NONE, Boxes
from anonymity.window.arrays import (
    CARRIED,
    CLOSED,
    DELAY_TUPLES,
    HAS_SUBJECT,
    HELD,
    LEAST_WINDOW,
    NEXT_POSITION,
    NEXT_WINDOW,
    OUT_ACTIONS,
    OUT_MEMBERS,
    SIZE,
    TARGET,
    W_CARRIED,
    W_ENTROPY_LEAST,
    W_ENTROPY_MEAN,
    W_GROUPS,
    W_RELEASES,
    W_SATISFIED,
    W_TARGET,
    W_TUPLES,
    K,
    WindowLive,
)
from anonymity.window.controllers import adapt_size
from anonymity.window.grouping import find_patterns, grow, link, number_tuples, number_values, summarise
from anonymity.window.parameters import WindowParameters
from anonymity.window.procedures import TOO_FEW_SUBJECTS, carry, place, suppress
from anonymity.window.release import least_entropy, release
from anonymity.window.shard import Window


class _OfKAlone(Window):
    def __init__(self, policy: Policy, privacy: Privacy, parameters: WindowParameters, **shard: Any) -> None:
        super().__init__(policy, Privacy(privacy.k), parameters, **shard)


class Suhdsa(_OfKAlone):
    """Windows without diversity: grouping and microaggregation, and no repair (SUHDSA as Section 3.2 extends it)."""


@entry
def run_ubdsa(live: WindowLive, slots: NDArray[np.int32], at: Int, watermark: Int, ended: bool) -> Int:
    """Let in tuples until one group has left (scalars[CLOSED]) or none is left; as ``window_procedures.run``."""
    scalars, parameters = live.scalars, live.parameters
    while True:
        overdue = False
        if scalars[HELD] > 0:
            oldest = live.points.position[live.held[0]]
            overdue = (ended and at == len(slots)) or oldest < scalars[NEXT_POSITION] - parameters[DELAY_TUPLES]
        if scalars[HELD] > 0 and (overdue or scalars[HELD] >= scalars[SIZE]):
            if publish(live):
                scalars[CLOSED] = 1
                return at
            if overdue:
                scalars[CARRIED] = scalars[HELD]
                live.points.reason[live.held[0]] = TOO_FEW_SUBJECTS
                suppress(live, np.int64(0))
                continue
        if at == len(slots):
            scalars[CLOSED] = 0
            return at
        place(live, np.int64(slots[at]))
        at += 1


@inner
def publish(live: WindowLive) -> bool:
    """Release the oldest tuple with its nearest; false where k subjects are not there."""
    scalars, parameters, log, work = live.scalars, live.parameters, live.window, live.work
    domain, points, groups, held = live.domain, live.points, live.groups, live.held
    count, first = scalars[HELD], np.int64(0)
    if parameters[HAS_SUBJECT] != 0:
        subjects = number_values(points, work, held, count, np.int64(0))
    else:
        subjects = number_tuples(work, held, count)
    if subjects < parameters[K]:
        return False
    for column in range(1, work.code.shape[1]):
        number_values(points, work, held, count, np.int64(column))
    places = Boxes(points.numeric, points.numeric, points.leaf)
    free = find_patterns(points, work, held, count)
    for i in range(free):
        work.free[i] = i
    for i in range(count):
        work.stamp[i] = NONE
    left = grow(domain, live.scale, groups, work, places, first, first, free, parameters[K])  # the oldest is pattern 0
    link(groups, work, first, left, free)
    summarise(domain, points, groups, work, first)
    start, waited = scalars[OUT_MEMBERS], 0.0
    release(live, first)
    for i in range(start, scalars[OUT_MEMBERS]):
        waited += scalars[NEXT_POSITION] - 1 - points.position[live.out.members[i]]
    released = scalars[OUT_MEMBERS] - start
    carry(live, np.int64(TOO_FEW_SUBJECTS))
    if parameters[LEAST_WINDOW] > 0:
        adapt_size(scalars, parameters, live.settings, live.control, groups.loss[0], waited / released)
    log[:] = 0
    log[W_TUPLES], log[W_CARRIED], log[W_TARGET] = count, scalars[CARRIED], scalars[TARGET]
    log[W_GROUPS] = log[W_RELEASES] = log[W_SATISFIED] = 1
    mixing = least_entropy(live, start, scalars[OUT_MEMBERS])
    live.entropy[W_ENTROPY_MEAN] = live.entropy[W_ENTROPY_LEAST] = mixing
    scalars[OUT_ACTIONS] = 0
    scalars[NEXT_WINDOW] += 1
    return True


class Ubdsa(_OfKAlone):
    """No windows: the oldest tuple leaves with what is nearest as soon as the buffer is full (UBDSA, Section 2.2).

    The paper tells of UBDSA that it groups by CAIL distance, promises k-anonymity, and adapts the delay threshold so
    that average delay and distortion are low together. The reading here: a buffer of at most ``window.tuples`` tuples,
    from which one group at a time is made, around the oldest tuple; with ``window.adaptive`` the buffer's size follows
    that rule. The buffer is grouped anew for each release, which is what makes it slow. By tuples only; at the end
    fewer than k may be left over, which are suppressed.
    """

    _run: ClassVar[Any] = staticmethod(run_ubdsa)

    def __init__(self, policy: Policy, privacy: Privacy, parameters: WindowParameters, **shard: Any) -> None:
        if parameters.event_time is not None or parameters.delay_event_time is not None or parameters.tuples is None:
            raise PolicyError("window.tuples: UBDSA is bounded by tuples, and by them alone")
        super().__init__(policy, privacy, parameters, **shard)
