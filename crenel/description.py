"""Roles, privacy models and settings of a configuration, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crenel.anonymity.model.attributes import Noised, Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.durations import format_duration
from crenel.settings import Settings


def roles(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the role of each column, in words."""
    policy = settings.policy
    yield "subject", policy.subject or "none: every row is its own person"
    yield "event time", policy.event_time or "none"
    for attribute in policy.attributes:
        if isinstance(attribute, Presence):
            continue
        yield "quasi-identifier", f"{attribute.name}: {_described(attribute)}"
    forms = {name: f"{name} (up to {width} values)" for name, width in policy.arrays.items()}
    forms |= {
        of.name: f"{of.name} (one of {len({*of.labels})} labels at level {of.level})"
        for of in policy.generalized.values()
    }
    yield "sensitive", ", ".join(forms.get(name, name) for name in policy.sensitive) or "none"
    for noised in policy.noised.values():
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


def _described(attribute: QuasiIdentifier | Noised) -> str:
    if isinstance(attribute, Numeric):
        grid = "" if attribute.ends is None else f", published between multiples of {attribute.ends:.15g}"
        grid += _form(attribute) + (", or missing" if attribute.missing == "value" else "")
        if attribute.domain is None:
            return f"numeric, losses relative to the range observed{grid}"
        least, most = attribute.domain
        return f"numeric from {least:.15g} to {most:.15g}{grid}"
    if isinstance(attribute, Noised):
        return f"numeric from {attribute.domain[0]:.15g} to {attribute.domain[1]:.15g}"
    tree = attribute.hierarchy
    return f"categorical, {tree.leaves} values under {len(tree.labels) - tree.leaves} labels{_form(attribute)}"


def _form(attribute: QuasiIdentifier) -> str:
    if attribute.publish in ("interval", "ancestor"):
        return ""
    return f", published as the {'set of the values' if attribute.publish == 'set' else attribute.publish} of the class"


def guarantee_lines(settings: Settings, further: Iterable[tuple[str, str]] = ()) -> Iterator[tuple[str, str]]:
    """Yield the privacy models and settings, in words; ``further``: lines that only a job has."""
    privacy, shards = settings.privacy, settings.shards
    counted = "synthetic records" if settings.algorithm.is_synthetic else "distinct subjects"
    yield "k", f"{privacy.k} {counted} in every release"
    yield "l", f"{privacy.l}-diversity of each sensitive column in every release"
    for model, parameter in privacy.further:
        yield model.name, f"{model.text(parameter)} of each sensitive column in every release"
    if privacy.lasting is not None:
        horizon = privacy.lasting.horizon
        until = "for ever" if horizon is None else f"until {format_duration(horizon)} after the last"
        yield "persons", f"k and l over all rows of a person, {until}; {privacy.lasting.moved} after a person has moved"
    for name, column in privacy.sensitive.items():
        if column.l is not None:
            yield "l", f"{column.l}-diversity of {name} in every release"
        for model, parameter in column.further:
            yield model.name, f"{model.text(parameter)} of {name} in every release"
        if column.reference is not None:
            yield "reference", f"{len(column.reference.values)} values of {name}, {column.distance} distance"
    for name in settings.policy.sensitive:
        if (reference := privacy.reference_of(name)) is not None and reference.of_stream:
            yield "reference", f"the stream of {name} so far, equal distance"
    if settings.algorithm.reuses and any(privacy.further_of(name) for name in settings.policy.sensitive):
        yield "reuse", "none, because a singleton release could violate the privacy models beside k and l"
    yield from _noise_within(settings)
    yield "algorithm", settings.algorithm.name
    yield from settings.algorithm.describe()
    yield "shards", f"{shards.count} by {shards.by}"
    yield "seed", "from the operating system" if settings.seed is None else str(settings.seed)
    yield from further
    yield "subject_key", "given" if settings.subject_key else "none: subjects are hashed without a key"


def _noise_within(settings: Settings) -> Iterator[tuple[str, str]]:
    noise = settings.privacy.noise_within_release
    if noise is None:
        return
    shares = zip(settings.policy.noised.values(), noise.of([*settings.policy.noised]), strict=True)
    each = ", ".join(f"{attribute.name} {epsilon:g}" for attribute, epsilon in shares)
    least = f", no less than {noise.least:g} of the domain" if noise.scale == "release" else ""
    yield "noise_within_release", f"epsilon {noise.epsilon:g} for a record ({each}), width of the {noise.scale}{least}"
    if noise.confidence is not None:
        yield "confidence", f"{noise.confidence.k} subjects within the linking range at {noise.confidence.c:g}, or none"
