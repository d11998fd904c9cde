"""Composition over windows against sums in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.noise.budget import BudgetError, delta
from crenel.anonymity.noise.composition import composed_delta, delta_over_horizon, holds, least_k


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


def test_basic_composition_is_a_case() -> None:
    assert composed_delta(2.0, 4, 0.5, 1e-7) == pytest.approx(float(1 - (1 - Fraction(1, 10**7)) ** 4), rel=1e-9)
    assert composed_delta(1.0, 3, 0.5, 1.0) == 1.0


@pytest.mark.parametrize(
    ("sample_rate", "least"), [(0.1, [13, 9, 6]), (0.2, [25, 14, 10]), (0.5, [None, 46, 24])], ids=str
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
    assert delta_over_horizon(least, sample_rate, epsilon, windows)[0] <= 1e-6 * (1 + 1e-9)


def test_advanced_composition_needs_a_smaller_k_than_basic() -> None:
    basic = next(k for k in range(1, 1000) if 30 * delta(k, 0.05, 4 / 30) <= 1e-6)
    assert (basic, least_k(0.05, 4, 1e-6, 30)) == (27, 24)


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(BudgetError, match="windows: must be"):
        composed_delta(1.0, 0, 0.5, 0.0)
    with pytest.raises(BudgetError, match="delta: must be"):
        least_k(0.1, 1.0, 0.0)
    with pytest.raises(BudgetError, match="epsilon: must be"):
        least_k(0.1, 0.0, 0.5, 2)
