"""Outcomes of a record: rejected, suppressed, or released, with reason or kind, each with its meaning."""

from __future__ import annotations

from collections.abc import Mapping

REJECTION_MEANINGS: Mapping[str, str] = {
    "missing": "a quasi-identifier, sensitive or noised value, subject or event time is missing, or is NaN; under "
    "``missing: value`` only a number without a ``missing: value`` of its own, subject or event time",
    "outside_domain": "a number outside its ``domain``, a time outside the years 1 to 9999, or an event time too far "
    "ahead of the watermark",
    "unknown_category": "a value that its hierarchy does not contain",
    "bad_type": "infinity, or text that is no number, in a numeric column",
    "unreadable": "a defect of Crenel: the record made the encoder raise an exception. ``column`` is empty if no "
    "single column is the cause. The log of the TaskManager names the class of the exception and its line in the code, "
    "once for each worker, and no value",
    "too_many_values": "an array with more distinct values than ``policy.arrays`` allows",
}
REJECTIONS = (*REJECTION_MEANINGS,)
"""Reasons for rejecting a record; stored as positions, so the order is part of the block format."""

SUPPRESSION_MEANINGS: Mapping[str, str] = {
    "outlier": "the record's cluster was small and most others were larger; with CASTLE only",
    "too_few_subjects": "all buffered records together had fewer than k subjects",
    "too_little_diversity": "all buffered records together lacked l-diversity in a sensitive column; with SUHDSA also: "
    "the record's group could not be repaired",
}
SUPPRESSIONS = (*SUPPRESSION_MEANINGS,)
"""Reasons for suppressing a tuple under any privacy model; see ``Privacy.reasons``."""

LINKABLE = "linkable"
"""Reason for suppressing a tuple whose publication would reveal too much about its person.

The risk comes from its noised values or those of its class, or from all generalizations of the person's releases.
"""

LINKABLE_MEANING = (
    "with ``noise_within_release.confidence``: fewer subjects than its k lie near the values to be published, or too "
    "few records remained in the equivalence class without those. With ``privacy.persons.guarantee: lasting``: the "
    "record's person or another member of the anonymity set has left the generalization (``moved: suppress``), the "
    "privacy models are stricter than when the anonymity set formed, a member was forgotten on request, or the record "
    "came so late that its person may have been forgotten after the horizon"
)

KIND_MEANINGS: Mapping[str, str] = {
    "cluster": "a cluster, or a group of a window, with k subjects and l values by itself or after a swap; a part of a "
    "window that Mondrian cut; an equivalence class of OLA; a cell",
    "merged": "a cluster or group that was merged with others first",
    "split": "a part of a cluster that was large enough to be published in parts",
    "reused": "one record, published under an earlier generalization; ``subjects`` and diversity are those of the "
    "earlier release",
    "generalized": "one suppressed record, published without detail under ``suppression: generalize``",
    "again": "with ``privacy.persons.guarantee: lasting``: later records of persons, under the generalization of their "
    "anonymity set; ``subjects`` is the number of its members inside the generalization, and diversity that of all "
    "their published values",
    "widened": "the same, under a new generalization, because a person had moved out of the earlier one",
}
KINDS = (*KIND_MEANINGS,)
"""Kinds of releases; stored as positions, so a new one comes last."""

REUSE_RISK = (
    "At k = 10 an attacker who knows the order of arrival re-identified 18 % of the persons of Adult with ten "
    "quasi-identifiers, 43 % with three, and 48 % of the demo's persons; with delay.jitter at 0.25, 13 %, 28 % and "
    "35 %. Without reuse the same attacker re-identified at most 1 / k"
)
"""Measured privacy cost of reuse (``docs/privacy/attacks.md``, "Attacks on streams")."""
