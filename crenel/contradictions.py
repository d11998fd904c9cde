"""Contradictions between settings that are valid separately."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from crenel.anonymity.algorithm import algorithms_with
from crenel.anonymity.model.attributes import NO_ENDS, Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.explain import listed, suggestion
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, SHARD_BY_SUBJECT, Policy, Pseudonym, without_domain
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.anonymity.model.secret import SHORTEST_KEY
from crenel.anonymity.noise.release_noise import problems_within
from crenel.operators.digests import PlanSettings


def contradictions(settings: PlanSettings) -> Iterator[str]:
    """Yield each contradiction, with its field and the remedy."""
    policy, algorithm = settings.policy, settings.algorithm
    try:
        settings.subject_key.read()
    except PolicyError as error:
        yield str(error)
        return
    try:
        yield from problems_within(policy, settings.privacy)
    except PolicyError as error:
        yield str(error)
    yield from algorithm.problems(policy, settings.privacy)
    for attribute in policy.numeric if algorithm.has_representative else ():
        if attribute.ends is not None:
            yield f"{attribute.place}.ends: {NO_ENDS}"
    yield from _unpublishable(settings, policy)
    if settings.privacy.lasting is not None:
        yield from _not_lasting(settings, policy)
    if policy.arrays and not algorithm.arrays:
        fit = algorithms_with(attrgetter("arrays"))
        yield (
            f"policy.arrays: {algorithm.name} counts one value of a record; choose {fit}, or make each value a record "
            "of the same person, by CROSS JOIN UNNEST in the source's query or explode of a DataFrame"
        )
    if policy.pseudonym is not None:
        yield from _not_pseudonymous(settings, policy.pseudonym)
    if settings.sampling_and_noise is not None and not algorithm.noise:
        fit = algorithms_with(attrgetter("noise"))
        yield f"sampling_and_noise: its argument is not made for {algorithm.name}; remove it, or choose {fit}"
    elif settings.sampling_and_noise is not None:
        yield from _unnoisable(settings, settings.sampling_and_noise)
    else:
        yield from _indivisible(settings, policy)
    if settings.privacy.l > 1 and not policy.sensitive:
        yield "privacy.l: asks for diversity, but policy.sensitive names no column; name one, or set l to 1"
    for model, _ in settings.privacy.further if not policy.sensitive else ():
        yield f"privacy.{model.name}: is about sensitive values, but policy.sensitive names no column; name one"
    try:
        settings.privacy.require_columns(policy.sensitive)
    except PolicyError as error:
        yield str(error)


def _unpublishable(settings: PlanSettings, policy: Policy) -> Iterator[str]:
    """Yield published forms that a release alone, or the algorithm's own form, contradicts."""
    name = settings.algorithm.name
    for number in policy.numeric if settings.algorithm.has_representative else ():
        if number.missing == "value":
            yield (
                f"{number.place}.missing: {name} publishes a representative, to which missing numbers would count; "
                f"set {name}.output to 'generalization' with 'publish: mean' or 'median' here, or remove it"
            )
    for attribute in policy.attributes:
        if not attribute.has_representative and attribute not in policy.sets:
            continue
        field = f"{attribute.place}.publish: {attribute.publish!r} is of one class"
        if settings.algorithm.reuses:
            yield f"{field}, and a reused generalization has none; set {name}.reuse_limit to 0, or remove 'publish'"
        if settings.privacy.lasting is not None:
            yield (
                f"{field}, and privacy.persons.guarantee: lasting publishes rows under earlier generalizations; choose "
                "each_release, or remove 'publish'"
            )
        if attribute.has_representative and settings.algorithm.generalizes_suppressed:
            yield f"{field}, and a fully generalized row has none; set {name}.suppression to 'withhold'"
        if settings.algorithm.has_representative:
            yield f"{field}, and {name} publishes a representative of its own; remove one of the two"


def _not_lasting(settings: PlanSettings, policy: Policy) -> Iterator[str]:
    """Yield settings that are incompatible with a lasting privacy model."""
    field = "privacy.persons.guarantee: lasting"
    if not settings.algorithm.lasting:
        fit = algorithms_with(attrgetter("lasting"))
        yield f"{field} is not made for {settings.algorithm.name}; choose {fit}, or each_release"
    if policy.arrays:
        yield f"{field} counts one value of a record; remove policy.arrays, or choose each_release"
    if policy.subject is None:
        yield f"{field} is about persons, but policy.subject names no column; name one"
    if settings.shards.by != SHARD_BY_SUBJECT:
        yield f"{field} needs all rows of a person in one shard; set shards.by to {SHARD_BY_SUBJECT}"
    for section, why in (
        ("sampling_and_noise", "a person's latest values are not the perturbed ones"),
        ("privacy.noise_within_release", "noise is scaled by classes, and a later row may leave without one"),
    ):
        if attrgetter(section)(settings) is not None:
            yield f"{field} does not go with {section}, as {why}; remove one of them"
    for model, _ in settings.privacy.further:
        yield f"{field} holds for k and l, and privacy.{model.name} is about each release; remove one of them"
    if settings.privacy.sensitive:
        yield f"{field} holds for k and l, and privacy.sensitive is about each release; remove one of them"


def _not_pseudonymous(settings: PlanSettings, pseudonym: Pseudonym) -> Iterator[str]:
    """Yield settings that are incompatible with a published pseudonym."""
    if not settings.subject_key:
        yield (
            "subject_key: is missing; without a key, an attacker who guesses a subject can compute its code of "
            "policy.pseudonym. Give 16 random bytes or more, best as {environment: NAME}, or in a file as "
            "${CRENEL_SUBJECT_KEY}"
        )
    elif len(settings.subject_key.read()) < SHORTEST_KEY:
        yield (
            f"subject_key: is shorter than {SHORTEST_KEY} bytes, and the published codes of policy.pseudonym confirm a "
            f"guess of it; give {SHORTEST_KEY} random bytes or more, best as {{environment: NAME}}, or in a file as "
            "${CRENEL_SUBJECT_KEY}"
        )
    if pseudonym.links_releases and not pseudonym.accept_linkable and settings.privacy.lasting is None:
        under = "privacy.persons.guarantee: each_release"
        if settings.sampling_and_noise is not None:
            under = f"sampling_and_noise and {under}"
        yield (
            f"policy.pseudonym.scope: {pseudonym.scope!r} shows which rows are one person's, and nothing is guaranteed "
            f"of these together under {under}; choose 'release' or a guarantee that is lasting, or say "
            "policy.pseudonym.accept_linkable: true"
        )


def _indivisible(settings: PlanSettings, policy: Policy) -> Iterator[str]:
    """Yield problems with the division into shards."""
    by, attributes = settings.shards.by, {attribute.name: attribute for attribute in policy.attributes}
    chosen = attributes.get(by)
    if settings.shards.regions is not None:
        if by != SHARD_BY_REGIONS:
            yield f"shards.regions: goes with 'by: {SHARD_BY_REGIONS}'; set shards.by to it, or remove the file"
    elif by == SHARD_BY_REGIONS and chosen is None:
        yield "shards.regions: is missing; give the path of what 'crenel regions' wrote"
    elif by != SHARD_BY_SUBJECT and chosen is None:
        valid = [SHARD_BY_SUBJECT, *attributes, SHARD_BY_REGIONS]
        yield f"shards.by: is not a quasi-identifier{suggestion(by, valid)}; one of {listed(valid)}"
    elif isinstance(chosen, Numeric) and chosen.domain is None:
        yield f"shards.by: the numeric {by!r} has no domain to divide; give policy.quasi_identifiers.{by}.domain"
    if settings.algorithm.private and by != SHARD_BY_SUBJECT:
        yield (
            f"shards.by: {settings.algorithm.name} bounds the records of each person, which must be in one shard; set "
            f"it to {SHARD_BY_SUBJECT}"
        )
    elif settings.shards.count > 1 and by != SHARD_BY_SUBJECT and settings.algorithm.generalizes_suppressed:
        yield (
            f"{settings.algorithm.name}.suppression: generalize publishes a tuple without detail, but a file or "
            f"partition of 'released' holds records of one shard, and shards.by: {by} divides by values, so the file "
            "tells them; "
            f"set suppression to withhold, or shards.by to {SHARD_BY_SUBJECT}"
        )


def _unnoisable(settings: PlanSettings, noise: SamplingAndNoise) -> Iterator[str]:
    """Yield settings that are incompatible with sampling and noise."""
    policy = settings.policy
    if not noise.has_observed_range:
        for name in without_domain(policy):
            yield (
                f"policy.quasi_identifiers.{name}.domain: is missing; sampling_and_noise scales noise by the range, "
                "which without a domain is made of values of persons; give a domain, or say "
                "sampling_and_noise.range: observed to have it so"
            )
    if settings.shards.by != SHARD_BY_SUBJECT:
        what = "a quasi-identifier" if settings.shards.regions is None else "regions"
        yield (
            f"shards.by: a shard chosen by {what} gives away what noise is to hide; "
            f"with sampling_and_noise it is {SHARD_BY_SUBJECT!r}"
        )
    elif settings.shards.count > 1 and policy.subject is None:
        yield (
            "shards.count: without policy.subject a row's shard follows from its values, and so gives away what noise "
            "is to hide; name a subject, or set shards.count to 1"
        )
