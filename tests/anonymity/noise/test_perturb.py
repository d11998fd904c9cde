"""Sampling and perturbation: their distribution, what they promise, and that nothing else of CASTLE changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil, exp, sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.compiled.random import RandomStream, random_stream, shard_key
from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.noise.laplace import discrete_laplace, scale_in_steps
from crenel.anonymity.noise.perturb import Noise
from crenel.state.block import Block
from tests.support.drive import KEY, Kept, Setting, apply, columns_of, in_blocks
from tests.support.example_counts import FEW
from tests.support.source import IDENTITY, Push, Row
from tests.support.strategies import Case, cases, cuts

DRAWS = 200_000
UNLIKELY = 1e-4  # the seeds are fixed: a test that passed once always does
TREE = from_paths([(f"leaf {i}", f"twig {i // 3}", "*") for i in range(12)])


@entry
def drawn(stream: RandomStream, numerator: int, denominator: int, count: int) -> NDArray[np.int64]:
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = discrete_laplace(stream, numerator, denominator)
    return found


def law(scale: float, reach: int) -> NDArray[np.float64]:
    """Probabilities of the discrete Laplace distribution from -reach to reach."""
    at = np.abs(np.arange(-reach, reach + 1))
    return (1 - exp(-1 / scale)) / (1 + exp(-1 / scale)) * np.exp(-at / scale)


def clamped(scale: float, position: int, last: int) -> NDArray[np.float64]:
    """Probabilities of the positions 0 to last after noise on one of them."""
    reach = last + ceil(60 * scale)
    found = np.clip(np.arange(-reach, reach + 1) + position, 0, last)
    return np.bincount(found, law(scale, reach), last + 1)


def check_distribution(found: NDArray[np.int64], expected: NDArray[np.float64]) -> None:
    """Chi-square, cells with fewer than five expected taken together."""
    counts = np.bincount(found, minlength=len(expected)).astype(float)
    wanted = expected / expected.sum() * len(found)
    rare = wanted < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(wanted[~rare], wanted[rare].sum())
    if wanted[-1] == 0:
        assert counts[-1] == 0
        counts, wanted = counts[:-1], wanted[:-1]
    assert stats.chisquare(counts, wanted).pvalue > UNLIKELY


def block(numeric: NDArray[np.float64], categorical: NDArray[np.int32] | None = None) -> Block:
    count = len(numeric)
    return Block(
        shard=0,
        numeric=numeric.astype(np.float64),
        categorical=np.zeros((count, 0), np.int32) if categorical is None else categorical.astype(np.int32),
        subject=np.arange(count).astype(np.uint64),
        sensitive=np.zeros((count, 0), np.uint64),
        event_time=np.arange(count),
        members=pa.record_batch([pa.array(np.arange(count))], names=[IDENTITY]),
    )


def perturbed(attribute: Numeric, value: float, phi: float, *, observed: bool = False) -> NDArray[np.float64]:
    """Many draws of one value."""
    noise = Noise(
        Policy(by_name((attribute,))),
        SamplingAndNoise(1.0, phi, range="observed" if observed else "declared"),
        KEY,
    )
    return noise.admit(block(np.full((DRAWS, 1), value))).numeric[:, 0]


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 4), (1, 1), (5, 2), (20, 1), (3_000_001, 1_000_000)])
def test_noise_follows_the_discrete_laplace_distribution(numerator: int, denominator: int) -> None:
    found = drawn(random_stream(KEY), numerator, denominator, DRAWS)
    reach = int(np.abs(found).max())
    check_distribution(found + reach, law(numerator / denominator, reach))


def test_wide_noise_follows_the_laplace_distribution() -> None:
    # From 2^32 on a draw takes two words; so many steps are as good as a continuous distribution.
    scale = 2**45
    found = drawn(random_stream(KEY), scale, 1, DRAWS)
    assert stats.kstest(found, stats.laplace(scale=scale).cdf).pvalue > UNLIKELY


@pytest.mark.parametrize(("value", "phi"), [(0.0, 4.0), (37.0, 10.0), (50.0, 100.0), (100.0, 10.0)])
def test_noise_on_whole_numbers_is_clamped_to_the_domain(value: float, phi: float) -> None:
    found = perturbed(Numeric((0, 100), 1).named("age"), value, phi)
    check_distribution(found.astype(np.int64), clamped(100 / phi, int(value), 100))


def test_noise_on_fractions_stays_on_their_grid() -> None:
    found = perturbed(Numeric((0.3, 2.7), 0.3).named("miles"), 1.5, 4.0)
    positions = np.rint(found / 0.3).astype(np.int64)
    assert found.tolist() == (positions * 3 / 10).tolist()  # 0.9, not 0.8999999999999999
    check_distribution(positions - 1, clamped(2.4 / 4 / 0.3, 4, 8))


def test_the_low_bits_of_a_value_do_not_show() -> None:
    # Two values of one step give the same outputs, bit by bit (Mironov 2012: sums of floats do not).
    attribute = Numeric((0.0, 10.0), 0.1).named("miles")
    one, other = (set(perturbed(attribute, value, 20.0).tolist()) for value in (3.0999999, 3.1000001))
    assert one == other == set((np.arange(101) / 10).tolist()) & one
    assert len(one) > 60


def test_noise_on_categories_moves_leaves() -> None:
    noise = Noise(Policy({"place": Categorical(TREE)}), SamplingAndNoise(1.0, 5.0), KEY)
    leaves = np.full((DRAWS, 1), 4)
    found = noise.admit(block(np.zeros((DRAWS, 0)), leaves)).categorical[:, 0]
    check_distribution(found.astype(np.int64), clamped(11 / 5, 4, 11))


def test_noise_relative_to_the_observed_range_grows_with_it() -> None:
    noise = Noise(Policy({"x": Numeric(step=1)}), SamplingAndNoise(1.0, 10.0, range="observed"), KEY)
    first = noise.admit(block(np.full((5, 1), 3.0)))
    assert first.numeric.tolist() == [[3.0]] * 5  # the range of equal values is zero (Algorithm 2, lines 2 to 4)
    noise.admit(block(np.array([[0.0], [200.0]])))
    found = noise.admit(block(np.full((DRAWS, 1), 100.0))).numeric[:, 0].astype(np.int64)
    reach = int(np.abs(found - 100).max())
    check_distribution(found - 100 + reach, law(20, reach))
    assert noise.observed.tolist() == [[0.0], [200.0]]


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("phi", [5.0, 50.0])
def test_noise_reaches_as_far_as_theorem_1_says(phi: float, share: float) -> None:
    # Pr[|v - v'| < r R] = 1 - exp(-r phi), of a fine grid far from the ends of its domain.
    found = perturbed(Numeric((0, 2**20), 2**-10).named("x"), 2.0**19, phi)
    inside = np.abs(found - 2.0**19) < min(share, 0.5) * 2**20
    assert inside.mean() == pytest.approx(1 - exp(-share * phi), abs=4 / sqrt(DRAWS))


@pytest.mark.parametrize("phi", [1.0, 10.0])
def test_no_output_tells_neighboring_values_apart_by_more_than_phi_allows(phi: float) -> None:
    # Pr[v' | v] <= exp(phi |v - w| / R) Pr[v' | w]: the Laplace mechanism's promise for each attribute on its own.
    attribute = Numeric((0, 20), 1).named("x")
    for value, other in ((0, 1), (7, 8), (3, 20)):
        one, two = (np.bincount(perturbed(attribute, v, phi).astype(int), minlength=21) / DRAWS for v in (value, other))
        bound = exp(phi * abs(value - other) / 20)
        slack = 5 * np.sqrt(np.maximum(one, 1 / DRAWS) / DRAWS) + bound * 5 * np.sqrt(
            np.maximum(two, 1 / DRAWS) / DRAWS
        )
        assert np.all(one <= bound * two + slack)
        assert np.all(two <= bound * one + bound * slack)
        if bound < 3:
            assert (one / np.maximum(two, 1e-9)).max() > bound * 0.97  # no more noise than was asked for


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.999])
def test_a_tuple_is_let_in_with_the_sample_rate(rate: float) -> None:
    noise = Noise(Policy({"x": Numeric((0, 1), 1)}), SamplingAndNoise(rate, 1.0), KEY)
    kept = noise.admit(block(np.zeros((DRAWS, 1))))
    assert len(kept) + noise.sampled_out == DRAWS
    assert stats.binomtest(len(kept), DRAWS, rate).pvalue > UNLIKELY
    # Neither position nor what came before tells who is let in.
    gaps = np.diff(kept.members[0].to_numpy()) - 1
    check_distribution(gaps, stats.geom(rate, loc=-1).pmf(np.arange(gaps.max() + 1)))


def test_a_rate_of_one_lets_everything_in() -> None:
    noise = Noise(Policy({"x": Numeric((0, 1), 1)}), SamplingAndNoise(1.0, 1.0), KEY)
    assert len(noise.admit(block(np.zeros((1000, 1))))) == 1000
    assert noise.sampled_out == 0


@given(st.floats(1e-9, 1e9), st.floats(1e-6, 1e6), st.floats(2.0**-12, 1e6))
def test_the_scale_is_never_less_than_asked_for(width: float, step: float, phi: float) -> None:
    numerator, denominator = scale_in_steps(width, step, phi)
    scale = width / phi / step
    assert scale * (1 - 1e-12) <= numerator / denominator
    assert numerator / denominator <= scale * (1 + 1e-6) + 2.0**-52


@pytest.mark.parametrize(
    ("attribute", "parameters", "field"),
    [
        (Numeric((0, 1)), SamplingAndNoise(1, 1), r"policy\.quasi_identifiers\.x\.step: is missing"),
        (Numeric(step=1), SamplingAndNoise(1, 1), r"policy\.quasi_identifiers\.x\.domain: is missing"),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused(attribute: Numeric, parameters: SamplingAndNoise, field: str) -> None:
    with pytest.raises(PolicyError, match=field):
        Noise(Policy({"x": attribute}), parameters, KEY)


# On top of CASTLE.


@st.composite
def noised(draw: st.DrawFn) -> Case:
    """Return a stream under sampling and perturbation."""
    case = draw(cases())
    numeric = {"domain": (-10.0, 10.0), "step": draw(st.sampled_from((0.25, 1.0)))}
    attributes = tuple(
        replace(a, **numeric, ends=None if a.ends is None else 2.5) if isinstance(a, Numeric) else a
        for a in case.setting.policy.attributes
    )
    parameters = SamplingAndNoise(
        draw(st.sampled_from((0.3, 0.9, 1.0))),
        draw(st.sampled_from((2.0, 50.0))),
        range="observed" if draw(st.booleans()) else "declared",
    )
    policy = replace(case.setting.policy, quasi_identifiers=by_name(attributes))
    rows = tuple(
        replace(row, values=tuple(v if isinstance(v, str) else float(np.clip(v, -10, 10)) for v in row.values))
        for row in case.rows
    )
    return replace(case, setting=replace(case.setting, policy=policy, sampling_and_noise=parameters), rows=rows)


@given(noised())
@FEW
def test_castle_sees_nothing_but_what_was_let_in(case: Case) -> None:
    # So its laws, which are tested on their own, hold of the perturbed tuples.
    guarded = case.setting.shard()
    assert case.setting.sampling_and_noise is not None
    noise = Noise(case.setting.policy, case.setting.sampling_and_noise, KEY)
    plain = replace(case.setting, sampling_and_noise=None).shard()
    admitted = 0
    for step in case.steps():
        out = apply(case.setting, guarded, step)
        if isinstance(step, Push):
            perturbed = noise.admit(case.setting.block(step.rows))
            admitted += len(perturbed)
            expected = plain.push(perturbed, step.watermark).releases
        else:
            expected = apply(case.setting, plain, step)
        assert columns_of([out]) == columns_of([expected])
    counters = guarded.counters
    assert counters.tuples_in == admitted
    assert counters.tuples_in + counters.sampled_out == len(case.rows)


@given(noised(), cuts)
@FEW
def test_the_same_tuples_get_the_same_noise_however_they_are_cut(case: Case, cut: tuple[int, ...]) -> None:
    runs = []
    for steps in (case.steps(), case.steps(cut), case.riding(cut)):
        castle = case.setting.shard()
        runs.append((columns_of([apply(case.setting, castle, step) for step in steps]), castle.counters.sampled_out))
    assert runs[0] == runs[1] == runs[2]


@given(noised(), cuts, st.sets(st.integers(0, 60), max_size=4))
@FEW
def test_a_restored_shard_draws_the_noise_it_would_have_drawn(
    case: Case, cut: tuple[int, ...], restores: set[int]
) -> None:
    steps = case.steps(cut)
    never_stored, shard = case.setting.shard(), Kept(case.setting)
    expected = [apply(case.setting, never_stored, step) for step in steps]
    outputs = []
    for number, step in enumerate(steps):
        outputs.append(shard.take(step))
        if number in restores:
            shard.restore()
    assert columns_of(outputs) == columns_of(expected)
    counters, found = never_stored.counters, shard.live.counters
    assert found.delays.tolist() == counters.delays.tolist()
    assert replace(found, delays=counters.delays) == counters


def test_a_tuple_that_is_sampled_out_leaves_no_trace_but_a_count() -> None:
    policy = Policy({"x": Numeric((0, 100), 1)}, passthrough=("name", IDENTITY), subject="who")
    setting = Setting(
        policy,
        Privacy(2),
        Castle(Delay(10_000)),
        (pa.string(), pa.int64()),
        SamplingAndNoise(0.5, 10.0),
    )
    shard = Kept(setting)
    names = [f"<{i:03}>" for i in range(200)]
    shard.take(Push(tuple(Row((50.0,), (name, i), subject=i) for i, name in enumerate(names))))
    castle = shard.live
    stored = b"".join([shard.stored.shard, *shard.stored.entries["blocks"].values()])
    assert sum(name.encode() in stored for name in names) == castle.counters.tuples_in
    assert castle.counters.sampled_out == 200 - castle.counters.tuples_in > 70
    # Positions count what was let in.
    assert castle.arrays.tuples.position.max() == castle.counters.tuples_in - 1


# The adversary of Section III-B knows all tuples but one, the algorithm and its output, and asks whether the one was
# there.


def published(sample_rate: float | None, rows: Sequence[Row], key: bytes) -> int:
    """Return the number of published tuples."""
    parameters = None if sample_rate is None else SamplingAndNoise(sample_rate, 20.0)
    setting = Setting(
        Policy({"x": Numeric((0, 100), 1)}, passthrough=(IDENTITY,), subject="who"),
        Privacy(5),
        Castle(Delay(50), suppression="generalize"),
        (pa.int64(),),
        parameters,
    )
    castle = setting.shard(key)
    return sum(int(apply(setting, castle, step).tuples.sum()) for step in in_blocks(rows, 100))


def guessed_right(sample_rate: float | None, threshold: Callable[[int], float], trials: int) -> float:
    """Return the share of trials in which an attacker who counts releases is right about the tuple's presence."""
    chance = np.random.default_rng(1)
    others = [Row((float(v),), (i,), subject=i) for i, v in enumerate(chance.integers(0, 101, 200))]
    one = Row((99.0,), (1000,), subject=1000)
    right = 0
    for trial in range(trials):
        there = bool(chance.integers(2))
        at = int(chance.integers(200))
        rows = [*others[:at], one, *others[at:]] if there else others
        right += (published(sample_rate, rows, shard_key(trial, 0)) > threshold(len(others))) == there
    return right / trials


def test_who_counts_what_castle_publishes_knows_whether_a_tuple_was_there() -> None:
    assert guessed_right(None, lambda others: others, 50) == 1.0


def test_ends_of_intervals_are_values_of_nobody() -> None:
    # Boundary observation (Section II-B, vulnerability 2): with plain CASTLE every end is a person's value.
    chance = np.random.default_rng(2)
    rows = [Row((float(v),), (i,), subject=i) for i, v in enumerate(chance.integers(0, 1_000_001, 500))]
    policy = Policy({"x": Numeric((0, 1_000_000), 1)}, passthrough=(IDENTITY,), subject="who")
    shares = []
    for parameters in (None, SamplingAndNoise(1.0, 100.0)):
        setting = Setting(policy, Privacy(5), Castle(Delay(100)), (pa.int64(),), parameters)
        castle = setting.shard()
        out = columns_of([apply(setting, castle, step) for step in in_blocks(rows, 100)])
        ends = {end for column in ("lower", "upper") for (end,) in out[column]}
        shares.append(np.mean([end in {row.values[0] for row in rows} for end in ends]))
    assert shares[0] == 1.0
    assert shares[1] < 0.02


@pytest.mark.parametrize(
    ("domain", "step"), [((0, 0.3), 0.1), ((-0.7, 0.7), 0.1), ((0, 1.1), 0.05), ((2, 3.3), 0.3), ((0, 7e-7), 1e-7)]
)
def test_noised_values_are_decimals_of_the_grid_and_never_leave_the_domain(
    domain: tuple[float, float], step: float
) -> None:
    policy = Policy({"x": Numeric(domain, step)}, passthrough=(IDENTITY,))
    noise = Noise(policy, SamplingAndNoise(1.0, 0.5), KEY)
    setting = Setting(policy, Privacy(1), Castle(Delay(1)), (pa.int64(),))
    found = noise.admit(setting.block([Row((domain[0],), (i,)) for i in range(500)])).numeric[:, 0]
    assert domain[0] <= found.min() < found.max() <= domain[1]
    grid = {float(n * Decimal(str(step))) for n in range(-100, 200)}
    assert set(found.tolist()) <= grid | set(map(float, domain))
