"""Computations of the experiments on nearest, and of attackers with timing knowledge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE
from experiments import timing
from experiments.castle.contenders import zipf
from experiments.harness import Stream, replay
from experiments.nearest.attack import fitting, followed, guess
from experiments.nearest.rare import settings


def _stream(rows: int = 600) -> Stream:
    """Visits of people who come three times or so; two numbers, a category, and a sensitive value of four."""
    random = np.random.default_rng(5)
    tree = from_paths([(str(leaf), "low" if leaf < 3 else "high", "*") for leaf in range(7)])
    person = random.integers(0, rows // 3, rows)
    value = random.integers(0, 4, rows)
    return Stream(
        Policy(
            {"a": Numeric((0, 100)), "b": Numeric((0, 9)), "c": Categorical(tree)},
            sensitive=("value",),
            subject="person",
        ),
        np.column_stack([random.integers(0, 101, rows), random.integers(0, 10, rows)]).astype(np.float64),
        random.integers(0, 7, (rows, 1)).astype(np.int32),
        (value + 1).astype(np.uint64).reshape(-1, 1),
        pa.record_batch([pa.array(value)], names=["value"]),
        (person + 1).astype(np.uint64),
    )


def test_a_condition_that_every_class_satisfies_keeps_classes_of_k() -> None:
    tuples = _stream(2000)
    few = np.where(np.random.default_rng(1).random((2000, 1)) < 0.1, np.uint64(1), np.uint64(2))
    tuples = replace(tuples, sensitive=few)
    of_k, larger, castle = (replay(tuples, one.algorithm, one.privacy) for one in settings(tuples, 2, {}, 5, 200))
    # One in ten persons has the rare value, so that classes of five with two values hold half of the persons.
    assert 0.3 < of_k.suppressed < 0.7
    assert larger.suppressed < 0.01
    assert castle.suppressed < 0.1


def test_an_attacker_finds_the_release_of_a_person_among_those_that_fit() -> None:
    tuples = _stream()
    run = followed(tuples, Privacy(5), 90, 0.55, 0)
    real = replay(tuples, Nearest(Delay(90), isolation_price=0.55), Privacy(5))
    assert np.array_equal(run.releases.loss, np.concatenate([part.loss for part in real.releases]))
    assert 0 < run.radius.min() < run.radius.max() == 1
    targets = np.flatnonzero(run.release != NONE)
    found = fitting(run, run.radius, targets)
    assert np.array_equal(np.bincount(found.target[found.right]), np.ones(len(targets)))  # its own release always fits
    wrong = found.target[~found.right]
    assert 0 < len(wrong) < len(targets) * len(run.releases) / 2
    guesses = guess(run, run.radius, 0)
    assert 0.3 < guesses.chance < min(guesses.by_age, guesses.by_radius) < 1.0


@pytest.mark.parametrize("kind", [Nearest, Castle])
def test_an_exact_arrival_names_the_person_of_a_singleton_release_and_a_jitter_hides_it(
    kind: type[Castle | Nearest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "KNOWN", 0)
    tuples = zipf(1000, 1.0, 2, 50)
    exact = timing.attacked(tuples, Privacy(5), kind(Delay(50), reuse_limit=100), 0)
    assert exact.reused > 0.05
    assert exact.named == exact.guessed == 1
    # The person always is among the rows of all possible deadlines: without any such row, the share were infinite.
    jittered = kind(Delay(50, jitter=0.5), reuse_limit=100)
    hidden = timing.attacked(tuples, Privacy(5), jittered, 0)
    assert hidden.reused > 0.05
    assert 0 < hidden.named < hidden.guessed < 0.7
    assert hidden == timing.attacked(tuples, Privacy(5), jittered, 0, block=1)


def test_deadlines_with_a_jitter_are_those_of_the_buffer() -> None:
    tuples, nearest = zipf(300, 1.0, 2, 50), Nearest(Delay(1000, jitter=0.5))
    context = ShardContext(tuples.policy, Privacy(5), nearest, tuples.members.schema, remembers=False)
    shard: Any = Nearest.new(context, 0, bytes([3]) * 32)
    (block,) = tuples.blocks(300)
    shard.push(block)
    slots = np.flatnonzero(shard.arrays.tuples.cluster != NONE)
    due = timing._deadlines(shard.arrays.deadline_random, 300, 1000, 500)
    assert len(slots) == 300
    assert np.array_equal(due[shard.arrays.tuples.position[slots]], shard.arrays.by_position.due[slots])
