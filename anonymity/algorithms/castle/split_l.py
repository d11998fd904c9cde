"""Split of a cluster into l-diverse parts (CASTLE, Section 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.distance_search import (
    UnassignedIndex,
    arrange,
    assign_remaining,
    find_nearest,
    pick,
    take,
)
from crenel.anonymity.algorithms.castle.split import ClusterMembers, without_part
from crenel.anonymity.buffer.arrays import CastleArrays
from crenel.anonymity.compiled.jit import Int, inner, leaf, procedure
from crenel.anonymity.compiled.random import randbelow
from crenel.anonymity.privacy_models.grouping import group, number_equal
from crenel.anonymity.privacy_models.tally import count_set
from crenel.anonymity.space.boxes import assign, empty_boxes, enclose
from crenel.anonymity.space.domain import NONE, Boxes


class Buckets(NamedTuple):
    """Members by their sensitive value.

    Attributes
    ----------
    left : members without a part
    size : (buckets,) number of such members in each bucket
    needed : minimum number of buckets that each part needs a member of
    """

    left: UnassignedIndex
    size: NDArray[np.int64]
    needed: Int


@procedure
def generate_buckets(shard: CastleArrays, members: ClusterMembers) -> Buckets:
    """Return disjoint buckets by sensitive value, where each subject has one tuple (CASTLE, generate_buckets).

    The paper has one sensitive attribute (Section 4.2). Of several, this function takes the tightest: the attribute
    with the fewest distinct values beyond its requirement. ``join_broken_parts`` checks the others. A member with
    several values of that attribute is in the bucket of the first; ``join_broken_parts`` counts all of them.
    """
    sensitive = shard.tuples.sensitive
    counter = shard.counter
    count_set(counter, members.slot, shard.tuples.subject, shard.waiting.value, shard.config.by_name != 0)
    least, values = shard.checks.values, counter.tally.values
    needed = np.ones(max(len(values), 1), np.int64)
    if len(values) == 0:  # no sensitive attribute, so no part has several values
        needed[0] = max(shard.config.least_values, 2)
    for check in range(len(least)):
        needed[shard.checks.attribute[check]] = max(needed[shard.checks.attribute[check]], least[check])
    tightest = 0
    for a in range(1, len(values)):
        beyond, before = values[a] - needed[a], values[tightest] - needed[tightest]
        if needed[a] > 1 and (beyond < before or needed[tightest] == 1):
            tightest = a
    count = len(members.part)
    value, bucket = np.zeros(count, np.uint64), np.empty(count, np.int64)
    if len(values) > 0:
        for i in range(count):
            value[i] = sensitive[members.slot[i], counter.tally.first[tightest]]
    grouped = group(bucket, number_equal(value, bucket))
    size = np.empty(len(grouped.start) - 1, np.int64)
    for b in range(len(size)):
        size[b] = grouped.start[b + 1] - grouped.start[b]
    return Buckets(arrange(shard.metric, members.box, grouped.items, grouped.start), size, needed[tightest])


@inner
def shares(size: NDArray[np.int64], seeded: Int, k: Int, l: Int) -> NDArray[np.int64]:  # noqa: E741
    """Return each bucket's minimum number of tuples in a part: k * size / sum, rounded down (split_l, step 14).

    The seed's bucket provides at least one. The caller takes the rest of k, one tuple per bucket; the rest suffices
    to reach l buckets.
    """
    total = 0
    for tuples in size:
        total += tuples
    share = np.empty(len(size), np.int64)
    given, held, largest = 0, 0, 0
    for b in range(len(share)):
        share[b] = k * size[b] // total
        if b == seeded and share[b] == 0:
            share[b] = 1
        given += share[b]
        held += share[b] > 0
    while k - given < l - held:
        for b in range(len(share)):
            if share[b] > share[largest]:
                largest = b
        share[largest] -= 1
        given -= 1
    return share


class GrowingPart(NamedTuple):
    """Part that is being filled: its number, the boxes of all parts, and its first member."""

    number: Int
    boxes: Boxes
    seed: Int


@leaf
def _add(
    shard: CastleArrays, members: ClusterMembers, buckets: Buckets, part: GrowingPart, bucket: Int, member: Int
) -> None:
    take(buckets.left, member)
    buckets.size[bucket] -= 1
    members.part[member] = part.number
    enclose(shard.domain, part.boxes, part.number, members.box, member)


@procedure
def _fill(
    shard: CastleArrays, members: ClusterMembers, buckets: Buckets, part: GrowingPart, share: NDArray[np.int64]
) -> None:
    # Add share[b] more tuples of bucket b, those that enlarge the part least (steps 10 to 18).
    around = empty_boxes(np.int64(1), members.box)
    for b in range(len(buckets.size)):
        if share[b] > 0:
            assign(around, np.int64(0), part.boxes, part.number)
            bucket = np.int64(b)
            neighbors = find_nearest(shard.metric, around, buckets.left, bucket, share[b], part.seed, np.inf)
            for item in neighbors.item:
                _add(shard, members, buckets, part, bucket, item)


@procedure
def _hand_out(
    shard: CastleArrays,
    members: ClusterMembers,
    buckets: Buckets,
    part: GrowingPart,
    held: NDArray[np.bool_],
    left: Int,
) -> None:
    # Take the rest of k that rounding left: from buckets the part lacks while l needs them, then from the nearest.
    if left == 0:
        return
    around = empty_boxes(np.int64(1), members.box)
    assign(around, np.int64(0), part.boxes, part.number)
    count = len(buckets.size)
    distance = np.full(count, np.inf)
    nearest = np.full(count, NONE, np.int64)
    buckets_held = 0
    for b in range(count):
        buckets_held += held[b]
    limit, any_will_do = np.inf, left == 1 and buckets_held >= buckets.needed
    for b in range(count):
        if buckets.size[b] > 0:
            neighbor = find_nearest(shard.metric, around, buckets.left, np.int64(b), np.int64(1), part.seed, limit)
            distance[b], nearest[b] = neighbor.distance[0], neighbor.item[0]
            if any_will_do:  # later candidates must be nearer; rounding of sums in another order allows 1e-9
                limit = min(limit, distance[b] + 1e-9)
    for _ in range(left):
        needed = buckets_held < buckets.needed
        chosen = np.int64(NONE)
        for b in range(count):
            if nearest[b] != NONE and not (needed and held[b]) and (chosen == NONE or distance[b] < distance[chosen]):
                chosen = np.int64(b)
        if chosen == NONE:
            return
        _add(shard, members, buckets, part, chosen, nearest[chosen])
        nearest[chosen] = NONE
        buckets_held += not held[chosen]
        held[chosen] = True


@leaf
def _choose_seed(shard: CastleArrays, buckets: Buckets, nonempty: Int) -> tuple[Int, Int]:
    # Return a random bucket and a random tuple of it (steps 6 and 7).
    chosen = randbelow(shard.random, nonempty)
    bucket = np.int64(0)
    while buckets.size[bucket] == 0 or chosen > 0:
        chosen -= buckets.size[bucket] > 0
        bucket += 1
    return bucket, pick(buckets.left, bucket, randbelow(shard.random, buckets.size[bucket]))


@procedure
def split_l(shard: CastleArrays, members: ClusterMembers) -> Int:
    """Split into parts of k subjects and l sensitive values, and return the number of parts (CASTLE, split^l).

    Each subject has only one member. The l values are l buckets; ``join_broken_parts`` enforces the other privacy
    models.
    """
    k = shard.config.k
    buckets = generate_buckets(shard, members)
    l = buckets.needed  # noqa: E741
    parts = empty_boxes(len(members.part) // k, members.box)
    count: Int = np.int64(0)
    while True:
        nonempty, total = 0, 0
        for size in buckets.size:
            nonempty += size > 0
            total += size
        if nonempty < l or total < k:
            break
        seeded, seed = _choose_seed(shard, buckets, nonempty)
        share = shares(buckets.size, seeded, k, l)
        left = k
        held = np.empty(len(share), np.bool_)
        for b in range(len(share)):
            left -= share[b]
            held[b] = share[b] > 0
        assign(parts, count, members.box, seed)
        part = GrowingPart(count, parts, seed)
        _add(shard, members, buckets, part, seeded, seed)
        share[seeded] -= 1
        _fill(shard, members, buckets, part, share)
        _hand_out(shard, members, buckets, part, held, left)
        count += 1
    if count == 0:
        members.part[:] = 0
        return np.int64(1)
    assign_remaining(shard.metric, parts, count, members.box, members.part, without_part(members))
    return count
