"""Monitor, trigger, repair: groups short of diversity swap or merge before release (SUHDSA, Section 3.2, Algorithm 1).

The shortfall of a group is its distance from the window's aim, summed over all checks; for l-diversity, the number of
missing values. Each action lowers the shortfall of one group and raises that of no other, so the set of violating
groups only shrinks. Choices where the paper is open or contradicts itself:

- A swap takes the tuples nearest to the representative of their new group. The paper's text says so. Its formula has
  each tuple's distance to its own group, and it calls the other choice a symmetric variant.
- One action exchanges one pair. A group that lacks several values needs several actions, and each is weighed as if all
  of them cost the same.
- Sizes are counted in distinct subjects, also for the growth cap: several tuples of one person hide no one else.
- The objective's time is modeled, not measured, or a replay would decide otherwise. It is a share of the time to group
  the tuples of both groups.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.suhdsa.arrays import GIVEN_UP, GONE, OPEN, SuhdsaArrays, WindowGroups
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
"""Cost of a repair per tuple of both groups, as a share of the cost to group a tuple; measured by
``python -m experiments suhdsa-repair-cost``."""


@leaf
def least_diversity(groups: WindowGroups, group: Int) -> Int:
    """Return D(G), the minimum over the sensitive attributes; 2**62 where there is none."""
    least = np.int64(2**62)
    for a in range(groups.diversity.shape[1]):
        least = min(least, groups.diversity[group, a])
    return least


@leaf
def repair(shard: SuhdsaArrays, made: Int) -> Int:
    """Repair groups until none has a shortfall or no repair helps the rest; return the number of actions.

    Parameters
    ----------
    made : number of groups, all summarized and open
    """
    domain, groups, work, here, there = shard.domain, shard.groups, shard.work, shard.here, shard.there
    alone, actions, weight = shard.now.alone != 0, shard.actions, shard.config.distortion_weight
    done = 0
    group: Int = _most_urgent(groups, made)
    if group != NONE:
        for each in range(made):
            represent(shard.tuples.points, groups, work, each, shard.config.median != 0, shard.config.ancestor != 0)
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
def _renew(shard: SuhdsaArrays, group: Int) -> None:
    summarize(shard, group)
    represent(
        shard.tuples.points, shard.groups, shard.work, group, shard.config.median != 0, shard.config.ancestor != 0
    )


@leaf
def priority(groups: WindowGroups, group: Int) -> float:
    """Return a group's maximum shortfall in any check: l_t - D(G) where l-diversity is the only model."""
    most = 0.0
    for check in range(groups.lacks.shape[1]):
        most = max(most, groups.lacks[group, check])
    return most


@leaf
def _most_urgent(groups: WindowGroups, made: Int) -> Int:
    """Return the open violating group of highest priority; ties go to the oldest, the first due, the smallest."""
    best: Int = NONE
    for group in range(made):
        if groups.state[group] == OPEN and priority(groups, group) > 0.0:
            if best == NONE or _before(groups, group, best):
                best = group
    return best


@leaf
def _before(groups: WindowGroups, one: Int, other: Int) -> bool:
    mine, its = priority(groups, one), priority(groups, other)
    if mine != its:
        return bool(mine > its)
    if groups.oldest[one] != groups.oldest[other]:
        return bool(groups.oldest[one] < groups.oldest[other])
    if groups.earliest[one] != groups.earliest[other]:
        return bool(groups.earliest[one] < groups.earliest[other])
    return bool(groups.tuples[one] < groups.tuples[other])


@leaf
def _nearest_groups(domain: Domain, scale: Scale, groups: WindowGroups, work: Work, made: Int, group: Int) -> Int:
    """Write the nearest other groups by representative to ``work.near``, nearest first, and return their number."""
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
def _merge_removes(shard: SuhdsaArrays, group: Int, other: Int) -> float:
    """Return the decrease in shortfall of a group, counted in ``here``, through a merge.

    The result is 0 where both have too many subjects, or where a check's shortfall would grow. Above l = 2 it may
    grow, because the l-diversity count is conservative for persons with several values. The result is also 0 where a
    satisfied group would join one that stays short: other privacy models than l-diversity may never recover.
    """
    groups, work, most, alone = shard.groups, shard.work, shard.config.most_subjects, shard.now.alone != 0
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
def _merge_changes(domain: Domain, groups: WindowGroups, group: Int, other: Int) -> float:
    """Return the change in mean loss of two groups' tuples through a merge."""
    mine, its = groups.tuples[group], groups.tuples[other]
    before = groups.loss[group] * mine + groups.loss[other] * its
    return loss_after(domain, groups.box, group, groups.box, other) - float(before / (mine + its))


@leaf
def _merge(groups: WindowGroups, work: Work, group: Int, other: Int) -> None:
    """Move all members of another group into a group, which must then be summarized again."""
    work.next[groups.tail[group]] = groups.head[other]
    groups.tail[group] = groups.tail[other]
    groups.state[other] = GONE
    groups.merged[group] = True
