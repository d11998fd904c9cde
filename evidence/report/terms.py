"""Names of mechanisms in ISO/IEC 20889:2018 and in NIST SP 800-188 (2023)."""

from __future__ import annotations

from collections.abc import Iterator

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy_model import NO_TERM
from crenel.evidence.report.context import About

Term = tuple[str, str, str]
"""A mechanism of Crenel, and its name in both standards."""

_L = ("l-diversity, an enhancement of the k-anonymity model", "l-diversity")


def terms(policy: Policy, about: About) -> Iterator[Term]:
    """Yield the mechanisms of a run, in the order in which they apply to a row."""
    privacy = about.privacy
    if policy.drop or policy.subject is not None:
        named = [*policy.drop, *([] if policy.subject is None else [policy.subject])]
        yield f"not published: {', '.join(named)}", "masking (of direct identifiers)", "removing direct identifiers"
    if policy.pseudonym is not None:
        yield f"pseudonym {policy.pseudonym.column}", "pseudonymization technique", "pseudonymization"
    if about.sampling_and_noise is not None:
        yield f"sampling at {about.sampling_and_noise.sample_rate:g}", "sampling (statistical tool)", "sampling"
        yield (
            f"noise on quasi-identifiers, phi {about.sampling_and_noise.inverse_scale:g}",
            "noise addition (randomization technique); not the differential privacy model",
            "noise infusion; not differential privacy",
        )
    if about.private:
        yield (
            "epsilon and delta for each person",
            "differential privacy model (formal privacy measurement model)",
            "differential privacy",
        )
    if about.synthetic:
        yield "records by counts with noise", "synthetic data", "synthetic data"
        yield f"k {privacy.k}, synthetic records counted", NO_TERM, NO_TERM
    else:
        yield f"k {privacy.k}, persons counted", "k-anonymity model (formal privacy measurement model)", "k-anonymity"
    yield from _model_terms(policy, about)
    yield from _generalization(policy, about)
    for noised in policy.noised.values():
        yield f"noise within releases on {noised.name}", "noise addition (randomization technique)", "noise infusion"
    if about.published:
        yield "suppression: generalize", "local suppression, of every quasi-identifier of a record", "suppression"
    else:
        yield "suppression: withhold", "record suppression", "suppression of records"
    for attribute in policy.generalized.values():
        labels = f"one of {len({*attribute.labels})} declared labels: {attribute.name}"
        yield labels, "global generalization", "generalization of categories"
    if kept := policy.unchanged:
        yield f"published unchanged: {', '.join(kept)}", "no technique applied", "no technique applied"


def _model_terms(policy: Policy, about: About) -> Iterator[Term]:
    if policy.sensitive and about.privacy.l > 1:
        yield f"l {about.privacy.l} of each sensitive column", *_L
    for model, _ in about.privacy.further:
        yield f"{model.name} of each sensitive column", *model.terms
    for name, column in about.privacy.sensitive.items():
        if column.l is not None:
            yield f"l {column.l} of {name}", *_L
        for model, _ in column.further:
            yield f"{model.name} of {name}", *model.terms
    if about.privacy.lasting is not None:
        yield "k and l over all rows of a person", NO_TERM, NO_TERM


def _generalization(policy: Policy, about: About) -> Iterator[Term]:
    categories = [a.name for a in policy.categorical if a.publish == "ancestor"]
    represented = [a.name for a in policy.attributes if a.has_representative]
    numbers = [a.name for a in policy.numeric if not a.has_representative]
    if about.representative:
        represented, numbers = [*represented, *numbers], []
    if categories:
        yield f"labels of a hierarchy: {', '.join(categories)}", "generalization", "generalization of categories"
    if policy.sets:
        listed = ", ".join(a.name for a in policy.sets)
        yield f"sets of values: {listed}", "local generalization", "generalization of categories"
    if represented:
        yield (
            f"a value for the group: {', '.join(represented)}",
            "microaggregation (randomization technique)",
            "micro aggregation",
        )
    if numbers:
        yield f"intervals: {', '.join(numbers)}", "local generalization", "generalization into ranges"
    grid = [a.name for a in policy.numeric if a.ends is not None]
    if grid:
        yield f"ends on a grid: {', '.join(grid)}", "rounding (generalization technique)", "rounding"
