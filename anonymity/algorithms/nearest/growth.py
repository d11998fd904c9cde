"""Growth of a box by each of many points whose values lie side by side, one row per attribute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import loop_end
from crenel.anonymity.compiled.jit import Int, inner_leaf
from crenel.anonymity.space.domain import Boxes, Domain


@inner_leaf
def measure_points(
    domain: Domain,
    box: Boxes,
    row: Int,
    number: NDArray[np.float64],
    leaf_of: NDArray[np.int32],
    start: Int,
    count: Int,
    growth: NDArray[np.float64],
    step: NDArray[np.float64],
) -> None:
    """Write to ``growth`` the growth of a box's loss by each of some points (CASTLE, Definition 3.4).

    Parameters
    ----------
    number, leaf_of : (numeric, places), (categorical, places) values and leaf nodes of points
    start, count : the first of the points, and their number; the arrays have room for whole lanes behind them
    growth, step : (count,) the result, from index 0 on, and scratch space
    """
    first_place, stop = np.uint64(start), loop_end(count)
    for i in range(np.uint64(0), stop):
        growth[i] = 0.0
    for a in range(box.lower.shape[1]):
        lower, upper, scale = box.lower[row, a], box.upper[row, a], domain.scale[a]
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = lower - number[a, first_place + i], number[a, first_place + i] - upper
                growth[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
    for a in range(box.node.shape[1]):
        node = np.int64(box.node[row, a])
        own, root = domain.loss[node], np.int64(domain.root[a])
        top = domain.loss[root] - own
        if node == root:
            continue
        first_own, last_own, above = domain.first[node], domain.last[node], np.int64(domain.parent[node])
        first, last, loss = domain.first[above], domain.last[above], domain.loss[above] - own
        for i in range(np.uint64(0), stop):
            inside = (first <= leaf_of[a, first_place + i]) & (leaf_of[a, first_place + i] <= last)
            step[i] = loss if inside else top
        while above != root:
            above = np.int64(domain.parent[above])
            first, last, loss = domain.first[above], domain.last[above], domain.loss[above] - own
            if above != root:
                for i in range(np.uint64(0), stop):
                    inside = (first <= leaf_of[a, first_place + i]) & (leaf_of[a, first_place + i] <= last)
                    lower_loss = loss if inside else top
                    step[i] = lower_loss if lower_loss < step[i] else step[i]
        for i in range(np.uint64(0), stop):
            inside = (first_own <= leaf_of[a, first_place + i]) & (leaf_of[a, first_place + i] <= last_own)
            growth[i] += 0.0 if inside else step[i]
