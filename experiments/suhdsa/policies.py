"""Variants of SUHDSA's target l_t: by the entropy of each group, and in the other direction.

Algorithm A1 of the paper lowers l_t where the entropy drops (e_t in its line 4), while its text and a comment raise it
(1 - e_t), as the product does. Line 16 of Algorithm 1 allows a policy per group and states none: here each group has
the l_t of its own entropy, without smoothing. No module but the core is imported, so that the compiled code is kept.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa import procedures
from crenel.anonymity.algorithms.suhdsa.arrays import GIVEN_UP, GONE, OPEN, SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.controllers import entropy
from crenel.anonymity.algorithms.suhdsa.grouping import group_by_qid, summarize
from crenel.anonymity.algorithms.suhdsa.log import MERGE
from crenel.anonymity.algorithms.suhdsa.procedures import begin_log, carry, next_due, place, release_groups
from crenel.anonymity.algorithms.suhdsa.repair import repair
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.window_start import begin_window
from crenel.anonymity.buffer.queue import watermark_at
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.privacy_models.checks import aim
from crenel.anonymity.space.domain import NONE


@leaf
def target_of(even: float, least: Int, most: Int, lowers: bool) -> Int:
    """Return l_t by a normalized entropy (Algorithm A1, lines 4 to 8); ``lowers``: l_t falls with the entropy."""
    share = even if lowers else 1.0 - even
    return min(max(np.int64(np.floor(least + (most - least) * share)), least), most)


@procedure
def repair_by_group(shard: SuhdsaArrays, made: Int, lowers: bool) -> None:
    """Repair each group up to the l_t of its own entropy, highest l_t first, and all groups up to l.

    Groups of a lower l_t serve as neighbors; no action takes values from them that they need at the current level.
    """
    now, config, groups, work, log = shard.now, shard.config, shard.groups, shard.work, shard.log
    wanted, members = np.empty(made, np.int64), np.empty(now.held, np.int32)
    full = np.log2(now.most_values)
    for group in range(made):
        count = 0  # of the members
        slot = np.int64(groups.head[group])
        while slot != NONE:
            members[count] = slot
            count += 1
            slot = np.int64(work.next[slot])
        bits = entropy(work, np.int64(1), members, np.int64(count))
        even = min(bits / full, 1.0) if full > 0.0 else 0.0
        wanted[group] = target_of(even, config.least_target, config.most_target, lowers)
    for step in range(config.most_target - config.least_target + 1):
        target = config.most_target - step
        aim(shard.checks, shard.aims, target)
        for group in range(made):
            if groups.state[group] != GONE:
                groups.state[group] = OPEN if wanted[group] >= target else GIVEN_UP
                summarize(shard, group)
        actions = repair(shard, made)
        for i in range(actions):
            if shard.actions[i].action == MERGE:
                log.merges += 1
            else:
                log.swaps += 1


@entry
def run_variant(
    shard: SuhdsaArrays,
    slots: NDArray[np.int32],
    done: Int,
    watermarks: NDArray[np.int64],
    watermark: Int,
    ended: bool,
    lowers: bool,
    by_group: bool,
) -> tuple[Int, Int]:
    """Admit tuples until a window has closed, as ``run`` in ``suhdsa.procedures``, with another policy of l_t.

    Parameters
    ----------
    lowers : whether l_t falls with the entropy (e_t) instead of rising (1 - e_t)
    by_group : whether each group has its own l_t
    """
    while True:
        due = next_due(shard, watermark_at(watermarks, done, watermark), ended and done == len(slots))
        if due == procedures._CLOSE:
            close_variant(shard, lowers, by_group)
            return done, np.int64(0)
        if due != NONE:
            procedures.suppress_carried(shard, due)
        elif done == len(slots):
            return done, np.int64(NONE)
        else:
            place(shard, np.int64(slots[done]))
            done += 1


@leaf
def close_variant(shard: SuhdsaArrays, lowers: bool, by_group: bool) -> None:
    """Close a window as ``close`` in ``suhdsa.procedures``; the record of the window counts its repairs."""
    now, config, log = shard.now, shard.config, shard.log
    made: Int = np.int64(0)
    begin_log(log, now.held)
    reason = begin_window(shard)
    # The settled entropy is that of the last change, so l_t follows it in either direction.
    now.target = target_of(now.settled, config.least_target, config.most_target, lowers)
    aim(shard.checks, shard.aims, now.target)
    if reason == NONE:
        made = group_by_qid(shard)
        log.violations = procedures.summarize_all(shard, made)
        if by_group:
            repair_by_group(shard, made, lowers)
        elif log.violations > 0:
            for i in range(repair(shard, made)):
                if shard.actions[i].action == MERGE:
                    log.merges += 1
                else:
                    log.swaps += 1
    now.merges += log.merges
    now.swaps += log.swaps
    log.target, log.groups = now.target, made
    release_groups(shard, made)
    carry(shard, reason)
    now.next_window += 1


def _run(lowers: bool, by_group: bool) -> Any:
    run: Any = run_variant
    return staticmethod(lambda *given: run(*given, lowers, by_group))


class Lowering(SuhdsaShard):
    """SUHDSA whose l_t falls with the entropy of the window (e_t in line 4)."""

    _run: ClassVar[Any] = _run(lowers=True, by_group=False)


class RaisingByGroup(SuhdsaShard):
    """SUHDSA whose groups each have an l_t that rises where their own entropy falls."""

    _run: ClassVar[Any] = _run(lowers=False, by_group=True)


class LoweringByGroup(SuhdsaShard):
    """SUHDSA whose groups each have an l_t that falls with their own entropy."""

    _run: ClassVar[Any] = _run(lowers=True, by_group=True)
