"""Baselines of SUHDSA windows, for k-anonymity alone, from the same parts; for experiments only.

The paper compares with its own implementations of both, and describes them by quotations of their authors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.suhdsa.arrays import SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.controllers import adapt_size
from crenel.anonymity.algorithms.suhdsa.grouping import begin_grouping, grow, link, summarize
from crenel.anonymity.algorithms.suhdsa.procedures import begin_log, carry, place, suppress_carried
from crenel.anonymity.algorithms.suhdsa.release import release
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.stored import SuhdsaSnapshot
from crenel.anonymity.algorithms.suhdsa.window_start import TOO_FEW_SUBJECTS, begin_window
from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE


class _OfKAlone(SuhdsaShard):
    def __init__(self, terms: ShardContext, snapshot: SuhdsaSnapshot, **how: Any) -> None:
        super().__init__(replace(terms, privacy=Privacy(terms.privacy.k)), snapshot, **how)


class Unrepaired(_OfKAlone):
    """Windows without diversity: grouping and microaggregation without repair (the basis of Section 3.2)."""


@entry
def run_ubdsa(
    shard: SuhdsaArrays, slots: NDArray[np.int32], at: Int, watermarks: NDArray[np.int64], watermark: Int, ended: bool
) -> tuple[Int, Int]:
    """Admit tuples until one group is released or none remains, as ``run`` in ``suhdsa.procedures``.

    Parameters
    ----------
    slots : (tuples,) of the arriving tuples, in order
    """
    now = shard.now
    while True:
        overdue = False
        if now.held > 0:
            oldest = shard.tuples.position[shard.held[0]]
            overdue = (ended and at == len(slots)) or oldest < now.next_position - shard.config.delay_tuples
        if now.held > 0 and (overdue or now.held >= now.window_tuples):
            if publish(shard):
                return at, np.int64(0)
            if overdue:
                now.carried = now.held
                shard.reason[shard.held[0]] = TOO_FEW_SUBJECTS
                suppress_carried(shard, np.int64(0))
                continue
        if at == len(slots):
            return at, np.int64(NONE)
        place(shard, np.int64(slots[at]))
        at += 1


@leaf
def publish(shard: SuhdsaArrays) -> bool:
    """Release the oldest tuple with its nearest ones; return False where k subjects are missing."""
    now, config, log, out, first = shard.now, shard.config, shard.log, shard.out, np.int64(0)
    if begin_window(shard) != NONE:
        return False
    begin_log(log, now.held)
    free = begin_grouping(shard)
    left = grow(shard, first, first, free)  # the oldest is pattern 0
    link(shard.groups, shard.work, first, left, free)
    summarize(shard, first)
    start, waited = out.filled.members, 0.0
    release(shard, first)
    stop = out.filled.members
    for i in range(start, stop):
        waited += now.next_position - 1 - shard.tuples.position[out.members[i]]
    carry(shard, np.int64(TOO_FEW_SUBJECTS))
    if config.least_window > 0:
        adapt_size(now, config, shard.groups.loss[0], waited / (stop - start))
    log.target, log.groups = now.target, 1
    now.next_window += 1
    return True


class Ubdsa(_OfKAlone):
    """UBDSA: release the oldest tuple with its nearest ones as soon as the buffer is full (Section 2.2).

    According to the paper, UBDSA groups by CAIL distance, guarantees k-anonymity, and adapts the delay threshold to
    minimize average delay and distortion together. Here, a buffer of at most ``suhdsa.tuples`` tuples yields one group
    at a time, around the oldest tuple; with ``suhdsa.adaptive`` the size of the buffer follows that rule. Each release
    groups the buffer again, which is slow. The delay counts tuples only; fewer than k tuples may remain at the end,
    which are suppressed.
    """

    _run: ClassVar[Any] = staticmethod(run_ubdsa)

    def __init__(self, terms: ShardContext, snapshot: SuhdsaSnapshot, **how: Any) -> None:
        suhdsa = terms.algorithm
        if suhdsa.event_time is not None or suhdsa.longest_delay.event_time is not None or suhdsa.tuples is None:
            raise PolicyError("suhdsa.tuples: UBDSA is bounded by tuples, and by them alone")
        super().__init__(terms, snapshot, **how)
