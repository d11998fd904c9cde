"""Versions of the programs of a run, and hashes of its configuration."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version

from crenel.anonymity.model.fingerprint import hierarchy_digest
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.digests import code_version, hierarchies_digest, policy_digest, settings_digest


def versions(config: Config) -> Iterator[tuple[str, str]]:
    """Yield versions of programs, and hashes of policy, hierarchies and code as in a chained audit log."""
    yield "Crenel, with a hash of its code", code_version()
    if config.source.is_given:  # a program has no source, and may have no Flink
        yield "Apache Flink", version("apache-flink")
    yield "Python", platform.python_version()
    yield "policy", policy_digest(config)
    yield "privacy models and settings", settings_digest(config)
    yield "hierarchies", hierarchies_digest(config)
    for attribute in config.policy.with_hierarchy:
        yield f"hierarchy of {attribute.name}", hierarchy_digest(attribute.hierarchy)
