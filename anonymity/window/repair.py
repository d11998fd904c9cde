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

from anonymity.compiled.jit import Int, leaf
from anonymity.space.boxes import loss_after
from anonymity.space.domain import NONE, Domain
from anonymity.window.arrays import (
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
from anonymity.window.distance import distance
from anonymity.window.grouping import forget, summarise
from anonymity.window.representative import represent
from anonymity.window.swap import best_pair, count_group, exchange, has_what_lacks, lack, lack_after, swap_changes

_SWAP_TIME, _MERGE_TIME = 0.5, 0.4
"""What a repair costs for each tuple of both groups, as a share of what grouping a tuple did: measured by
``python -m benchmarks.window cost``."""


@leaf
def least_diversity(groups: Groups, group: Int) -> Int:
    """D(G): the least over the sensitive attributes; as many as can be where there is none."""
    least = np.int64(2**62)
    for a in range(groups.diversity.shape[1]):
        least = min(least, groups.diversity[group, a])
    return least


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
    actions, changes : one row an action, as ``anonymity.window.log.Actions`` tells
    made : number of groups, all summarised and open
    target : l_t, distinct values that each group is to have
    """
    done = 0
    group: Int = _most_urgent(groups, made, target)
    if group != NONE:
        for each in range(made):
            represent(domain, points, groups, work, each, parameters[MEDIAN] != 0, parameters[ANCESTOR] != 0)
    while group != NONE and done < len(actions):  # which no repair that keeps its word fills
        found = _nearest_groups(domain, scale, groups, work, made, group)
        best: Int = NONE
        first: Int = NONE
        second: Int = NONE
        action = SWAP
        cost, loss, time = np.inf, 0.0, 0.0
        lacking = lack(groups, group, target)
        tuples, diversity = groups.tuples[group], least_diversity(groups, group)
        count_group(work.here, groups, work, group)
        for i in range(found):
            other = np.int64(work.near[i])
            if not has_what_lacks(groups, work, group, other, target):
                continue
            count_group(work.there, groups, work, other)
            x, y = best_pair(domain, scale, points, groups, work, group, other, parameters[K], target)
            removed = _merge_removes(groups, work, group, other, parameters[GROWTH], target)
            forget(work.there, groups, work, other)
            if x != NONE:
                gained = lacking - lack_after(groups, work, group, x, y, target)
                change = swap_changes(domain, points, groups, work, group, other, x, y)
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
        forget(work.here, groups, work, group)
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
def _merge_removes(groups: Groups, work: Work, group: Int, other: Int, most: Int, target: Int) -> Int:
    """By how much a group lacks less once merged; 0 where the two have more subjects than they may."""
    before, after = lack(groups, group, target), np.int64(0)
    for c in range(work.code.shape[1]):
        distinct = groups.subjects[group] if c == 0 else groups.diversity[group, c - 1]
        slot = np.int64(groups.head[other])
        while slot != NONE:
            code = work.code[slot, c]
            if work.here[c, code] == 0 and work.there[c, code] > 0:
                work.there[c, code] = -1  # seen
                distinct += 1
            slot = np.int64(work.next[slot])
        if c > 0:
            after += max(np.int64(0), target - distinct)
        elif distinct > most:
            return np.int64(0)
    return before - after


@leaf
def _merge_changes(domain: Domain, groups: Groups, group: Int, other: Int) -> float:
    """By how much the mean loss of two groups' tuples changes when they become one."""
    mine, its = groups.tuples[group], groups.tuples[other]
    before = groups.loss[group] * mine + groups.loss[other] * its
    return loss_after(domain, groups.box, group, groups.box, other) - float(before / (mine + its))


@leaf
def merge(groups: Groups, work: Work, group: Int, other: Int) -> None:
    """Let one group take all members of another; it must be summarised anew."""
    work.next[groups.tail[group]] = groups.head[other]
    groups.tail[group] = groups.tail[other]
    groups.state[other] = GONE
    groups.merged[group] = True
