"""A policy of quasi-identifiers alone: nothing is published as it is, and no column of a block tells how many came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext, Step
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.state.block import NO_TIME, Block
from crenel.state.shard import StoredShard

TREE = from_paths([(str(leaf), "low" if leaf < 4 else "high", "any") for leaf in range(8)])
POLICY = Policy({"a": Categorical(TREE), "b": Categorical(TREE)}, subject="person")
NO_COLUMNS = pa.schema([])
K, BLOCKS, ROWS = 3, 9, 25
PARAMETERS: dict[str, Any] = {
    Castle.name: Castle(Delay(40)),
    Nearest.name: Nearest(Delay(40, jitter=0.25), reuse_limit=1000),
    Suhdsa.name: Suhdsa(tuples=50),
    Mondrian.name: Mondrian(Window(tuples=50)),
    Ola.name: Ola(Window(tuples=50), max_suppression=0.3),
}

ALGORITHMS = (Castle, Nearest, Suhdsa, Mondrian, Ola)


def _terms(algorithm: Algorithm, noise: SamplingAndNoise | None = None) -> ShardContext:
    return ShardContext(POLICY, Privacy(K), PARAMETERS[algorithm.name], NO_COLUMNS, noise, {})


def _block(number: int) -> Block:
    """Return the stream as the operator receives it; persons return again and again."""
    chance = np.random.default_rng(number)
    made = Block(
        shard=0,
        numeric=np.zeros((ROWS, 0)),
        categorical=chance.integers(0, 8, (ROWS, 2)).astype(np.int32),
        subject=chance.integers(1, 60, ROWS).astype(np.uint64),
        sensitive=np.zeros((ROWS, 0), np.uint64),
        event_time=np.full(ROWS, NO_TIME, np.int64),
        members=pa.record_batch([], schema=NO_COLUMNS),
    )
    return Block.from_bytes(made.to_bytes(), NO_COLUMNS)


def _left(steps: list[Step]) -> tuple[int, int]:
    """Tuples that were released, each with k persons, and those that were suppressed."""
    released = suppressed = 0
    for step in steps:
        assert not step.releases.members
        assert (step.releases.subjects >= K).all()
        released += int(step.releases.tuples.sum())
        suppressed += len(step.releases.suppressed_reason)
    return released, suppressed


def _run(algorithm: Algorithm, *, restored: bool = False) -> tuple[list[Step], Shard]:
    terms = _terms(algorithm)
    shard, stored, steps = algorithm.new(terms, 0, bytes(32)), StoredShard(b"", {}), []
    for number in range(BLOCKS):
        steps.append(shard.push(_block(number)))
        assert steps[-1].changes is not None
        stored = stored.after(steps[-1].changes)
        if restored:
            shard = algorithm.restored(terms, stored, "a test")
    return steps, shard


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_every_tuple_leaves_with_k_persons(algorithm: Algorithm) -> None:
    steps, shard = _run(algorithm)
    released, suppressed = _left([*steps, shard.finish()])
    assert released + suppressed == BLOCKS * ROWS
    assert released > BLOCKS * ROWS / 2


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_a_shard_that_is_restored_after_each_block_goes_on_alike(algorithm: Algorithm) -> None:
    found = []
    for restored in (False, True):
        steps, shard = _run(algorithm, restored=restored)
        all_steps = [*steps, shard.finish()]
        found.append([(s.releases.tuples.tolist(), s.releases.node.tolist()) for s in all_steps])
    assert found[0] == found[1]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_who_is_forgotten_leaves_nowhere(algorithm: Algorithm) -> None:
    steps, shard = _run(algorithm)
    before = sum(_left(steps))
    steps = [shard.forget(np.arange(1, 20, dtype=np.uint64)), shard.finish()]
    assert shard.counters.forgotten > 0
    assert before + sum(_left(steps)) + shard.counters.forgotten == BLOCKS * ROWS


def test_tuples_that_are_drawn_are_let_in() -> None:
    terms = _terms(Castle, SamplingAndNoise(sample_rate=0.5, phi=100.0))
    shard = Castle.new(terms, 0, bytes(32))
    steps = [*(shard.push(_block(number)) for number in range(BLOCKS)), shard.finish()]
    released, suppressed = _left(steps)
    assert BLOCKS * ROWS * 0.3 < released + suppressed < BLOCKS * ROWS * 0.7
