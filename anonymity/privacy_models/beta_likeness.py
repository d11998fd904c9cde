"""Basic beta-likeness: a bound on how much more common a value is in a release (Cao and Karras, PVLDB 2012).

For each value with share p in the release and share q < p in the reference, (p - q) / q is at most beta (Definition 2).
The union of two satisfying sets satisfies; adding a single tuple to a set may violate the model. Each person with a
value counts for it, because an attacker may pick any of a person's values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model

_EXACT = 1e-9
"""Relative tolerance for rounding errors where (p - q) / q equals beta."""

_NEVER = 1e12
"""Shortfall per share of a value that is absent from the reference.

It exceeds any other shortfall. It is finite, so that fewer persons with such a value count as an improvement.
"""


def lacking(persons: int, counts: Any, parameters: Any, rows: Any, reference: Any) -> float:
    """Return the excess of the largest (p - q) / q over beta."""
    most = 0.0
    for i in range(len(counts)):
        usual = reference[rows[i]] if rows[i] >= 0 else 0.0
        share = counts[i] / persons
        most = max(most, share / usual - 1.0 if usual > 0.0 else share * _NEVER)
    missing = most - parameters[0]
    return missing if missing > _EXACT * (1.0 + parameters[0]) else 0.0


def least_removed(persons: NDArray[np.int64], shortfall: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Return one person: a relative excess of a rare value may be that of one person."""
    return np.ones(len(persons))


BETA = add_privacy_model(
    PrivacyModel(
        name="beta",
        parameter="a number above 0, at most a million: basic beta-likeness to the reference",
        allowed=lambda beta, k: 0 < beta <= 1e6,
        lacking=lacking,
        reason="beta",
        compares=True,
        least_removed=least_removed,
        example=1,
        statement="no value is more than 1 + beta times as common as in the `reference`",
        not_covered="values that become rarer",
    )
)
