"""Which tuples of two groups change places, and what that changes (SUHDSA with l-diversity, Section 3.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, leaf
from anonymity.space.boxes import assign, enclose, info_loss
from anonymity.space.domain import NONE, Boxes, Domain
from anonymity.window.arrays import Groups, Points, Scale, Work
from anonymity.window.distance import distance

_LONE, _NEW = 1, 2


@leaf
def lack(groups: Groups, group: Int, target: Int) -> Int:
    """By how many distinct values a group falls short, over all its sensitive attributes."""
    total = np.int64(0)
    for a in range(groups.diversity.shape[1]):
        total += max(np.int64(0), target - groups.diversity[group, a])
    return total


@leaf
def count_group(counts: NDArray[np.int32], groups: Groups, work: Work, group: Int) -> None:
    """Count the codes of a group, for one column a row of ``counts``."""
    slot = np.int64(groups.head[group])
    while slot != NONE:
        for column in range(counts.shape[0]):
            counts[column, work.code[slot, column]] += 1
        slot = np.int64(work.next[slot])


@leaf
def has_what_lacks(groups: Groups, work: Work, group: Int, other: Int, target: Int) -> bool:
    """Whether another group has any value that a group, counted in ``Work.here``, lacks: else it cannot help."""
    for c in range(1, work.code.shape[1]):
        if groups.diversity[group, c - 1] < target:
            slot = np.int64(groups.head[other])
            while slot != NONE:
                if work.here[c, work.code[slot, c]] == 0:
                    return True
                slot = np.int64(work.next[slot])
    return False


@leaf
def best_pair(
    domain: Domain,
    scale: Scale,
    points: Points,
    groups: Groups,
    work: Work,
    group: Int,
    other: Int,
    k: Int,
    target: Int,
) -> tuple[Int, Int]:
    """The feasible pair that fits best, ``NONE`` twice where there is none; both groups have been counted.

    Flags of a tuple and column: ``_LONE``, its value leaves its group with it; ``_NEW``, the other has no such value.
    """
    places = Boxes(points.numeric, points.numeric, points.leaf)
    columns = work.code.shape[1]
    slot = np.int64(groups.head[group])
    while slot != NONE:
        for c in range(columns):
            code = work.code[slot, c]
            lone = _LONE if work.here[c, code] == 1 else 0
            work.flag[0, slot, c] = lone + (_NEW if work.there[c, code] == 0 else 0)
        work.fit[slot] = distance(domain, scale, groups.centre, other, places, slot, np.inf)
        slot = np.int64(work.next[slot])
    x: Int = NONE
    y: Int = NONE
    best = np.inf
    two = np.int64(groups.head[other])
    while two != NONE:
        helps = False
        for c in range(columns):
            code = work.code[two, c]
            lone = _LONE if work.there[c, code] == 1 else 0
            work.flag[1, two, c] = lone + (_NEW if work.here[c, code] == 0 else 0)
            if c > 0 and work.here[c, code] == 0 and groups.diversity[group, c - 1] < target:
                helps = True
        if helps:
            fit = distance(domain, scale, groups.centre, group, places, two, best)
            one = np.int64(groups.head[group])
            while one != NONE:
                if fit + work.fit[one] < best and _feasible(groups, work, group, other, one, two, k, target):
                    best, x, y = fit + work.fit[one], one, two
                one = np.int64(work.next[one])
        two = np.int64(work.next[two])
    return x, y


@leaf
def _feasible(groups: Groups, work: Work, group: Int, other: Int, x: Int, y: Int, k: Int, target: Int) -> bool:
    """Whether both groups keep k subjects, neither lacks more of any attribute, and the first lacks less."""
    helps = False
    for c in range(work.code.shape[1]):
        if work.code[x, c] == work.code[y, c]:
            continue
        mine = (work.flag[1, y, c] >= _NEW) - (work.flag[0, x, c] % _NEW)
        its = (work.flag[0, x, c] >= _NEW) - (work.flag[1, y, c] % _NEW)
        if c == 0:
            if groups.subjects[group] + mine < k or groups.subjects[other] + its < k:
                return False
        else:
            have, other_has = groups.diversity[group, c - 1], groups.diversity[other, c - 1]
            if mine < 0 and have + mine < target:
                return False
            if its < 0 and other_has + its < target:
                return False
            if mine > 0 and have < target:
                helps = True
    return helps


@leaf
def lack_after(groups: Groups, work: Work, group: Int, x: Int, y: Int, target: Int) -> Int:
    """What a group lacks once y has taken the place of x; ``best_pair`` has flagged both."""
    total = np.int64(0)
    for c in range(1, work.code.shape[1]):
        have = groups.diversity[group, c - 1]
        if work.code[x, c] != work.code[y, c]:
            have += (work.flag[1, y, c] >= _NEW) - (work.flag[0, x, c] % _NEW)
        total += max(np.int64(0), target - have)
    return total


@leaf
def swap_changes(
    domain: Domain, points: Points, groups: Groups, work: Work, group: Int, other: Int, x: Int, y: Int
) -> float:
    """By how much the mean loss of two groups' tuples changes when x and y change places."""
    _enclose_others(domain, points, groups, work, 0, group, x, y)
    _enclose_others(domain, points, groups, work, 1, other, y, x)
    mine = (info_loss(domain, work.box, 0) - groups.loss[group]) * groups.tuples[group]
    its = (info_loss(domain, work.box, 1) - groups.loss[other]) * groups.tuples[other]
    return float((mine + its) / (groups.tuples[group] + groups.tuples[other]))


@leaf
def _enclose_others(
    domain: Domain, points: Points, groups: Groups, work: Work, row: Int, group: Int, leaves: Int, comes: Int
) -> None:
    places = Boxes(points.numeric, points.numeric, points.leaf)
    assign(work.box, row, places, comes)
    slot = np.int64(groups.head[group])
    while slot != NONE:
        if slot != leaves:
            enclose(domain, work.box, row, places, slot)
        slot = np.int64(work.next[slot])


@leaf
def exchange(groups: Groups, work: Work, group: Int, other: Int, x: Int, y: Int) -> None:
    """Let a tuple of one group and one of another change places; both must be summarised anew."""
    _replace(groups, work, group, x, y)
    _replace(groups, work, other, y, x)
    work.next[x], work.next[y] = work.next[y], work.next[x]


@leaf
def _replace(groups: Groups, work: Work, group: Int, leaves: Int, comes: Int) -> None:
    """Let what points at one tuple point at another."""
    if groups.head[group] == leaves:
        groups.head[group] = comes
    else:
        slot = np.int64(groups.head[group])
        while work.next[slot] != leaves:
            slot = np.int64(work.next[slot])
        work.next[slot] = comes
    if groups.tail[group] == leaves:
        groups.tail[group] = comes
