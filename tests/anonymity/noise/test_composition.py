"""Composition over windows against sums in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.noise.budget import BudgetError, log_divergence
from crenel.anonymity.noise.composition import composed_delta, delta_of_parameters, delta_over_horizon, holds, least_k


@given(st.integers(1, 6), st.floats(0.05, 2), st.floats(0, 8))
def test_pure_windows_compose_as_all_their_outcomes_do(windows: int, one: float, epsilon: float) -> None:
    # The worst pair of distributions: each window tells a bit, right with e^one / (1 + e^one).
    right = exp(one) / (1 + exp(one))
    divergence = 0.0
    for bits in product((True, False), repeat=windows):
        p = q = 1.0
        for bit in bits:
            p, q = p * (right if bit else 1 - right), q * (1 - right if bit else right)
        divergence += max(p - exp(epsilon) * q, 0.0)
    assert composed_delta(epsilon, windows, one, 0.0) == pytest.approx(divergence, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "windows", "one", "delta", "expected"),
    [
        (1.0, 1, 1.0, 1e-7, 1e-07),
        (2.0, 4, 0.5, 1.5e-7, 5.999998650000135e-07),
        (4.0, 30, 0.15, 1e-8, 3.412106010231303e-07),
        (4.0, 365, 0.04, 1e-9, 4.307358798751479e-07),
        (1.0, 30, 0.1, 0.0, 0.01056167633863115),
        (4.0, 100, 0.2, 1e-6, 0.08181698790306598),
    ],
)
def test_composition_agrees_with_dp_accounting(
    epsilon: float, windows: int, one: float, delta: float, expected: float
) -> None:
    # dp-accounting 0.6.0, which cuts tails off at 1e-15 and adds them to delta (experiments/cells/accountants.py).
    assert composed_delta(epsilon, windows, one, delta) == pytest.approx(expected, rel=2e-9, abs=1e-14)


@pytest.mark.parametrize(
    ("k", "rate", "epsilon", "expected"),
    [
        (12, 0.2, 1.0, 5.524719039914602e-07),
        (35, 0.5, 1.0, 9.246936298130582e-07),
        (10, 0.1, 0.5, 6.716234369993527e-07),
        (9, 0.2, 2.0, 5.120000000000002e-07),
        (20, 0.05, 0.3, 5.757072029093979e-13),
    ],
)
def test_the_delta_of_one_window_agrees_with_dp_accounting(
    k: int, rate: float, epsilon: float, expected: float
) -> None:
    # dp-accounting 0.6.0, over the distributions of the counts of all numbers of persons.
    assert delta_over_horizon(k, rate, epsilon, 1) == pytest.approx(expected, rel=1e-11, abs=1e-15)


def test_basic_composition_is_a_case() -> None:
    assert composed_delta(2.0, 4, 0.5, 1e-7) == pytest.approx(float(1 - (1 - Fraction(1, 10**7)) ** 4), rel=1e-9)
    assert composed_delta(1.0, 3, 0.5, 1.0) == 1.0


@pytest.mark.parametrize(
    ("sample_rate", "least"), [(0.1, [10, 8, 6]), (0.2, [18, 12, 9]), (0.5, [None, 35, 23])], ids=str
)
def test_the_least_k_of_one_window(sample_rate: float, least: list[int | None]) -> None:
    assert [least_k(sample_rate, epsilon, 1e-6) for epsilon in (0.5, 1, 2)] == least


@given(st.sampled_from([0.02, 0.1, 0.2]), st.floats(0.5, 6), st.integers(1, 12))
def test_the_least_k_holds_and_the_one_below_does_not(sample_rate: float, epsilon: float, windows: int) -> None:
    least = least_k(sample_rate, epsilon, 1e-6, windows)
    if least is None:
        assert not holds(10**6, sample_rate, epsilon, 1e-6, windows)
        return
    assert holds(least, sample_rate, epsilon, 1e-6, windows)
    assert least == 1 or not holds(least - 1, sample_rate, epsilon, 1e-6, windows)
    assert delta_over_horizon(least, sample_rate, epsilon, windows) <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rate", "epsilon", "windows", "expected"),
    [
        (0.05, 4.0, 30, (19, 17, 6)),
        (0.2, 4.0, 4, (13, 13, 10)),
        (0.1, 1.0, 4, (18, 18, 9)),
    ],
)
def test_privacy_losses_need_a_smaller_k_than_parameters_do(
    rate: float, epsilon: float, windows: int, expected: tuple[int, int, int]
) -> None:
    basic = next(k for k in range(1, 100) if windows * exp(log_divergence(k, rate, epsilon / windows)) <= 1e-6)
    optimal = next(k for k in range(1, 100) if delta_of_parameters(k, rate, epsilon, windows)[0] <= 1e-6)
    assert (basic, optimal, least_k(rate, epsilon, 1e-6, windows)) == expected


def test_losses_give_a_k_where_no_epsilon_of_a_window_does() -> None:
    assert delta_of_parameters(1000, 0.5, 0.6, 4) == (1.0, inf)
    least = least_k(0.5, 0.6, 1e-6, 4)
    assert least is not None
    assert delta_over_horizon(least, 0.5, 0.6, 4) <= 1e-6
    assert least_k(0.5, 0.01, 1e-6, 4) is None


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(BudgetError, match="windows: must be"):
        composed_delta(1.0, 0, 0.5, 0.0)
    with pytest.raises(BudgetError, match="delta: must be"):
        least_k(0.1, 1.0, 0.0)
    with pytest.raises(BudgetError, match="epsilon: must be"):
        least_k(0.1, 0.0, 0.5, 2)
