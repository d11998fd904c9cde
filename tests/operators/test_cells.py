"""The guarantee of ``cells``, computed exactly: all coin vectors through the operator, with and without each person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, groupby, product
from math import exp
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.cells.sampling import Coins
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.anonymity.model.secret import Secret
from crenel.anonymity.noise.budget import log_divergence
from crenel.anonymity.noise.privacy_loss import delta_of_losses
from crenel.operators.column_types import parse
from crenel.operators.encode.columns import Read
from crenel.operators.output_columns import release_columns
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards import admission, function
from crenel.operators.shards.admission import AdmissionFunction
from crenel.operators.shards.chain import ChainColumn, ChainSettings
from crenel.operators.shards.function import END, ShardFunction
from crenel.operators.signed_errors import signed_error
from crenel.state.block import Block, Rejected
from crenel.state.operator import Forget, Report
from tests.support.fakes import START, FakeRuntime, Harness, Staged

KEY = 5
RATE, EPSILON = 0.2, 1.0
WIDTH, LATENESS = 10_000, 1_000
FIRST = START // WIDTH
MEMBERS = pa.schema([("illness", pa.string())])
POLICY = Policy({"age": Numeric((0, 100))}, sensitive=("illness",), subject="person", event_time="at")
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


READS = (Read("age", "number", 0),)


def plan(k: int, windows: int = 1, *, shards: int = 1, horizon: int | None = None) -> AnonymizationPlan:
    algorithm = Cells(HALVES, 100.0, 0.99, WIDTH, windows, sample_rate=RATE, lateness=LATENESS, horizon=horizon)
    admissions = Cells.admissions(shards)
    context = ShardContext(POLICY, Privacy(k), algorithm, MEMBERS, fingerprint={"policy": "one"}, admissions=admissions)
    keys = tuple(KEY + number for number in range(shards))
    return AnonymizationPlan(context, seed=7, types={"age": parse("INT")}, quasi_identifiers=READS, keys=keys)


def run_of(of: AnonymizationPlan, runtimes: tuple[FakeRuntime, FakeRuntime]) -> Harness | Staged:
    """Return what drives the operators of a plan: one, or two where it has several shards."""
    if of.context.admissions:
        return Staged(AdmissionFunction(of), ShardFunction(of), runtimes)
    return Harness(ShardFunction(of), runtimes[0])


def started(of: AnonymizationPlan, runtimes: tuple[FakeRuntime, FakeRuntime]) -> Harness | Staged:
    """Return the same at the start of a job, with the first window."""
    for runtime in runtimes:
        runtime.clock = FIRST * WIDTH
    harness = run_of(of, runtimes)
    if of.context.admissions:
        for key in of.numbers:
            harness.element(key, None)
    return harness


def key_of(visit: Visit, of: AnonymizationPlan) -> int:
    return KEY + visit.person % len(of.numbers)


def block(visit: Visit, watermark: int, shard: int = 0) -> bytes:
    return block_of((visit,), (watermark,), shard)


@cache
def block_of(visits: tuple[Visit, ...], watermarks: tuple[int, ...], shard: int = 0) -> bytes:
    return Block(
        shard=shard,
        numeric=np.array([[visit.age] for visit in visits]),
        categorical=np.zeros((len(visits), 0), np.int32),
        subject=np.array([visit.person for visit in visits], np.uint64),
        sensitive=np.array([[ord(visit.illness[0])] for visit in visits], np.uint64),
        event_time=np.array([FIRST * WIDTH + visit.event_time for visit in visits]),
        members=pa.record_batch([pa.array([visit.illness for visit in visits])], schema=MEMBERS),
        watermark=np.array(watermarks),
    ).to_bytes()


def test_an_admission_has_its_shard_refuse_state_of_another_policy() -> None:
    of, runtimes = plan(3, shards=2), (FakeRuntime(), FakeRuntime())
    started(of, runtimes).element(KEY, block(Visit(1, 0, 0, 30.0), 0))
    context = replace(of.context, fingerprint={"policy": "other"})
    first: Any = AdmissionFunction(replace(of, context=context, refuses=True))
    second: Any = Harness(ShardFunction(replace(of, context=context, refuses=True)), FakeRuntime()).function
    first.open(runtimes[0])
    for results in (
        first.process_element((KEY, block(Visit(2, 0, 0, 30.0), 0)), runtimes[0]),
        first.on_timer(END, runtimes[0]),
    ):
        ((key, sent),) = (row.values for row in results)
        assert key == KEY
        ((releases, why),) = (row.values for row in second.process_element(sent.values, FakeRuntime()))
        assert releases == []
        assert signed_error(why) == why.partition("\n")[0]
        assert "cannot change on a restore: policy. The stored state of shard 0 (key 5)" in why


def published(universe: Universe, of: AnonymizationPlan) -> tuple[Any, ...]:
    """Return what recipients see of a run: one batch after the other. Visits of one moment arrive as one block."""
    runtimes, batches, watermark = (FakeRuntime(), FakeRuntime()), [], -(2**63)
    harness = started(of, runtimes)
    seen = 0

    def look() -> None:
        nonlocal seen
        if len(harness.main) > seen:
            batches.append(tuple(sorted(map(repr, harness.main[seen:]))))
            seen = len(harness.main)

    for arrival, simultaneous in groupby(universe, lambda step: step.arrival):
        steps = tuple(simultaneous)
        harness.wait(max(FIRST * WIDTH + arrival - runtimes[0].clock, 0))
        look()
        if isinstance(steps[0], Restart):
            harness, seen = run_of(of, runtimes), 0
            continue
        visits = tuple(step for step in steps if isinstance(step, Visit))
        (key,) = {key_of(visit, of) for visit in visits}
        times = (FIRST * WIDTH + visit.event_time for visit in visits)
        watermarks = tuple(accumulate(times, max, initial=watermark))[1:]
        watermark = watermarks[-1]
        harness.element(key, block_of(visits, watermarks))
        harness.advance(watermark)
        look()
    harness.wait(3 * WIDTH)
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
    assert admission.time is function.time
    monkeypatch.setattr(function.time, "time", lambda: FIRST * WIDTH / 1000)
    return heads


def distribution(
    universe: Universe, heads: set[Coin], of: AnonymizationPlan, *, shared: bool = False
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
        found[published(universe, of)] += RATE ** len(fallen) * (1 - RATE) ** (len(tossed) - len(fallen))
    return found


def divergence(one: Mapping[Any, float], other: Mapping[Any, float], epsilon: float) -> float:
    """Return the greater of the hockey-stick divergences between two distributions."""
    outputs = one.keys() | other.keys()
    return max(
        sum(max(a.get(output, 0.0) - exp(epsilon) * b.get(output, 0.0), 0.0) for output in outputs)
        for a, b in ((one, other), (other, one))
    )


def divergences(universe: Universe, heads: set[Coin], of: AnonymizationPlan, epsilon: float) -> Iterator[float]:
    """Yield the divergence of each person of a universe, who is left out."""
    whole = distribution(universe, heads, of)
    for person in sorted({step.person for step in universe if isinstance(step, Visit)}):
        yield divergence(whole, distribution(without(universe, person), heads, of), epsilon)


def bound(k: int) -> float:
    """Return the delta of one window, with room for the rounding errors of a sum."""
    return exp(log_divergence(k, RATE, EPSILON)) * (1 + 1e-9)


def without(universe: Universe, person: int) -> Universe:
    return tuple(step for step in universe if not (isinstance(step, Visit) and step.person == person))


of_stages = pytest.mark.parametrize("shards", [1, 2], ids=["one stage", "two stages"])
TWO_WINDOWS = (
    *(Visit(person, 100 * person, 100 * person, 20.0) for person in range(2)),
    *(Visit(person, WIDTH + 100 * person, WIDTH + 100 * person, 20.0) for person in range(2)),
)


@of_stages
def test_two_windows_of_each_person_compose(shards: int, coins: set[Coin]) -> None:
    composed = delta_of_losses(2, RATE, 2 * EPSILON, 2)
    assert composed < 2 * bound(2)
    assert 0 < max(divergences(TWO_WINDOWS, coins, plan(2, windows=2, shards=shards), 2 * EPSILON)) <= composed


@of_stages
def test_the_contribution_bound_holds_over_windows(shards: int, coins: set[Coin]) -> None:
    # In the second window nobody is left to contribute, so one window's guarantee holds.
    assert 0 < max(divergences(TWO_WINDOWS, coins, plan(2, shards=shards), EPSILON)) <= bound(2)


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


OTHER_COMPANY = (
    *(Visit(person, 100 * person, 100 * person, 20.0) for person in (0, 1, 2)),
    *(Visit(person, WIDTH + 100 * person, WIDTH + 100 * person, 20.0) for person in (0, 3, 4)),
)


@pytest.mark.parametrize("shared", [False, True])
def test_two_windows_compose_unless_they_share_a_sample(shared: bool, coins: set[Coin]) -> None:
    def of_person(universe: Universe, epsilon: float, **how: bool) -> float:
        whole, rest = (distribution(u, coins, plan(2, windows=2), **how) for u in (universe, without(universe, 0)))
        return divergence(whole, rest, epsilon)

    twice = 2 * of_person(OTHER_COMPANY[:3], EPSILON) * (1 + 1e-9)
    assert (of_person(OTHER_COMPANY, 2 * EPSILON, shared=shared) > twice) is shared


# Of two stages


def many(persons: int, visits: int) -> list[Visit]:
    """Return visits of four windows in order of arrival, some of them late or repeated."""
    chance = np.random.default_rng(5)
    arrivals = np.sort(chance.integers(0, 4 * WIDTH, visits)).tolist()
    delays = chance.choice([0, 300, 2 * WIDTH], visits, p=[0.5, 0.4, 0.1]).tolist()
    ages, illnesses = chance.choice([3.0, 44.0, 51.0, 99.0], visits), chance.choice(["flu", "cold"], visits)
    of = chance.integers(0, persons, visits).tolist()
    drawn = zip(of, arrivals, delays, ages.tolist(), illnesses.tolist(), strict=True)
    return [Visit(person, at, max(at - delay, 0), age, illness) for person, at, delay, age, illness in drawn]


def outcome(visits: Sequence[Visit], of: AnonymizationPlan, restarts: frozenset[int] = frozenset()) -> Any:
    """Return the releases without their numbers, in order, and the sums of the summaries of all shards."""
    runtimes = FakeRuntime(), FakeRuntime()
    harness, main = started(of, runtimes), []
    for number, visit in enumerate(visits):
        harness.wait(FIRST * WIDTH + visit.arrival - runtimes[0].clock)
        if number in restarts:
            main += harness.main
            harness = run_of(of, runtimes)
        key = key_of(visit, of)
        harness.element(key, block(visit, -(2**63), of.numbers[key]))
    harness.wait(2 * WIDTH)
    harness.advance(END)
    main += harness.main
    totals: dict[str, float] = defaultdict(float)
    for _, name, amount in harness.side["summary"]:
        totals[name] += amount
    columns = [column.name for column in release_columns(POLICY)]
    published = [dict(zip(columns, row, strict=False)) | {"members": sorted(row[-1])} for row in main]
    kept = ("event_time", "subjects", "tuples", "members")
    if of.context.admissions and not restarts:
        counted = runtimes[1].metrics.known
        assert all(counted[f"crenel.{name}"].count == totals[name] for name in ("late", "sampled_out", "tuples_in"))
    return sorted(tuple(repr(row[name]) for name in kept) for row in published), totals


COUNTS = ("tuples_in", "sampled_out", "late", "over_contribution", "released", "suppressed.too_few_subjects")


@pytest.mark.parametrize("restarts", [frozenset(), frozenset({30, 90, 91, 160})], ids=["whole", "restarted"])
@pytest.mark.parametrize("shards", [2, 3])
def test_several_shards_release_what_one_shard_would(shards: int, restarts: frozenset[int], coins: set[Coin]) -> None:
    visits = many(40, 250)
    coins |= {(visit.person, visit.event_time // WIDTH) for visit in visits if (visit.person + visit.event_time) % 5}
    releases, totals = outcome(visits, plan(4, 3, shards=1))
    found, sums = outcome(visits, plan(4, 3, shards=shards), restarts)
    assert len(releases) > 4
    assert found == releases
    assert {name: sums[name] for name in COUNTS} == {name: totals[name] for name in COUNTS}
    assert all(sums[name] for name in COUNTS)
    ended = ("tuples_in", "sampled_out")
    assert sum(sums[name] for name in ended) == len(visits)


def test_a_shard_closes_a_window_once_each_admission_has_reported_and_waits_anew_after_a_restart() -> None:
    runtime = FakeRuntime()
    of = plan(2, shards=2)
    harness = Harness(ShardFunction(of), runtime)

    def report(admission: int, first_open: int) -> None:
        counts = {"late": 0, "over_contribution": 0, "tails": 0}
        harness.element(KEY, Report(admission, counts | {"first_open": first_open}).to_bytes())

    for person in range(2):
        harness.element(KEY, block(Visit(person, 0, 0, 20.0), -(2**63)))
    report(0, FIRST + 1)
    harness.wait(10 * WIDTH)
    assert harness.main == []
    report(1, FIRST)
    assert harness.main == []
    report(1, FIRST + 1)
    assert len(harness.main) == 1
    # Records that a restarted admission lets in again wait for the next window, and are counted together.
    for person in (2, 3):
        harness.element(KEY, block(Visit(person, 0, 0, 20.0), -(2**63)))
        report(1, FIRST + 1)
    assert len(harness.main) == 1
    harness = Harness(ShardFunction(of), runtime)
    report(0, FIRST + 2)
    assert harness.main == []
    report(1, FIRST + 1)
    assert len(harness.main) == 1


@pytest.mark.parametrize("horizon", [None, WIDTH])
def test_an_admission_reports_windows_as_closed_that_it_admits_no_record_of(
    horizon: int | None, coins: set[Coin], monkeypatch: pytest.MonkeyPatch
) -> None:
    of = plan(2, shards=2, horizon=horizon)
    stage = Cells.admission
    assert stage is not None
    admission = stage.new(of.context, 0, bytes(32))
    since, now = FIRST * WIDTH + 300, FIRST * WIDTH + 300
    for _ in range(6):
        admission.observe_clock(now, since)
        admission.observe_clock(now - 5_000, since)  # the clock is set back
        first_open = admission.report["first_open"]
        for number in range(FIRST - 4, FIRST + 5):
            late = admission.report["late"]
            visit = Visit(number, 0, (number - FIRST) * WIDTH, 20.0)
            admission.admit(Block.from_bytes(block(visit, 0), MEMBERS))
            assert (admission.report["late"] > late) is (number < first_open)
        alarm = admission.next_alarm
        assert alarm is not None
        assert alarm > now
        admission.observe_clock(alarm - 1, since)
        if horizon is None:
            assert admission.report["first_open"] == first_open
        admission.observe_clock(alarm, since)
        assert admission.report["first_open"] > first_open
        now = alarm


def test_an_admission_without_records_reports_and_each_shard_ends_its_chain(coins: set[Coin]) -> None:
    coins |= {(0, 0), (2, 0)}
    key, ends = (
        Secret("audit_chain.key", b"a key"),
        (ChainColumn("age_min", "double"), ChainColumn("age_max", "double")),
    )
    chain = ChainSettings(
        key,
        (),
        "run",
        "1",
        "policy",
        "hierarchies",
        "settings",
        "",
        generalization=ends,
        members=(ChainColumn("illness"),),
    )
    of = replace(plan(2, shards=2), chain=chain)
    harness = started(of, (FakeRuntime(), FakeRuntime()))
    for person in (0, 2):  # both of admission 0
        harness.element(KEY, block(Visit(person, 0, 0, 20.0), -(2**63)))
    harness.wait(WIDTH + LATENESS - 1)
    assert harness.main == []
    harness.wait(1)
    assert len(harness.main) == 1
    harness.advance(END)
    kinds = [dict(zip((column.name for column in release_columns(POLICY)), row, strict=False)) for row in harness.main]
    assert sorted((row["kind"], row["shard"]) for row in kinds[1:]) == [("closing", 0), ("closing", 1)]


def test_a_request_to_forget_reaches_each_shard_after_the_records_of_the_person(coins: set[Coin]) -> None:
    coins |= {(person, 0) for person in range(6)}
    of = plan(2, shards=2)
    harness = started(of, (FakeRuntime(), FakeRuntime()))
    for person, age in enumerate((20.0, 20.0, 70.0, 70.0, 20.0)):
        visit = Visit(person, 0, 0, age)
        harness.element(key_of(visit, of), block(visit, -(2**63), person % 2))
    harness.element(KEY, Forget(np.uint64(2), "code").to_bytes())
    assert [(row[0], row[1], row[-1]) for row in harness.side["forgotten"]] == [("code", 0, 0), ("code", 1, 1)]
    again = Visit(2, 0, 0, 20.0)  # the person has contributed to this window
    harness.element(KEY, block(again, -(2**63)))
    harness.wait(2 * WIDTH)
    assert [row[-1] for row in harness.main] == [["flu"] * 3]
    harness.advance(END)
    totals = {(shard, name): amount for shard, name, amount in harness.side["summary"]}
    assert (totals[1, "forgotten"], totals[1, "suppressed.too_few_subjects"], totals[0, "over_contribution"]) == (
        1,
        1,
        1,
    )


def test_rejected_records_pass_the_first_stage() -> None:
    of = plan(2, shards=2)
    harness = started(of, (FakeRuntime(), FakeRuntime()))
    visit = Block.from_bytes(block(Visit(1, 0, 0, 20.0), -(2**63)), MEMBERS)
    rejected = Rejected(np.zeros(3, np.int16), np.zeros(3, np.int8), np.zeros(3, np.int64))
    harness.element(KEY, replace(visit, rejected=rejected).to_bytes())
    (columns,) = harness.side["rejected"]
    assert columns[1] == ["missing"] * 3
