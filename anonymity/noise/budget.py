"""Privacy parameters of sampling and noise: epsilon, delta, the Laplace scale, and the reach of noise.

Theorem 2 of CASTLEGUARD is Theorem 5 of Li, Qardaji and Su, "On sampling, anonymization, and differential privacy"
(2012). It combines sampling at rate beta, a data-independent generalization, and suppression of values with a count
below k. The combination is (epsilon, d(k, beta, epsilon))-differentially private for every epsilon of at least -ln(1 -
beta). ``docs/privacy/proofs.md`` states its limits for CASTLE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, exp, expm1, floor, inf, isfinite, lgamma, log, log1p, pi

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TIE = 1e-12
"""Relative tolerance: a count within a rounding error of the bound gamma n counts as above it."""

_MARGIN = 1e-9
"""Relative margin above the rounding errors of a tail."""

_LARGEST_EPSILON = 600.0
"""A larger epsilon counts as this one, so that e^-epsilon is above 0; delta is then overstated."""

_TERMS = 64
_CHUNK = 32
_SMALL = 16


class BudgetError(ValueError):
    """An argument outside its domain. The message names the argument and the valid values."""


def smallest_epsilon(sample_rate: float) -> float:
    """Return the minimum epsilon that sampling can give, -ln(1 - beta); infinite, so no guarantee, at rate 1."""
    _require_rate(sample_rate)
    return inf if sample_rate == 1 else -log1p(-sample_rate)


def delta(k: int, sample_rate: float, epsilon: float) -> float:
    """Return the delta for an epsilon: d(k, beta, epsilon) (CASTLEGUARD, equations 5 to 7), above 0.

    Where gamma n is a whole number up to rounding, the result is that of the next smaller epsilon, which is larger.
    Raises as ``log_delta`` does.
    """
    return max(exp(log_delta(k, sample_rate, epsilon)), 5e-324)


def log_delta(k: int, sample_rate: float, epsilon: float) -> float:
    """Return the natural logarithm of ``delta``, which may be too small for a float.

    Parameters
    ----------
    k : at least 1
    sample_rate : above 0 and below 1; at 1 no epsilon is large enough
    epsilon : finite, at least ``smallest_epsilon``

    Raises
    ------
    BudgetError
        A parameter is out of range.
    """
    _require_epsilon(k, sample_rate, epsilon)
    return _log_maximum(k, sample_rate, _Bound.of(sample_rate, epsilon).eased())


def log_divergence(k: int, sample_rate: float, epsilon: float) -> float:
    """Return the natural logarithm of the least delta for an epsilon, of one window of counts of sampled persons.

    It is the maximum hockey-stick divergence between the published counts with and without a person, and so at most
    ``log_delta``. The worst key has n = floor((k - 1) / gamma) + 1 persons. ``docs/privacy/proofs.md`` has the proof.

    Parameters and errors are those of ``log_delta``.

    Examples
    --------
    >>> f"{exp(log_divergence(14, 0.2, 1.0)):.4g}", f"{delta(14, 0.2, 1.0):.4g}"
    ('8.248e-08', '6.797e-07')
    """
    _require_epsilon(k, sample_rate, epsilon)
    bound = _Bound.of(sample_rate, epsilon)
    # The smaller of gamma and rest has the precise digits.
    n = k + floor((k - 1) * bound.rest / bound.gamma)
    least = np.arange(k, k + _TERMS)
    above = least - bound.gamma * n if bound.gamma < 0.5 else bound.rest * n - (n - least)
    ratio = np.maximum(n - least[:-1], 0) / least[1:] * (sample_rate / (1 - sample_rate))
    weights = np.cumprod(np.append(1.0, ratio)) * above / (bound.rest * n)
    first = log_probability(np.array([n], np.float64), np.array([k], np.float64), sample_rate)
    return min(float(first[0]) + log(weights.sum()), 0.0)


def largest_sample_rate(k: int, epsilon: float, delta: float) -> float | None:
    """Return the maximum rate of six decimals, else of twelve, for which Theorem 2 gives (epsilon, delta).

    delta is not monotone in the rate, because gamma rises with it: delta rises, and falls where gamma n passes a whole
    number. But it is monotone in each of the two alone. So the rate a with the gamma of b gives a lower bound over the
    rates from a to b. The search skips halves whose bound is too large, and computes the result itself exactly. Any
    smaller rate is at least as private, because it amounts to sampling once more.

    Parameters
    ----------
    k : at least 1
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
    """Return the phi with which noise stays below ``share`` of the range with a ``probability`` (equation 4).

    Noise on a grid exceeds this bound by less than one step.
    """
    if not (0 < share < inf):
        raise BudgetError("share: must be finite and above 0")
    if not (0 < probability < 1):
        raise BudgetError("probability: must be above 0 and below 1")
    return -log1p(-probability) / share


def share_within(phi: float, probability: float) -> float:
    """Return the share of the range below which noise stays with a ``probability``: the inverse of ``phi_within``."""
    return phi_within(phi, probability)


@dataclass(frozen=True)
class GeometricNoise:
    """Two-sided geometric noise on a grid, before it is clamped to a domain.

    P[i steps] is proportional to exp(-|i| / scale), the Laplace distribution of Theorem 1 on whole steps.

    Attributes
    ----------
    range : width from the minimum to the maximum value, in the attribute's unit, at least 0
    phi : above 0
    step : of the grid, in the attribute's unit, above 0; 1 for categories, whose unit is a leaf
    """

    range: float
    phi: float
    step: float = 1.0

    @property
    def scale(self) -> float:
        """Scale of the Laplace distribution, in the attribute's unit."""
        return self.range / self.phi

    def reach(self, probability: float) -> float:
        """Return the minimum distance, in the attribute's unit, that noise exceeds with at most 1 - ``probability``."""
        steps = self.scale / self.step
        if steps == 0:
            return 0.0
        # P[more than i steps] = 2 a^(i + 1) / (1 + a) with a = exp(-1 / steps).
        least = -steps * (log1p(-probability) + log1p(expm1(-1 / steps) / 2)) - 1
        return max(ceil(least * (1 - _TIE)), 0) * self.step


@dataclass(frozen=True)
class _Bound:
    """The share gamma of n tuples that a sample must exceed, and the ``rest``, 1 - gamma; both at full precision."""

    gamma: float
    rest: float

    @classmethod
    def of(cls, rate: float, epsilon: float) -> _Bound:
        """Return the bound of equation 7: gamma = (e^epsilon - 1 + beta) / e^epsilon."""
        epsilon = min(epsilon, _LARGEST_EPSILON)
        return cls(-expm1(-epsilon) + rate * exp(-epsilon), (1 - rate) * exp(-epsilon))

    def eased(self) -> _Bound:
        """Return a slightly smaller gamma, so that rounding does not decide where gamma n is a whole number."""
        less = _TIE * min(self.gamma, self.rest)
        return _Bound(self.gamma - less, self.rest + less)

    def divergence(self, rate: float) -> float:
        """Return the Kullback-Leibler divergence of gamma from the rate, which is below gamma."""
        # The smaller of the two has the precise digits.
        apart = self.gamma - rate if self.gamma < 0.5 else 1 - rate - self.rest
        return self.gamma * log1p(apart / rate) + self.rest * log(self.rest / (1 - rate))


def _log_maximum(k: int, rate: float, bound: _Bound) -> float:
    """Return ln of the maximum of P[Binomial(n, rate) > gamma n] over n >= ceil(k / gamma - 1).

    It falls with gamma and with k, and rises with the rate. Any n below that bound would only add P[Binomial(n, rate)
    >= k], which is less than at the bound.
    """
    # Chernoff: P[Binomial(n, rate) >= gamma n] <= exp(-n D), with D the divergence of gamma from the rate. Where exp(-n
    # D) is below a known tail, neither this n nor a later one has a larger tail.
    divergence = bound.divergence(rate)
    best = -inf
    for n, least in _peaks(k, bound):
        if -n[0] * divergence * (1 - _MARGIN) < best:
            break
        best = max(best, float(_log_tails(n, least, rate).max()))
    return min(best, 0.0)


def _peaks(k: int, bound: _Bound) -> Iterator[tuple[Floats, Floats]]:
    """Yield, in ascending order, each n with m = floor(gamma n) + 1 that may maximize P[Binomial(n, rate) >= m].

    From n to n + 1 either m rises by one, and the tail falls, or m stays, and the tail rises. So a peak is the last n
    with its m, or the first n with its n - m, the allowed failures. The loop counts the one that changes less often.
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
    """Return ln P[Binomial(n, rate) >= least] for each pair, where least > gamma n.

    Each term is at most half the previous one, and at most (1 - beta) / (2 - beta) of it at the minimum epsilon. The
    terms beyond ``_TERMS`` are therefore below rounding.
    """
    step = np.arange(1, _TERMS)
    ratio = np.maximum(n[:, None] - least[:, None] - step + 1, 0) / (least[:, None] + step) * (rate / (1 - rate))
    return log_probability(n, least, rate) + np.log1p(np.cumprod(ratio, axis=1).sum(axis=1))


def log_probability(n: Floats, j: Floats, rate: float) -> Floats:
    """Return ln P[Binomial(n, rate) = j], 0 < j <= n, by Loader's saddle-point form (2000), precise for large n."""
    rest = n - j
    share = rest / (n * (1 - rate))
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(-(j - n * rate) / (n * (1 - rate)))
        deviance = j * np.log(j / (n * rate)) + rest * np.where(share < 0.5, np.log(share), near)
        middle = np.log(n / (2 * pi * j * rest)) / 2 + _stirling(n) - _stirling(j) - _stirling(rest) - deviance
    return np.where(rest > 0, middle, n * log(rate))


def _stirling(x: Floats) -> Floats:
    """Return ln x! - ln(sqrt(2 pi x) (x / e)^x), for x >= 1."""
    inverse = 1 / np.square(x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    return np.where(x < _SMALL, _STIRLING[np.minimum(x, _SMALL - 1).astype(np.intp)], series)


_STIRLING = np.array([0.0] + [lgamma(i + 1) - (i + 0.5) * log(i) + i - log(2 * pi) / 2 for i in range(1, _SMALL)])


def _require_rate(rate: float) -> None:
    if not (0 < rate <= 1):
        raise BudgetError("sample_rate: must be above 0 and at most 1")


def _require_epsilon(k: int, sample_rate: float, epsilon: float) -> None:
    _require_k(k)
    least = smallest_epsilon(sample_rate)
    # The minimum epsilon of a rate, computed in another way, may be a rounding error below it.
    if not (isfinite(epsilon) and epsilon >= least * (1 - _TIE)):
        raise BudgetError(f"epsilon: must be finite and {least:.6g} or more, which is -ln(1 - sample_rate)")


def _require_k(k: int) -> None:
    if k < 1:
        raise BudgetError(f"k: must be 1 or more, not {k}")
