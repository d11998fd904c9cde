"""Choice of the group that an expiring tuple is released with: grown around it until all privacy models hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from crenel.anonymity.algorithms.nearest.arrays import SIZE, Line, NearestArrays
from crenel.anonymity.algorithms.nearest.cells import measure, measure_again, nearest_cell, visit
from crenel.anonymity.algorithms.nearest.growth import measure_points
from crenel.anonymity.algorithms.nearest.isolation import add_prices, find_candidates
from crenel.anonymity.buffer.arrays import points
from crenel.anonymity.buffer.queue import blocking_reason, blocking_reason_of_all
from crenel.anonymity.buffer.repair_log import note_shortfall
from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf, procedure
from crenel.anonymity.compiled.random import randbelow
from crenel.anonymity.privacy_models.buffered_values import balanced_size
from crenel.anonymity.privacy_models.checks import (
    falling_counts,
    first_violation,
    lack_of_counts,
    only_counts,
    only_diversity,
)
from crenel.anonymity.privacy_models.incremental_tally import can_reduce_shortfall, forget, put, remove_tuple, weigh
from crenel.anonymity.space.boxes import assign, enclose, info_loss
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss

A = TypeVar("A", bound=NearestArrays)

WAITS, CHOSEN, SKIPPED = 0, 1, 2
"""``Tuples.cluster`` of a buffered tuple, of a member of the group that grows, and of a member of a skipped cohort."""

_NOW, _BEFORE, _START = np.int64(0), np.int64(1), np.int64(2)
"""Rows of ``box``: the group, the group before its last member, and the group before a cohort."""

_PASSES = 5
"""Number of helpful cohorts of which one is skipped, on average."""

_SPARE = 2
"""Spare members beyond k where noise requires confidence, since some members may be suppressed as linkable."""


@inner_leaf
def choose_group(shard: A, slot: Int, other_loss: float, enclose_more: Callable[[A, Int], bool]) -> tuple[Int, Int]:
    """Choose the group to release a tuple with: the one grown around it, else all buffered tuples.

    Parameters
    ----------
    other_loss : loss of the tuple under reuse; infinite where nothing can be reused
    enclose_more : enlarges the generalization of a chosen group, and returns whether it may have done so

    Returns
    -------
    tuple
        The number of members in ``group``, under the generalization ``box``, or -1 where reuse is better; and the
        reason why no group can be released, ``NONE`` where one can.
    """
    reason = blocking_reason(shard)
    log = shard.repairs.now
    log.chosen, log.everything = 0, 0
    if reason != NONE:
        log.lacked = reason
        return np.int64(0), reason
    reason = blocking_reason_of_all(shard)
    members = grow(shard, slot, other_loss, reason == NONE)
    all_tuples = members == 0
    if all_tuples:
        if reason != NONE:
            log.lacked = reason
            return np.int64(0), reason
        members = _collect(shard)
        log.chosen, log.everything = 0, 1
    if members > 0 and (enclose_more(shard, members) or all_tuples) and reuse_is_better(shard, other_loss):
        members = np.int64(-1)
    return members, np.int64(NONE)


@leaf
def _collect(shard: NearestArrays) -> Int:
    """Make all tuples in cells the group and return their number."""
    tuples, members, slot = shard.tuples, np.int64(0), np.int64(shard.now.oldest)
    while slot != NONE:
        if shard.cells.place[slot] != NONE:
            if members == 0:
                assign(shard.box, np.int64(0), points(tuples), slot)
            enclose(shard.domain, shard.box, np.int64(0), points(tuples), slot)
            shard.group[members] = slot
            members += 1
        slot = np.int64(tuples.younger[slot])
    return members


@procedure
def grow(shard: NearestArrays, slot: Int, other_loss: float, buffer_satisfies: bool) -> Int:
    """Grow a group around a tuple by the buffered tuple of another subject that enlarges it least.

    With a price, the tuple of lowest cost joins instead (``crenel.anonymity.algorithms.nearest.isolation``). The group
    has k members, or more where groups of k would use up the rare sensitive values of the buffer (``balanced_size``).
    Once the lacking values need all remaining places, only cohorts that add one of them join (``_join_cohort``).

    Parameters
    ----------
    other_loss : loss of the tuple under reuse; infinite where nothing can be reused
    buffer_satisfies : whether the union of all buffered tuples satisfies the privacy models; otherwise it gives up
        a group of k that no tuple improves

    Returns
    -------
    members : number of members in ``group``, under the generalization ``box``; 0 where no such group satisfies the
        privacy models, -1 where reuse is better
    """
    checks = shard.checks
    size = balanced_size(shard.waiting, checks, np.int64(shard.config.k))
    wanted = size + (_SPARE if shard.noise.config.subjects > 0 else 0)
    assign(shard.box, _NOW, points(shard.tuples), slot)
    if shard.isolation.now.price > 0.0:
        find_candidates(shard, slot)
    else:
        measure(shard.metric, shard.cells, shard.box, _NOW)
    _choose(shard, np.int64(0), slot)
    members, result = np.int64(1), np.int64(NONE)
    while True:
        check = np.int64(first_violation(checks, shard.trial.tally)) if len(checks.address) > 0 else np.int64(NONE)
        if members <= shard.config.k:
            shard.repairs.now.tuples = shard.repairs.now.subjects = members
        if members == shard.config.k and check != NONE:
            note_shortfall(shard, shard.box, _NOW, np.int64(checks.reason[check]))
        if members >= wanted and check == NONE:
            result = members
            break
        joined = _join(shard, members, size, check, buffer_satisfies)
        if joined == 0:  # k members suffice without the others
            result = members if members >= shard.config.k and check == NONE else np.int64(0)
            break
        members += joined
        if reuse_is_better(shard, other_loss):  # growth only increases the loss of a group
            result = np.int64(-1)
            break
    if len(checks.address) > 0:
        forget(shard.trial)
    for i in range(members):
        shard.tuples.cluster[shard.group[i]] = WAITS
    _free_skipped(shard)
    return result


@leaf
def _choose(shard: NearestArrays, members: Int, slot: Int) -> None:
    """Make a tuple a member of the group, whose generalization contains it already."""
    shard.group[members] = slot
    shard.tuples.cluster[slot] = CHOSEN
    if len(shard.checks.address) > 0:
        put(shard.trial, shard.codes, slot, True)


@leaf
def _enlarge(shard: NearestArrays, slot: Int) -> None:
    """Enlarge the generalization of the group by a tuple."""
    assign(shard.box, _BEFORE, shard.box, _NOW)
    enclose(shard.metric, shard.box, _NOW, points(shard.tuples), slot)
    if shard.isolation.now.price == 0.0:
        measure_again(shard.metric, shard.cells, shard.box, _BEFORE, _NOW)


@leaf
def reuse_is_better(shard: NearestArrays, other_loss: float) -> bool:
    """Return whether reuse loses at most as much as the group, with the cost of a bad group to its other members.

    The k - 1 other members could be released at the mean loss tau instead. Tau averages losses before the ends of
    intervals are rounded.
    """
    loss = info_loss(shard.domain, shard.box, np.int64(0))
    shown = published_loss(shard.domain, shard.box, np.int64(0))
    return bool(other_loss <= shown + (shard.config.k - 1) * max(loss - shard.now.tau, 0.0))


@leaf
def _join(shard: NearestArrays, members: Int, size: Int, check: Int, buffer_satisfies: bool) -> Int:
    """Let one tuple or one cohort join the group, and return the number of tuples that did.

    ``check`` is a privacy model that is violated, ``NONE`` if there is none.
    """
    nearest: Int = np.int64(NONE)
    if check != NONE:
        lacking = _values_lacking(shard) * shard.choice.cohort
        if lacking >= size - members or _next_must_help(shard, members, size):
            joined = _join_cohort(shard, members)
            if joined > 0:
                shard.repairs.now.chosen += joined
                return joined
            nearest = _nearest(shard, members, True)
            shard.repairs.now.chosen += nearest != NONE
            if nearest == NONE and (
                only_diversity(shard.checks) or (members >= shard.config.k and not buffer_satisfies)
            ):
                return np.int64(0)
    if nearest == NONE:
        nearest = _nearest(shard, members, False)
    if nearest == NONE:
        return np.int64(0)
    _enlarge(shard, nearest)
    _choose(shard, members, nearest)
    return np.int64(1)


@procedure
def _join_cohort(shard: NearestArrays, members: Int) -> Int:
    """Let the nearest cohort that reduces the shortfall join the group, and return its size; 0 if there is none.

    A cohort is the nearest tuple and its next nearest neighbor, chosen by quasi-identifiers alone. An attacker who sees
    that nearer tuples were skipped learns that the cohort adds a lacking value, and not by which of its members. One of
    ``_PASSES`` cohorts that would help is skipped too, so that a skipped tuple proves nothing of its value. All but one
    of as many are skipped where each member helps, because they use up rare values, and none of them hides the other.
    Models that compare with a reference ask for so many members that this would widen classes.
    """
    checks, trial, choice = shard.checks, shard.trial, shard.choice
    weigh(checks, trial.tally, trial.lacks, np.int64(0))
    lacked = trial.lacks[0].sum()
    assign(shard.box, _START, shard.box, _NOW)
    while True:
        joined = np.int64(0)
        while joined < choice.cohort:
            nearest = _nearest(shard, members + joined, False)
            if nearest == NONE:
                break
            _enlarge(shard, nearest)
            _choose(shard, members + joined, nearest)
            joined += 1
        if joined == choice.cohort:
            weigh(checks, trial.tally, trial.lacks, np.int64(0))
            if trial.lacks[0].sum() < lacked:
                several = only_counts(checks) and _helpful(shard, members, joined, lacked) > 1
                if randbelow(shard.random, _PASSES) >= (_PASSES - 1 if several else 1):
                    return joined
        for i in range(members, members + joined):
            slot = np.int64(shard.group[i])
            remove_tuple(trial, shard.codes, slot, True)
            shard.tuples.cluster[slot] = SKIPPED
            choice.skipped += 1
            shard.group[len(shard.group) - choice.skipped] = slot
        assign(shard.box, _NOW, shard.box, _START)
        if shard.isolation.now.price == 0.0:
            measure(shard.metric, shard.cells, shard.box, _NOW)
        if joined < choice.cohort:
            break
    _free_skipped(shard)  # a single tuple may still help
    return np.int64(0)


@leaf
def _free_skipped(shard: NearestArrays) -> None:
    """Let the members of skipped cohorts wait again."""
    for i in range(shard.choice.skipped):
        shard.tuples.cluster[shard.group[len(shard.group) - 1 - i]] = WAITS
    shard.choice.skipped = 0


@leaf
def _helpful(shard: NearestArrays, members: Int, joined: Int, lacked: float) -> Int:
    """Return how many of the ``joined`` last members each reduce the group's shortfall, ``lacked``, alone."""
    checks, trial, group, helpful = shard.checks, shard.trial, shard.group, np.int64(0)
    for i in range(members, members + joined):
        for j in range(members, members + joined):
            if j != i:
                remove_tuple(trial, shard.codes, np.int64(group[j]), True)
        weigh(checks, trial.tally, trial.lacks, np.int64(0))
        helpful += trial.lacks[0].sum() < lacked
        for j in range(members, members + joined):
            if j != i:
                put(trial, shard.codes, np.int64(group[j]), True)
    return helpful


@leaf
def _values_lacking(shard: NearestArrays) -> float:
    """Return the minimum number of members that must join to add the lacking sensitive values."""
    lacking, checks = 0.0, shard.checks
    for check in range(len(checks.address)):
        if checks.address[check] == 0:
            lacking = max(lacking, checks.parameter[check] - shard.trial.tally.values[checks.attribute[check]])
    return lacking


@procedure
def _next_must_help(shard: NearestArrays, members: Int, size: Int) -> bool:
    """Return whether a check would fail for ``size`` members, were the next one's value the most common of the group.

    One member of each cohort after it is spread over the buffered values as evenly as it can be, which is best for
    every model without a reference; the others have the most common value.
    """
    checks, tally = shard.checks, shard.trial.tally
    if only_diversity(checks) or not only_counts(checks):
        return False
    for check in range(len(checks.address)):
        a = checks.attribute[check]
        if checks.address[check] == 0 or tally.first[a + 1] - tally.first[a] > 1:
            continue
        held = falling_counts(tally, a)
        counts = np.zeros(max(len(held), shard.waiting.tally.values[a]), np.int64)
        counts[: len(held)] = held
        counts[0] += 1
        for i in range(members + 1, size):
            counts[np.argmin(counts) if (size - i) % shard.choice.cohort == 0 else 0] += 1
        if lack_of_counts(checks, np.int64(check), size, counts) > 0.0:
            return True
    return False


@leaf
def _nearest(shard: NearestArrays, members: Int, must_help: bool) -> Int:
    """Return the nearest tuple that may join, or ``NONE``; ``must_help`` requires that it reduces the shortfall."""
    cells = shard.cells
    lacked = 0.0
    if must_help:
        weigh(shard.checks, shard.trial.tally, shard.trial.lacks, np.int64(0))
        lacked = shard.trial.lacks[0].sum()
    if shard.isolation.now.price > 0.0:
        isolation = shard.isolation
        nearest = _cheapest(shard, isolation.candidates, 0, isolation.now.candidates, members, must_help, lacked)
        if nearest != NONE:
            return nearest
        begin, end = np.int64(isolation.now.begin), np.int64(isolation.now.end)
        return _cheapest(shard, isolation.line, begin, end - begin, members, must_help, lacked)
    first = nearest_cell(cells)
    if first == NONE:
        return np.int64(NONE)
    nearest, least = _nearer(shard, first, np.int64(NONE), np.inf, members, must_help, lacked)
    for cell in range(cells.now.used):
        # The tolerance covers rounding: bounds and distances are summed in different orders.
        if cells.nonempty_bound[cell] <= least + 1e-9 and cells.nonempty_bound[cell] < np.inf and cell != first:
            nearest, least = _nearer(shard, np.int64(cell), nearest, least, members, must_help, lacked)
    return nearest


@procedure
def _nearer(
    shard: NearestArrays, cell: Int, nearest: Int, least: float, members: Int, must_help: bool, lacked: float
) -> tuple[Int, float]:
    """Return the nearest of a cell's tuples and the previous best, and its enlargement of the group."""
    cells, position = shard.cells, shard.tuples.position
    visit(shard.metric, cells, shard.box, np.int64(0), cell)
    for i in range(cells.held[cell]):
        if cells.growth[i] > least:
            continue
        other = np.int64(cells.slot[cell * SIZE + i])
        if cells.growth[i] == least and position[other] > position[nearest]:
            continue
        if _can_join(shard, members, other) and (not must_help or _helps(shard, members, other, lacked)):
            nearest, least = other, cells.growth[i]
    return nearest, least


@procedure
def _cheapest(
    shard: NearestArrays, line: Line, start: Int, count: Int, members: Int, must_help: bool, lacked: float
) -> Int:
    """Return the tuple of lowest cost among some that may join, the oldest of several, or ``NONE``."""
    cost, cheapest, least = shard.isolation.cost, np.int64(NONE), np.inf
    step = shard.isolation.step
    measure_points(shard.metric, shard.box, np.int64(0), line.number, line.leaf, start, count, cost, step)
    add_prices(line, start, count, cost)
    for i in range(count):
        if cost[i] < least:
            other = np.int64(line.slot[start + i])
            if _can_join(shard, members, other) and (not must_help or _helps(shard, members, other, lacked)):
                cheapest, least = other, cost[i]
    return cheapest


@leaf
def _can_join(shard: NearestArrays, members: Int, slot: Int) -> bool:
    """Return whether a tuple waits, and none of the same subject is in the group."""
    tuples = shard.tuples
    if tuples.cluster[slot] != WAITS:
        return False
    if shard.config.by_name != 0:
        for i in range(members):
            if tuples.subject[shard.group[i]] == tuples.subject[slot]:
                return False
    return True


@leaf
def _helps(shard: NearestArrays, members: Int, slot: Int, lacked: float) -> bool:
    """Return whether a tuple reduces the group's shortfall: ``trial.lacks`` by privacy model, ``lacked`` in total."""
    trial, checks, codes, row, alone = shard.trial, shard.checks, shard.codes, np.int64(0), True
    if only_diversity(checks) or (members < shard.config.k and not only_counts(checks)):
        return can_reduce_shortfall(trial, checks, trial.lacks, row, codes, slot, alone)
    put(trial, codes, slot, alone)
    weigh(checks, trial.tally, trial.lacks, row)
    helps = bool(trial.lacks[row].sum() < lacked)
    remove_tuple(trial, codes, slot, alone)
    return helps
