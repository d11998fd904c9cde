"""Controllers of the entropy-driven target l_t and of the window size, which trades delay for loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.space.domain import NONE


@leaf
def entropy(work: Work, column: Int, held: NDArray[np.int32], count: Int) -> float:
    """Return the entropy in bits of a column of ``Work.code`` over some tuples.

    Parameters
    ----------
    held : (count or more,) slots of the tuples
    """
    for i in range(count):
        work.tuples[work.code[held[i], column]] += 1
    total = 0.0
    for i in range(count):
        # Each tuple adds its own share: the sum over values of p log p.
        total -= np.log2(work.tuples[work.code[held[i], column]] / count)
    for i in range(count):
        work.tuples[work.code[held[i], column]] = 0
    return float(max(total / count, 0.0))


@leaf
def adapt_target(now: Any, config: Any, mixing: float, values: Int) -> None:
    """Move l_t (SUHDSA, Appendix B, Algorithm A1) by the entropy in bits of a window's sensitive attribute.

    The paper's text raises l_t where the entropy drops. The first variant of its line 4 would lower l_t; this function
    uses the variant 1 - e_t, which the paper's comment names. The paper does not define |S|: here it is the maximum
    number of ``values`` in any window so far. The paper compares e_t with the previous window's entropy, which a slow
    drift never exceeds. This function compares with the entropy at the last change of the target.
    """
    first = now.most_values == 0
    now.most_values = max(now.most_values, values)
    weight = 1.0 if first else config.smoothing
    now.entropy = weight * mixing + (1.0 - weight) * now.entropy
    full = np.log2(now.most_values)
    even = min(now.entropy / full, 1.0) if full > 0.0 else 0.0
    now.dwelt += 1
    if not first and (now.dwelt <= config.dwell or abs(even - now.settled) < config.band):
        return
    least, most = config.least_target, config.most_target
    now.target = min(max(np.int64(np.floor(least + (most - least) * (1.0 - even))), least), most)
    now.settled = even
    now.dwelt = 0


@leaf
def adapt_size(now: Any, config: Any, loss: float, delay: float) -> None:
    """Move the window size by a tenth toward lower cost, given mean loss and mean delay in tuples of a window.

    UBDSA minimizes average delay and loss together (quoted in SUHDSA, Section 2.2 and Table 1, without its formula).
    Here the cost is their weighted mean, with the delay as a share of the longest delay allowed. The size descends on
    the mean cost of several windows.
    """
    longest = config.delay_tuples if config.delay_tuples > 0 else 2 * config.tuples
    now.loss_sum += loss
    now.delay_sum += delay / longest
    now.judged += 1
    if now.judged < config.judge:
        return
    weight = config.delay_weight
    cost = (weight * now.delay_sum + (1.0 - weight) * now.loss_sum) / now.judged
    if now.last_cost != NONE and cost > now.last_cost:
        now.step_up = 1 - now.step_up
    step = max(now.window_tuples // 10, 1)
    size = now.window_tuples + step if now.step_up != 0 else now.window_tuples - step
    now.window_tuples = min(max(size, config.least_window), config.tuples)
    now.last_cost = cost
    now.loss_sum = now.delay_sum = 0.0
    now.judged = 0
