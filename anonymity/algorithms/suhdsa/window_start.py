"""Start of a window close: check for any possible release, and set the aim of the repairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.arrays import SuhdsaArrays
from crenel.anonymity.algorithms.suhdsa.controllers import adapt_target, entropy
from crenel.anonymity.algorithms.suhdsa.numbering import number_window
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.checks import aim, only_diversity, unsatisfiable
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, forget, put, remove_tuple
from crenel.anonymity.space.domain import NONE

TOO_FEW_SUBJECTS = 1  # position in crenel.anonymity.model.outcomes.SUPPRESSIONS


@leaf
def begin_window(shard: SuhdsaArrays) -> Int:
    """Assign numbers to the window's tuples, move the target, and return a reason against any release, or ``NONE``."""
    now, config, here = shard.now, shard.config, shard.here
    number_window(shard)
    if now.alone == 0 or not only_diversity(shard.checks):
        forget(here)
        count_window(here, shard.work, shard.held, now.held, now.alone != 0)
    if config.most_target > 0:
        even, mixing, values = 2.0, 0.0, np.int64(0)
        for a in range(len(here.tally.values)):
            different = here.tally.values[a]
            found = entropy(shard.work, np.int64(1 + a), shard.held, now.held)
            share = found / np.log2(different) if different > 1 else 0.0
            if share < even:  # the attribute of least entropy
                even, mixing, values = share, found, different
        adapt_target(now, config, mixing, values)
        aim(shard.checks, shard.aims, now.target)
    reason: Int = np.int64(NONE)
    check = unsatisfiable(shard.checks, here.tally)
    if check != NONE:
        reason = shard.checks.reason[check]
    if here.tally.persons[0] < config.k:
        reason = np.int64(TOO_FEW_SUBJECTS)
    forget_window(here, shard.work, shard.held, now.held, now.alone != 0)
    return reason


@leaf
def count_window(trial: IncrementalTally, work: Work, held: NDArray[np.int32], count: Int, alone: bool) -> None:
    """Add all buffered tuples to a tally.

    Parameters
    ----------
    held : (count or more,) slots of the tuples
    """
    for i in range(count):
        put(trial, work.code, np.int64(held[i]), alone)


@leaf
def forget_window(trial: IncrementalTally, work: Work, held: NDArray[np.int32], count: Int, alone: bool) -> None:
    """Reset a tally that holds all buffered tuples; parameters as those of ``count_window``."""
    if not alone:
        for i in range(count):
            remove_tuple(trial, work.code, np.int64(held[i]), alone)
    forget(trial)
