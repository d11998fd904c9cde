"""Choosing a group around a tuple, by the rule of nearest release and by others."""

from __future__ import annotations

import numpy as np

from benchmarks.below.search import BEST, GROUP, TRIED, Search
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.space.boxes import assign, enclose, enlargement, info_loss
from crenel.anonymity.space.domain import NONE


@procedure
def choose(search: Search, t: Int) -> Int:
    """Choose a group around a tuple; how many members it has, in ``group`` and ``box``, 0 where there is none."""
    now, rule = search.now, search.rule
    if rule.young > 0.0 or rule.patience > 0.0 or rule.lonely > 0.0:
        for i in range(now.waiting):
            other = search.waits[i]
            left = left_of(search, other)
            search.bias[other] = (rule.young * now.tau * left - rule.lonely * search.own[other]) / rule.k
            search.weight[other] = 1.0 + rule.patience * left
    if rule.starts == 1:
        return refine(search, grow(search, t, 0))
    members: Int = np.int64(0)
    least = np.inf
    for start in range(rule.starts):
        found = refine(search, grow(search, t, np.int64(start)))
        if found > 0 and cost(search, np.int64(GROUP), found) < least:
            least, members = cost(search, np.int64(GROUP), found), found
            search.best[:found] = search.group[:found]
            assign(search.box, np.int64(BEST), search.box, np.int64(GROUP))
    search.group[:members] = search.best[:members]
    assign(search.box, np.int64(GROUP), search.box, np.int64(BEST))
    return members


@leaf
def cost(search: Search, row: Int, members: Int) -> float:
    """What a group loses, and what its members cost."""
    total = info_loss(search.domain, search.box, row)
    for i in range(members):
        total += search.bias[search.group[i]]
    return total


@leaf
def grow(search: Search, t: Int, start: Int) -> Int:
    """Grow a group around a tuple, its first member the one that is ``start`` places behind the nearest."""
    rule, group, chosen = search.rule, search.group, search.chosen
    assign(search.box, np.int64(GROUP), search.points, t)
    group[0] = t
    chosen[t] = True
    members, size, passed = 1, rule.k + rule.spare, 0
    while members < size:
        found = nearest(search, np.int64(GROUP), members, rule.l - values(search, members, NONE) >= rule.k - members)
        if found == NONE:
            break
        if members == 1 and passed < start:
            search.best[len(search.best) - 1 - passed] = found
            chosen[found] = True
            passed += 1
            continue
        group[members] = found
        chosen[found] = True
        members += 1
        enclose(search.domain, search.box, np.int64(GROUP), search.points, found)
    for i in range(members):
        chosen[group[i]] = False
    for i in range(passed):
        chosen[search.best[len(search.best) - 1 - i]] = False
    return np.int64(members) if members >= rule.k and values(search, members, NONE) >= rule.l else np.int64(0)


@leaf
def values(search: Search, members: Int, without: Int) -> Int:
    """How many sensitive values the group has, ``without`` one of its places."""
    found = np.int64(0)
    if search.rule.l == 1:
        return np.int64(1)
    for i in range(members):
        new = i != without
        for j in range(i):
            new &= j == without or search.value[search.group[i]] != search.value[search.group[j]]
        found += new
    return found


@leaf
def nearest(search: Search, row: Int, members: Int, brings: bool) -> Int:
    """The tuple of another subject that a box encloses at the least cost; one that ``brings`` a value, where asked."""
    least, found = np.inf, np.int64(NONE)
    for i in range(search.now.waiting):
        t = search.waits[i]
        if search.chosen[t]:
            continue
        bias, weight = search.bias[t], search.weight[t]
        growth = enlargement(search.domain, search.box, row, search.points, t, (least - bias) / weight) * weight + bias
        if growth > least or (growth == least and t > found) or is_known(search, members, t):
            continue
        if brings and search.rule.l > 1:
            new = True
            for j in range(members):
                new &= search.value[search.group[j]] != search.value[t]
            if not new:
                continue
        least, found = growth, t
    return found


@leaf
def without(search: Search, members: Int, place: Int) -> None:
    """Make the box that is tried that of the group without one of its places."""
    assign(search.box, np.int64(TRIED), search.points, search.group[0])
    for i in range(1, members):
        if i != place:
            enclose(search.domain, search.box, np.int64(TRIED), search.points, search.group[i])


@leaf
def refine(search: Search, members: Int) -> Int:
    """Drop spare members, the costliest first; exchange members while that lowers the cost."""
    rule, group = search.rule, search.group
    while members > rule.k:
        least, dropped = np.inf, np.int64(NONE)
        for place in range(1, members):
            without(search, members, place)
            total = info_loss(search.domain, search.box, np.int64(TRIED)) - search.bias[group[place]]
            if total < least and values(search, members, place) >= rule.l:
                least, dropped = total, np.int64(place)
        group[dropped] = group[members - 1]
        members -= 1
        without(search, members, np.int64(NONE))
        assign(search.box, np.int64(GROUP), search.box, np.int64(TRIED))
    while rule.exchange != 0 and members > 1:
        if not exchanged(search, members):
            break
    return members


@leaf
def exchanged(search: Search, members: Int) -> bool:
    """Make the exchange of one member for another tuple that lowers the cost most; whether there is one."""
    group, chosen = search.group, search.chosen
    leaves: Int = np.int64(NONE)
    comes: Int = np.int64(NONE)
    least = cost(search, np.int64(GROUP), members) - 1e-9
    for i in range(members):
        chosen[group[i]] = True
    for place in range(1, members):
        # The last place is the one that leaves, whose subject may come again.
        member = group[place]
        group[place] = group[members - 1]
        group[members - 1] = member
        without(search, members - 1, np.int64(NONE))
        other = nearest(search, np.int64(TRIED), members - 1, values(search, members - 1, NONE) < search.rule.l)
        if other != NONE:
            enclose(search.domain, search.box, np.int64(TRIED), search.points, other)
            total = cost(search, np.int64(TRIED), members - 1) + search.bias[other]
            if total < least:
                least, leaves, comes = total, np.int64(place), other
        group[members - 1] = group[place]
        group[place] = member
    for i in range(members):
        chosen[group[i]] = False
    if leaves == NONE:
        return False
    group[leaves] = comes
    without(search, members, np.int64(NONE))
    assign(search.box, np.int64(GROUP), search.box, np.int64(TRIED))
    return True


@leaf
def left_of(search: Search, t: Int) -> float:
    """The share of its delay that a tuple has still to wait."""
    return float(max(t + search.rule.delay - search.now.came, 0) / search.rule.delay)


@leaf
def is_known(search: Search, members: Int, t: Int) -> bool:
    """Whether a tuple is of somebody in the group."""
    for i in range(members):
        if search.subject[search.group[i]] == search.subject[t]:
            return True
    return False
