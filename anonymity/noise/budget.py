"""What sampling and noise are worth in figures: epsilon, delta, the Laplace scale, and how far noise reaches.

Theorem 2 of CASTLEGUARD is Theorem 5 of Li, Qardaji and Su, "On sampling, anonymization, and differential privacy"
(2012): sampling at rate beta, a generalization that does not depend on the data, and suppression of what is there
fewer than k times are together (epsilon, d(k, beta, epsilon))-differentially private, for every epsilon of
-ln(1 - beta) or more. ``docs/privacy.md`` says what that leaves open for CASTLE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, exp, expm1, floor, inf, isfinite, lgamma, log, log1p, pi

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TIE = 1e-12
"""Relative. A count that a rounding error away from the bound gamma n would be taken in is taken in."""

_MARGIN = 1e-9
"""Relative; above what rounding can make of a tail."""

_TERMS = 64
_CHUNK = 32
_SMALL = 16


class BudgetError(ValueError):
    """A figure that is asked for outside of where it is defined. It names the argument and what would be valid."""


def smallest_epsilon(sample_rate: float) -> float:
    """The least epsilon that sampling can give, -ln(1 - beta); infinite at rate 1, which gives no guarantee."""
    _require_rate(sample_rate)
    return inf if sample_rate == 1 else -log1p(-sample_rate)


def delta(k: int, sample_rate: float, epsilon: float) -> float:
    """The delta that goes with an epsilon: d(k, beta, epsilon) (CASTLEGUARD, equations 5 to 7), above 0.

    Where gamma n is a whole number but for rounding, the result is that of the next smaller epsilon, which is larger.
    Raises as ``log_delta`` does.
    """
    return max(exp(log_delta(k, sample_rate, epsilon)), 5e-324)


def log_delta(k: int, sample_rate: float, epsilon: float) -> float:
    """The natural logarithm of ``delta``, for where that is too small for a float.

    Parameters
    ----------
    k : 1 or more
    sample_rate : above 0 and below 1; at 1 no epsilon is large enough
    epsilon : finite, ``smallest_epsilon`` or more

    Raises
    ------
    BudgetError
        A parameter is outside of these.
    """
    _require_k(k)
    least = smallest_epsilon(sample_rate)
    # The least epsilon of a rate, computed another way, may be a rounding error below it.
    if not (isfinite(epsilon) and epsilon >= least * (1 - _TIE)):
        raise BudgetError(f"epsilon: must be finite and {least:.6g} or more, which is -ln(1 - sample_rate)")
    return _log_maximum(k, sample_rate, _Bound.of(sample_rate, epsilon).eased())


def largest_sample_rate(k: int, epsilon: float, delta: float) -> float | None:
    """The largest rate of six decimals for which Theorem 2 gives (epsilon, delta); of twelve where that is none.

    delta is not monotone in the rate, as gamma rises with it: it rises, and falls where gamma n passes a whole number.
    It is monotone in each of the two, though, so that over the rates from a to b it is nowhere less than with the
    rate a and the gamma of b. Halves in which that is too much are left out, and what is returned was computed by
    itself. Any smaller rate is at least as private: it is that rate, sampled once more.

    Parameters
    ----------
    k : 1 or more
    epsilon : above 0, finite
    delta : above 0, below 1

    Returns
    -------
    None where not even 10^-12 is small enough.
    """
    _require_k(k)
    if not (0 < epsilon < inf):
        raise BudgetError("epsilon: must be finite and above 0")
    if not (0 < delta < 1):
        raise BudgetError("delta: must be above 0 and below 1")
    wanted = log(delta) - _MARGIN
    for parts in (10**6, 10**12):
        most = floor(-expm1(-epsilon) * parts)
        while most > 0 and smallest_epsilon(most / parts) > epsilon:
            most -= 1
        halves = [(1, most)] if most else []
        while halves:
            first, last = halves.pop()
            least = first / parts
            if first == last:
                if log_delta(k, least, epsilon) <= wanted:
                    return least
            elif _log_maximum(k, least, _Bound.of(last / parts, epsilon)) <= wanted:
                middle = (first + last) // 2
                halves += [(first, middle), (middle + 1, last)]
    return None


def phi_within(share: float, probability: float) -> float:
    """The phi with which noise stays below ``share`` of the range with a ``probability`` (equation 4).

    Noise on a grid exceeds that by less than one step.
    """
    if not (0 < share < inf):
        raise BudgetError("share: must be finite and above 0")
    if not (0 < probability < 1):
        raise BudgetError("probability: must be above 0 and below 1")
    return -log1p(-probability) / share


def share_within(phi: float, probability: float) -> float:
    """The share of the range that noise stays below with a ``probability``: the inverse of ``phi_within``."""
    return phi_within(phi, probability)


@dataclass(frozen=True)
class Noise:
    """Two-sided geometric noise on a grid, as it is drawn: before anything is cut off at the ends of a domain.

    P[i steps] is proportional to exp(-|i| / scale), the Laplace distribution of Theorem 1 on whole steps.

    Attributes
    ----------
    range : from the lowest to the highest value, in the attribute's unit, 0 or more
    phi : above 0
    step : of the grid, in the attribute's unit, above 0; for categories, whose unit is a leaf, 1
    """

    range: float
    phi: float
    step: float = 1.0

    @property
    def scale(self) -> float:
        """Of the Laplace distribution, in the attribute's unit."""
        return self.range / self.phi

    def reach(self, probability: float) -> float:
        """The least distance, in the attribute's unit, that noise exceeds with at most 1 - ``probability``."""
        steps = self.scale / self.step
        if steps == 0:
            return 0.0
        # P[more than i steps] = 2 a^(i + 1) / (1 + a) with a = exp(-1 / steps).
        least = -steps * (log1p(-probability) + log1p(expm1(-1 / steps) / 2)) - 1
        return max(ceil(least * (1 - _TIE)), 0) * self.step


@dataclass(frozen=True)
class _Bound:
    """The share gamma of n tuples that a sample must exceed, and the ``rest``, 1 - gamma; neither loses digits."""

    gamma: float
    rest: float

    @classmethod
    def of(cls, rate: float, epsilon: float) -> _Bound:
        """Equation 7: gamma = (e^epsilon - 1 + beta) / e^epsilon."""
        return cls(-expm1(-epsilon) + rate * exp(-epsilon), (1 - rate) * exp(-epsilon))

    def eased(self) -> _Bound:
        """Where gamma n is whole but for rounding, it is a little less than that."""
        less = _TIE * min(self.gamma, self.rest)
        return _Bound(self.gamma - less, self.rest + less)

    def divergence(self, rate: float) -> float:
        """Of gamma from the rate (Kullback and Leibler), which is below gamma."""
        # The smaller of the two has the digits.
        apart = self.gamma - rate if self.gamma < 0.5 else 1 - rate - self.rest
        return self.gamma * log1p(apart / rate) + self.rest * log(self.rest / (1 - rate))


def _log_maximum(k: int, rate: float, bound: _Bound) -> float:
    """Ln of the maximum of P[Binomial(n, rate) > gamma n] over n >= ceil(k / gamma - 1).

    It falls with gamma and with k, and rises with the rate: n below that bound would add nothing but
    P[Binomial(n, rate) >= k], which is less than at the bound.
    """
    # Chernoff: P[Binomial(n, rate) >= gamma n] <= exp(-n D), with D the divergence of gamma from the rate. So no n
    # whose exp(-n D) is below a tail that was found can have a larger one, nor can any n after it.
    divergence = bound.divergence(rate)
    best = -inf
    for n, least in _peaks(k, bound):
        if -n[0] * divergence * (1 - _MARGIN) < best:
            break
        best = max(best, float(_log_tails(n, least, rate).max()))
    return min(best, 0.0)


def _peaks(k: int, bound: _Bound) -> Iterator[tuple[Floats, Floats]]:
    """Every n at which P[Binomial(n, rate) >= m], m = floor(gamma n) + 1, can be largest, with its m, upwards.

    From n to n + 1 either m rises by one, and the tail falls, or it stays, and the tail rises. So a peak is the last n
    with its m, and the first n with its n - m, the failures that are allowed. Whichever of the two changes less often
    is counted.
    """
    number = np.arange(_CHUNK, dtype=np.float64)
    if bound.gamma < 0.5:
        while True:
            least = k + number
            yield np.ceil(least / bound.gamma) - 1, least
            number += _CHUNK
    failures = ceil(k * bound.rest / bound.gamma) - 1
    yield np.array([k + failures], np.float64), np.array([k], np.float64)
    while True:
        allowed = failures + 1 + number
        n = np.floor(allowed / bound.rest) + 1
        yield n, n - allowed
        number += _CHUNK


def _log_tails(n: Floats, least: Floats, rate: float) -> Floats:
    """Ln P[Binomial(n, rate) >= least], for each, where least > gamma n.

    Each term is at most half the one before it, (1 - beta) / (2 - beta) of it at most where epsilon is at its least;
    so what is left out after so many is less than rounding.
    """
    step = np.arange(1, _TERMS)
    ratio = np.maximum(n[:, None] - least[:, None] - step + 1, 0) / (least[:, None] + step) * (rate / (1 - rate))
    return _log_probability(n, least, rate) + np.log1p(np.cumprod(ratio, axis=1).sum(axis=1))


def _log_probability(n: Floats, j: Floats, rate: float) -> Floats:
    """Ln P[Binomial(n, rate) = j], 0 < j <= n, by Loader's saddle-point form (2000), which keeps digits for large n."""
    rest = n - j
    share = rest / (n * (1 - rate))
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(-(j - n * rate) / (n * (1 - rate)))
        deviance = j * np.log(j / (n * rate)) + rest * np.where(share < 0.5, np.log(share), near)
        middle = np.log(n / (2 * pi * j * rest)) / 2 + _stirling(n) - _stirling(j) - _stirling(rest) - deviance
    return np.where(rest > 0, middle, n * log(rate))


def _stirling(x: Floats) -> Floats:
    """Ln x! - ln(sqrt(2 pi x) (x / e)^x), for x >= 1."""
    inverse = 1 / np.square(x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    return np.where(x < _SMALL, _STIRLING[np.minimum(x, _SMALL - 1).astype(np.intp)], series)


_STIRLING = np.array([0.0] + [lgamma(i + 1) - (i + 0.5) * log(i) + i - log(2 * pi) / 2 for i in range(1, _SMALL)])


def _require_rate(rate: float) -> None:
    if not (0 < rate <= 1):
        raise BudgetError("sample_rate: must be above 0 and at most 1")


def _require_k(k: int) -> None:
    if k < 1:
        raise BudgetError(f"k: must be 1 or more, not {k}")
