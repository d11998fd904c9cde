"""Noise within a release: its scale, its distribution, who is suppressed for it, and that it is drawn once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import exp, log
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Noised, Numeric, by_name
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from crenel.anonymity.noise.linking import linking_range
from crenel.anonymity.noise.release_noise import problems_within
from crenel.state.block import Block
from crenel.state.shard import StoredShard
from examples.own_algorithm import InOrder
from tests.support.drive import KEY, PRINT
from tests.support.example_counts import FEW

HEIGHT, WEIGHT = Noised((100.0, 220.0), 1.0).named("height"), Noised((30.0, 250.0), 0.1).named("weight")
MADE = {
    Castle.name: Castle(Delay(40)),
    Nearest.name: Nearest(Delay(40, jitter=0.25), reuse_limit=1000),
    Suhdsa.name: Suhdsa(30),
    Mondrian.name: Mondrian(Window(60)),
    InOrder.name: InOrder(40),
}
of_each_algorithm = pytest.mark.parametrize(
    "algorithm", [Castle, Nearest, Suhdsa, Mondrian, InOrder], ids=lambda found: found.name
)
Numbers: TypeAlias = NDArray[np.float64]
Stream: TypeAlias = list[tuple[int, int, int]]
"""x, person and height of each tuple; its weight is half the height, and 30."""


def terms(algorithm: Algorithm, noise: NoiseWithinRelease, *noised: Noised, k: int = 5) -> ShardContext:
    policy = Policy(
        {"x": Numeric((0.0, 100.0))},
        sensitive=("s",),
        noised=by_name(noised),
        passthrough=("row",),
        subject="who",
    )
    kinds = {"s": pa.string(), "height": pa.int64(), "weight": pa.float64(), "row": pa.int64()}
    schema = pa.schema([(name, kinds[name]) for name in policy.members])
    return ShardContext(
        policy, Privacy(k, 1, models={}, noise_within_release=noise), MADE[algorithm.name], schema, fingerprint=PRINT
    )


def block(of: ShardContext, x: Numbers, who: NDArray[np.int64], *noised: Numbers, first: int = 0) -> Block:
    count = len(x)
    columns = [pa.array(["a"] * count)]
    for name, values in zip((a.name for a in of.policy.noised.values()), noised, strict=True):
        columns.append(pa.array(values.astype(np.int64) if name == "height" else values))
    columns.append(pa.array(np.arange(first, first + count)))
    return Block(
        shard=0,
        numeric=x[:, None],
        categorical=np.zeros((count, 0), np.int32),
        subject=who.astype(np.uint64),
        sensitive=np.zeros((count, 1), np.uint64),
        event_time=np.full(count, np.iinfo(np.int64).min),
        members=pa.record_batch(columns, schema=of.members),
    )


def classes(outputs: list[Releases]) -> list[tuple[list[int], list[list[float]]]]:
    """Rows of each release, and their published noised values by attribute."""
    found = []
    for out in outputs:
        for start, stop in zip(out.offsets, out.offsets[1:], strict=False):
            found.append((out.members[-1][start:stop], [column[start:stop] for column in out.members[1:-1]]))
    return found


# Its scale and distribution.


@of_each_algorithm
@pytest.mark.parametrize("scale", ["release", "domain"])
def test_noise_has_the_distribution_that_the_width_of_its_class_asks_for(algorithm: Algorithm, scale: str) -> None:
    # All heights of a class lie in 158 to 162, in the middle of the domain, whose ends are far away.
    noise = NoiseWithinRelease(8.0, scale=scale)  # type: ignore[arg-type]
    of = replace(terms(algorithm, noise, replace(HEIGHT, domain=(-4000.0, 4320.0))))
    if algorithm in (Castle, Nearest):
        of = replace(of, algorithm=replace(of.algorithm, reuse_limit=0))
    shard, chance, outputs = algorithm.new(of, 0, KEY), np.random.default_rng(3), []
    heights = np.empty(3000 if algorithm is InOrder else 12_000)
    for first in range(0, len(heights), 3000):
        mine = chance.integers(158, 163, 3000).astype(float)
        heights[first : first + 3000] = mine
        who = np.arange(first, first + 3000)
        outputs.append(
            shard.push(block(of, chance.integers(0, 100, 3000).astype(float), who, mine, first=first)).releases
        )
    outputs.append(shard.finish().releases)
    of_width: dict[float, Counter[int]] = {}
    for rows, (shown,) in classes(outputs):
        values = heights[rows]
        width = 8320.0 if scale == "domain" else max(values.max() - values.min(), 0.02 * 8320.0)
        of_width.setdefault(width, Counter()).update(
            int(a - b) for a, b in zip(shown, values.astype(np.int64).tolist(), strict=True)
        )
    for width, moved in of_width.items():
        assert_laplace(moved, width / 8.0)  # what would leave the domain stands on its ends, beyond all bounds


def assert_laplace(moved: Counter[int], scale: float) -> None:
    """Chi-square over ranges of equal probability; the bound is exceeded once in a million."""
    total, edges = moved.total(), [round(scale * log(1 / q)) for q in (0.9, 0.7, 0.5, 0.3, 0.15, 0.05)]
    ratio = exp(-1 / scale)

    def within(r: int) -> float:  # probability of |noise| <= r
        return 1 - 2 * ratio ** (r + 1) / (1 + ratio)

    bounds = [-1, *sorted(set(edges))]
    statistic = 0.0
    for low, high in zip(bounds, [*bounds[1:], None], strict=True):
        p = (1.0 if high is None else within(high)) - (0.0 if low < 0 else within(low))
        seen = sum(n for d, n in moved.items() if low < abs(d) and (high is None or abs(d) <= high))
        statistic += (seen - p * total) ** 2 / (p * total)
    assert statistic < 45
    assert abs(sum(n for d, n in moved.items() if d > 0) - sum(n for d, n in moved.items() if d < 0)) < 6 * total**0.5


@given(st.floats(0.01, 1e6), st.floats(1e-6, 0.9))
@FEW
def test_the_linking_range_is_the_least_that_noise_keeps_to(scale: float, beyond: float) -> None:
    reach, ratio = linking_range_of(scale, beyond), exp(-1 / scale)

    def outside(r: float) -> float:
        return 2 * ratio ** (r + 1) / (1 + ratio)

    assert outside(reach) <= beyond * (1 + 1e-6)
    assert reach == 0 or outside(reach - 1) > beyond * (1 - 1e-6)
    if scale > 1000:
        assert reach == pytest.approx(-scale * log(beyond), rel=0.01, abs=2)


def linking_range_of(scale: float, beyond: float) -> float:
    return float(linking_range.py_func(scale, beyond))  # type: ignore[attr-defined]


# Drawn once.

streams = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 12), st.integers(100, 220)), max_size=120)


def run(
    algorithm: Algorithm, of: ShardContext, stream: Stream, size: int, *, restored: bool = False
) -> tuple[list[Releases], Shard]:
    shard, stored, outputs = algorithm.new(of, 0, KEY), StoredShard(b"", {}), []
    x, who, height = np.array(stream, np.float64).reshape(-1, 3).T
    for first in [*range(0, len(stream), size), None]:
        if first is None:
            step = shard.finish()
        else:
            part = slice(first, first + size)
            people, tall = who[part].astype(np.int64), height[part]
            step = shard.push(block(of, x[part].copy(), people, tall, tall / 2 + 30, first=first))
        outputs.append(step.releases)
        assert step.changes is not None
        stored = stored.after(step.changes)
        if restored:
            shard = algorithm.restored(of, stored, "")
    return outputs, shard


@of_each_algorithm
@given(streams, st.integers(1, 40), st.sampled_from((None, Confidence(0.5, 3), Confidence(0.99, 3))))
@FEW
def test_a_value_is_the_same_after_a_restore_and_however_the_stream_is_cut(
    algorithm: Algorithm, stream: Stream, size: int, confidence: Confidence | None
) -> None:
    of = terms(algorithm, NoiseWithinRelease(1.0, confidence=confidence), HEIGHT, WEIGHT, k=3)
    whole, one = run(algorithm, of, stream, 1000)
    parts, other = run(algorithm, of, stream, size, restored=True)
    if algorithm is not InOrder:  # which decides at the end of each block
        assert classes(whole) == classes(parts)
        assert one.counters.linked == other.counters.linked
    again, third = run(algorithm, of, stream, size)
    assert classes(again) == classes(parts)
    assert third.counters.linked == other.counters.linked == sum(int(out.linked.sum()) for out in parts)
    assert third.counters.suppressed == other.counters.suppressed
    for counters, outputs in ((one.counters, whole), (other.counters, parts)):
        assert counters.released == sum(len(rows) for rows, _ in classes(outputs))
        assert counters.tuples_in == counters.released + sum(counters.suppressed.values()) == len(stream)


# Suppressed persons.


@of_each_algorithm
@given(streams, st.floats(0.05, 4.0), st.sampled_from((0.5, 0.9, 0.99)), st.integers(2, 4))
@FEW
def test_what_is_left_of_a_class_keeps_k_and_nobody_is_among_too_few(
    algorithm: Algorithm, stream: Stream, epsilon: float, c: float, near: int
) -> None:
    # least = 1: the width of every class is that of the domain, so that it is known from outside.
    noise = NoiseWithinRelease(epsilon, least=1.0, confidence=Confidence(c, near))
    of = terms(algorithm, noise, HEIGHT, WEIGHT, k=4)
    outputs, shard = run(algorithm, of, stream, 1000)
    reasons = of.privacy.reasons
    withheld = Counter(reasons[reason] for out in outputs for reason in out.suppressed_reason.tolist())
    assert withheld["linkable"] == shard.counters.suppressed["linkable"]
    beyond = 1 - c**0.5
    widths = [a.domain[1] - a.domain[0] for a in (HEIGHT, WEIGHT) if a.domain is not None]
    reach = [
        step * linking_range_of(width / (epsilon / 2) / step, beyond) + 1e-6
        for width, step in zip(widths, (1.0, 0.1), strict=True)
    ]
    lonely = 0
    for rows, shown in classes(outputs):
        people = {stream[row][1] for row in rows}
        assert len(people) >= 4
        for height, weight in zip(*shown, strict=True):
            inside = {
                stream[row][1]
                for row in rows
                if abs(stream[row][2] - height) <= reach[0] and abs(stream[row][2] / 2 + 30 - weight) <= reach[1]
            }
            lonely += 0 < len(inside) < near
    assert lonely == 0  # a suppressed member hides no other


@of_each_algorithm
@given(streams, st.floats(0.5, 20.0), st.sampled_from((0.5, 0.9)))
@FEW
def test_nothing_of_who_was_withheld_is_in_a_release(
    algorithm: Algorithm, stream: Stream, epsilon: float, c: float
) -> None:
    of = terms(algorithm, NoiseWithinRelease(epsilon, confidence=Confidence(c, 3)), HEIGHT, WEIGHT, k=3)
    outputs, _ = run(algorithm, of, stream, 20)
    lower, upper = (np.concatenate([getattr(out, end)[:, 0] for out in outputs]) for end in ("lower", "upper"))
    ends = [[stream[row][0] for row in rows] for rows, _ in classes(outputs)]
    assert (lower.tolist(), upper.tolist()) == ([min(x) for x in ends], [max(x) for x in ends])


@pytest.mark.parametrize(
    "algorithm",
    [
        Castle(Delay(15)),
        Nearest(Delay(15, jitter=0.25), reuse_limit=1000),
        Suhdsa(15, delay=Delay(45)),
    ],
    ids=lambda found: found.name,
)
def test_whoever_is_left_of_too_small_a_class_waits_on_while_its_delay_allows(
    algorithm: Castle | Nearest | Suhdsa,
) -> None:
    # All have the same x: all buffered tuples are in one cluster or group.
    chance = np.random.default_rng(5)
    stream = [(0, i, int(height)) for i, height in enumerate(chance.integers(100, 221, 600))]
    noise = NoiseWithinRelease(2.0, least=0.1, confidence=Confidence(0.5, 8))
    of = replace(terms(type(algorithm), noise, HEIGHT, WEIGHT, k=12), algorithm=algorithm)
    outputs, shard = run(type(algorithm), of, stream, 1)
    waited_on = failed = 0
    for i, out in enumerate(outputs):
        withheld = set(out.suppressed_position.tolist())
        assert all(i - position <= 45 for position in withheld)
        if withheld and not len(out):
            failed += 1
            waited_on += any(row <= i for rows, _ in classes(outputs[i + 1 :]) for row in rows)
    assert failed > 0
    assert waited_on > failed / 10
    released = {row for rows, _ in classes(outputs) for row in rows}
    assert len(released) == shard.counters.released
    parts, _ = run(type(algorithm), of, stream, 7, restored=True)
    assert classes(parts) == classes(outputs)


def test_a_release_of_equal_values_is_not_published_as_it_is() -> None:
    stream = [(0, i, 160) for i in range(200)]
    for least, moved in ((0.0, False), (0.02, True)):
        of = terms(Suhdsa, NoiseWithinRelease(0.5, least=least), HEIGHT, WEIGHT)
        outputs, _ = run(Suhdsa, of, stream, 50)
        heights = {height for _, (column, _) in classes(outputs) for height in column}
        assert (heights != {160}) == moved


def test_nobody_is_linked_where_all_values_are_far_from_what_is_published() -> None:
    # One class of two groups of heights: with hardly any noise each is nearest to its own.
    stream = [(0, i, 110 + 7 * (i % 15)) for i in range(15)]
    of = terms(Suhdsa, NoiseWithinRelease(2**12, least=0.0), HEIGHT, WEIGHT)
    outputs, shard = run(Suhdsa, of, stream, 50)
    assert sum(out.linked.sum() for out in outputs) == shard.counters.linked == 15
    (error,) = [out.noise_error for out in outputs if len(out)]
    assert error.max() < 0.01


@given(streams, st.floats(0.2, 50.0), st.booleans(), st.sampled_from((None, Confidence(0.5, 3))))
@FEW
def test_whoever_is_nearest_to_values_of_their_own_is_linked(
    stream: Stream, epsilon: float, by_name: bool, confidence: Confidence | None
) -> None:
    of = terms(Mondrian, NoiseWithinRelease(epsilon, confidence=confidence), HEIGHT, WEIGHT, k=3)
    of = of if by_name else replace(of, policy=replace(of.policy, subject=None))
    outputs, shard = run(Mondrian, of, stream, 1000)
    expected = 0
    for rows, shown in classes(outputs):
        originals = [(stream[row][2], stream[row][2] / 2 + 30) for row in rows]
        who = [stream[row][1] if by_name else row for row in rows]
        for person, height, weight in zip(who, *shown, strict=True):
            apart = [abs(h - height) / 120 + abs(w - weight) / 220 for h, w in originals]
            nearest = [other for other, distance in zip(who, apart, strict=True) if distance <= min(apart) + 1e-12]
            expected += person in nearest
    assert shard.counters.linked == expected


# Refused combinations.


@pytest.mark.parametrize(
    ("noised", "noise", "problem"),
    [
        ((HEIGHT,), None, "privacy.noise_within_release: is missing; policy.noised names height"),
        ((), NoiseWithinRelease(1.0), "privacy.noise_within_release: policy.noised names no column"),
        (
            (HEIGHT,),
            NoiseWithinRelease(1.0, {"height": 0.5, "weight": 0.5}),
            "privacy.noise_within_release.shares: must name each column",
        ),
        (
            (HEIGHT,),
            NoiseWithinRelease(1.0, confidence=Confidence(0.9, 6)),
            "privacy.noise_within_release.confidence.k: must be at most",
        ),
    ],
)
def test_what_does_not_go_together_is_told_by_field(
    noised: tuple[Noised, ...], noise: NoiseWithinRelease | None, problem: str
) -> None:
    policy = Policy({"x": Numeric()}, noised=by_name(noised))
    assert [
        found.startswith(problem)
        for found in problems_within(policy, Privacy(5, 1, models={}, noise_within_release=noise))
    ] == [True]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: Noised(), "domain: is missing"),
        (lambda: Noised((1.0, 1.0)), "domain: holds one value"),
        (lambda: Noised((0.0, 1.0), 2.0), "step: is wider than the domain"),
        (lambda: NoiseWithinRelease(0.0), "epsilon: is too small; a number above 0"),
        (
            lambda: NoiseWithinRelease(1.0, {"h": 0.5, "w": 0.4}),
            "shares: must be above 0 each, and 1 together",
        ),
        (lambda: NoiseWithinRelease(1.0, least=1.5), "least: is too large; a share of the domain's width, from 0 to 1"),
        (lambda: Confidence(1.0, 5), "c: is too large; a number above 0 and below 1"),
        (lambda: Confidence(0.9, 1), "k: is too small; a whole number from 2"),
    ],
)
def test_what_is_out_of_range_is_refused(made: type, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        made()
    assert [found.startswith(problem) for found in error.value.problems] == [True]
