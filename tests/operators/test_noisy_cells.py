"""The guarantee of ``cells`` with noisy counts, computed exactly: all noise through the operator, for each person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.cells.count_noise import CountNoise
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.noise.selection import noisy_counts, tail
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards import function
from tests.operators import test_cells
from tests.operators.test_cells import (
    FIRST,
    HALVES,
    LATENESS,
    WIDTH,
    Restart,
    Universe,
    Visit,
    divergence,
    published,
    without,
)
from tests.support.fakes import FakeRuntime

EPSILON, DELTA, K = 2.0, 0.02, 2
THRESHOLD = 3
LOWEST, HIGHEST = -2, 5
"""Noise of the runs. At the lowest, no key of up to four persons is published; more than the highest is rare."""

BOUND = tail(EPSILON, THRESHOLD - 1)
"""Delta of one window: the probability that a key of one person is published."""

Key = tuple[int, ...]
"""Window from 0, cell, batch, and sensitive value."""


def plan(windows: int = 1, l: int = 1, shards: int = 1) -> AnonymizationPlan:  # noqa: E741 - the name of the privacy model
    algorithm = Cells(HALVES, EPSILON * windows, DELTA * windows, WIDTH, windows, lateness=LATENESS, release="noisy")
    plan = test_cells.plan(K, shards=shards)
    return replace(plan, context=replace(plan.context, algorithm=algorithm, privacy=Privacy(K, l)))


def probability(noise: int) -> float:
    """Return that of the noise, and for the lowest of all noise up to it."""
    if noise == LOWEST:
        return 1 - tail(EPSILON, LOWEST + 1)
    return tail(EPSILON, noise) - tail(EPSILON, noise + 1)


class Drawn:
    """Noise that a test decides, and the keys that requested for it."""

    def __init__(self, parts: tuple[int, ...]) -> None:
        self.parts, self.requested, self.noise = parts, set[Key](), dict[Key, int]()

    def __call__(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        found = [tuple(row[part] for part in self.parts) for row in keys.tolist()]
        self.requested.update(found)
        return np.array([self.noise.get(key, LOWEST) for key in found], np.int64)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operator begin with the first window, and again at the moment of a restart."""
    runtimes: list[FakeRuntime] = []

    class Remembered(FakeRuntime):
        def __init__(self) -> None:
            super().__init__()
            self.clock = FIRST * WIDTH
            runtimes[:] = [*runtimes[-1:], self]  # those of both stages

    monkeypatch.setattr(test_cells, "FakeRuntime", Remembered)
    monkeypatch.setattr(function.time, "time", lambda: max(runtime.clock for runtime in runtimes) / 1000)


@contextmanager
def deciding(parts: tuple[int, ...]) -> Iterator[Drawn]:
    """Replace the noise; ``parts`` of a key tell it from others, all of them in the real code."""
    drawn = Drawn(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountNoise, "drawn", lambda self, keys: drawn(keys))
        yield drawn


ALL = (0, 1, 2, 3)


def distribution(
    universe: Universe, of: AnonymizationPlan, parts: tuple[int, ...] = ALL
) -> dict[tuple[Any, ...], float]:
    """Return the probability of each output, without those of noise above the highest."""
    found: dict[tuple[Any, ...], float] = defaultdict(float)
    with deciding(parts) as drawn:
        published(universe, of)
        keys = sorted(drawn.requested)
        for noise in product(range(LOWEST, HIGHEST + 1), repeat=len(keys)):
            drawn.noise = dict(zip(keys, noise, strict=True))
            found[published(universe, of)] += float(np.prod([probability(one) for one in noise]))
    return found


def divergences(
    universe: Universe,
    of: AnonymizationPlan,
    epsilon: float,
    parts: tuple[int, ...] = ALL,
    persons: Iterable[int] | None = None,
) -> Iterator[float]:
    """Yield an upper bound of the divergence of each of some persons of a universe, who is left out.

    Outputs of noise above the highest are not computed; their probability is added. ``persons``: None stands for all.
    """
    whole = distribution(universe, of, parts)
    if persons is None:
        persons = sorted({step.person for step in universe if isinstance(step, Visit)})
    rest = 1 - sum(whole.values())
    for one in persons:
        yield rest + divergence(whole, distribution(without(universe, one), of, parts), epsilon)


FAR = 4 * tail(EPSILON, HIGHEST)
"""Largest error of a computed divergence of two keys: a small part of ``BOUND``."""

HALF = tuple(Visit(person, 100 * person, 100 * person, age) for person, age in enumerate((20.0, 20.0, 20.0, 70.0)))
DIVERSE = tuple(
    Visit(person, 100 * person, 100 * person, 20.0, illness)
    for person, illness in enumerate(("flu", "flu", "flu", "cold"))
)
TWO_WINDOWS = (
    *(Visit(person, 100 * person, 100 * person, 20.0) for person in (0, 1, 2)),
    *(Visit(person, WIDTH + 100 * person, WIDTH + 100 * person, 20.0) for person in (1, 2, 3)),
)
TWICE: Universe = (  # window 0 is open for its lateness again after the restart, and published a second time
    *(Visit(person, 100 * person, 100 * person, 20.0) for person in (0, 1, 2)),
    Restart(12_000),
    *(Visit(person, 12_000 + 100 * person, 100 * person, 20.0) for person in (3, 4)),
)


def test_the_parameters_of_this_test_have_that_threshold() -> None:
    counts = noisy_counts(K, EPSILON, DELTA)
    assert (counts.threshold, counts.epsilon) == (THRESHOLD, EPSILON)
    assert 0.03 * BOUND > FAR


def test_diversity_follows_from_noisy_counts() -> None:
    assert 0 < max(divergences(DIVERSE, plan(l=2), EPSILON)) <= BOUND + FAR


@pytest.mark.parametrize(
    ("parts", "universe"),
    [((1, 3), TWO_WINDOWS), ((0, 1, 3), TWICE)],
    ids=["one for all windows", "one for all batches"],
)
def test_publications_that_share_noise_break_the_guarantee(parts: tuple[int, ...], universe: Universe) -> None:
    found = divergences(universe, plan(windows=2), EPSILON, parts, persons=(0, 3))
    assert any(each > 10 * BOUND for each in found)


def test_noise_depends_on_the_secret_and_all_parts_of_the_key_alone() -> None:
    counts = noisy_counts(1, 0.5, 1e-6)
    keys = np.array(list(product(range(-2, 2), range(5), range(10), (-1, 0, 2**62))), np.int64)
    drawn = CountNoise(bytes(32), counts).drawn(keys)
    assert (CountNoise(bytes(32), counts).drawn(keys[::-1])[::-1] == drawn).all()
    others = [CountNoise(bytes([1] * 32), counts).drawn(keys)]
    for part in range(4):
        moved = keys.copy()
        moved[:, part] += 100
        others.append(CountNoise(bytes(32), counts).drawn(moved))
    same = sum((1 - exp(-0.5)) ** 2 / (1 + exp(-0.5)) ** 2 * exp(-1.0 * abs(z)) for z in range(-50, 50))
    for other in others:
        assert abs((other == drawn).mean() - same) < 0.09
    for least in (-3, 0, 1, 4):
        assert abs((drawn >= least).mean() - tail(0.5, least)) < 0.08


def test_a_replay_draws_the_same_noise() -> None:
    first = published(HALF, plan())
    assert all(published(HALF, plan()) == first for _ in range(3))
