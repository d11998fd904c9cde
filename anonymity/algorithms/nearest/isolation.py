"""Price of isolation: a group may take an isolated tuple near its deadline in place of a nearer one.

Such a tuple would soon be due itself, and would then widen the box of others. Its isolation is its *radius*: the
distance to one of the nearest of the youngest buffered tuples of other persons on arrival (``_sample_size``). When a
new tuple has it among its own nearest, the radius shrinks to their distance, by a tenth at most. A member costs

    weight * growth - price * radius * (1 - remaining), where weight = 1 + ``PATIENCE`` * remaining,

with ``remaining`` as the share of its delay that remains. A group chooses its members among the tuples of lowest cost
beside its first member (docs/decisions/0010-rules-of-nearest.md). Buffered tuples lie in one line, in order of arrival,
and loops over them contain no branches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.arrays import NEIGHBORS, Line, NearestArrays
from crenel.anonymity.algorithms.nearest.growth import measure_points
from crenel.anonymity.buffer.arrays import points
from crenel.anonymity.compiled.arrays import LANES, loop_end
from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf, procedure
from crenel.anonymity.space.domain import NONE

SAMPLE = 256
"""Number of the youngest tuples among which neighbors are sought, at least."""

SHARE = 10
"""Number of buffered tuples for each tuple of a larger sample."""

SHRINKAGE = 0.9
"""Minimum share of its radius that a tuple keeps when a nearer neighbor arrives."""

PATIENCE = 0.5
"""Additional weight of the growth by a tuple whose whole delay remains."""

FEWEST = 100
"""Minimum number of candidates for membership of a group."""

CANDIDATES = 8
"""Number of candidates for membership of a group, in multiples of k."""

_HOLES = 512
"""Number of empty places beyond which a line that is half empty moves up."""

_LARGEST = np.finfo(np.float64).max


@leaf
def append(shard: NearestArrays, slot: Int) -> None:
    """Append a buffered tuple to the line, with the radius of a tuple without neighbors."""
    isolation, tuples, config = shard.isolation, shard.tuples, shard.config
    now, line = isolation.now, isolation.line
    if now.end == len(isolation.lowest) - LANES or now.end - now.begin > 2 * now.alive + _HOLES:
        compact(shard)
    place = np.int64(now.end)
    now.end += 1
    now.alive += 1
    line.slot[place], shard.cells.place[slot], isolation.radius[place] = slot, place, 1.0
    for a in range(line.number.shape[0]):
        line.number[a, place] = tuples.numeric[slot, a]
    for a in range(line.leaf.shape[0]):
        line.leaf[a, place] = tuples.leaf[slot, a]
    if len(shard.by_position.slots) > 0:
        isolation.by_position[place] = shard.by_position.due[slot]
    else:
        isolation.by_position[place] = tuples.position[slot] + config.delay_tuples
    if len(shard.by_time.slots) > 0:
        isolation.by_time[place] = shard.by_time.due[slot]


@leaf
def remove(shard: NearestArrays, slot: Int) -> None:
    """Remove a tuple from the line."""
    isolation, place = shard.isolation, np.int64(shard.cells.place[slot])
    now, line = isolation.now, isolation.line
    line.slot[place], isolation.radius[place], shard.cells.place[slot] = NONE, -1.0, NONE
    now.alive -= 1
    while now.begin < now.end and line.slot[now.begin] == NONE:
        now.begin += 1
    if isolation.entry[slot] != NONE:
        isolation.dropped[now.dropped] = isolation.entry[slot]
        now.dropped += 1
        isolation.entry[slot] = NONE


@procedure
def compact(shard: NearestArrays) -> None:
    """Move the tuples of the line up to its first places."""
    isolation, end = shard.isolation, 0
    now, line = isolation.now, isolation.line
    for place in range(now.begin, now.end):
        slot = line.slot[place]
        if slot == NONE:
            continue
        line.slot[end], shard.cells.place[slot], isolation.radius[end] = slot, end, isolation.radius[place]
        isolation.by_position[end], isolation.by_time[end] = isolation.by_position[place], isolation.by_time[place]
        for a in range(line.number.shape[0]):
            line.number[a, end] = line.number[a, place]
        for a in range(line.leaf.shape[0]):
            line.leaf[a, end] = line.leaf[a, place]
        end += 1
    now.begin, now.end = 0, end


@leaf
def measure_radius(shard: NearestArrays, slot: Int) -> None:
    """Set the radius of a tuple by the tuples before it in the line, and lower those of its nearest ones."""
    isolation, place = shard.isolation, np.int64(shard.cells.place[slot])
    near, near_place, line, radius = isolation.near, isolation.near_place, isolation.line, isolation.radius
    sample, neighbors = _sample_size(isolation.now.alive)
    for i in range(neighbors):
        near[i], near_place[i] = np.inf, NONE
    start, others = place, np.int64(0)
    while start > isolation.now.begin and others < sample:
        start -= 1
        others += _is_other(shard, slot, np.int64(line.slot[start]))
    distances = isolation.cost
    measure_points(
        shard.metric,
        points(shard.tuples),
        slot,
        line.number,
        line.leaf,
        start,
        place - start,
        distances,
        isolation.step,
    )
    for i in range(place - start):
        if distances[i] < near[neighbors - 1] and _is_other(shard, slot, np.int64(line.slot[start + i])):
            last = neighbors - 1
            while last > 0 and distances[i] < near[last - 1]:
                near[last], near_place[last] = near[last - 1], near_place[last - 1]
                last -= 1
            near[last], near_place[last] = distances[i], start + i
    radius[place] = min(near[neighbors - 1], 1.0)
    _touch(shard, slot)
    for i in range(neighbors):
        other = near_place[i]
        if other != NONE and max(near[i], SHRINKAGE * radius[other]) < radius[other]:
            radius[other] = max(near[i], SHRINKAGE * radius[other])
            _touch(shard, np.int64(line.slot[other]))


@inner_leaf
def _sample_size(buffered: Int) -> tuple[Int, Int]:
    """Return the number of tuples among which neighbors are sought, and the number of neighbors.

    A group has a smaller share of the buffered tuples the more there are, so its members are nearer to each other.
    """
    sample = max(np.int64(SAMPLE), np.int64(buffered) // SHARE)
    return sample, max((NEIGHBORS * SAMPLE + sample // 2) // sample, np.int64(1))


@leaf
def _is_other(shard: NearestArrays, slot: Int, other: Int) -> bool:
    """Return whether ``other`` is a tuple of another person, not an empty place."""
    if other == NONE:
        return False
    return bool(shard.config.by_name == 0 or shard.tuples.subject[other] != shard.tuples.subject[slot])


@leaf
def _touch(shard: NearestArrays, slot: Int) -> None:
    """Mark a radius as different from its stored entry."""
    isolation = shard.isolation
    if not isolation.changed[slot]:
        isolation.changed[slot] = True
        isolation.touched[isolation.now.touched] = slot
        isolation.now.touched += 1


@procedure
def find_candidates(shard: NearestArrays, slot: Int) -> None:
    """Find the candidates for the group of a due tuple: those of lowest cost beside it, and all of equal cost."""
    isolation, most = shard.isolation, max(CANDIDATES * shard.config.k, FEWEST)
    now, line, candidates, cost = isolation.now, isolation.line, isolation.candidates, isolation.cost
    _weigh(shard, slot)
    start, count = np.int64(now.begin), np.int64(now.end - now.begin)
    measure_points(shard.metric, points(shard.tuples), slot, line.number, line.leaf, start, count, cost, isolation.step)
    add_prices(line, start, count, isolation.cost)
    highest, used = _lowest(shard, count, most), 0
    for i in range(count):
        if cost[i] > highest:
            continue
        place = start + i
        candidates.slot[used] = line.slot[place]
        candidates.weight[used], candidates.bias[used] = line.weight[place], line.bias[place]
        for a in range(line.number.shape[0]):
            candidates.number[a, used] = line.number[a, place]
        for a in range(line.leaf.shape[0]):
            candidates.leaf[a, used] = line.leaf[a, place]
        used += 1
    now.candidates = used


@leaf
def add_prices(line: Line, start: Int, count: Int, cost: NDArray[np.float64]) -> None:
    """Turn the growth by each tuple into its cost, infinite where it has departed."""
    weight, bias, first, stop = line.weight, line.bias, np.uint64(start), loop_end(count)
    for i in range(np.uint64(0), stop):
        cost[i] = cost[i] * weight[first + i] + bias[first + i]


@leaf
def _weigh(shard: NearestArrays, slot: Int) -> None:
    """Write to the line the weight and bias of each tuple, at the moment when one is due.

    The remaining share of a delay is the smaller one of both bounds. That of event time counts from the deadline of the
    due tuple, because the watermark is not the same after a restore. Where the due tuple is overdue by position, its
    deadline in event time may lie ahead, and position alone counts.
    """
    isolation, config = shard.isolation, shard.config
    now, weight, bias, remaining = isolation.now, isolation.line.weight, isolation.line.bias, isolation.cost
    due, newest = np.int64(shard.cells.place[slot]), float(shard.now.next_position - 1)
    by_position = config.delay_tuples >= 0
    by_time = config.delay_event_time >= 0 and not (by_position and isolation.by_position[due] <= newest)
    first, stop = np.uint64(now.begin), loop_end(now.end - now.begin)
    for i in range(np.uint64(0), stop):
        remaining[i] = 1.0
    if by_position:
        _limit(isolation.by_position, first, stop, newest, float(max(config.delay_tuples, 1)), remaining)
    if by_time:
        delay = float(max(config.delay_event_time, 1))
        _limit(isolation.by_time, first, stop, isolation.by_time[due], delay, remaining)
    for i in range(np.uint64(0), stop):
        share = remaining[i] if remaining[i] > 0.0 else 0.0
        radius = isolation.radius[first + i]
        weight[first + i] = 1.0 + PATIENCE * share
        bias[first + i] = -(now.price * radius * (1.0 - share)) if radius >= 0.0 else np.inf


@leaf
def _limit(
    deadline: NDArray[np.float64],
    first: np.uint64,
    stop: np.uint64,
    present: float,
    delay: float,
    remaining: NDArray[np.float64],
) -> None:
    for i in range(np.uint64(0), stop):
        share = (deadline[first + i] - present) / delay
        remaining[i] = share if share < remaining[i] else remaining[i]


@leaf
def _lowest(shard: NearestArrays, count: Int, most: Int) -> float:
    """Return the cost that only ``most`` tuples stay below or reach, ties aside; a binary heap holds these."""
    heap, cost, used = shard.isolation.lowest, shard.isolation.cost, np.int64(0)
    for i in range(count):
        one = cost[i]
        if used < most:
            if one == np.inf:
                continue
            place = used
            used += 1
            while place > 0 and heap[(place - 1) // 2] < one:
                heap[place] = heap[(place - 1) // 2]
                place = (place - 1) // 2
            heap[place] = one
        elif one < heap[0]:
            place = np.int64(0)
            while 2 * place + 1 < used:
                child = 2 * place + 1
                child += child + 1 < used and heap[child + 1] > heap[child]
                if heap[child] <= one:
                    break
                heap[place] = heap[child]
                place = child
            heap[place] = one
    return float(heap[0]) if used == most else float(_LARGEST)
