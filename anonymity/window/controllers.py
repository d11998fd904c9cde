"""Two controllers: the entropy-driven target l_t, and the window size that weighs delay against loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, leaf
from anonymity.space.domain import NONE
from anonymity.window.arrays import (
    BAND,
    DELAY_SUM,
    DELAY_TUPLES,
    DELAY_WEIGHT,
    DWELL,
    DWELT,
    ENTROPY,
    JUDGE,
    JUDGED,
    LAST_COST,
    LEAST_WINDOW,
    LOSS_SUM,
    MOST_TARGET,
    SETTLED,
    SIZE,
    SMOOTHING,
    STEP_UP,
    TARGET,
    VALUES,
    WINDOW_TUPLES,
    L,
    Work,
)


@leaf
def entropy(work: Work, column: Int, held: NDArray[np.int32], count: Int) -> float:
    """Entropy in bits of a column of ``Work.code`` over the tuples in ``held``."""
    for i in range(count):
        work.here[column, work.code[held[i], column]] += 1
    total = 0.0
    for i in range(count):
        # Each tuple adds its own share: the sum over values of p log p.
        total -= np.log2(work.here[column, work.code[held[i], column]] / count)
    for i in range(count):
        work.here[column, work.code[held[i], column]] = 0
    return float(max(total / count, 0.0))


@leaf
def adapt_target(
    scalars: NDArray[np.int64],
    parameters: NDArray[np.int64],
    settings: NDArray[np.float64],
    control: NDArray[np.float64],
    mixing: float,
    values: Int,
) -> None:
    """Move l_t (SUHDSA, Appendix B, Algorithm A1) by the entropy in bits of a window's sensitive attribute.

    The paper's text raises l_t where the entropy drops; the first variant of its line 4 would lower it, and its comment
    names the other one, 1 - e_t: that one is used. The paper does not say where |S| comes from: here it is the largest
    number of ``values`` that a window has held. It compares e_t with that of the window before, which a slow drift
    would never move: here with the one at which the target was last set.
    """
    first = scalars[VALUES] == 0
    scalars[VALUES] = max(scalars[VALUES], values)
    weight = 1.0 if first else settings[SMOOTHING]
    control[ENTROPY] = weight * mixing + (1.0 - weight) * control[ENTROPY]
    full = np.log2(scalars[VALUES])
    even = min(control[ENTROPY] / full, 1.0) if full > 0.0 else 0.0
    scalars[DWELT] += 1
    if not first and (scalars[DWELT] <= parameters[DWELL] or abs(even - control[SETTLED]) < settings[BAND]):
        return
    least, most = parameters[L], parameters[MOST_TARGET]
    scalars[TARGET] = min(max(np.int64(np.floor(least + (most - least) * (1.0 - even))), least), most)
    control[SETTLED] = even
    scalars[DWELT] = 0


@leaf
def adapt_size(
    scalars: NDArray[np.int64],
    parameters: NDArray[np.int64],
    settings: NDArray[np.float64],
    control: NDArray[np.float64],
    loss: float,
    delay: float,
) -> None:
    """Move the window size by a tenth towards what costs less, by mean loss and mean delay in tuples of a window.

    UBDSA minimises average delay and loss together (quoted in SUHDSA, Section 2.2 and Table 1, without its formula).
    Here the cost is their weighted mean, the delay as a share of the longest that is allowed; the size climbs downhill
    on the cost's mean over several windows.
    """
    longest = parameters[DELAY_TUPLES] if parameters[DELAY_TUPLES] > 0 else 2 * parameters[WINDOW_TUPLES]
    control[LOSS_SUM] += loss
    control[DELAY_SUM] += delay / longest
    scalars[JUDGED] += 1
    if scalars[JUDGED] < parameters[JUDGE]:
        return
    weight = settings[DELAY_WEIGHT]
    cost = (weight * control[DELAY_SUM] + (1.0 - weight) * control[LOSS_SUM]) / scalars[JUDGED]
    if control[LAST_COST] != NONE and cost > control[LAST_COST]:
        scalars[STEP_UP] = 1 - scalars[STEP_UP]
    step = max(scalars[SIZE] // 10, 1)
    size = scalars[SIZE] + step if scalars[STEP_UP] != 0 else scalars[SIZE] - step
    scalars[SIZE] = min(max(size, parameters[LEAST_WINDOW]), parameters[WINDOW_TUPLES])
    control[LAST_COST] = cost
    control[LOSS_SUM] = control[DELAY_SUM] = 0.0
    scalars[JUDGED] = 0
