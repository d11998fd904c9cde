"""t-closeness: values are as common in a release as elsewhere, but for a distance t (Li, Li and others, ICDE 2007).

The Earth Mover's Distance between a release and the reference is t at most (Section 4, and
``crenel.anonymity.privacy_models.distances``). Two sets that satisfy do so together; a set may stop to satisfy when one
tuple comes to it.
"""

from __future__ import annotations

from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model
from crenel.anonymity.privacy_models.distances import distance, table_of

_EXACT = 1e-9
"""A distance of just t may be a little more in rounded numbers."""


def lacking(persons: int, counts: Any, parameters: Any, rows: Any, reference: Any) -> float:
    """By how much the distance is above t."""
    missing = distance(persons, counts, rows, reference) - parameters[0]
    return missing if missing > _EXACT else 0.0


T = add_privacy_model(
    PrivacyModel(
        name="t",
        parameter="a number above 0 and at most 1: t-closeness to the reference",
        allowed=lambda t, k: 0 < t <= 1,
        lacking=lacking,
        reason="t",
        compares=True,
        table=table_of,
    )
)
