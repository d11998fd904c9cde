"""Composition of differentially private windows, and the k that a guarantee over a horizon needs."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, isfinite, lgamma, log1p

import numpy as np

from crenel.anonymity.noise.budget import BudgetError, log_divergence, smallest_epsilon
from crenel.anonymity.noise.privacy_loss import LARGEST_K, delta_of_losses

_GRID = 96
"""Number of epsilons of a window that are tried; each one gives a valid bound."""

_MARGIN = 1e-9
"""Relative margin above the rounding errors of a sum."""

_TIE = 1e-12
"""Relative tolerance of a delta that equals the wanted one but for rounding."""


def composed_delta(epsilon: float, windows: int, window_epsilon: float, window_delta: float) -> float:
    """Return the delta at ``epsilon`` of several windows, each (window_epsilon, window_delta)-differentially private.

    The result is the optimal bound for adaptive composition (Kairouz, Oh and Viswanath, "The composition theorem for
    differential privacy", 2015, Theorem 3.3), at any epsilon. Basic composition is its case epsilon = windows x
    window_epsilon.

    Parameters
    ----------
    epsilon : at least 0
    windows : number of windows, at least 1
    window_epsilon : above 0
    window_delta : from 0 to 1

    Examples
    --------
    >>> round(composed_delta(1.0, 2, 0.5, 0.0), 12)
    0.0
    >>> composed_delta(4.0, 100, 0.2, 0.0) < 0.1
    True
    """
    if windows < 1:
        raise BudgetError(f"windows: must be 1 or more, not {windows}")
    step = np.arange(windows + 1)
    privacy_loss = (windows - 2 * step) * window_epsilon
    above = privacy_loss > epsilon * (1 + 1e-15) + 1e-15
    pure = 0.0
    if above.any():
        ways = lgamma(windows + 1) - np.array([lgamma(i + 1) + lgamma(windows - i + 1) for i in step[above].tolist()])
        one = np.logaddexp(0.0, window_epsilon)
        terms = ways + (windows - step[above]) * window_epsilon - windows * one
        pure = float(np.exp(terms + np.log(-np.expm1(epsilon - privacy_loss[above]))).sum()) * (1 + _MARGIN)
    # 1 - (1 - d)^windows (1 - pure), without a loss of digits.
    keeps = windows * log1p(-window_delta) if window_delta < 1 else -inf
    return min(-float(np.expm1(keeps)) * (1 - min(pure, 1.0)) + min(pure, 1.0), 1.0)


def delta_over_horizon(k: int, sample_rate: float, epsilon: float, windows: int) -> float:
    """Return the least delta over some windows that is known: that of their privacy losses, or of their parameters.

    Parameters
    ----------
    k : minimum number of sampled persons of a published key, at least 1
    sample_rate : above 0 and below 1
    epsilon : of all windows together, above 0
    windows : number of windows to which a person contributes at most

    Examples
    --------
    >>> delta_over_horizon(12, 0.2, 1.0, 1) <= 1e-6
    True
    >>> delta_over_horizon(10, 0.2, 4.0, 4) <= 1e-6 < delta_of_parameters(12, 0.2, 4.0, 4)[0]
    True
    """
    delta = delta_of_parameters(k, sample_rate, epsilon, windows)[0]
    # For one window, the least delta has a closed form.
    return delta if windows == 1 else min(delta, delta_of_losses(k, sample_rate, epsilon, windows))


def delta_of_parameters(k: int, sample_rate: float, epsilon: float, windows: int) -> tuple[float, float]:
    """Return the least delta over windows known by one epsilon and delta each, and the epsilon that gives it.

    Parameters are those of ``delta_over_horizon``.

    Returns
    -------
    delta and epsilon of a window; (1, inf) where the sample rate is too high for any.

    Examples
    --------
    >>> delta, one = delta_of_parameters(13, 0.2, 4.0, 4)
    >>> delta <= 1e-6, one
    (True, 1.0)
    """
    best = (1.0, inf)
    for one in _epsilons_of_window(sample_rate, epsilon, windows):
        if composed_delta(epsilon, windows, one, 0.0) < best[0]:
            best = min(best, (composed_delta(epsilon, windows, one, exp(log_divergence(k, sample_rate, one))), one))
    return best


def holds(k: int, sample_rate: float, epsilon: float, delta: float, windows: int = 1) -> bool:
    """Return whether some windows together are (epsilon, delta)-differentially private; as for ``least_k``."""
    most = delta * (1 + _TIE)
    if windows > 1 and delta_of_losses(k, sample_rate, epsilon, windows) <= most:
        return True
    return any(
        composed_delta(epsilon, windows, one, 0.0) < most
        and composed_delta(epsilon, windows, one, exp(log_divergence(k, sample_rate, one))) <= most
        for one in _epsilons_of_window(sample_rate, epsilon, windows)
    )


def persons_for(k: int, sample_rate: float, probability: float) -> int:
    """Return how many persons must share a key for the sample to hold at least k of them with a given probability.

    Parameters
    ----------
    k : at least 1
    sample_rate : above 0 and at most 1
    probability : above 0 and below 1

    Examples
    --------
    >>> persons_for(1, 0.5, 0.9)
    4
    """
    below = np.zeros(k)  # P[i persons are in the sample] for i < k, of no person yet
    below[0], persons = 1.0, 0
    while below.sum() > 1 - probability:
        below[1:] = below[1:] * (1 - sample_rate) + below[:-1] * sample_rate
        below[0] *= 1 - sample_rate
        persons += 1
    return persons


def epsilons_to_try(epsilon: float, windows: int, least: float = 0.0) -> list[float]:
    """Return epsilons of one window to try, from ``least`` on, that of basic composition first.

    Parameters
    ----------
    epsilon : of all windows together, above 0
    windows : number of windows, at least 1
    least : smallest epsilon that a window can have
    """
    _require_epsilon(epsilon)
    basic = epsilon / windows
    epsilons = [basic] if basic >= least else []
    if windows > 1 and least <= epsilon:
        epsilons += np.geomspace(max(least, basic), epsilon, _GRID).tolist()
    return epsilons


def _epsilons_of_window(sample_rate: float, epsilon: float, windows: int) -> list[float]:
    """Return epsilons of one window to try; none where the sample rate is too high."""
    return epsilons_to_try(epsilon, windows, smallest_epsilon(sample_rate))


def least_k(sample_rate: float, epsilon: float, delta: float, windows: int = 1) -> int | None:
    """Return the least k for which some windows together are (epsilon, delta)-differentially private; None: no k is.

    Parameters are those of ``delta_over_horizon``; ``delta`` is above 0 and below 1.

    Examples
    --------
    >>> [least_k(0.1, epsilon, 1e-6) for epsilon in (0.5, 1)]
    [10, 8]
    >>> least_k(0.5, 0.5, 1e-6) is None
    True
    """
    if not 0 < delta < 1:
        raise BudgetError("delta: must be above 0 and below 1")
    _require_epsilon(epsilon)
    # The delta of a window falls to 0 as k grows, also at the smallest epsilon of the sample rate.
    narrowest = smallest_epsilon(sample_rate)
    if narrowest > epsilon or composed_delta(epsilon, windows, narrowest, 0.0) >= delta:
        # Only the losses of several windows can give the guarantee, and a k beyond the largest one gives no more.
        if windows == 1 or not holds(LARGEST_K, sample_rate, epsilon, delta, windows):
            return None
    return least_number(lambda k: holds(k, sample_rate, epsilon, delta, windows))


def least_number(holds: Callable[[int], bool]) -> int:
    """Return the least whole number, from 1 on, for which a condition holds that also holds for all larger ones.

    Examples
    --------
    >>> least_number(lambda number: number * number >= 30)
    6
    """
    most = 1
    while not holds(most):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most


def _require_epsilon(epsilon: float) -> None:
    if not (isfinite(epsilon) and epsilon > 0):
        raise BudgetError("epsilon: must be finite and above 0")
