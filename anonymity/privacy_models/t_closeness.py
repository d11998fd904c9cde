"""t-closeness: a bound on the Earth Mover's Distance to a reference (Li, Li and others, ICDE 2007).

The distance between a release and the reference is at most t (Section 4, and
``crenel.anonymity.privacy_models.distances``).
The union of two satisfying sets satisfies; adding a single tuple to a set may violate the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model
from crenel.anonymity.privacy_models.distances import distance, table_of

_EXACT = 1e-9
"""Tolerance for rounding errors where the distance equals t."""


def lacking(persons: int, counts: Any, parameters: Any, rows: Any, reference: Any) -> float:
    """Return the excess of the distance over t."""
    missing = distance(persons, counts, rows, reference) - parameters[0]
    return missing if missing > _EXACT else 0.0


def least_removed(persons: NDArray[np.int64], shortfall: NDArray[np.float64], t: float) -> NDArray[np.float64]:
    """Return a bound: removing a share of the persons moves that share, by a ground distance of at most 1."""
    bound: NDArray[np.float64] = persons * shortfall
    return bound


T = add_privacy_model(
    PrivacyModel(
        name="t",
        parameter="a number above 0 and at most 1: t-closeness to the reference",
        allowed=lambda t, k: 0 < t <= 1,
        lacking=lacking,
        reason="t",
        compares=True,
        table=table_of,
        least_removed=least_removed,
        example=0.2,
        statement="Earth Mover's Distance of at most t from the `reference`",
        not_covered="the relative gain of a rare value",
        terms=("t-closeness, an enhancement of the k-anonymity model", "t-closeness"),
    )
)
