"""Monitor, trigger, repair: groups that lack diversity swap or merge before release (SUHDSA, Section 3.2, Algorithm 1).

What a group *lacks* is, summed over all checks, by how much it falls short of what the window aims at: of l-diversity,
by how many values. Each action lowers what one group lacks and raises what none lacks, so the set of violating groups
only shrinks. Where the paper leaves something open, or says two things:

- A swap takes the tuples that lie nearest to the representative of the group they move to. The paper's text says so,
  and its formula has each tuple's distance to its own group; it names the other way a symmetric variant.
- One action exchanges one pair. A group that lacks more than one value takes as many as it needs, and each is weighed
  as if all of those it needs would cost the same.
- Sizes are counted in distinct subjects, also for the growth cap: one person's tuples hide nobody.
- The objective's time is modeled, not read from a clock, or a replay would decide otherwise. It is a share of the time
  in which the tuples of both groups were grouped.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.suhdsa.arrays import GIVEN_UP, GONE, OPEN, Groups, WindowArrays
from crenel.anonymity.algorithms.suhdsa.distance import Scale, distance
from crenel.anonymity.algorithms.suhdsa.grouping import count_group, discount_group, forget_group, lacking, summarize
from crenel.anonymity.algorithms.suhdsa.log import MERGE, SWAP
from crenel.anonymity.algorithms.suhdsa.representative import represent
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.algorithms.suhdsa.swap import (
    best_pair,
    exchange,
    has_what_lacks,
    lacking_after_swap,
    swap_changes,
)
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.checks import only_diversity
from crenel.anonymity.privacy_models.incremental_tally import weigh
from crenel.anonymity.space.boxes import loss_after
from crenel.anonymity.space.domain import NONE, Domain

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
def repair(shard: WindowArrays, made: Int) -> Int:
    """Repair groups until none lacks anything or none of the rest can be helped; how many actions it took.

    Parameters
    ----------
    made : number of groups, all summarized and open
    """
    domain, groups, work, here, there = shard.domain, shard.groups, shard.work, shard.here, shard.there
    alone, actions, weight = shard.now.alone != 0, shard.actions, shard.of.distortion_weight
    done = 0
    group: Int = _most_urgent(groups, made)
    if group != NONE:
        for each in range(made):
            represent(shard.points, groups, work, each, shard.of.median != 0, shard.of.ancestor != 0)
    while group != NONE and done < len(actions):
        found = _nearest_groups(domain, shard.scale, groups, work, made, group)
        best: Int = NONE
        first: Int = NONE
        second: Int = NONE
        action = SWAP
        cost, loss, time = np.inf, 0.0, 0.0
        before = lacking(groups, group)
        tuples, diversity = groups.tuples[group], least_diversity(groups, group)
        count_group(here, groups, work, group, alone)
        for i in range(found):
            other = np.int64(work.near[i])
            if not has_what_lacks(shard, group, other):
                continue
            count_group(there, groups, work, other, alone)
            x, y = best_pair(shard, group, other)
            forget_group(there, groups, work, other, alone)
            if x != NONE:
                change = swap_changes(shard, group, other, x, y)
                price = _price(weight, change, _SWAP_TIME) * before / (before - lacking_after_swap(shard, x, y))
                if price < cost:
                    best, first, second, action = other, x, y, SWAP
                    cost, loss, time = price, change, _SWAP_TIME
            removed = _merge_removes(shard, group, other)
            if removed > 0.0:
                change = _merge_changes(domain, groups, group, other)
                price = _price(weight, change, _MERGE_TIME) * before / removed
                if price < cost:
                    best, action = other, MERGE
                    cost, loss, time = price, change, _MERGE_TIME
        forget_group(here, groups, work, group, alone)
        if best == NONE:
            groups.state[group] = GIVEN_UP
        else:
            if action == SWAP:
                exchange(groups, work, group, best, first, second)
                _renew(shard, best)
            else:
                _merge(groups, work, group, best)
            _renew(shard, group)
            actions[done].group, actions[done].neighbor, actions[done].action = group, best, action
            actions[done].tuples_before, actions[done].tuples_after = tuples, groups.tuples[group]
            actions[done].diversity_before = diversity
            actions[done].diversity_after = least_diversity(groups, group)
            actions[done].inspected = found
            actions[done].loss_change, actions[done].time_change = loss, time
            done += 1
        group = _most_urgent(groups, made)
    return done


@leaf
def _price(weight: float, loss: float, time: float) -> float:
    return weight * loss + (1.0 - weight) * time


@leaf
def _renew(shard: WindowArrays, group: Int) -> None:
    summarize(shard, group)
    represent(shard.points, shard.groups, shard.work, group, shard.of.median != 0, shard.of.ancestor != 0)


@leaf
def priority(groups: Groups, group: Int) -> float:
    """The most that a group falls short of any check: l_t - D(G) where l is all that is asked."""
    most = 0.0
    for check in range(groups.lacks.shape[1]):
        most = max(most, groups.lacks[group, check])
    return most


@leaf
def _most_urgent(groups: Groups, made: Int) -> Int:
    """The open violator with the highest priority, then the oldest, the first due, the smallest."""
    best: Int = NONE
    for group in range(made):
        if groups.state[group] == OPEN and priority(groups, group) > 0.0:
            if best == NONE or _before(groups, group, best):
                best = group
    return best


@leaf
def _before(groups: Groups, one: Int, other: Int) -> bool:
    mine, its = priority(groups, one), priority(groups, other)
    if mine != its:
        return bool(mine > its)
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
        apart = distance(domain, scale, groups.center, group, groups.center, other, limit)
        if found == len(work.near):
            if apart >= limit:
                continue
            found -= 1
        rank = found
        while rank > 0 and work.near_distance[rank - 1] > apart:
            work.near[rank], work.near_distance[rank] = work.near[rank - 1], work.near_distance[rank - 1]
            rank -= 1
        work.near[rank], work.near_distance[rank] = other, apart
        found += 1
    return found


@leaf
def _merge_removes(shard: WindowArrays, group: Int, other: Int) -> float:
    """By how much a group, counted in ``here``, lacks less once merged.

    0 where both have too many subjects, or where it would fall shorter of any check: above l = 2 it may, as the number
    for l-diversity is one on the safe side where somebody has several values. And 0 where a group that lacks nothing
    would be lost to one that lacks something still: of promises beside l it may be that no group ever makes up for it.
    """
    groups, work, most, alone = shard.groups, shard.work, shard.of.most_subjects, shard.now.alone != 0
    if alone and groups.subjects[group] + groups.subjects[other] > most:
        return 0.0
    aims, here = shard.aims, shard.here
    count_group(here, groups, work, other, alone)
    weigh(aims, here.tally, here.lacks, np.int64(0))
    subjects = here.tally.persons[0]
    discount_group(here, groups, work, other, alone)
    if subjects > most:
        return 0.0
    removed, left = 0.0, 0.0
    for check in range(len(aims.address)):
        if here.lacks[0, check] > groups.lacks[group, check]:
            return 0.0
        removed += groups.lacks[group, check] - here.lacks[0, check]
        left += here.lacks[0, check]
    if left > 0.0 and lacking(groups, other) == 0.0 and not only_diversity(aims):
        return 0.0
    return removed


@leaf
def _merge_changes(domain: Domain, groups: Groups, group: Int, other: Int) -> float:
    """By how much the mean loss of two groups' tuples changes when they become one."""
    mine, its = groups.tuples[group], groups.tuples[other]
    before = groups.loss[group] * mine + groups.loss[other] * its
    return loss_after(domain, groups.box, group, groups.box, other) - float(before / (mine + its))


@leaf
def _merge(groups: Groups, work: Work, group: Int, other: Int) -> None:
    """Let one group take all members of another; it must be summarized anew."""
    work.next[groups.tail[group]] = groups.head[other]
    groups.tail[group] = groups.tail[other]
    groups.state[other] = GONE
    groups.merged[group] = True
