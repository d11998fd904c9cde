"""What can become of a row: not let in, suppressed, or released, and how."""

from __future__ import annotations

REJECTIONS = ("missing", "outside_domain", "unknown_category", "bad_type", "unreadable")
"""Why a row is not let in; stored as positions, so the order is part of the block format.

``unreadable`` stands for a defect of Crenel: the row made encode raise.
"""

SUPPRESSIONS = ("outlier", "too_few_subjects", "too_little_diversity")
"""Why a tuple was let in and not released, whatever was promised: see ``Privacy.reasons``."""

LINKABLE = "linkable"
"""Why a tuple was suppressed that would tell too much whose it is: by its noised values, or those of others of its
class; or by the generalizations of a person's releases together."""

KINDS = ("cluster", "merged", "split", "reused", "generalized", "again", "widened")
"""How a release came about; stored as positions."""

REUSE_RISK = (
    "At k = 10 an attacker who knows the order of arrival re-identified 13 % of the persons of Adult, 27 % by three "
    "quasi-identifiers, and 34 % of the demo's, each with delay.jitter at 0.25. Without reuse the same attacker "
    "re-identified at most 1 / k"
)
"""What reuse cost in privacy where it was measured (``docs/privacy.md``, "Attacks that beat k")."""

FIRST_KINDS = 5
"""So many of them there were always; of the others counts are stored where there are any."""
