"""Suppression of a window's most common sensitive values, until the rest satisfies all privacy models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch.shard import BatchShard
from crenel.anonymity.privacy_models.checks import Checks
from crenel.anonymity.privacy_models.lookup import shares_of


def suppress_to_satisfy(shard: BatchShard) -> list[tuple[int, int]]:
    """Return the tuples to suppress so that the other buffered tuples satisfy every privacy model.

    For a model other than l-diversity, these are the newest tuples of the most common values. Each value keeps at most
    a number of tuples, the largest for which the model holds. Bisection finds it; where persons have several tuples, a
    smaller number may violate a model with a reference, and the result may be below the largest. If the model compares
    with a reference distribution, that number applies to the reference's most common value. Other values keep a number
    in proportion to their reference share, and values outside the reference keep none. A tuple with several values is
    kept where each of them has room.

    Returns
    -------
    list
        Index, and position of the reason in ``Privacy.reasons``, of each tuple; all buffered tuples if no rest exists.
    """
    stays = np.arange(len(shard.waiting))
    dropped: list[tuple[int, int]] = []
    while (check := shard.first_broken(stays)) != -1:
        reason = shard.reason_of(check)
        rest = _capped(shard, stays, check)
        if not len(rest):
            return [(i, reason) for i in range(len(shard.waiting))]
        dropped += [(int(i), reason) for i in np.setdiff1d(stays, rest)]
        stays = rest
    return dropped


def _capped(shard: BatchShard, members: NDArray[np.int64], check: int) -> NDArray[np.int64]:
    """Return the members under the largest cap per value that satisfies a check; none if no cap does."""
    arrays = shard.arrays()
    if check < 0 or arrays.checks.address[check] == 0:
        return members[:0]
    attribute = arrays.checks.attribute[check]
    first = arrays.counter.tally.first
    values = arrays.tuples.value[members, first[attribute] : first[attribute + 1]]
    place, column = np.nonzero(values >= 0)  # each value of each member
    value = values[place, column]
    weight = _weights(arrays.checks, check, value)
    order = np.argsort(value, kind="stable")
    start = np.flatnonzero(np.diff(value[order], prepend=-1))
    size = np.diff(start, append=len(order))
    earlier = np.empty(len(order), np.int64)  # for each value of a member, the number of earlier tuples with it
    earlier[order] = np.arange(len(order)) - np.repeat(start, size)
    rest = members[:0]
    least, most = 1, int(size.max()) - 1
    if arrays.checks.length[check]:  # the cap that keeps all members with a weight
        most = int(np.ceil((earlier[weight > 0] + 1) / weight[weight > 0]).max(initial=0))
    while least <= most:
        number = (least + most) // 2
        tried = np.delete(members, place[earlier >= number * weight])
        found = shard.first_broken(tried)
        if found == check:
            most = number - 1
            continue
        least = number + 1
        if found != -2:
            rest = tried
    return rest


def _weights(checks: Checks, check: int, value: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the reference share of each member's value, relative to the maximum share; 1 without a reference."""
    if not checks.length[check]:
        return np.ones(len(value))
    lookup, attribute = checks.lookup, checks.attribute[check]
    shares = np.append(shares_of(lookup, int(attribute)), 0.0)  # the last entry is that of UNKNOWN
    weight: NDArray[np.float64] = shares[lookup.row[attribute, value]] / shares.max()
    return weight
