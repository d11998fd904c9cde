"""Noise and threshold of noisy counts against sums over the distribution."""

from __future__ import annotations

from math import ceil, exp, fsum, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.noise.budget import BudgetError
from crenel.anonymity.noise.composition import composed_delta
from crenel.anonymity.noise.selection import NoisyCounts, noisy_counts, tail, threshold_for

FAR = 400


def probability(epsilon: float, noise: int) -> float:
    """Return P[Z = noise] of discrete Laplace noise."""
    return (1 - exp(-epsilon)) / (1 + exp(-epsilon)) * exp(-epsilon * abs(noise))


@given(st.floats(0.2, 5), st.integers(-12, 40))
def test_the_tail_is_the_sum_of_the_distribution(epsilon: float, least: int) -> None:
    summed = fsum(probability(epsilon, noise) for noise in range(least, least + FAR))
    assert tail(epsilon, least) == pytest.approx(summed, rel=1e-9)


@given(st.floats(0.2, 5), st.sampled_from([0.4, 0.1, 1e-3, 1e-6, 1e-9]))
def test_the_threshold_is_the_least_by_brute_force(epsilon: float, delta: float) -> None:
    # P[1 + Z >= threshold], from the far end of the distribution on.
    published, least = 0.0, FAR
    while least > 1 and published + probability(epsilon, least - 2) <= delta:
        least -= 1
        published += probability(epsilon, least - 1)
    assert threshold_for(epsilon, delta) == least


def test_the_threshold_in_closed_form_and_that_of_continuous_noise() -> None:
    for epsilon, delta in ((0.5, 1e-6), (1.0, 1e-6), (2.0, 1e-5), (4.0, 1e-9)):
        closed = 1 + ceil(log(1 / (delta * (1 + exp(-epsilon)))) / epsilon)
        assert threshold_for(epsilon, delta) == closed <= 1 + ceil(log(1 / (2 * delta)) / epsilon) + 1


@pytest.mark.parametrize(
    ("epsilon", "delta", "least", "expected"),
    [
        (1.0, 1e-6, 14, 6.078962034861135e-07),
        (0.5, 1e-6, 27, 8.533662760878968e-07),
        (2.0, 1e-6, 7, 7.324080660842114e-07),
        (4.0, 1e-9, 6, 3.70723451936783e-11),
        (0.1, 1e-9, 201, 9.79090919450698e-10),
    ],
)
def test_the_threshold_agrees_with_opendp(epsilon: float, delta: float, least: int, expected: float) -> None:
    # OpenDP 0.16.0: its least threshold and the delta of it, rounded up. It counts the noise beyond the threshold, and
    # publishes a count that equals it (experiments/RESULTS.md, section Accountants); so it is one less than here.
    threshold = threshold_for(epsilon, delta)
    assert threshold == least + 1
    assert tail(epsilon, threshold - 1) == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 60), st.floats(0.5, 8), st.sampled_from([1e-3, 1e-6, 1e-9]), st.integers(1, 12))
def test_windows_together_have_the_guarantee(k: int, epsilon: float, delta: float, windows: int) -> None:
    counts = noisy_counts(k, epsilon, delta, windows)
    assert counts.threshold >= k
    assert composed_delta(epsilon, windows, counts.epsilon, counts.delta) <= delta * (1 + 1e-9)
    # No lower threshold has it at that epsilon, except where k asks for this one.
    if counts.threshold > k:
        lower = tail(counts.epsilon, counts.threshold - 2)
        assert composed_delta(epsilon, windows, counts.epsilon, lower) > delta * (1 - 1e-9)


def test_many_windows_compose_better_than_by_adding() -> None:
    counts = noisy_counts(1, 4.0, 1e-6, 100)
    assert counts.threshold < threshold_for(4.0 / 100, 1e-8)


@given(st.floats(0.1, 5), st.integers(1, 200), st.floats(0.01, 0.99))
def test_persons_of_a_key_that_is_published_with_a_probability(epsilon: float, threshold: int, share: float) -> None:
    counts = NoisyCounts(round(2**20 / epsilon), 2**20, threshold)
    persons = counts.persons_for(share)
    assert counts.share_published(persons) >= share
    assert persons == 1 or counts.share_published(persons - 1) < share


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(BudgetError, match="epsilon: must be"):
        noisy_counts(1, 1e-6, 1e-6, 2)
    with pytest.raises(BudgetError, match="delta: must be"):
        noisy_counts(1, 1.0, 1.0)
