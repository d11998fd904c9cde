"""Representative of a group: mean or median, mode or common ancestor (SUHDSA, Section 3.1; Algorithm 1, line 37)."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.suhdsa.arrays import WindowGroups
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.space.domain import NONE, Boxes


@leaf
def represent(points: Boxes, groups: WindowGroups, work: Work, group: Int, median: bool, ancestor: bool) -> None:
    """Write ``WindowGroups.center``, clipped to the group's intervals; of several modes the leftmost leaf wins."""
    for a in range(points.lower.shape[1]):
        middle = _median(points, groups, work, group, a) if median else _mean(points, groups, work, group, a)
        middle = max(middle, groups.box.lower[group, a])
        groups.center.lower[group, a] = min(middle, groups.box.upper[group, a])
    for a in range(points.node.shape[1]):
        node = groups.box.node[group, a]
        groups.center.node[group, a] = node if ancestor else _mode(points, groups, work, group, a)


@leaf
def _mean(points: Boxes, groups: WindowGroups, work: Work, group: Int, a: Int) -> float:
    total = 0.0
    slot = np.int64(groups.head[group])
    while slot != NONE:
        total += points.lower[slot, a] / groups.tuples[group]  # divided first: the sum may overflow
        slot = np.int64(work.next[slot])
    return total


@leaf
def _median(points: Boxes, groups: WindowGroups, work: Work, group: Int, a: Int) -> float:
    count = 0
    slot = np.int64(groups.head[group])
    while slot != NONE:
        work.values[count] = points.lower[slot, a]
        count += 1
        slot = np.int64(work.next[slot])
    gap = count // 2
    while gap > 0:  # Shell sort needs no second array
        for i in range(gap, count):
            value, hole = work.values[i], i
            while hole >= gap and work.values[hole - gap] > value:
                work.values[hole] = work.values[hole - gap]
                hole -= gap
            work.values[hole] = value
        gap //= 2
    return work.values[(count - 1) // 2] / 2 + work.values[count // 2] / 2


@leaf
def _mode(points: Boxes, groups: WindowGroups, work: Work, group: Int, a: Int) -> Int:
    best = np.int64(points.node[groups.head[group], a])
    slot = np.int64(groups.head[group])
    while slot != NONE:
        node = np.int64(points.node[slot, a])
        work.leaves[node] += 1
        if work.leaves[node] > work.leaves[best] or (work.leaves[node] == work.leaves[best] and node < best):
            best = node
        slot = np.int64(work.next[slot])
    slot = np.int64(groups.head[group])
    while slot != NONE:
        work.leaves[points.node[slot, a]] = 0
        slot = np.int64(work.next[slot])
    return best
