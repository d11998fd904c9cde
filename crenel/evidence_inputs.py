"""Inputs of evidence that follow from a configuration; apart, because a job needs no evidence of its outputs."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fingerprint import COUNTED, Fingerprint, changed_fields, fingerprint, hierarchy_digest
from crenel.anonymity.model.secret import NO_KEY, Secret
from crenel.description import guarantee_lines, roles
from crenel.evidence.report.context import About
from crenel.evidence.verify.chain import Chained
from crenel.evidence.verify.spans import Guarantees
from crenel.operators.digests import (
    code_version,
    hierarchies_digest,
    in_force_digest,
    policy_digest,
    settings_digest,
)
from crenel.operators.output_columns import numbers_in_force
from crenel.operators.plan import output_schemas
from crenel.settings import Settings


def guarantees(settings: Settings, audit_chain: Secret | None = None, name: str = "") -> Guarantees:
    """Return the guarantees that outputs can be checked against.

    Parameters
    ----------
    audit_chain : key of the hash chain, if any
    name : of the settings, for messages about one of several
    """
    schemas = output_schemas(settings, chained=audit_chain is not None)
    return Guarantees(
        policy=settings.policy,
        privacy=settings.privacy,
        in_force=numbers_in_force(settings.privacy, settings.sampling_and_noise),
        shards=settings.shards.count,
        generalizes=settings.algorithm.generalizes_suppressed,
        noise=settings.sampling_and_noise is not None,
        synthetic=settings.algorithm.is_synthetic,
        chained=None if audit_chain is None else _chained(settings, audit_chain),
        digest=in_force_digest(settings),
        name=name,
        columns={output: schemas[output].names for output in ("released", "audit")},
    )


def require_one_run(settings: Mapping[str, Settings]) -> None:
    """Require that a job can have run under each of these settings in turn, restored from its own state.

    ``settings``: by name.

    Raises
    ------
    ConfigError
        They differ in a field that no restore changes.
    """
    (first, of_first), *others = ((name, _fixed(each)) for name, each in settings.items())
    for name, of_other in others:
        # A later restore may count a column that an earlier one added.
        changed = [name for name in changed_fields(of_first, of_other, of_first.roles) if not name.startswith(COUNTED)]
        if changed:
            text = f"not the same in {first} and {name}, and no restore changes that; verify their outputs one by one"
            raise ConfigError(name, [f"{', '.join(changed)}: {text}"])


def _fixed(settings: Settings) -> Fingerprint:
    """Return what no restore changes, as far as settings tell; keys may be unknown to an auditor."""
    return fingerprint(
        settings.policy,
        settings.shards,
        NO_KEY,
        {},
        algorithm=settings.algorithm.name,
        parameters=settings.algorithm.fixed_settings,
        sampling_and_noise=settings.sampling_and_noise,
        privacy=settings.privacy,
        epoch=settings.epoch,
    )


def _chained(settings: Settings, key: Secret) -> Chained:
    return Chained(key.read(), policy_digest(settings), hierarchies_digest(settings), settings_digest(settings))


def about(
    settings: Settings, name: str, warnings: Sequence[str], *, further: Sequence[tuple[str, str]] = (), flink: str = ""
) -> About:
    """Return the settings of a run for its report.

    Parameters
    ----------
    name : of the configuration
    further : lines of ``guarantee_lines`` that only a job has
    flink : version of Flink; empty: the run needed none
    """
    # Knowledge of the seed would allow an attacker to reproduce the random choices.
    seed = {"seed": "fixed"} if settings.seed is not None else {}
    settings_text = ((name, seed.get(name, text)) for name, text in guarantee_lines(settings, further))
    return About(
        name=name,
        made=datetime.now(timezone.utc).strftime("%d %B %Y, %H:%M UTC"),
        privacy=settings.privacy,
        algorithm=settings.algorithm.name,
        settings={"Roles of columns": tuple(roles(settings)), "Privacy models and settings": tuple(settings_text)},
        sampling_and_noise=settings.sampling_and_noise,
        representative=settings.algorithm.has_representative,
        published=settings.algorithm.generalizes_suppressed,
        private=settings.algorithm.private,
        synthetic=settings.algorithm.is_synthetic,
        versions=tuple(_versions(settings, flink)),
        warnings=tuple(warnings),
    )


def _versions(settings: Settings, flink: str) -> Iterator[tuple[str, str]]:
    """Yield versions of programs, and hashes of policy, hierarchies and code as in a chained audit log."""
    yield "Crenel, with a hash of its code", code_version()
    if flink:
        yield "Apache Flink", flink
    yield "Python", platform.python_version()
    yield "policy", policy_digest(settings)
    yield "privacy models and settings", settings_digest(settings)
    yield "hierarchies", hierarchies_digest(settings)
    for attribute in settings.policy.with_hierarchy:
        yield f"hierarchy of {attribute.name}", hierarchy_digest(attribute.hierarchy)
