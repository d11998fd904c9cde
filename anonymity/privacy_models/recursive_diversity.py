"""Recursive (c, l)-diversity: the commonest value is not too common (Machanavajjhala and others, TKDD 2007, 4.2).

With counts of persons r_1, r_2, ..., the largest first, r_1 is below c * (r_l + r_{l+1} + ...): also who knows of l - 2
values that somebody has not got them cannot be too sure of the rest (Definition 4.2). Two sets that satisfy do so
together; a set may stop to satisfy when one tuple comes to it.
"""

from __future__ import annotations

from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model

_EXACT = 1e-12
"""c * 3 may be a little more than it is in decimals, and equal is not below."""


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """By what share of the persons the commonest value has too many."""
    rare = 0
    for i in range(int(parameters[1]) - 1, len(counts)):
        rare += counts[i]
    most = parameters[0] * rare
    if len(counts) == 0 or counts[0] < most - _EXACT * most:
        return 0.0
    return max(1.0 + counts[0] - most, 1.0) / persons


RECURSIVE = add_privacy_model(
    PrivacyModel(
        name="recursive",
        parameter="a mapping such as {c: 3, l: 2}, with c above 0 and l a whole number from 2 to k",
        allowed=lambda given, k: given[0] > 0 and given[1] == int(given[1]) and 2 <= given[1] <= k,
        lacking=lacking,
        reason="recursive",
        least_values=lambda given: int(given[1]),
        fields={
            "c": "a number above 0: the commonest value has fewer than c times as many persons as the l-th and rarer",
            "l": "a whole number from 2 to k",
        },
    )
)
