"""A promise in one file: no value is held by more than a share of the persons of a release."""

from __future__ import annotations

from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    return max(counts[0] / persons - parameters[0], 0.0) if len(counts) else 0.0


AT_MOST = add_privacy_model(
    PrivacyModel(
        name="at_most",
        parameter="a number above 0 and at most 1",
        allowed=lambda parameter, k: 0 < parameter <= 1,
        lacking=lacking,
        reason="too_common",
    )
)
