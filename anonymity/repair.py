"""Monitor, trigger, repair: groups that lack diversity swap or merge before release (SUHDSA, Section 3.2, Algorithm 1).

What a group *lacks* is, summed over its sensitive attributes, by how many distinct values it falls short of the target.
Each action lowers what one group lacks and raises what none lacks, so the set of violating groups only shrinks. Where
the paper leaves something open, or says two things:

- A swap takes the tuples that lie nearest to the representative of the group they move to. The paper's text says so,
  and its formula has each tuple's distance to its own group; it names the other way a symmetric variant.
- One action exchanges one pair. A group that lacks more than one value takes as many as it needs, and each is weighed
  as if all of those it needs would cost the same.
- Sizes are counted in distinct subjects, also for the growth cap: one person's tuples hide nobody.
- The objective's time is modelled, not read from a clock, or a replay would decide otherwise. It is a share of the time
  in which the tuples of both groups were grouped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.boxes import assign, enclose, info_loss, loss_after
from anonymity.cail import distance
from anonymity.compiled import Int, leaf
from anonymity.grouping import count_in, forget, summarise
from anonymity.live import NONE, Boxes, Domain
from anonymity.representative import represent
from anonymity.window_live import (
    A_ACTION,
    A_AFTER,
    A_BEFORE,
    A_DIVERSITY,
    A_DIVERSITY_AFTER,
    A_GROUP,
    A_INSPECTED,
    A_NEIGHBOUR,
    ANCESTOR,
    DISTORTION_WEIGHT,
    GIVEN_UP,
    GONE,
    GROWTH,
    MEDIAN,
    MERGE,
    OPEN,
    SWAP,
    Groups,
    K,
    Points,
    Scale,
    Work,
)

_SWAP_TIME, _MERGE_TIME = 0.35, 0.2
"""What a repair costs for each tuple of both groups, as a share of what grouping a tuple did: measured by
``python -m benchmarks.window cost``."""

_LONE, _NEW = 1, 2


@leaf
def least_diversity(groups: Groups, group: Int) -> Int:
    """D(G): the least over the sensitive attributes; as many as can be where there is none."""
    least = np.int64(2**62)
    for a in range(groups.diversity.shape[1]):
        least = min(least, groups.diversity[group, a])
    return least


@leaf
def lack(groups: Groups, group: Int, target: Int) -> Int:
    """By how many distinct values a group falls short, over all its sensitive attributes."""
    total = np.int64(0)
    for a in range(groups.diversity.shape[1]):
        total += max(np.int64(0), target - groups.diversity[group, a])
    return total


@leaf
def repair(
    domain: Domain,
    scale: Scale,
    points: Points,
    groups: Groups,
    work: Work,
    parameters: NDArray[np.int64],
    settings: NDArray[np.float64],
    actions: NDArray[np.int64],
    changes: NDArray[np.float64],
    made: Int,
    target: Int,
) -> Int:
    """Repair groups until none lacks diversity or none of the rest can be helped; how many actions it took.

    Parameters
    ----------
    actions, changes : one row an action, as ``anonymity.repairs.Actions`` tells
    made : number of groups, all summarised and open
    target : l_t, distinct values that each group is to have
    """
    done = 0
    group: Int = _most_urgent(groups, made, target)
    if group != NONE:
        for each in range(made):
            represent(domain, points, groups, work, each, parameters[MEDIAN] != 0, parameters[ANCESTOR] != 0)
    while group != NONE:
        found = _nearest_groups(domain, scale, groups, work, made, group)
        best: Int = NONE
        first: Int = NONE
        second: Int = NONE
        action = SWAP
        cost, loss, time = np.inf, 0.0, 0.0
        lacking = lack(groups, group, target)
        tuples, diversity = groups.tuples[group], least_diversity(groups, group)
        for i in range(found):
            other = np.int64(work.near[i])
            _count(groups, work, group, other)
            x, y = _best_pair(domain, scale, points, groups, work, group, other, parameters[K], target)
            removed = _merge_removes(groups, work, group, other, parameters[GROWTH], target)
            forget(work.here, groups, work, group)
            forget(work.here, groups, work, other)
            forget(work.there, groups, work, other)
            if x != NONE:
                gained = lacking - _lack_after(groups, work, group, x, y, target)
                change = _swap_changes(domain, points, groups, work, group, other, x, y)
                price = float(_price(settings, change, _SWAP_TIME) * lacking / gained)
                if price < cost:
                    best, action, first, second = other, SWAP, x, y
                    cost, loss, time = price, change, _SWAP_TIME
            if removed > 0:
                change = _merge_changes(domain, groups, group, other)
                price = float(_price(settings, change, _MERGE_TIME) * lacking / removed)
                if price < cost:
                    best, action = other, MERGE
                    cost, loss, time = price, change, _MERGE_TIME
        if best == NONE:
            groups.state[group] = GIVEN_UP
        else:
            if action == SWAP:
                exchange(groups, work, group, best, first, second)
                _renew(domain, points, groups, work, parameters, best)
            else:
                merge(groups, work, group, best)
            _renew(domain, points, groups, work, parameters, group)
            actions[done, A_GROUP], actions[done, A_NEIGHBOUR], actions[done, A_ACTION] = group, best, action
            actions[done, A_BEFORE], actions[done, A_AFTER] = tuples, groups.tuples[group]
            actions[done, A_DIVERSITY], actions[done, A_DIVERSITY_AFTER] = diversity, least_diversity(groups, group)
            actions[done, A_INSPECTED] = found
            changes[done, 0], changes[done, 1] = loss, time
            done += 1
        group = _most_urgent(groups, made, target)
    return done


@leaf
def _price(settings: NDArray[np.float64], loss: float, time: float) -> float:
    return settings[DISTORTION_WEIGHT] * loss + (1.0 - settings[DISTORTION_WEIGHT]) * time


@leaf
def _renew(
    domain: Domain, points: Points, groups: Groups, work: Work, parameters: NDArray[np.int64], group: Int
) -> None:
    summarise(domain, points, groups, work, group)
    represent(domain, points, groups, work, group, parameters[MEDIAN] != 0, parameters[ANCESTOR] != 0)


@leaf
def _most_urgent(groups: Groups, made: Int, target: Int) -> Int:
    """The open violator with the highest priority l_t - D(G), then the oldest, the first due, the smallest."""
    best: Int = NONE
    for group in range(made):
        if groups.state[group] == OPEN and least_diversity(groups, group) < target:
            if best == NONE or _before(groups, group, best):
                best = group
    return best


@leaf
def _before(groups: Groups, one: Int, other: Int) -> bool:
    mine, its = least_diversity(groups, one), least_diversity(groups, other)
    if mine != its:
        return bool(mine < its)
    if groups.oldest[one] != groups.oldest[other]:
        return bool(groups.oldest[one] < groups.oldest[other])
    if groups.earliest[one] != groups.earliest[other]:
        return bool(groups.earliest[one] < groups.earliest[other])
    return bool(groups.tuples[one] < groups.tuples[other])


@leaf
def _nearest_groups(domain: Domain, scale: Scale, groups: Groups, work: Work, made: Int, group: Int) -> Int:
    """Write the nearest other groups by representative to ``work.near``, nearest first; how many there are."""
    found = 0
    for other in range(made):
        if other == group or groups.state[other] == GONE:
            continue
        limit = work.near_distance[found - 1] if found == len(work.near) else np.inf
        apart = distance(domain, scale, groups.centre, group, groups.centre, other, limit)
        if found == len(work.near):
            if apart >= limit:
                continue
            found -= 1
        at = found
        while at > 0 and work.near_distance[at - 1] > apart:
            work.near[at], work.near_distance[at] = work.near[at - 1], work.near_distance[at - 1]
            at -= 1
        work.near[at], work.near_distance[at] = other, apart
        found += 1
    return found


@leaf
def _count(groups: Groups, work: Work, group: Int, other: Int) -> None:
    slot = np.int64(groups.head[group])
    while slot != NONE:
        for column in range(work.code.shape[1]):
            count_in(work.here, column, work.code[slot, column])
        slot = np.int64(work.next[slot])
    slot = np.int64(groups.head[other])
    while slot != NONE:
        for column in range(work.code.shape[1]):
            count_in(work.there, column, work.code[slot, column])
        slot = np.int64(work.next[slot])


@leaf
def _best_pair(
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
    """The feasible pair that fits best, ``NONE`` twice where there is none.

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
def _lack_after(groups: Groups, work: Work, group: Int, x: Int, y: Int, target: Int) -> Int:
    total = np.int64(0)
    for c in range(1, work.code.shape[1]):
        have = groups.diversity[group, c - 1]
        if work.code[x, c] != work.code[y, c]:
            have += (work.flag[1, y, c] >= _NEW) - (work.flag[0, x, c] % _NEW)
        total += max(np.int64(0), target - have)
    return total


@leaf
def _merge_removes(groups: Groups, work: Work, group: Int, other: Int, most: Int, target: Int) -> Int:
    """By how much a group lacks less once merged; 0 where the two have more subjects than they may."""
    before, after = lack(groups, group, target), np.int64(0)
    for c in range(work.code.shape[1]):
        distinct = groups.subjects[group] if c == 0 else groups.diversity[group, c - 1]
        slot = np.int64(groups.head[other])
        while slot != NONE:
            if count_in(work.here, c, work.code[slot, c]):
                distinct += 1
            slot = np.int64(work.next[slot])
        if c > 0:
            after += max(np.int64(0), target - distinct)
        elif distinct > most:
            return np.int64(0)
    return before - after


@leaf
def _swap_changes(
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
def _merge_changes(domain: Domain, groups: Groups, group: Int, other: Int) -> float:
    """By how much the mean loss of two groups' tuples changes when they become one."""
    mine, its = groups.tuples[group], groups.tuples[other]
    before = groups.loss[group] * mine + groups.loss[other] * its
    return loss_after(domain, groups.box, group, groups.box, other) - float(before / (mine + its))


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


@leaf
def merge(groups: Groups, work: Work, group: Int, other: Int) -> None:
    """Let one group take all members of another; it must be summarised anew."""
    work.next[groups.tail[group]] = groups.head[other]
    groups.tail[group] = groups.tail[other]
    groups.state[other] = GONE
    groups.merged[group] = True
