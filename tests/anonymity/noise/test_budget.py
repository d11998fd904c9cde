"""Epsilon, delta and noise against independent computations: scipy, exact fractions, and the mechanism itself."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, comb, exp, floor, inf, isclose, log, nan, nextafter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, laplace

from crenel.anonymity.noise.budget import (
    BudgetError,
    GeometricNoise,
    delta,
    largest_sample_rate,
    log_delta,
    log_divergence,
    phi_within,
    share_within,
    smallest_epsilon,
)
from tests.support.example_counts import examples

sizes = st.integers(1, 40)
rates = st.floats(0.02, 0.98)
above = st.floats(0, 6)  # of epsilon above its least
grid = pytest.mark.parametrize("k", [1, 2, 5, 10, 50, 300, 2000, 10_000])
NO_TIE = 1e-9


def gamma_of(rate: float, epsilon: float) -> float:
    return (exp(epsilon) - 1 + rate) / exp(epsilon)


def log_tails(k: int, rate: float, gamma: float, n: np.ndarray) -> float:
    """Ln of the largest P[Binomial(n, rate) > gamma n, and k or more] over some n."""
    below = np.maximum(np.floor(gamma * n), k - 1)
    tails = binom.sf(below, n, rate)
    if tails.max() > 1e-300:
        return float(np.log(tails.max()))
    terms = binom.logpmf(below + np.arange(1, 100)[:, None], n, rate)  # each is at most half the one before it
    return float(np.logaddexp.reduce(terms).max())


def agrees(k: int, rate: float, epsilon: float, n: np.ndarray, digits: float = 1e-9) -> None:
    """Return two differing sides: rounding decides whether gamma n is whole."""
    found, gamma = log_delta(k, rate, epsilon), gamma_of(rate, epsilon)
    low, high = (log_tails(k, rate, gamma * (1 + side), n) for side in (1e-11, -1e-11))
    assert low - digits <= found <= high + digits


@given(sizes, rates, above)
def test_delta_is_the_largest_tail_over_all_n(k: int, rate: float, more: float) -> None:
    # From n = 1 on, not from that of the theorem: smaller n add nothing.
    agrees(k, rate, smallest_epsilon(rate) + more, np.arange(1, 9000))


@grid
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("factor", [1, 1.01, 2, 10])
def test_delta_agrees_with_scipy_for_large_k(k: int, rate: float, factor: float) -> None:
    epsilon = factor * smallest_epsilon(rate)
    first = max(floor(k / gamma_of(rate, epsilon)) - 2, 1)
    # scipy's logarithm is a difference of gammas, and loses digits with them.
    digits = 1e-9 + 1e-15 * first * log(first + 1)
    agrees(k, rate, epsilon, np.arange(first, first + max(1000, round(30 / rate))), digits)


@given(st.integers(1, 12), st.integers(1, 19), st.integers(1, 400))
@settings(max_examples=examples(50))
def test_delta_is_exact_where_gamma_is_a_fraction(k: int, part: int, more: int) -> None:
    rate, growth = Fraction(part, 20), Fraction(20, 20 - part) + Fraction(more - 1, 40)
    gamma = (growth - 1 + rate) / growth

    def tail(n: int, least: int) -> Fraction:
        return sum(
            (comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(max(least, k), n + 1)), start=Fraction(0)
        )

    counts = range(1, 12 * k + 30)
    epsilon = log(growth)
    found = delta(k, float(rate), epsilon)
    # Where gamma n is whole, an epsilon that is a little smaller takes it in, and the logarithm may be that.
    assert isclose(found, max(tail(n, ceil(gamma * n)) for n in counts), rel_tol=NO_TIE)


@pytest.mark.parametrize(("k", "rate", "growth"), [(3, 0.5, 2.0), (6, 0.5, 2.0), (9, 0.2, 8.0), (9, 0.6, 4.0)])
def test_rounding_never_makes_delta_smaller(k: int, rate: float, growth: float) -> None:
    # gamma n = k for a whole n, which epsilon decides by its last digit.
    n = round(k / gamma_of(rate, log(growth)))
    for epsilon in (nextafter(log(growth), 0), log(growth), nextafter(log(growth), 9)):
        assert isclose(delta(k, rate, epsilon), binom.sf(k - 1, n, rate))
    assert delta(k, rate, log(growth) + 1e-9) < 0.9 * binom.sf(k - 1, n, rate)


@given(st.integers(1, 15), st.floats(0.05, 0.95), st.floats(0, 3), st.integers(0, 60))
def test_sampling_and_suppression_keep_what_delta_says(k: int, rate: float, more: float, n: int) -> None:
    # One generalization with n other tuples: its size is published if it is k or more. With one more tuple and without:
    epsilon = smallest_epsilon(rate) + more
    without, with_it = (sized(k, rate, count, n + 2) for count in (n, n + 1))
    allowed = delta(k, rate, epsilon) * (1 + NO_TIE) + 1e-15
    assert np.maximum(with_it - exp(epsilon) * without, 0).sum() <= allowed
    assert np.maximum(without - exp(epsilon) * with_it, 0).sum() <= allowed


def sized(k: int, rate: float, count: int, most: int) -> np.ndarray:
    """Probability of each published size; that of 0 is to be suppressed."""
    chance = binom.pmf(np.arange(most), count, rate)
    chance[0] = chance[:k].sum()
    chance[1:k] = 0
    return chance


def test_the_mechanism_breaks_a_smaller_delta() -> None:
    # The bound is reached: the test above would notice a delta that is too small.
    epsilon = smallest_epsilon(0.9)
    loss = np.maximum(sized(10, 0.9, 10, 12) - exp(epsilon) * sized(10, 0.9, 9, 12), 0).sum()
    assert isclose(loss, delta(10, 0.9, epsilon), rel_tol=1e-12)


@given(st.integers(1, 15), st.floats(0.05, 0.9), st.floats(0, 3))
def test_the_divergence_is_the_largest_one_of_the_mechanism(k: int, rate: float, more: float) -> None:
    # Over all numbers of persons: above the worst one it falls, and so the range need not be long.
    epsilon = smallest_epsilon(rate) + more
    most, far = 0.0, 3 * ceil(k / gamma_of(rate, epsilon)) + 30
    for n in range(far):
        without, with_it = (sized(k, rate, count, far + 2) for count in (n, n + 1))
        most = max(
            most,
            np.maximum(with_it - exp(epsilon) * without, 0).sum(),
            np.maximum(without - exp(epsilon) * with_it, 0).sum(),
        )
    found = exp(log_divergence(k, rate, epsilon))
    assert isclose(found, most, rel_tol=1e-7, abs_tol=1e-14)
    assert found <= delta(k, rate, epsilon) * (1 + NO_TIE)


@grid
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("factor", [1, 1.01, 2, 10])
def test_the_divergence_falls_with_epsilon_and_k_and_is_at_most_delta(k: int, rate: float, factor: float) -> None:
    epsilon = factor * smallest_epsilon(rate)
    found = log_divergence(k, rate, epsilon)
    assert k * log(rate) - NO_TIE * k <= found <= log_delta(k, rate, epsilon) + NO_TIE
    assert log_divergence(k + 1, rate, epsilon) <= found + NO_TIE
    assert log_divergence(k, rate, 1.01 * epsilon) <= found + NO_TIE


@pytest.mark.parametrize(
    ("k", "rate", "epsilon"),
    [(10_000, 1e-9, 1.0), (1, 1e-12, 1e-11), (10_000, 1 - 2**-53, 40.0), (1, 1e-300, 1.0), (10**9, 0.5, 1.0)],
)
def test_extreme_rates_and_sizes_have_a_finite_divergence(k: int, rate: float, epsilon: float) -> None:
    assert -inf < log_divergence(k, rate, epsilon) <= log_delta(k, rate, epsilon) + NO_TIE


def test_the_divergence_refuses_what_delta_refuses() -> None:
    for k, rate, epsilon, named in ((0, 0.5, 1.0, "k"), (1, 0.5, 0.5, "epsilon"), (1, 1.0, 9.0, "epsilon")):
        with pytest.raises(BudgetError, match=f"{named}: must be"):
            log_divergence(k, rate, epsilon)


@given(sizes, rates, above, above)
def test_delta_falls_with_epsilon(k: int, rate: float, more: float, still: float) -> None:
    epsilon = smallest_epsilon(rate) + more
    assert log_delta(k, rate, epsilon + still) <= log_delta(k, rate, epsilon) + NO_TIE


@given(sizes, sizes, rates, above)
def test_delta_falls_with_k(k: int, more: int, rate: float, epsilon: float) -> None:
    epsilon += smallest_epsilon(rate)
    assert log_delta(k + more, rate, epsilon) <= log_delta(k, rate, epsilon) + NO_TIE


@given(sizes, rates, rates, above)
def test_delta_rises_with_the_rate_where_gamma_stays(k: int, one: float, other: float, more: float) -> None:
    low, high = sorted((one, other))
    epsilon = smallest_epsilon(high) + more
    rest = (1 - high) * exp(-epsilon)
    same = log((1 - low) / rest)
    assert log_delta(k, low, same) <= log_delta(k, high, epsilon) + 1e-8


def test_delta_may_fall_where_the_rate_rises() -> None:
    # So the largest rate cannot be found by halving alone.
    assert delta(10, 0.22, 1.0) > delta(10, 0.23, 1.0) < delta(10, 0.24, 1.0)


@given(sizes, rates, st.floats(0, 600))
def test_no_epsilon_helps_against_all_k_being_sampled(k: int, rate: float, more: float) -> None:
    assert log_delta(k, rate, smallest_epsilon(rate) + more) >= k * log(rate) - NO_TIE


def test_for_a_large_epsilon_that_is_all_there_is() -> None:
    assert isclose(delta(10, 0.9, 500), 0.9**10)
    assert isclose(log_delta(10_000, 0.5, 700), 10_000 * log(0.5))


@pytest.mark.parametrize(
    ("k", "rate", "epsilon"),
    [(10_000, 1e-9, 1.0), (1, 1e-12, 1e-11), (10_000, 1 - 2**-53, 40.0), (1, 1e-300, 1.0), (10**9, 0.5, 1.0)],
)
def test_extreme_rates_and_sizes_have_a_finite_logarithm(k: int, rate: float, epsilon: float) -> None:
    assert -inf < log_delta(k, rate, epsilon) <= 0
    assert 0 < delta(k, rate, epsilon) <= 1


def test_a_delta_below_what_a_float_holds_is_not_none() -> None:
    assert delta(10_000, 0.5, 5.0) == 5e-324
    assert -6800 < log_delta(10_000, 0.5, 5.0) < -6700


@given(rates)
def test_the_smallest_epsilon_is_that_of_the_theorem(rate: float) -> None:
    assert isclose(smallest_epsilon(rate), -log(1 - rate))
    assert log_delta(10, rate, smallest_epsilon(rate)) <= 0


def test_the_rate_1_has_no_epsilon() -> None:
    assert smallest_epsilon(1) == inf
    with pytest.raises(BudgetError, match="epsilon: must be finite and inf or more"):
        log_delta(10, 1, 100)


@given(sizes, st.floats(0.01, 8), st.floats(1e-9, 0.5), st.integers(1, 10**6))
@settings(max_examples=examples(50))
def test_the_largest_rate_holds_and_no_larger_one_does(k: int, epsilon: float, wanted: float, further: int) -> None:
    rate = largest_sample_rate(k, epsilon, wanted)
    assert rate is not None
    assert smallest_epsilon(rate) <= epsilon
    assert delta(k, rate, epsilon) <= wanted
    larger = rate + further / 10**6
    if smallest_epsilon(min(larger, 1)) <= epsilon:
        assert delta(k, larger, epsilon) > wanted * (1 - 1e-8)
    if rate >= 1e-6:
        assert round(rate, 6) == rate
        following = round(rate + 1e-6, 6)
        assert following == 1 or smallest_epsilon(following) > epsilon or delta(k, following, epsilon) > wanted * 0.999


@given(sizes, sizes, st.floats(0.01, 8), st.floats(0.01, 8), st.floats(1e-9, 0.5))
@settings(max_examples=examples(50))
def test_more_is_let_in_for_a_larger_k_epsilon_or_delta(
    k: int, more: int, epsilon: float, still: float, wanted: float
) -> None:
    rate = largest_sample_rate(k, epsilon, wanted)
    assert rate is not None
    for other in (
        largest_sample_rate(k + more, epsilon, wanted),
        largest_sample_rate(k, epsilon + still, wanted),
        largest_sample_rate(k, epsilon, wanted * 1.5),
    ):
        assert other is not None
        assert other >= rate


def test_a_rate_below_a_millionth_is_found_too() -> None:
    rate = largest_sample_rate(2, 0.01, 1e-12)
    assert rate is not None
    assert 1e-9 < rate < 1e-6
    assert delta(2, rate, 0.01) <= 1e-12 < delta(2, rate * 1.01, 0.01)


def test_where_no_rate_is_small_enough_there_is_none() -> None:
    assert largest_sample_rate(1, 0.01, 1e-300) is None
    assert largest_sample_rate(5, 1e-13, 0.5) is None


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_phi_keeps_laplace_noise_within_a_share(share: float, probability: float) -> None:
    spread = 1 / phi_within(share, probability)
    assert isclose(laplace.cdf(share, scale=spread) - laplace.cdf(-share, scale=spread), probability, rel_tol=1e-9)


@given(st.floats(0.001, 1000), st.floats(0.001, 0.999))
def test_the_share_that_noise_stays_below_is_that_of_its_phi(phi: float, probability: float) -> None:
    assert isclose(phi_within(share_within(phi, probability), probability), phi)
    assert isclose(share_within(phi, probability), laplace.ppf((1 + probability) / 2, scale=1 / phi), rel_tol=1e-9)


def test_phi_is_that_of_equation_4() -> None:
    assert isclose(phi_within(0.05, 0.99), 92.1034, rel_tol=1e-6)


@given(st.floats(0.1, 500), st.floats(1e-3, 2000), st.floats(0.01, 10), st.floats(0.01, 0.9999))
def test_noise_reaches_as_far_as_its_distribution_says(
    span: float, phi: float, step: float, probability: float
) -> None:
    noise = GeometricNoise(span, phi, step)
    scale = noise.scale / step
    assume(scale < 2000)
    steps = round(noise.reach(probability) / step)
    weights = np.exp(-np.arange(60 * max(round(scale), 1)) / scale)
    outside = 2 * np.cumsum(weights[::-1])[::-1] / (2 * weights.sum() - weights[0])  # |i| or more steps
    assert isclose(noise.reach(probability), steps * step)
    assert outside[steps + 1] <= (1 - probability) * (1 + NO_TIE)
    if steps:
        assert outside[steps] >= (1 - probability) * (1 - NO_TIE)


@given(st.floats(0.1, 1e6), st.floats(0.01, 1000), st.floats(0.05, 0.999))
def test_on_a_fine_grid_noise_reaches_as_far_as_laplace_noise(span: float, phi: float, probability: float) -> None:
    far = laplace.ppf((1 + probability) / 2, scale=span / phi)
    assert isclose(GeometricNoise(span, phi, span / phi * 1e-6).reach(probability), far, rel_tol=1e-4)


@pytest.mark.parametrize("rate", [1e-9, 0.6, 1 - 1e-9])
def test_an_epsilon_beyond_the_range_of_floats_has_a_delta(rate: float) -> None:
    assert log_delta(3, rate, 1e6) == log_delta(3, rate, 600) <= log_delta(3, rate, 100)


def test_noise_is_drawn_as_far_as_it_is_said_to_reach() -> None:
    random, noise = np.random.default_rng(1), GeometricNoise(range=70, phi=10, step=0.5)
    chance = 1 - exp(-noise.step / noise.scale)
    drawn = (random.geometric(chance, 200_000) - random.geometric(chance, 200_000)) * noise.step
    for probability in (0.5, 0.95, 0.99):
        reach = noise.reach(probability)
        assert (abs(drawn) > reach).mean() < 1 - probability + 0.003
        assert (abs(drawn) > reach - noise.step).mean() > 1 - probability - 0.003


def test_noise_has_the_unit_of_its_attribute() -> None:
    age = GeometricNoise(range=82, phi=100)
    assert (age.scale, [age.reach(p) for p in (0.5, 0.95, 0.99)]) == (0.82, [0.0, 2.0, 4.0])
    salary = GeometricNoise(range=82_000, phi=100, step=1000)
    assert (salary.scale, [salary.reach(p) for p in (0.5, 0.95, 0.99)]) == (820.0, [0.0, 2000.0, 4000.0])


def test_a_single_category_gets_no_noise() -> None:
    assert GeometricNoise(range=0, phi=100).reach(0.99) == 0


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        (lambda: smallest_epsilon(0), "sample_rate"),
        (lambda: smallest_epsilon(nextafter(1, 2)), "sample_rate"),
        (lambda: smallest_epsilon(nan), "sample_rate"),
        (lambda: delta(0, 0.5, 1), "k"),
        (lambda: delta(10, 0.5, 0.69), "epsilon"),
        (lambda: delta(10, 0.5, inf), "epsilon"),
        (lambda: delta(10, 0.5, nan), "epsilon"),
        (lambda: delta(10, -0.5, 1), "sample_rate"),
        (lambda: largest_sample_rate(0, 1, 0.1), "k"),
        (lambda: largest_sample_rate(10, 0, 0.1), "epsilon"),
        (lambda: largest_sample_rate(10, inf, 0.1), "epsilon"),
        (lambda: largest_sample_rate(10, 1, 0), "delta"),
        (lambda: largest_sample_rate(10, 1, 1), "delta"),
        (lambda: phi_within(0, 0.5), "share"),
        (lambda: phi_within(inf, 0.5), "share"),
        (lambda: phi_within(0.1, 0), "probability"),
        (lambda: phi_within(0.1, 1), "probability"),
    ],
)
def test_what_is_asked_for_where_it_is_not_defined_is_refused(ask: Callable[[], object], argument: str) -> None:
    with pytest.raises(BudgetError) as error:
        ask()
    assert str(error.value).startswith(f"{argument}: must be ")
