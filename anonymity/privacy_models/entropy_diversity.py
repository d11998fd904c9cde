"""Entropy l-diversity: values are as mixed as l that are equally common (Machanavajjhala and others, TKDD 2007, 4.1).

The entropy of a release is log l or more. It is as Definition 4.1 has it, of the shares of persons who have each value.
Two sets that satisfy do so together, as entropy is concave; a set may stop to satisfy when one tuple comes to it.
"""

from __future__ import annotations

from math import ceil, exp, log
from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model

_EXACT = 1e-9
"""Of l values that are equally common the entropy is log l, which a sum of rounded numbers may miss."""


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """By how many equally common values a set is mixed less than l are."""
    entropy = 0.0
    for count in counts:
        entropy += count / persons * log(persons / count)
    missing = parameters[0] - exp(entropy)
    return missing if missing > _EXACT * parameters[0] else 0.0


ENTROPY_L = add_privacy_model(
    PrivacyModel(
        name="entropy_l",
        parameter="a number from 1 to k: entropy l-diversity",
        allowed=lambda l, k: 1 <= l <= k,  # noqa: E741 - the paper's name for it
        lacking=lacking,
        reason="entropy_l",
        least_values=ceil,
    )
)
