"""However the tuples that wait lie in cells, the nearest is found: against a search through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.nearest.cells import SIZE
from crenel.anonymity.algorithms.nearest.shard import NearestShard
from crenel.anonymity.buffer.stored_clusters import initial_snapshot
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.fields import Weights
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME, Block
from tests.support.drive import KEY, PRINT

TREE = from_paths([(f"{g}{i}{j}", f"{g}{i}", g, "*") for g in "abc" for i in range(4) for j in range(3)])
POLICY = Policy(
    {"x": Numeric((0.0, 10.0)), "y": Numeric((0.0, 1000.0)), "z": Categorical(TREE)},
    passthrough=("row",),
    subject="who",
)
MEMBERS = pa.schema([("row", pa.int64())])
K = 5


class Stream:
    """Tuples whose places are crowded, spread, or both in turn; ``alike``: all at one of a few places."""

    def __init__(self, count: int, seed: int, *, alike: bool) -> None:
        chance = np.random.default_rng(seed)
        wide = np.arange(count) // 500 % 2 == 0
        self.x = np.where(wide, chance.integers(0, 11, count), chance.integers(0, 2, count)).astype(float)
        self.y = np.where(wide, chance.integers(0, 1001, count), 500 + chance.integers(0, 3, count)).astype(float)
        self.z = chance.integers(0, TREE.leaves, count).astype(np.int32)
        if alike:
            self.x[:], self.y[:], self.z[:] = chance.integers(0, 2, count), 7.0, 0
        self.who = chance.integers(0, count // 3, count)

    def block(self, rows: slice) -> Block:
        count = len(self.x[rows])
        return Block(
            shard=0,
            numeric=np.stack([self.x[rows], self.y[rows]], axis=1),
            categorical=self.z[rows][:, None],
            subject=self.who[rows].astype(np.uint64),
            sensitive=np.zeros((count, 0), np.uint64),
            event_time=np.full(count, NO_TIME),
            members=pa.record_batch([pa.array(np.arange(len(self.x))[rows])], schema=MEMBERS),
        )


def searched(stream: Stream, delay: int, weight: Sequence[float]) -> list[set[int]]:
    """Return the groups that leave while the stream comes, in order, by looking at all that waits each time."""
    waits = np.zeros(len(stream.x), np.bool_)
    groups: list[set[int]] = []
    for position in range(len(stream.x)):
        waits[position] = True
        due = position - delay
        if due >= 0 and waits[due]:
            groups.append(grown(stream, np.flatnonzero(waits), due, weight))
            waits[list(groups[-1])] = False
    return groups


def grown(stream: Stream, waiting: NDArray[np.int64], due: int, weight: Sequence[float]) -> set[int]:
    x, y, z, who = stream.x[waiting], stream.y[waiting], stream.z[waiting], stream.who[waiting]
    lower, upper, node = [stream.x[due], stream.y[due]], [stream.x[due], stream.y[due]], int(stream.z[due])
    group, can_join, loss = [due], who != stream.who[due], TREE.loss / 3 * weight[2]
    while len(group) < K:
        growth = np.zeros(len(waiting))
        for a, values in enumerate((x, y)):
            beyond = np.maximum(lower[a] - values, 0) + np.maximum(values - upper[a], 0)
            growth += beyond * (1.0 / (10.0, 1000.0)[a] / 3 * weight[a])
        growth += loss[above(node, z)] - loss[node]
        i = int(np.argmin(np.where(can_join, growth, np.inf)))  # of several the oldest
        group.append(int(waiting[i]))
        for a, values in enumerate((x, y)):
            lower[a], upper[a] = min(lower[a], values[i]), max(upper[a], values[i])
        node = int(above(node, z[i : i + 1])[0])
        can_join &= who != who[i]
    return set(group)


def above(node: int, leaves: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the lowest node above a node and each leaf."""
    found = np.full(len(leaves), node)
    while (outside := (leaves < TREE.first[found]) | (leaves > TREE.last[found])).any():
        found[outside] = TREE.parent[found[outside]]
    return found


@pytest.mark.parametrize(
    ("seed", "alike", "weights"),
    [(0, False, {}), (1, False, {"x": 6.0, "z": 0.5}), (2, True, {}), (3, False, {"x": 1e300, "y": 1e308})],
)
def test_a_group_is_what_a_search_through_all_that_waits_finds(seed: int, alike: bool, weights: Weights) -> None:
    stream, delay, privacy = Stream(3000, seed, alike=alike), 900, Privacy(K)
    terms = ShardContext(POLICY, privacy, Nearest(Delay(delay), weights=weights), MEMBERS, fingerprint=PRINT)
    shard, groups, most = NearestShard(terms, initial_snapshot(terms, 0, KEY)), [], 0
    for first in range(0, len(stream.x), 250):
        out = shard.push(stream.block(slice(first, first + 250))).releases
        groups += [set(out.members[0][a:b]) for a, b in zip(out.offsets, out.offsets[1:], strict=False)]
        cells = shard.arrays.cells
        used, waiting = int(cells.now.used), int(shard.arrays.now.waiting)
        assert cells.held[:used].sum() == waiting
        assert cells.held[:used].max() <= SIZE
        most = max(most, used)
    given = [float(dict(weights).get(name, 1.0)) / 1e300 for name in "xyz"]
    assert groups == searched(stream, delay, [3 * one / sum(given) for one in given])
    assert most > 8


def test_cells_are_made_anew_once_few_are_left_of_many_that_waited() -> None:
    policy = replace(POLICY, event_time="at")
    parameters = Nearest(Delay(event_time=1000, jitter=0.0), reuse_limit=0)
    terms = ShardContext(policy, Privacy(K), parameters, MEMBERS, fingerprint=PRINT)
    stream, shard = Stream(6000, 3, alike=False), NearestShard(terms, initial_snapshot(terms, 0, KEY))
    at_once, later = stream.block(slice(0, 5000)), stream.block(slice(5000, 5010))
    shard.push(replace(at_once, event_time=np.zeros(5000, np.int64)))
    used = int(shard.arrays.cells.now.used)
    shard.advance(10_000)
    assert shard.arrays.now.waiting == 0
    shard.push(replace(later, event_time=np.full(10, 20_000)), 10_000)
    assert shard.arrays.now.waiting == 10
    assert shard.arrays.cells.now.used < used / 4


def test_cells_are_thin_for_no_longer_than_it_takes_as_many_to_come_as_wait() -> None:
    stream = Stream(12_000, 4, alike=False)
    terms = ShardContext(
        POLICY, Privacy(K), Nearest(Delay(3000, jitter=0.0), reuse_limit=0), MEMBERS, fingerprint=PRINT
    )
    shard, thin_for, thin = NearestShard(terms, initial_snapshot(terms, 0, KEY)), 0, 0
    for first in range(0, len(stream.x), 10):
        shard.push(stream.block(slice(first, first + 10)))
        used, waiting = int(shard.arrays.cells.now.used), int(shard.arrays.now.waiting)
        thin_for = thin_for + 10 if used > 2 * (waiting // SIZE + 1) + 4 else 0
        thin += thin_for > 0
        assert thin_for <= waiting + 10
    assert thin > 0
