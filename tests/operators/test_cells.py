"""The guarantee of ``cells``, computed exactly: all coin vectors through the operator, with and without each person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from math import exp
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.cells.algorithm import CELLS
from crenel.anonymity.algorithms.cells.parameters import CellsParameters
from crenel.anonymity.algorithms.cells.sampling import Coins
from crenel.anonymity.algorithms.cells.shard import Cells
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.anonymity.noise.budget import delta
from crenel.anonymity.space.domain import Boxes
from crenel.operators.shards import function
from crenel.operators.shards.function import END, ShardFunction
from crenel.operators.shards.plan import OperatorPlan
from crenel.state.block import Block
from tests.support.fakes import START, FakeRuntime, Harness

KEY = 5
RATE, EPSILON = 0.2, 1.0
WIDTH, LATENESS = 10_000, 1_000
FIRST = START // WIDTH
MEMBERS = pa.schema([("illness", pa.string())])
POLICY = Policy((Numeric("age", (0, 100)),), sensitive=("illness",), subject="person", event_time="at")
HALVES = RegionTree.of(Cut(0, 50.0, Region(0.5, 0.5), Region(0.5, 0.5)))

Coin = tuple[int, int]
"""A person, and a window from 0."""


class Visit(NamedTuple):
    """A record; times are milliseconds since the first window began."""

    person: int
    arrival: int
    event_time: int
    age: float
    illness: str = "flu"


class Restart(NamedTuple):
    """The operator ends, and begins from its state."""

    arrival: int


Universe = tuple[Visit | Restart, ...]


def plan(k: int, windows: int = 1) -> OperatorPlan:
    parameters = CellsParameters(RATE, HALVES, 100.0, 0.99, window=WIDTH, windows=windows, lateness=LATENESS)
    context = ShardContext(POLICY, Privacy(k), parameters, MEMBERS, fingerprint={"policy": "one"})
    return OperatorPlan(CELLS, context, seed=7, integers=frozenset({"age"}), encoded=("age",))


def block(visit: Visit, watermark: int) -> bytes:
    return Block(
        shard=0,
        numeric=np.array([[visit.age]]),
        categorical=np.zeros((1, 0), np.int32),
        subject=np.array([visit.person], np.uint64),
        sensitive=np.array([[ord(visit.illness[0])]], np.uint64),
        event_time=np.array([FIRST * WIDTH + visit.event_time]),
        members=pa.record_batch([pa.array([visit.illness])], schema=MEMBERS),
        watermark=np.array([watermark]),
    ).to_bytes()


def published(universe: Universe, heads: frozenset[Coin], of: OperatorPlan) -> tuple[Any, ...]:
    """Return what recipients see of a run with these coins: one batch after the other."""
    runtime, batches, watermark = FakeRuntime(), [], -(2**63)
    runtime.clock = FIRST * WIDTH
    harness = Harness(ShardFunction(of), runtime)
    seen = 0

    def look() -> None:
        nonlocal seen
        if len(harness.main) > seen:
            batches.append(tuple(sorted(map(repr, harness.main[seen:]))))
            seen = len(harness.main)

    for step in universe:
        harness.wait(max(FIRST * WIDTH + step.arrival - runtime.clock, 0))
        look()
        if isinstance(step, Restart):
            harness, seen = Harness(ShardFunction(of), runtime), 0
            continue
        watermark = max(watermark, FIRST * WIDTH + step.event_time)
        harness.element(KEY, block(step, watermark))
        harness.advance(watermark)
        look()
    harness.wait(10 * WIDTH)
    look()
    harness.advance(END)
    look()
    return tuple(batches)


@pytest.fixture
def coins(monkeypatch: pytest.MonkeyPatch) -> set[Coin]:
    """Return the coins that fall heads, which a test fills, and let the operator begin with the first window."""
    heads: set[Coin] = set()

    def sampled(self: Coins, subject: NDArray[np.uint64], window: NDArray[np.int64]) -> NDArray[np.bool_]:
        pairs = zip(subject.tolist(), (window - FIRST).tolist(), strict=True)
        return np.array([pair in heads for pair in pairs], np.bool_)

    monkeypatch.setattr(Coins, "sampled", sampled)
    monkeypatch.setattr(function.time, "time", lambda: FIRST * WIDTH / 1000)
    return heads


def distribution(
    universe: Universe, heads: set[Coin], of: OperatorPlan, *, shared: bool = False
) -> dict[tuple[Any, ...], float]:
    """Return the probability of each output; ``shared``: one coin of a person for all windows."""
    visits = [step for step in universe if isinstance(step, Visit)]
    tossed = sorted({visit.person if shared else (visit.person, visit.event_time // WIDTH) for visit in visits})
    found: dict[tuple[Any, ...], float] = defaultdict(float)
    for vector in product((False, True), repeat=len(tossed)):
        fallen = {coin for coin, is_head in zip(tossed, vector, strict=True) if is_head}
        heads.clear()
        heads |= {
            (visit.person, visit.event_time // WIDTH)
            for visit in visits
            if (visit.person if shared else (visit.person, visit.event_time // WIDTH)) in fallen
        }
        found[published(universe, frozenset(heads), of)] += RATE ** len(fallen) * (1 - RATE) ** (
            len(tossed) - len(fallen)
        )
    return found


def divergence(one: Mapping[Any, float], other: Mapping[Any, float], epsilon: float) -> float:
    """Return the greater of the hockey-stick divergences between two distributions."""
    outputs = one.keys() | other.keys()
    return max(
        sum(max(a.get(output, 0.0) - exp(epsilon) * b.get(output, 0.0), 0.0) for output in outputs)
        for a, b in ((one, other), (other, one))
    )


def worst(universe: Universe, heads: set[Coin], of: OperatorPlan, epsilon: float, **how: bool) -> float:
    """Return the maximum divergence over all persons of a universe, each of them left out in turn."""
    whole = distribution(universe, heads, of, **how)
    persons = {step.person for step in universe if isinstance(step, Visit)}
    return max(
        divergence(whole, distribution(without(universe, person), heads, of, **how), epsilon) for person in persons
    )


def bound(k: int) -> float:
    """Return the delta of one window, with room for the rounding errors of a sum."""
    return delta(k, RATE, EPSILON) * (1 + 1e-9)


def without(universe: Universe, person: int) -> Universe:
    return tuple(step for step in universe if not (isinstance(step, Visit) and step.person == person))


@pytest.mark.parametrize("k", [2, 3])
def test_one_window_of_up_to_five_persons_in_two_keys(k: int, coins: set[Coin]) -> None:
    of = plan(k)

    @cache
    def outputs(young: int, old: int) -> Mapping[tuple[Any, ...], float]:
        ages = [20.0] * young + [70.0] * old
        visits = tuple(Visit(person, 100 * person, 100 * person, age) for person, age in enumerate(ages))
        return distribution(visits, coins, of)

    most = 0.0
    for young, old in product(range(1, 6), range(5)):
        if young + old < 6:
            most = max(most, divergence(outputs(young, old), outputs(young - 1, old), EPSILON))
    assert 0 < most <= bound(k)


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
TWO_WINDOWS = (
    *(Visit(person, 100 * person, 100 * person, 20.0) for person in range(2)),
    *(Visit(person, WIDTH + 100 * person, WIDTH + 100 * person, 20.0) for person in range(2)),
)


@pytest.mark.parametrize("universe", [ONE_WINDOW, LATE_AND_REPEATED, AHEAD], ids=["plain", "late", "ahead"])
def test_one_window_of_each_person(universe: Universe, coins: set[Coin]) -> None:
    assert 0 < worst(universe, coins, plan(2), EPSILON) <= bound(2)


def test_two_windows_of_each_person_compose(coins: set[Coin]) -> None:
    twice = 2 * bound(2)
    assert 0 < worst(TWO_WINDOWS, coins, plan(2, windows=2), 2 * EPSILON) <= twice


def test_the_contribution_bound_holds_over_windows(coins: set[Coin]) -> None:
    # In the second window nobody is left to contribute, so one window's guarantee holds.
    assert 0 < worst(TWO_WINDOWS, coins, plan(2), EPSILON) <= bound(2)


def test_a_window_closes_by_the_clock_alone_and_after_a_restart_not_before_replayed_records(
    coins: set[Coin], monkeypatch: pytest.MonkeyPatch
) -> None:
    coins |= {(person, 0) for person in range(5)}
    runtime = FakeRuntime()
    runtime.clock = FIRST * WIDTH
    harness = Harness(ShardFunction(plan(2)), runtime)
    for person in range(2):
        harness.element(KEY, block(Visit(person, 0, 0, 20.0), -(2**63)))
    harness.wait(WIDTH + LATENESS - 1)
    assert harness.main == []
    harness.wait(1)
    assert len(harness.main) == 1
    harness.element(KEY, block(Visit(2, 0, 0, 20.0), -(2**63)))
    assert runtime.metrics.known["crenel.late"].count == 1
    monkeypatch.setattr(function.time, "time", lambda: runtime.clock / 1000)
    restarted = Harness(ShardFunction(plan(2)), runtime)
    for person in (3, 4):
        restarted.element(KEY, block(Visit(person, 0, 0, 20.0), -(2**63)))
    restarted.wait(LATENESS - 1)
    assert restarted.main == []
    restarted.wait(1)
    assert len(restarted.main) == 1


CROWD = (*(Visit(person, 100 * person, 100 * person, 20.0) for person in range(6)), Visit(6, 700, 700, 70.0))
OTHER_COMPANY = (
    *(Visit(person, 100 * person, 100 * person, 20.0) for person in (0, 1, 2)),
    *(Visit(person, WIDTH + 100 * person, WIDTH + 100 * person, 20.0) for person in (0, 3, 4)),
)


class Tightened(Cells):
    """Publishes the interval of a cell's members, and not that of the cell."""

    def choose(self, watermark: int, *, ended: bool) -> Choice:
        chosen = super().choose(watermark, ended=ended)
        if chosen.published is None:
            return chosen
        groups = len(chosen.groups)
        return replace(chosen, published=Boxes(*(column[:groups, :0] for column in chosen.published)))


class ByWatermark(Cells):
    """Judges lateness by the watermark, which other persons' records move."""

    def push(self, block: Block, watermark: int = 0) -> Any:
        assert block.watermark is not None
        assert self._clock is not None
        self._clock = int(block.watermark[-1]), self._clock[1]
        return super().push(block, watermark)


class Telling(Cells):
    """Publishes how many records a window suppressed: as the number of the release."""

    def _depart(self, choice: Choice) -> Any:
        found = super()._depart(choice)
        return replace(found, release_id=np.full(len(found), len(choice.suppressed)))


class Unbounded(Cells):
    """Counts each record of a person as a person."""

    def admitted(self, tuples: Any) -> Any:
        self._contributions._windows.clear()
        return super().admitted(tuples)


@pytest.mark.parametrize(
    ("broken", "universe"),
    [(Tightened, ONE_WINDOW), (ByWatermark, AHEAD), (Telling, CROWD), (Unbounded, TWO_WINDOWS)],
)
def test_each_broken_rule_breaks_the_promise(
    broken: type[Cells], universe: Universe, coins: set[Coin], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crenel.anonymity.algorithms.cells.algorithm.Cells", broken)
    assert worst(universe, coins, plan(2), EPSILON) > bound(2)


@pytest.mark.parametrize("shared", [False, True])
def test_two_windows_compose_unless_they_share_a_sample(shared: bool, coins: set[Coin]) -> None:
    def of_person(universe: Universe, epsilon: float, **how: bool) -> float:
        whole, rest = (distribution(u, coins, plan(2, windows=2), **how) for u in (universe, without(universe, 0)))
        return divergence(whole, rest, epsilon)

    twice = 2 * of_person(OTHER_COMPANY[:3], EPSILON) * (1 + 1e-9)
    assert (of_person(OTHER_COMPANY, 2 * EPSILON, shared=shared) > twice) is shared
