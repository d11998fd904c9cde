"""Figures of dp-accounting and OpenDP, as JSON from standard input to standard output.

dp-accounting needs an older attrs than Crenel's tests, so this file runs alone, in an environment with both packages,
and imports nothing of Crenel. Each function computes one kind of figure; ``agreement.py`` has the questions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEP = 0.01
"""Distance of the privacy losses of a discretized distribution; the epsilons of questions are multiples of it."""


def composed(epsilon: float, windows: int, window_epsilon: float, window_delta: float) -> float:
    """Return dp-accounting's delta at epsilon of windows of which only epsilon and delta are known."""
    from dp_accounting.pld import common, privacy_loss_distribution

    window = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(window_epsilon, window_delta), value_discretization_interval=window_epsilon
    )
    return float(window.self_compose(windows).get_delta_for_epsilon(epsilon))


def by_samples(epsilon: float, windows: int, k: int, rate: float) -> float:
    """Return dp-accounting's delta of windows with the counts of ``release: sampled``, the worst key in each."""
    return _by_profile(epsilon, windows, _profile(_samples(k, rate), k, rate))


def least_k(epsilon: float, windows: int, delta: float, most: int, rate: float) -> int:
    """Return the least k with a delta of at most the given one by ``by_samples``, from 1 to ``most``, which has it."""
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if by_samples(epsilon, windows, middle, rate) <= delta else (middle, most)
    return most


def by_noise(epsilon: float, windows: int, window_epsilon: float, threshold: int) -> float:
    """Return dp-accounting's delta of windows with the counts of ``release: noisy``, the worst key in each."""
    likely = 1 / (1 + exp(-window_epsilon))
    published = exp(-window_epsilon * (threshold - 1)) * likely
    # A key of many other persons: the loss is that of the noise, whose sign tells the direction. Another of none.
    noise = np.array([likely, 1 - likely]), np.array([1 - likely, likely])
    alone = np.array([published, 1 - published]), np.array([0.0, 1.0])
    return _by_profile(epsilon, windows, _maxima([noise, alone], 2 * window_epsilon, window_epsilon))


def opendp_thresholds(window_epsilon: float, delta: float, thresholds: list[int]) -> list[float]:
    """Return OpenDP's delta at each threshold, and its least threshold for a delta, at most 10,000."""
    from opendp.prelude import binary_search

    least = binary_search(lambda threshold: _opendp(window_epsilon, threshold).map(_ONE)[1] <= delta, (1, 10_000))
    return [*(float(_opendp(window_epsilon, threshold).map(_ONE)[1]) for threshold in thresholds), float(least)]


def opendp_share(window_epsilon: float, threshold: int, runs: int) -> float:
    """Return the share of OpenDP's runs that publish a key of one person."""
    mechanism = _opendp(window_epsilon, threshold)
    return sum(len(mechanism({"key": 1})) for _ in range(runs)) / runs


_ONE = (1, 1, 1)
"""Distance of neighbors: one key changes, by one in all and by one at most."""


def _opendp(window_epsilon: float, threshold: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    keys = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T=int))
    distance = dp.l01inf_distance(dp.absolute_distance(T=int))
    return dp.m.make_laplace_threshold(keys, distance, scale=1 / window_epsilon, threshold=threshold)


def _samples(k: int, rate: float) -> list[tuple[Floats, Floats]]:
    """Return the distributions of the published count, with and without the person, by the number of persons."""
    from scipy.stats import binom

    found = []
    for persons in range(k, int(8 * k / rate)):
        counts = np.arange(k, persons + 1)
        with_person, without = (
            np.append(binom.pmf(counts, number, rate), binom.cdf(k - 1, number, rate))
            for number in (persons, persons - 1)
        )
        found.append((with_person, without))
    return found


def _profile(pairs: list[tuple[Floats, Floats]], k: int, rate: float) -> tuple[Floats, Floats, Floats]:
    return _maxima(pairs, min(14.0, 2 - k * log(rate)))


def _maxima(pairs: list[tuple[Floats, Floats]], most: float, step: float = _STEP) -> tuple[Floats, Floats, Floats]:
    """Return epsilons, and the maximum hockey-stick divergence of some pairs of distributions in both directions."""
    epsilons = np.arange(-round(most / step), round(most / step) + 1) * step
    maxima = np.zeros((2, len(epsilons)))
    for one, other in pairs:
        for found, (p, q) in zip(maxima, ((one, other), (other, one)), strict=True):
            possible = p > 0
            with np.errstate(divide="ignore"):
                loss = np.log(p[possible]) - np.log(q[possible])
            order = np.argsort(-loss)
            above = np.searchsorted(-loss[order], -epsilons)
            sums = (np.append(0.0, np.cumsum(side[possible][order]))[above] for side in (p, q))
            np.maximum(found, next(sums) - np.exp(epsilons) * next(sums), out=found)
    with_person, without = np.minimum.accumulate(np.clip(maxima, 0, 1), axis=1)
    return epsilons, with_person, without


def _by_profile(epsilon: float, windows: int, profile: tuple[Floats, Floats, Floats]) -> float:
    """Return the delta of windows of a mechanism with these divergences, which adaptive composition does not exceed."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step = float(profile[0][1] - profile[0][0])
    steps = np.rint(profile[0] / step).astype(np.int64)
    window = privacy_loss_distribution.PrivacyLossDistribution(
        *(pld_pmf.create_pmf_pessimistic_connect_dots(step, steps, side) for side in profile[1:])
    )
    return float((window.self_compose(windows) if windows > 1 else window).get_delta_for_epsilon(epsilon))


FIGURES: dict[str, Callable[..., Any]] = {
    of.__name__: of for of in (composed, by_samples, least_k, by_noise, opendp_thresholds, opendp_share)
}


if __name__ == "__main__":
    json.dump([FIGURES[name](*given) for name, *given in json.load(sys.stdin)], sys.stdout)
