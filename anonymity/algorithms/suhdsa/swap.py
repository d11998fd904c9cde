"""Swaps of tuples between two groups, and their effects (SUHDSA with l-diversity, Section 3.2)."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.suhdsa.arrays import SuhdsaArrays, WindowGroups, points_of
from crenel.anonymity.algorithms.suhdsa.distance import distance
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.checks import only_diversity
from crenel.anonymity.privacy_models.incremental_tally import after_exchange, can_reduce_shortfall, exchange_helps
from crenel.anonymity.space.boxes import assign, enclose, info_loss
from crenel.anonymity.space.domain import NONE, Boxes, Domain


@leaf
def has_what_lacks(shard: SuhdsaArrays, group: Int, other: Int) -> bool:
    """Return whether any tuple of another group can reduce the shortfall of the group counted in ``here``."""
    groups, work, alone = shard.groups, shard.work, shard.now.alone != 0
    slot = np.int64(groups.head[other])
    while slot != NONE:
        if can_reduce_shortfall(shard.here, shard.aims, groups.lacks, group, shard.work.code, slot, alone):
            return True
        slot = np.int64(work.next[slot])
    return False


@leaf
def best_pair(shard: SuhdsaArrays, group: Int, other: Int) -> tuple[Int, Int]:
    """Return the feasible pair of tuples that fits best, ``NONE`` twice if there is none; both groups are counted."""
    domain, scale, groups, work = shard.domain, shard.scale, shard.groups, shard.work
    where, alone = points_of(shard), shard.now.alone != 0
    slot = np.int64(groups.head[group])
    while slot != NONE:
        work.fit[slot] = distance(domain, scale, groups.center, other, where, slot, np.inf)
        slot = np.int64(work.next[slot])
    here, there, aims, codes = shard.here, shard.there, shard.aims, work.code
    quick = alone and only_diversity(aims)
    x: Int = NONE
    y: Int = NONE
    best = np.inf
    two = np.int64(groups.head[other])
    while two != NONE:
        if can_reduce_shortfall(here, aims, groups.lacks, group, codes, two, alone):
            fit = distance(domain, scale, groups.center, group, where, two, best)
            one = np.int64(groups.head[group])
            while one != NONE:
                if fit + work.fit[one] < best:
                    if quick:
                        feasible = exchange_helps(here, there, aims, codes, one, two)
                    else:
                        feasible = _feasible(shard, group, other, one, two)
                    if feasible:
                        best, x, y = fit + work.fit[one], one, two
                one = np.int64(work.next[one])
        two = np.int64(work.next[two])
    return x, y


@leaf
def _feasible(shard: SuhdsaArrays, group: Int, other: Int, x: Int, y: Int) -> bool:
    """Return whether both groups keep k subjects, no shortfall grows, and one of the first group's shrinks."""
    here, there, lacks, alone = shard.here, shard.there, shard.groups.lacks, shard.now.alone != 0
    if after_exchange(here, shard.aims, shard.work.code, x, y, alone) < shard.config.k:
        return False
    helps = False
    for check in range(lacks.shape[1]):
        if here.lacks[0, check] > lacks[group, check]:
            return False
        helps |= here.lacks[0, check] < lacks[group, check]
    if not helps or after_exchange(there, shard.aims, shard.work.code, y, x, alone) < shard.config.k:
        return False
    for check in range(lacks.shape[1]):
        if there.lacks[0, check] > lacks[other, check]:
            return False
    return True


@leaf
def lacking_after_swap(shard: SuhdsaArrays, x: Int, y: Int) -> float:
    """Return the shortfall of the group counted in ``here`` after y has replaced x."""
    alone = shard.now.alone != 0
    after_exchange(shard.here, shard.aims, shard.work.code, x, y, alone)
    total = 0.0
    for check in range(shard.here.lacks.shape[1]):
        total += shard.here.lacks[0, check]
    return total


@leaf
def swap_changes(shard: SuhdsaArrays, group: Int, other: Int, x: Int, y: Int) -> float:
    """Return the change in mean loss of two groups' tuples through a swap of x and y."""
    domain, groups, work, where = shard.domain, shard.groups, shard.work, points_of(shard)
    assign(work.box, 0, where, y)
    _enclose_others(domain, groups, work, where, 0, group, x)
    assign(work.box, 1, where, x)
    _enclose_others(domain, groups, work, where, 1, other, y)
    mine = (info_loss(domain, work.box, 0) - groups.loss[group]) * groups.tuples[group]
    its = (info_loss(domain, work.box, 1) - groups.loss[other]) * groups.tuples[other]
    return float((mine + its) / (groups.tuples[group] + groups.tuples[other]))


@leaf
def _enclose_others(
    domain: Domain, groups: WindowGroups, work: Work, where: Boxes, row: Int, group: Int, leaves: Int
) -> None:
    slot = np.int64(groups.head[group])
    while slot != NONE:
        if slot != leaves:
            enclose(domain, work.box, row, where, slot)
        slot = np.int64(work.next[slot])


@leaf
def exchange(groups: WindowGroups, work: Work, group: Int, other: Int, x: Int, y: Int) -> None:
    """Swap a tuple of one group with one of another; both groups must then be summarized again."""
    _replace(groups, work, group, x, y)
    _replace(groups, work, other, y, x)
    work.next[x], work.next[y] = work.next[y], work.next[x]


@leaf
def _replace(groups: WindowGroups, work: Work, group: Int, leaves: Int, comes: Int) -> None:
    """Redirect the link to one member of a group to another tuple."""
    if groups.head[group] == leaves:
        groups.head[group] = comes
    else:
        slot = np.int64(groups.head[group])
        while work.next[slot] != leaves:
            slot = np.int64(work.next[slot])
        work.next[slot] = comes
    if groups.tail[group] == leaves:
        groups.tail[group] = comes
