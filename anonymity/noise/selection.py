"""Noisy counts with a threshold, for keys that are not known ahead of the data (private partition selection).

Source: Korolova, Kenthapadi, Mishra and Ntoulas, "Releasing search queries and clicks privately" (2009), with the
discrete Laplace noise of Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms"
(2012). ``docs/privacy/proofs.md`` has the theorem.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, expm1, log, log1p

from crenel.anonymity.noise.budget import BudgetError
from crenel.anonymity.noise.composition import composed_delta, epsilons_to_try, least_number
from crenel.anonymity.noise.laplace import scale_in_steps

LEAST_EPSILON = 1e-6
"""Minimum epsilon of a window. Below it, a key would need more than a million persons."""


@dataclass(frozen=True)
class NoisyCounts:
    """Counts of keys with discrete Laplace noise, published from a threshold on.

    Attributes
    ----------
    numerator, denominator : P[Z = z] of the noise is proportional to exp(-|z| denominator / numerator)
    threshold : minimum noisy count of a published key, at least 1
    """

    numerator: int
    denominator: int
    threshold: int

    @property
    def epsilon(self) -> float:
        """Epsilon of one window."""
        return self.denominator / self.numerator

    @property
    def delta(self) -> float:
        """Delta of one window: the probability that a key of one person is published."""
        return exp(log_tail(self.epsilon, self.threshold - 1))

    def share_published(self, persons: int) -> float:
        """Return the probability that a key of some persons, at least 1, is published."""
        return tail(self.epsilon, self.threshold - persons)

    def persons_for(self, probability: float) -> int:
        """Return how many persons must share a key for it to be published with a probability, above 0 and below 1."""
        return least_number(lambda persons: self.share_published(persons) >= probability)


def tail(epsilon: float, least: int) -> float:
    """Return P[Z >= least] of discrete Laplace noise with P[Z = z] proportional to exp(-epsilon |z|).

    It is exp(-epsilon least) / (1 + exp(-epsilon)) for ``least`` of 0 or more.

    Examples
    --------
    >>> round(tail(1.0, 1), 6), round(tail(1.0, 0), 6), round(tail(1.0, -1), 6)
    (0.268941, 0.731059, 0.901058)
    """
    return exp(log_tail(epsilon, least)) if least >= 0 else -expm1(log_tail(epsilon, 1 - least))


def log_tail(epsilon: float, least: int) -> float:
    """Return the natural logarithm of ``tail``, for ``least`` of 0 or more."""
    return -epsilon * least - log1p(exp(-epsilon))


def threshold_for(epsilon: float, delta: float) -> int:
    """Return the least threshold that a key of one person reaches with a probability of at most ``delta``.

    In closed form it is 1 + ceil((ln(1 / delta) - ln(1 + exp(-epsilon))) / epsilon). For continuous noise it would be
    1 + ln(1 / (2 delta)) / epsilon (Wilson et al., "Differentially private SQL with bounded user contribution", 2020),
    a little less, because discrete noise may equal the threshold.

    Parameters
    ----------
    epsilon : of one window, above 0
    delta : above 0 and below 1

    Examples
    --------
    >>> threshold_for(1.0, 1e-6)
    15
    """
    least = max(1 + ceil((-log(delta) - log1p(exp(-epsilon))) / epsilon), 1)
    while log_tail(epsilon, least - 1) > log(delta):  # a rounding error of the closed form
        least += 1
    return least


def noisy_counts(k: int, epsilon: float, delta: float, windows: int = 1) -> NoisyCounts:
    """Return the noise and the threshold of one window, of some that are (epsilon, delta)-private together.

    Among the epsilons of a window that are tried, the one with the lowest threshold is best, and then the one with
    the least noise. The delta of a window is what the optimal composition theorem leaves (``composed_delta``).

    Parameters
    ----------
    k : least threshold, at least 1
    epsilon : of all windows together, at least ``LEAST_EPSILON`` for each window
    delta : of all windows together, above 0 and below 1
    windows : number of windows to which a person contributes at most

    Raises
    ------
    BudgetError
        A parameter is out of range.

    Examples
    --------
    >>> noisy_counts(10, 1.0, 1e-6).threshold, noisy_counts(20, 4.0, 1e-6, windows=4).threshold
    (15, 20)
    """
    if not 0 < delta < 1:
        raise BudgetError("delta: must be above 0 and below 1")
    if not epsilon / windows >= LEAST_EPSILON:
        raise BudgetError(f"epsilon: must be {LEAST_EPSILON:g} or more for each window")
    candidates: list[NoisyCounts] = []
    for one in epsilons_to_try(epsilon, windows):
        pure = composed_delta(epsilon, windows, one, 0.0)
        left = -expm1((log1p(-delta) - log1p(-pure)) / windows) if pure < delta else 0.0
        if left > 0:
            numerator, denominator = scale_in_steps(1.0, 1.0, one)
            threshold = max(k, threshold_for(denominator / numerator, left))
            candidates.append(NoisyCounts(numerator, denominator, threshold))
    return min(candidates, key=lambda counts: (counts.threshold, -counts.epsilon))
