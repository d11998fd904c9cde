"""Basic beta-likeness: no value is much commoner in a release than elsewhere (Cao and Karras, PVLDB 2012).

Of each value with a share p of the release and a share q of the reference, p above q, (p - q) / q is beta at most
(Definition 2). Two sets that satisfy do so together; a set may stop to satisfy when one tuple comes to it. Everybody
who has a value counts for it: so many an observer may pick.
"""

from __future__ import annotations

from typing import Any

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model

_EXACT = 1e-9
"""(p - q) / q of just beta may be a little more in rounded numbers."""

_NEVER = 1e12
"""What a share of the release lacks of a value that the reference has not got: far more than any other, and finite, so
that fewer persons who have it are better."""


def lacking(persons: int, counts: Any, parameters: Any, rows: Any, reference: Any) -> float:
    """By how much the largest (p - q) / q is above beta."""
    most = 0.0
    for i in range(len(counts)):
        usual = reference[rows[i]] if rows[i] >= 0 else 0.0
        share = counts[i] / persons
        most = max(most, share / usual - 1.0 if usual > 0.0 else share * _NEVER)
    missing = most - parameters[0]
    return missing if missing > _EXACT * (1.0 + parameters[0]) else 0.0


BETA = add_privacy_model(
    PrivacyModel(
        name="beta",
        parameter="a number above 0, at most a million: basic beta-likeness to the reference",
        allowed=lambda beta, k: 0 < beta <= 1e6,
        lacking=lacking,
        reason="beta",
        compares=True,
    )
)
