"""Entropy l-diversity: at least the entropy of l equally common values (Machanavajjhala and others, TKDD 2007, 4.1).

The entropy of a release is at least log l, with the shares of persons as in Definition 4.1. The union of two satisfying
sets satisfies, because entropy is concave. Adding a single tuple to a set may violate the model.
"""

from __future__ import annotations

from math import ceil, exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model

_EXACT = 1e-9
"""Relative tolerance: the entropy of l equally common values is log l, which a rounded sum may miss."""


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """Return l minus the effective number of values, which is the exponential of the entropy."""
    entropy = 0.0
    for count in counts:
        entropy += count / persons * log(persons / count)
    missing = parameters[0] - exp(entropy)
    return missing if missing > _EXACT * parameters[0] else 0.0


def least_removed(persons: NDArray[np.int64], shortfall: NDArray[np.float64], l: float) -> NDArray[np.float64]:  # noqa: E741
    """Return a bound by concavity: the entropy of a set is at least its kept share times the entropy of the kept."""
    bound: NDArray[np.float64] = persons * (1 - np.log(l - shortfall) / log(l))
    return bound


ENTROPY_L = add_privacy_model(
    PrivacyModel(
        name="entropy_l",
        parameter="a number from 1 to k: entropy l-diversity",
        allowed=lambda l, k: 1 <= l <= k,  # noqa: E741 - the paper's name for it
        lacking=lacking,
        reason="entropy_l",
        least_values=ceil,
        least_removed=least_removed,
        example=2,
        statement="entropy of at least log l",
        not_covered="a single value may hold for most persons",
        terms=("l-diversity (by entropy)", "l-diversity (by entropy)"),
    )
)
