"""(alpha, k)-anonymity: no value is held by more than a share of the persons (Wong and others, KDD 2006, Definition 2).

The paper names one sensitive value; here it is asked of each (its general case, Section 3).
"""

from __future__ import annotations

from math import ceil
from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """By how much the share of the commonest value is above alpha."""
    return max(counts[0] / persons - parameters[0], 0.0) if len(counts) else 0.0


def least_values(alpha: float) -> int:
    """So many values share the persons, alpha of them each; 1 / alpha may be a little more than it is."""
    return ceil(1 / alpha - 1e-9)


ALPHA = add_privacy_model(
    PrivacyModel(
        name="alpha",
        parameter="a number above 0 and at most 1: the share of persons that the commonest value may have",
        allowed=lambda alpha, k: 0 < alpha <= 1,
        lacking=lacking,
        reason="alpha",
        least_values=least_values,
    )
)
