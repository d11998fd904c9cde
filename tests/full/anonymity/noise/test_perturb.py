"""Sampling and perturbation: their distribution, what they promise, and that nothing else of CASTLE changes."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy import stats

from tests.anonymity.noise.test_perturb import guessed_right


def test_who_counts_what_castleguard_publishes_hardly_learns_whether_a_tuple_was_there() -> None:
    # The best threshold lies between the two means; what it gains is the distance of two binomial distributions.
    rate, trials = 0.9, 300
    found = guessed_right(rate, lambda others: rate * (others + 0.5), trials)
    with_it, without = stats.binom(201, rate), stats.binom(200, rate)
    at = np.arange(202)
    most = 0.5 + np.abs(with_it.pmf(at) - without.pmf(at)).sum() / 4
    assert most < 0.55
    assert found < most + 4 * 0.5 / sqrt(trials)
