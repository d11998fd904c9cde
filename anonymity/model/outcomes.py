"""Outcomes of a record: rejected, suppressed, or released, with reason or kind."""

from __future__ import annotations

REJECTIONS = ("missing", "outside_domain", "unknown_category", "bad_type", "unreadable")
"""Reasons for rejecting a record; stored as positions, so the order is part of the block format.

``unreadable`` marks a defect of Crenel: the record made encode raise.
"""

SUPPRESSIONS = ("outlier", "too_few_subjects", "too_little_diversity")
"""Reasons for suppressing a tuple under any privacy model; see ``Privacy.reasons``."""

LINKABLE = "linkable"
"""Reason for suppressing a tuple whose publication would reveal too much about its person.

The risk comes from its noised values or those of its class, or from all generalizations of the person's releases.
"""

KINDS = ("cluster", "merged", "split", "reused", "generalized", "again", "widened")
"""Kinds of releases; stored as positions."""

REUSE_RISK = (
    "At k = 10 an attacker who knows the order of arrival re-identified 18 % of the persons of Adult, 42 % by three "
    "quasi-identifiers, and 48 % of the demo's; with delay.jitter at 0.25, 13 %, 27 % and 35 %. Without reuse the same "
    "attacker re-identified at most 1 / k"
)
"""Measured privacy cost of reuse (``docs/privacy/attacks.md``, "Attacks on streams")."""

FIRST_KINDS = 5
"""Number of kinds in all versions; counts of the other kinds are stored only where they are not 0."""
