"""Roles, privacy models and settings of a configuration, in words."""

from __future__ import annotations

from collections.abc import Iterator

from crenel.anonymity.model.attributes import Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.privacy_model import Parameter, PrivacyModel
from crenel.jobs.config.load import Config


def roles(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the role of each column, in words."""
    policy = config.policy
    yield "subject", policy.subject or "none: every row is its own person"
    yield "event time", policy.event_time or "none"
    for attribute in policy.quasi_identifiers:
        if isinstance(attribute, Presence):
            continue
        yield "quasi-identifier", f"{attribute.name}: {_described(attribute)}"
    forms = {name: f"{name} (up to {width} values)" for name, width in policy.arrays}
    forms |= {
        of.name: f"{of.name} (one of {len({*of.labels})} labels at level {of.level})" for of in policy.generalized
    }
    yield "sensitive", ", ".join(forms.get(name, name) for name in policy.sensitive) or "none"
    for noised in policy.noised:
        yield "noised", f"{noised.name}: {_described(noised)}"
    yield "pass-through", ", ".join(policy.passthrough) or "none"
    yield "drop", ", ".join(policy.drop) or "none"
    yield "reference", policy.reference or "none"
    if policy.pseudonym is not None:
        until = {"stream": "always the same", "day": "another each UTC day", "release": "another in each release"}
        yield "pseudonym", f"{policy.pseudonym.column}: a code of the subject, {until[policy.pseudonym.scope]}"
    yield "missing values", "rejected" if policy.missing == "reject" else "a category of their own"
    if policy.presence:
        yield "missing numbers", f"kept in {', '.join(policy.numeric[number].name for number, _ in policy.presence)}"


def _described(attribute: QuasiIdentifier) -> str:
    if isinstance(attribute, Numeric):
        grid = "" if attribute.ends is None else f", published between multiples of {attribute.ends:.15g}"
        grid += _form(attribute) + (", or missing" if attribute.missing == "value" else "")
        if attribute.domain is None:
            return f"numeric, losses relative to the range observed{grid}"
        least, most = attribute.domain
        return f"numeric from {least:.15g} to {most:.15g}{grid}"
    tree = attribute.hierarchy
    return f"categorical, {tree.leaves} values under {len(tree.labels) - tree.leaves} labels{_form(attribute)}"


def _form(attribute: QuasiIdentifier) -> str:
    if attribute.publish in ("interval", "ancestor"):
        return ""
    return f", published as the {'set of the values' if attribute.publish == 'set' else attribute.publish} of the class"


def guarantee_lines(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the privacy models and settings, in words."""
    privacy, parameters, shards = config.privacy, config.parameters, config.shards
    counted = "synthetic records" if config.algorithm.synthetic(parameters) else "distinct subjects"
    yield "k", f"{privacy.k} {counted} in every release"
    yield "l", f"{privacy.l}-diversity of each sensitive column in every release"
    for model, parameter in privacy.further:
        yield model.name, f"{_numbers(model, parameter)} of each sensitive column in every release"
    if privacy.lasting is not None:
        until = "for ever" if privacy.lasting.horizon is None else f"until {privacy.lasting.horizon} ms after the last"
        yield "persons", f"k and l over all rows of a person, {until}; {privacy.lasting.moved} after a person has moved"
    for column in privacy.sensitive:
        if column.l is not None:
            yield "l", f"{column.l}-diversity of {column.name} in every release"
        for model, parameter in column.further:
            yield model.name, f"{_numbers(model, parameter)} of {column.name} in every release"
        if column.reference is not None:
            values, distance = len(column.reference.values), column.reference.distance
            yield "reference", f"{values} values of {column.name}, {distance} distance"
    for name in config.policy.sensitive:
        if (reference := privacy.reference_of(name)) is not None and reference.of_stream:
            yield "reference", f"the stream of {name} so far, equal distance"
    if getattr(parameters, "reuse_limit", 0) and any(privacy.further_of(name) for name in config.policy.sensitive):
        yield "reuse", "none, because a singleton release could violate the privacy models beside k and l"
    yield from _noise_within(config)
    yield "algorithm", config.algorithm.name
    yield from config.algorithm.tell(parameters)
    yield "shards", f"{shards.count} by {shards.by}"
    yield "seed", "from the operating system" if config.seed is None else str(config.seed)
    if config.source.is_given:  # a program has no source, and erases by a call
        yield "requests to forget", "none are read" if config.source.forget is None else "from the table forget"
    if config.audit_chain is not None:
        yield (
            "audit_chain",
            "with a key" if config.audit_chain else "without a key: anyone with write access can rewrite it",
        )
    yield "subject_key", "given" if config.subject_key else "none: subjects are hashed without a key"


def _numbers(model: PrivacyModel, parameter: Parameter) -> str:
    if not isinstance(parameter, tuple):
        return f"{parameter:g}"
    return ", ".join(f"{name} {number:g}" for name, number in zip(model.fields, parameter, strict=True))


def _noise_within(config: Config) -> Iterator[tuple[str, str]]:
    noise = config.privacy.noise_within
    if noise is None:
        return
    shares = zip(config.policy.noised, noise.of(len(config.policy.noised)), strict=True)
    each = ", ".join(f"{attribute.name} {epsilon:g}" for attribute, epsilon in shares)
    least = f", no less than {noise.least:g} of the domain" if noise.scale == "release" else ""
    yield "noise_within_release", f"epsilon {noise.epsilon:g} for a record ({each}), width of the {noise.scale}{least}"
    if noise.confidence is not None:
        yield "confidence", f"{noise.confidence.k} subjects within the linking range at {noise.confidence.c:g}, or none"
