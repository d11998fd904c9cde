"""A privacy model in one file of the tests: several values, each of several persons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model
from crenel.evidence.verify.formulas import formula


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """Return the number of values that are missing."""
    frequent = 0
    for count in counts:
        frequent += count >= parameters[1]
    return max(parameters[0] - frequent, 0.0)


AT_LEAST = add_privacy_model(
    PrivacyModel(
        name="at_least",
        parameter="a mapping such as {values: 2, persons: 2}",
        allowed=lambda given, k: given[0] * given[1] <= k,
        lacking=lacking,
        reason="too_rare",
        least_values=lambda given: int(given[0]),
        fields={"values": "a whole number, 1 or more", "persons": "a whole number, 1 or more"},
        terms=("frequency of values", "minimum cell size"),
    )
)


@formula(AT_LEAST.name)
def keeps(_: None, values: float, at_least: float, persons: int, counts: Mapping[str, int]) -> bool:
    """Test it anew."""
    return sum(count >= at_least for count in counts.values()) >= values
