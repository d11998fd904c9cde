"""Delta of several windows of sampled counts, from the whole distribution of their privacy loss.

Let T be the number of persons up to and with the k-th sampled one, which is negative binomial. No pair of published
counts, with and without a person, is easier to tell apart than T - 1 and T: they are a dominating pair (Zhu, Dong and
Wang, "Optimal accounting of differential privacy via characteristic function", 2022). ``docs/privacy/proofs.md`` has
the proof. All losses are rounded up to a grid, so each result is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log1p

import numpy as np

from crenel.anonymity.noise.budget import BudgetError, Floats, log_probability

LARGEST_K = 1024
"""A larger k counts as this one. It suppresses more of the same counts, so it is at least as private."""

_LARGEST_EPSILON = 500.0
"""A larger epsilon counts as this one, so that its rounding error stays below ``_LOSS_MARGIN``; delta is overstated."""

_STEPS = 1000
"""Minimum number of grid steps from 0 to the largest finite loss."""

_BEYOND = 4.0
"""The grid ends at least so much above the epsilon, unless that is small; 1 - e^-4 of a loss beyond counts anyway."""

_DEVIATIONS, _TAILS = 12, 40
"""Standard deviations, and multiples of 1 / beta, above its mean up to which T is counted one by one."""

_MOST_COUNTED = 10**6
"""Maximum number of values of T that are counted one by one, for the memory that they need."""

_LOSS_MARGIN = 1e-13
"""Absolute margin above the rounding errors of a loss, which is below 100."""

_MASS_MARGIN = 1e-11
"""Relative margin above the rounding errors of a probability and a convolution, and absolute one of a sum of all."""

_SUM_MARGIN = 1e-9
"""Relative margin above the rounding errors of sums of products, all of which are positive."""

_UNDERFLOW = 1e-290
"""Absolute margin above all products that are too small for a float."""


def delta_of_losses(k: int, sample_rate: float, epsilon: float, windows: int) -> float:
    """Return an upper bound of the delta at ``epsilon`` of several windows of sampled counts.

    It is valid for any epsilon above 0, also below ``smallest_epsilon``.

    Parameters
    ----------
    k : minimum number of sampled persons of a published key, at least 1
    sample_rate : above 0 and below 1
    epsilon : of all windows together, above 0
    windows : number of windows to which a person contributes at most, at least 1

    Raises
    ------
    BudgetError
        A parameter is out of range.

    Examples
    --------
    >>> [delta_of_losses(k, 0.2, 4.0, 4) <= 1e-6 for k in (9, 10)]
    [False, True]
    """
    return max(directed_deltas(k, sample_rate, epsilon, windows))


def directed_deltas(k: int, sample_rate: float, epsilon: float, windows: int) -> tuple[float, float]:
    """Return upper bounds of the divergences with the person from without, and without from with.

    Parameters and errors are those of ``delta_of_losses``.

    Examples
    --------
    >>> with_person, without = directed_deltas(10, 0.2, 4.0, 4)
    >>> without < with_person <= 1e-6
    True
    """
    for name, number in (("k", k), ("windows", windows)):
        if number < 1:
            raise BudgetError(f"{name}: must be 1 or more, not {number}")
    if not 0 < sample_rate < 1:
        raise BudgetError("sample_rate: must be above 0 and below 1")
    if not epsilon > 0:
        raise BudgetError("epsilon: must be above 0")
    k, epsilon = min(k, LARGEST_K), min(epsilon, _LARGEST_EPSILON)
    reach = epsilon + max(epsilon, min(_BEYOND, 10 * epsilon))
    at_epsilon = ceil(epsilon / reach * _STEPS)
    step = epsilon / at_epsilon
    top = ceil(reach / step)
    loss, with_person, without = _dominating_pair(k, sample_rate, step)
    # T - 1 may be k - 1, and T may not. The rest of T - 1 has the smallest loss.
    removed = _Losses.of(loss, with_person, float(loss[-1]), sample_rate**k, step, top)
    # In the other direction each loss is the opposite one, at most -ln(1 - beta).
    added = _Losses.of(-loss, without, -log1p(-sample_rate), 0.0, step, top)
    return removed.composed(windows).delta(at_epsilon, step), added.composed(windows).delta(at_epsilon, step)


def _dominating_pair(k: int, rate: float, step: float) -> tuple[Floats, Floats, Floats]:
    """Return ln(P[T - 1 = n] / P[T = n]), P[T - 1 = n] and P[T = n] for n from k on, as far as they matter."""
    spread = _DEVIATIONS * (k * (1 - rate)) ** 0.5 + _TAILS
    # From the second bound on, all losses are within a step.
    counted = min((k + spread) / rate, (k - 1) / -expm1(-step), _MOST_COUNTED)
    n = k + np.arange(ceil(counted) + 1, dtype=np.float64)
    loss = np.log(n / (n - k + 1)) + log1p(-rate)
    without = np.exp(log_probability(n, np.full_like(n, k), rate)) * (k / n)
    return loss, without * np.exp(loss), without


@dataclass(frozen=True)
class _Losses:
    """Probabilities of the privacy losses on a grid from ``-top`` to ``top`` steps, and that of an infinite loss."""

    finite: Floats
    infinite: float

    @classmethod
    def of(cls, loss: Floats, mass: Floats, rest: float, infinite: float, step: float, top: int) -> _Losses:
        """Return losses on a grid; what is missing in ``mass`` and ``infinite`` has the loss ``rest``.

        A loss between two grid points becomes both of them, with the same mean of e^-loss. Delta is a convex function
        of e^-loss, so this does not lower it (Doroshenko and others, "Connect the dots", 2022).
        """
        missing = max(1.0 - infinite - float(mass.sum()), 0.0) + _MASS_MARGIN
        loss = np.append(loss, rest) + _LOSS_MARGIN
        mass = np.append(mass, missing) * (1 + _MASS_MARGIN)
        lower = np.clip(np.floor(loss / step), -top, top).astype(np.intp)
        above = np.maximum(loss - lower * step, 0.0)
        # A loss above the grid becomes its end and infinity.
        share = np.where(lower < top, np.minimum(np.expm1(-above) / np.expm1(-step), 1.0), -np.expm1(-above))
        finite = np.zeros(2 * top + 2)
        np.add.at(finite, lower + top, mass * (1 - share))
        np.add.at(finite, lower + top + 1, mass * share)
        return cls(finite[:-1], (infinite + float(finite[-1])) * (1 + _MASS_MARGIN))

    def plus(self, other: _Losses) -> _Losses:
        """Return the sum of two independent losses; one below the grid is raised to its end, one above is infinite."""
        sums = np.convolve(self.finite, other.finite)
        top = len(self.finite) // 2
        finite = sums[top:-top]
        finite[0] += sums[:top].sum()
        infinite = self.infinite + other.infinite * max(1 - self.infinite, 0.0)
        return _Losses(finite, infinite + float(sums[-top:].sum()))

    def composed(self, windows: int) -> _Losses:
        """Return the sum of as many independent losses."""
        if windows == 1:
            return self
        half = self.composed(windows // 2)
        twice = half.plus(half)
        return twice.plus(self) if windows % 2 else twice

    def delta(self, at_epsilon: int, step: float) -> float:
        """Return the delta at the epsilon of a grid point."""
        above = self.finite[len(self.finite) // 2 + at_epsilon :]
        delta = self.infinite - float(above @ np.expm1(-step * np.arange(len(above))))
        return min(delta * (1 + _SUM_MARGIN) + _UNDERFLOW, 1.0)
