"""The guarantee of ``cells``, computed exactly: all coin vectors through the operator, with and without each person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.cells import algorithm
from crenel.anonymity.algorithms.cells.contributions import Contributions
from crenel.anonymity.algorithms.cells.shard import CellsShard
from crenel.anonymity.space.domain import Boxes
from crenel.state.block import Block
from tests.operators import test_cells
from tests.operators.test_cells import (
    EPSILON,
    TWO_WINDOWS,
    Coin,
    Restart,
    Universe,
    Visit,
    bound,
    distribution,
    divergence,
    divergences,
    of_stages,
    plan,
)
from tests.support.example_counts import IS_NIGHTLY

coins = test_cells.coins


@pytest.mark.laws
@pytest.mark.parametrize("k", [2, 3, 4])
def test_one_window_of_all_numbers_of_persons_in_two_keys(k: int, coins: set[Coin]) -> None:
    of, most = plan(k), 8 if IS_NIGHTLY else 6

    @cache
    def outputs(young: int, old: int) -> Mapping[tuple[Any, ...], float]:
        ages = [20.0] * young + [70.0] * old
        return distribution(tuple(Visit(person, 0, 100 * person, age) for person, age in enumerate(ages)), coins, of)

    # The keys are alike, so the person who is left out is a young one.
    worst = max(
        divergence(outputs(young, persons - young), outputs(young - 1, persons - young), EPSILON)
        for persons in range(1, most + 1)
        for young in range(1, persons + 1)
    )
    # The worst number of persons is among them, so the bound is reached.
    assert bound(k) * (1 - 1e-8) < worst <= bound(k)


AGES = (3.0, 20.0, 44.0, 70.0)
ONE_WINDOW = tuple(Visit(person, 200 * person, 100 * person, age) for person, age in enumerate(AGES))
LATE_AND_REPEATED: Universe = (
    *ONE_WINDOW[:3],
    Visit(0, 650, 640, 70.0),  # a second record of a person
    Restart(4_000),
    Visit(5, 5_000, 5_000, 20.0),
    Visit(6, 12_000, 9_000, 20.0),  # late: its window closed at 11,000
)
AHEAD: Universe = (
    Visit(9, 50, 25_000, 20.0),  # would move a watermark beyond the others
    *ONE_WINDOW[:3],
    Visit(5, 10_500, 9_900, 20.0),
)


@of_stages
@pytest.mark.parametrize("universe", [ONE_WINDOW, LATE_AND_REPEATED, AHEAD], ids=["plain", "late", "ahead"])
def test_one_window_of_each_person(universe: Universe, shards: int, coins: set[Coin]) -> None:
    assert 0 < max(divergences(universe, coins, plan(2, shards=shards), EPSILON)) <= bound(2)


CROWD = (*(Visit(person, 100 * person, 100 * person, 20.0) for person in range(5)), Visit(5, 700, 700, 20.0, "cold"))


class Tightened(CellsShard):
    """Publishes the interval of a cell's members, and not that of the cell."""

    def choose(self, watermark: int, *, ended: bool) -> Choice:
        chosen = super().choose(watermark, ended=ended)
        if chosen.published is None:
            return chosen
        groups = len(chosen.groups)
        return replace(chosen, published=Boxes(*(column[:groups, :0] for column in chosen.published)))


class ByWatermark(CellsShard):
    """Judges lateness by the watermark, which other persons' records move."""

    def push(self, block: Block, watermark: int = 0) -> Any:
        self._judge_by(block)
        return super().push(block, watermark)

    def admit(self, block: Block) -> Any:
        self._judge_by(block)
        return super().admit(block)  # type: ignore[misc]

    def _judge_by(self, block: Block) -> None:
        if block.watermark is not None:
            assert self._clock is not None
            self._clock = int(block.watermark[-1]), self._clock[1]


class Telling(CellsShard):
    """Publishes how many records a window suppressed: as the number of the release."""

    def _depart(self, choice: Choice) -> Any:
        found = super()._depart(choice)
        return replace(found, release_id=np.full(len(found), len(choice.suppressed)))


class Unbounded(CellsShard):
    """Counts each record of a person as a person."""

    def in_sample(self, tuples: Any, window: Any) -> Any:
        self._contributions = Contributions(1, None, {})
        return super().in_sample(tuples, window)


@of_stages
@pytest.mark.parametrize(
    ("broken", "universe"),
    [(Tightened, ONE_WINDOW), (ByWatermark, AHEAD), (Telling, CROWD), (Unbounded, TWO_WINDOWS)],
)
def test_each_broken_rule_breaks_the_promise(
    broken: type[CellsShard], universe: Universe, shards: int, coins: set[Coin], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CellsShard", "PersonStage", "CellStage"):
        made = getattr(algorithm, name)
        monkeypatch.setattr(algorithm, name, type(name, (broken,) if made is CellsShard else (broken, made), {}))
    # The guarantee fails if it fails for one person.
    assert any(found > bound(2) for found in divergences(universe, coins, plan(2, shards=shards), EPSILON))
