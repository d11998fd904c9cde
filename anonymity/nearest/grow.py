"""Growing a group around a tuple until it keeps all promises."""

from __future__ import annotations

import numpy as np

from anonymity.castle.arrays import points
from anonymity.compiled.jit import Int, leaf, procedure
from anonymity.nearest.arrays import NearestArrays
from anonymity.nearest.columns import exclude, least, measure, measure_again
from anonymity.promise.checks import broken
from anonymity.promise.trial import forget, may_help, only_diversity, put, take_out, weigh
from anonymity.space.boxes import assign, enclose, info_loss
from anonymity.space.domain import NONE


@procedure
def grow(shard: NearestArrays, slot: Int, other_loss: float) -> Int:
    """Grow a group around a tuple: each next member is the waiting tuple of another subject that enlarges it least.

    Where that would leave too few members for the sensitive values that are lacking, only those that bring one come.

    Parameters
    ----------
    other_loss : what the tuple would lose by reuse; infinite where nothing can be reused

    Returns
    -------
    members : how many there are in ``group``, under the generalisation ``box``; 0 where no such group keeps promises,
        -1 where reuse is better
    """
    columns, tuples, domain, box, group = shard.columns, shard.tuples, shard.domain, shard.box, shard.group
    trial, checks, waiting = shard.trial, shard.checks, np.int64(shard.now.waiting)
    now, before = np.int64(0), np.int64(1)
    assign(box, now, points(tuples), slot)
    measure(domain, columns, box, now, waiting)
    members = np.int64(0)
    next_one = slot
    while True:
        group[members] = next_one
        members += 1
        columns.growth[columns.place[next_one]] = np.inf
        if shard.of.by_name != 0:
            exclude(columns, tuples.subject[next_one], waiting)
        if len(checks.address) > 0:
            put(trial, shard.codes, next_one, True)
        check = np.int64(NONE)
        if len(checks.address) > 0:
            check = np.int64(broken(checks, trial.tally))
        if members >= shard.of.k and check == NONE:
            break
        next_one = _next(shard, members, check)
        if next_one == NONE:
            members = np.int64(0)
            break
        assign(box, before, box, now)
        enclose(domain, box, now, points(tuples), next_one)
        if reuse_is_better(shard, other_loss):  # a group that grows on only becomes worse
            members = np.int64(-1)
            break
        measure_again(domain, columns, box, before, now, waiting)
    if len(checks.address) > 0:
        forget(trial)
    return members


@leaf
def reuse_is_better(shard: NearestArrays, other_loss: float) -> bool:
    """Whether reuse loses no more than the group does, with what a bad one costs its k - 1 other members.

    They could leave in a group of mean loss tau another time.
    """
    loss = info_loss(shard.domain, shard.box, np.int64(0))
    return bool(other_loss <= loss + (shard.of.k - 1) * max(loss - shard.now.tau, 0.0))


@leaf
def _next(shard: NearestArrays, members: Int, check: Int) -> Int:
    """The tuple that comes next, ``NONE`` where there is none; ``check`` is one that the group breaks."""
    waiting = np.int64(shard.now.waiting)
    if check != NONE and _values_lacking(shard) >= shard.of.k - members:
        found = _nearest_that_helps(shard, members, waiting)
        if found != NONE or only_diversity(shard.checks):
            return found
    growth, slot, position = shard.columns.growth, shard.columns.slot, shard.tuples.position
    smallest = least(shard.columns, waiting)
    found = np.int64(NONE)
    if smallest == np.inf:
        return found
    for i in range(waiting):
        if growth[i] == smallest and (found == NONE or position[slot[i]] < position[found]):
            found = np.int64(slot[i])
    return found


@leaf
def _values_lacking(shard: NearestArrays) -> float:
    """How many members the group needs for the values that it lacks, at least."""
    lacking, checks = 0.0, shard.checks
    for check in range(len(checks.address)):
        if checks.address[check] == 0:
            lacking = max(lacking, checks.parameter[check] - shard.trial.tally.values[checks.attribute[check]])
    return lacking


@leaf
def _nearest_that_helps(shard: NearestArrays, members: Int, waiting: Int) -> Int:
    """The nearest tuple with which the group lacks less, ``NONE`` where there is none."""
    trial, checks, codes = shard.trial, shard.checks, shard.codes
    growth, slot, position = shard.columns.growth, shard.columns.slot, shard.tuples.position
    row, alone = np.int64(0), True
    simple = only_diversity(checks) or members < shard.of.k
    found, smallest = np.int64(NONE), np.inf
    weigh(checks, trial.tally, trial.lacks, row)
    lacked = trial.lacks[row].sum()
    for i in range(waiting):
        other = np.int64(slot[i])
        if growth[i] > smallest or growth[i] == np.inf:
            continue
        if growth[i] == smallest and position[other] > position[found]:
            continue
        if simple:
            helps = may_help(trial, checks, trial.lacks, row, codes, other, alone)
        else:
            put(trial, codes, other, alone)
            weigh(checks, trial.tally, trial.lacks, row)
            helps = trial.lacks[row].sum() < lacked
            take_out(trial, codes, other, alone)
        if helps:
            found, smallest = other, growth[i]
    return found
