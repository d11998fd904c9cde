"""Making a window even enough that all of it keeps the promises: where the whole does not, most of it may."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch.shard import BatchShard
from crenel.anonymity.privacy_models.checks import Checks
from crenel.anonymity.privacy_models.lookup import shares_of


def suppress_to_satisfy(shard: BatchShard) -> list[tuple[int, int]]:
    """Which of all that waits is to be suppressed so that the rest keeps every promise.

    For a promise beside l, the newest tuples of the commonest values, so that no value has more than a certain number:
    the largest number with which it holds. Where it compares with a reference, that is the number of the commonest
    value there, and of the others as many as they have there beside it: none of a value that it has not got.

    Returns
    -------
    list
        Index and position of the reason in ``Privacy.reasons`` of each; all that waits where no rest was found.
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
    """The members that are left where each value may have so many tuples; none where a check holds for no number."""
    arrays = shard.arrays()
    if check < 0 or arrays.checks.address[check] == 0:
        return members[:0]
    value = arrays.value[members, arrays.checks.attribute[check]]
    weight = _weights(arrays.checks, check, value)
    order = np.argsort(value, kind="stable")
    first = np.flatnonzero(np.diff(value[order], prepend=-1))
    size = np.diff(first, append=len(order))
    earlier = np.empty(len(order), np.int64)  # of each member, tuples of its value before it
    earlier[order] = np.arange(len(order)) - np.repeat(first, size)
    rest = members[:0]
    least, most = 1, int(size.max()) - 1
    if arrays.checks.length[check]:  # enough for all that have a weight
        most = int(np.ceil((earlier[weight > 0] + 1) / weight[weight > 0]).max(initial=0))
    while least <= most:
        number = (least + most) // 2
        tried = members[earlier < number * weight]
        found = shard.first_broken(tried)
        if found == check:
            most = number - 1
            continue
        least = number + 1
        if found != -2:
            rest = tried
    return rest


def _weights(checks: Checks, check: int, value: NDArray[np.int32]) -> NDArray[np.float64]:
    """How common the value of each member is in the reference, beside the commonest there; 1 where there is none."""
    if not checks.length[check]:
        return np.ones(len(value))
    lookup, attribute = checks.lookup, checks.attribute[check]
    shares = np.append(shares_of(lookup, int(attribute)), 0.0)  # the last is that of UNKNOWN
    weight: NDArray[np.float64] = shares[lookup.row[attribute, value]] / shares.max()
    return weight
