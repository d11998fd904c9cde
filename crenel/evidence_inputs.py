"""Inputs of evidence that follow from a configuration; apart, because a job needs no evidence of its outputs."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import combinations
from types import MappingProxyType

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fingerprint import COUNTED, changed_fields, hierarchy_digest
from crenel.anonymity.model.secret import Secret
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
    settings_fingerprint,
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


def require_one_run(
    settings: Mapping[str, Settings], chains: Mapping[str, Secret | None] = MappingProxyType({})
) -> None:
    """Require that a job can have run under each of these settings in turn, restored from its own state.

    Parameters
    ----------
    settings : by name
    chains : keys of the hash chain, by the same names

    Raises
    ------
    ConfigError
        They differ in a field that no restore changes, or in a key only, so that no release shows its key.
    """
    fixed = {name: settings_fingerprint(each, each.epoch) for name, each in settings.items()}
    keys = {name: key.read() for name, key in chains.items() if key is not None}
    for first, other in combinations(settings, 2):
        # A later restore may count a column that an earlier one added.
        differing = changed_fields(fixed[first], fixed[other], fixed[first].roles)
        if changed := [field for field in differing if not field.startswith(COUNTED)]:
            text = f"not the same in {first} and {other}, and no restore changes that; verify their outputs one by one"
            raise ConfigError(other, [f"{', '.join(changed)}: {text}"])
        if (
            {first, other} <= keys.keys()
            and keys[first] != keys[other]
            and in_force_digest(settings[first]) == in_force_digest(settings[other])
        ):
            text = (
                f"not the same in {first} and {other}, which have one hash in_force, so that no release shows its key"
            )
            raise ConfigError(other, [f"audit_chain.key: {text}; a restore with another key needs another k, too"])


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
