"""Delta of the privacy losses of several windows against sums over all counts, and against dp-accounting."""

from __future__ import annotations

from functools import reduce
from itertools import combinations_with_replacement
from math import comb, exp, log1p

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crenel.anonymity.noise.budget import BudgetError, Floats, log_divergence
from crenel.anonymity.noise.privacy_loss import LARGEST_K, delta_of_losses, directed_deltas


def published(k: int, rate: float, persons: int, most: int) -> Floats:
    """Return the distribution of the published count, 0 or k to ``most``, of some persons."""
    chances = [comb(persons, j) * rate**j * (1 - rate) ** (persons - j) for j in range(persons + 1)]
    return np.array([sum(chances[:k]), *chances[k:], *[0.0] * (most - max(persons, k - 1))])


def divergence(p: Floats, q: Floats, epsilon: float) -> float:
    """Return the hockey-stick divergence of p from q."""
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("windows", [1, 2, 3])
def test_no_counts_of_some_windows_exceed_it(k: int, rate: float, windows: int) -> None:
    numbers = [n for n in sorted({k, k + 1, k + 2, *np.linspace(k, 4 * k / rate, 8).astype(int).tolist()}) if n < 40]
    pairs = [(published(k, rate, n, n), published(k, rate, n - 1, n)) for n in numbers]
    # Two numbers of persons at most, so that three windows have few outcomes.
    for chosen in combinations_with_replacement(range(len(pairs)), min(windows, 2)):
        of_windows = [pairs[chosen[0]]] * (windows - len(chosen) + 1) + [pairs[i] for i in chosen[1:]]
        if np.prod([len(p) for p, _ in of_windows]) > 20_000:
            continue
        p, q = (reduce(lambda a, b: np.outer(a, b).ravel(), side) for side in zip(*of_windows, strict=True))
        for epsilon in (0.05, 0.3, 1.0, 2.5):
            with_person, without = directed_deltas(k, rate, epsilon, windows)
            # The sums here have rounding errors of their own.
            assert with_person >= divergence(p, q, epsilon) - 1e-14
            assert without >= divergence(q, p, epsilon) - 1e-14
            assert delta_of_losses(k, rate, epsilon, windows) == max(with_person, without)


@settings(max_examples=20)
@given(st.integers(1, 6), st.sampled_from([0.2, 0.3, 0.6]), st.floats(0.01, 2))
@example(3, 0.2, 0.1)  # below -ln(1 - rate), so that both directions have a divergence
@example(4, 0.6, 0.5)
def test_one_window_has_the_divergences_of_the_worst_number_of_persons(k: int, rate: float, epsilon: float) -> None:
    pairs = [(published(k, rate, n, n), published(k, rate, n - 1, n)) for n in range(k, int(5 * k / rate) + 60)]
    with_person, without = directed_deltas(k, rate, epsilon, 1)
    assert with_person == pytest.approx(max(divergence(p, q, epsilon) for p, q in pairs), rel=1e-7, abs=1e-10)
    exact = max(divergence(q, p, epsilon) for p, q in pairs)
    # Near -ln(1 - rate) more persons than are counted here are the worst ones, and all of them together are few.
    assert exact - 1e-14 <= without <= exact + 1e-3
    if epsilon < -log1p(-rate) / 2:
        assert without == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize(
    ("k", "rate", "epsilon"), [(12, 0.2, 1.0), (35, 0.5, 1.0), (10, 0.1, 0.5), (9, 0.2, 2.0), (20, 0.05, 0.3)]
)
def test_one_window_has_the_closed_form(k: int, rate: float, epsilon: float) -> None:
    exact = exp(log_divergence(k, rate, epsilon))
    assert exact <= delta_of_losses(k, rate, epsilon, 1) <= exact * (1 + 1e-8)


@pytest.mark.parametrize(
    ("k", "rate", "epsilon", "windows", "expected"),
    [
        (10, 0.2, 4.0, 4, 4.096005538697045e-07),
        (13, 0.2, 4.0, 4, 3.276801779587562e-09),
        (6, 0.05, 4.0, 30, 4.687498950618733e-07),
        (9, 0.1, 1.0, 4, 2.0793244792692382e-07),
        (18, 0.1, 1.0, 4, 2.591143240239745e-13),
        (16, 0.1, 1.0, 30, 4.59292126903999e-09),
        (8, 0.05, 2.0, 365, 7.663113810970622e-07),
    ],
)
def test_several_windows_agree_with_dp_accounting(
    k: int, rate: float, epsilon: float, windows: int, expected: float
) -> None:
    # dp-accounting 0.6.0, over the distributions of the counts of all numbers of persons (experiments/cells/
    # accountants.py). Its figure is an upper bound too, in steps of 0.01: up to a fifth larger for many windows.
    assert 0.8 * expected <= delta_of_losses(k, rate, epsilon, windows) <= expected * (1 + 1e-6)


@given(st.integers(1, 40), st.sampled_from([0.02, 0.2, 0.5]), st.floats(0.2, 5), st.integers(2, 40))
def test_it_falls_with_k_and_epsilon_and_rises_with_windows(k: int, rate: float, epsilon: float, windows: int) -> None:
    delta = delta_of_losses(k, rate, epsilon, windows) * (1 + 1e-8)
    assert delta_of_losses(k + 1, rate, epsilon, windows) <= delta
    assert delta_of_losses(k, rate, epsilon * 1.1, windows) <= delta
    assert delta_of_losses(k, rate, epsilon, windows - 1) <= delta


def test_a_k_beyond_the_largest_counts_as_the_largest() -> None:
    assert delta_of_losses(10**9, 0.5, 0.5, 30) == delta_of_losses(LARGEST_K, 0.5, 0.5, 30)


@pytest.mark.parametrize("rate", [1e-9, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 1e4])
def test_extreme_parameters_have_a_delta(rate: float, epsilon: float) -> None:
    for k in (1, 20, LARGEST_K):
        assert 0 < delta_of_losses(k, rate, epsilon, 3) <= 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 0.5, 1.0, 2), "k"),
        ((1, 1.0, 1.0, 2), "sample_rate"),
        ((1, 0.5, 0.0, 2), "epsilon"),
        ((1, 0.5, 1.0, 0), "windows"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: tuple[int, float, float, int], name: str) -> None:
    with pytest.raises(BudgetError, match=f"^{name}: must be"):
        delta_of_losses(*arguments)
