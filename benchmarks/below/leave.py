"""Who leaves when, by the rule of nearest release and by others: a plain prototype.

All that waits is looked at for each member. Without reuse the base rule loses just what
``crenel.anonymity.algorithms.nearest`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.adult import Stream
from benchmarks.below.groups import choose, is_known, left_of
from benchmarks.below.search import GROUP, REUSED, RING, SUPPRESSED, Rule, Search, search
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.compiled.random import below
from crenel.anonymity.space.boxes import assign, contains, info_loss
from crenel.anonymity.space.domain import NONE

_STEADY = 20
"""Releases before which none is early: the losses of too few are known."""


@dataclass(frozen=True)
class Result:
    """Mean loss of what was released; shares of all tuples that were suppressed, and that left alone by reuse."""

    loss: float
    suppressed: float
    reused: float


def run(tuples: Stream, rule: Rule, seed: int = 0) -> Result:
    """A whole stream by a rule; all attributes need a domain."""
    made = search(tuples, rule, seed)
    whole_stream(made)
    now, n = made.now, len(tuples)
    return Result(now.loss / max(now.released, 1), now.suppressed / n, now.reused / n)


@entry
def whole_stream(search: Search) -> None:
    """Let all tuples come in, wait, and leave."""
    now, rule, n = search.now, search.rule, len(search.subject)
    for t in range(n):
        now.came = t
        search.waits[now.waiting], search.place[t] = t, now.waiting
        now.waiting += 1
        if rule.lonely > 0.0:
            search.own[t] = now.tau
            if choose(search, np.int64(t)) > 0:
                search.own[t] = info_loss(search.domain, search.box, np.int64(GROUP))
        if rule.early > 0.0:
            leave_early(search, np.int64(t))
        one = search.first[t]
        while one != NONE:
            if search.place[one] != NONE:
                reused(search, np.int64(one), choose(search, np.int64(one)))
            one = search.following[one]
        while oldest(search) <= t - rule.delay:
            serve(search, oldest(search))
    while now.waiting > 0:
        serve(search, oldest(search))


@leaf
def oldest(search: Search) -> Int:
    """Whose delay is over first; a tuple that has not come where nobody waits."""
    now = search.now
    while now.oldest <= now.came and search.place[now.oldest] == NONE:
        now.oldest += 1
    return np.int64(now.oldest)


@procedure
def leave_early(search: Search, t: Int) -> None:
    """Release the group around a tuple that has just come, where it is one of the best."""
    now, rule = search.now, search.rule
    members = choose(search, t)
    if members == 0 or now.ring_used < _STEADY:
        return
    loss, better = info_loss(search.domain, search.box, np.int64(GROUP)), 0
    for i in range(now.ring_used):
        better += search.ring[i] < loss
    if better < rule.early * now.ring_used:
        release(search, members)


@procedure
def serve(search: Search, due: Int) -> None:
    """Let the tuple that is due leave, others before it where the rule says so."""
    rule = search.rule
    while rule.ahead > 0:
        chosen = first_ahead(search, due)
        if chosen == due:
            break
        release(search, choose(search, chosen))
        if search.place[due] == NONE:
            return
    members = choose(search, due)
    if (rule.moment == 0 or members == 0) and reused(search, due, members):
        return
    if members > 0:
        release(search, members)
    else:
        search.now.suppressed += 1
        leave(search, due, SUPPRESSED)


@procedure
def first_ahead(search: Search, due: Int) -> Int:
    """Whom to serve first of those next due."""
    rule, most, first = search.rule, -np.inf, due
    for t in range(due, min(due + rule.ahead + 1, search.now.came + 1)):
        if search.place[t] != NONE and choose(search, np.int64(t)) > 0:
            loss = info_loss(search.domain, search.box, np.int64(GROUP))
            if (loss if rule.worst else -loss) > most:
                most, first = loss if rule.worst else -loss, np.int64(t)
    return first


@procedure
def reused(search: Search, t: Int, members: Int) -> bool:
    """Whether a tuple has left under a generalization of before, drawn at random; 0 members: there is no group."""
    now, rule, matches = search.now, search.rule, search.matches
    found = 0
    for row in range(now.omega_used):
        if contains(search.domain, search.omega, np.int64(row), search.points, t):
            matches[found] = row
            found += 1
    if found == 0:
        return False
    loss = search.omega_loss[matches[below(search.random, found)]]
    if members > 0:
        group = info_loss(search.domain, search.box, np.int64(GROUP))
        if loss > group + rule.factor * (rule.k - 1) * max(group - now.tau, 0.0):
            return False
    now.loss += loss
    now.released += 1
    now.reused += 1
    leave(search, t, REUSED)
    return True


@leaf
def leave(search: Search, t: Int, release: Int) -> None:
    """Take a tuple out of all that wait."""
    now, place = search.now, search.place[t]
    now.waiting -= 1
    last = search.waits[now.waiting]
    search.waits[place], search.place[last], search.place[t] = last, place, NONE
    search.release[t], search.waited[t] = release, now.came - t


@leaf
def release(search: Search, members: Int) -> None:
    """Release the group, with who goes along."""
    now, rule, box, group = search.now, search.rule, search.box, search.group
    loss = info_loss(search.domain, box, np.int64(GROUP))
    if rule.along > 0.0 and (rule.along_if_good == 0 or loss < now.tau):
        for i in range(now.waiting):
            t = search.waits[i]
            if left_of(search, t) <= rule.along and not is_known(search, members, t):
                if contains(search.domain, box, np.int64(GROUP), search.points, t):
                    group[members] = t
                    members += 1
    for i in range(members):
        leave(search, group[i], now.releases)
    now.releases += 1
    now.loss += loss * members
    now.released += members
    search.ring[now.ring_next] = loss
    now.ring_next = (now.ring_next + 1) % RING
    now.ring_used = min(now.ring_used + 1, RING)
    total = 0.0
    for i in range(now.ring_used):
        total += search.ring[i]
    now.tau = total / now.ring_used
    if len(search.omega_loss) > 0 and loss <= rule.keep * now.tau:
        assign(search.omega, now.omega_next, box, np.int64(GROUP))
        search.omega_loss[now.omega_next] = loss
        now.omega_next = (now.omega_next + 1) % len(search.omega_loss)
        now.omega_used = min(now.omega_used + 1, len(search.omega_loss))
