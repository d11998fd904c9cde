"""(alpha, k)-anonymity: a bound on the share of any one value (Wong and others, KDD 2006, Definition 2).

The paper names one sensitive value; here the bound applies to each value (its general case, Section 3).
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """Return the excess of the most common value's share over alpha."""
    return max(counts[0] / persons - parameters[0], 0.0) if len(counts) else 0.0


def least_values(alpha: float) -> int:
    """Return the minimum number of values, 1 / alpha rounded up with tolerance for rounding errors."""
    return ceil(1 / alpha - 1e-9)


def least_removed(persons: NDArray[np.int64], shortfall: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Return a bound: d fewer of the most common value's c persons satisfy only if c - d <= alpha * (persons - d)."""
    bound: NDArray[np.float64] = persons * shortfall / (1 - alpha)
    return bound


ALPHA = add_privacy_model(
    PrivacyModel(
        name="alpha",
        parameter="a number above 0 and at most 1: the share of persons that the commonest value may have",
        allowed=lambda alpha, k: 0 < alpha <= 1,
        lacking=lacking,
        reason="alpha",
        least_values=least_values,
        least_removed=least_removed,
        example=0.5,
        statement="no value is true of more than a share alpha of its persons",
        not_covered="a rare value may be far more common than elsewhere",
    )
)
