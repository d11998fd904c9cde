"""By which programs a run worked, and hashes of what it followed."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from anonymity.attributes import Categorical
from anonymity.fingerprint import hierarchy_digest
from jobs.config.load import Config

_ROOT = Path(__file__).resolve().parents[2]
_CODE = ("anonymity", "jobs", "operators", "state")


def versions(config: Config) -> Iterator[tuple[str, str]]:
    """Versions of programs, and hashes of the policy, of each hierarchy, and of the code that is installed."""
    yield "Crenel", version("crenel")
    yield "Apache Flink", version("apache-flink")
    yield "Python", platform.python_version()
    yield "policy, promises and settings", policy_digest(config)
    for attribute in config.policy.categorical:
        yield f"hierarchy of {attribute.name}", hierarchy_digest(attribute.hierarchy)
    yield f"code of {', '.join(_CODE)}", code_digest()


def policy_digest(config: Config) -> str:
    """A hash of roles, hierarchies, promises, algorithm and shards; equal where two configurations say the same.

    Of no secret and no place: ``subject_key``, ``source`` and ``sinks`` are not in it.
    """
    policy, privacy, shards = config.policy, config.privacy, config.shards
    said = {
        "roles": policy.roles,
        "attributes": [
            [a.name, hierarchy_digest(a.hierarchy)] if isinstance(a, Categorical) else repr(a)
            for a in (*policy.quasi_identifiers, *policy.noised)
        ],
        "missing": policy.missing,
        "event_time_limit": policy.event_time_limit,
        "pseudonym": repr(policy.pseudonym),
        "promises": privacy.in_force,
        "references": {name: repr(privacy.reference_of(name)) for name in policy.sensitive},
        "lasting": repr(privacy.lasting),
        "noise_within": repr(privacy.noise_within),
        "algorithm": [config.algorithm.name, repr(config.parameters)],
        "differential_privacy": repr(config.differential_privacy),
        "shards": [shards.count, shards.by, None if shards.regions is None else shards.regions.cuts],
    }
    return _digest(json.dumps(said, sort_keys=True, default=repr).encode())


def code_digest() -> str:
    """A hash of all sources that decide what leaves, wherever they are installed."""
    found = hashlib.blake2b(digest_size=16)
    for package in _CODE:
        for path in sorted((_ROOT / package).rglob("*.py")):
            found.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
