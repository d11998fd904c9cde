"""Identity of settings and of the code, as hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from crenel import __version__, anonymity, operators, state
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.model.fingerprint import Fingerprint, fingerprint, hierarchy_digest
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import NO_KEY, SubjectKey

if TYPE_CHECKING:
    from importlib.abc import Traversable

_OURS = (anonymity, operators, state)
"""The packages whose code decides about publication."""


class PlanSettings(Protocol):
    """The settings that a plan follows from."""

    @property
    def policy(self) -> Policy: ...
    @property
    def privacy(self) -> Privacy: ...
    @property
    def algorithm(self) -> Algorithm: ...
    @property
    def sampling_and_noise(self) -> SamplingAndNoise | None: ...
    @property
    def shards(self) -> Shards: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def subject_key(self) -> SubjectKey: ...


@cache
def code_version() -> str:
    """Return the version, and 16 digits of a hash of the code that decides about publication."""
    found = hashlib.sha256()
    for package in _OURS:
        for parts, content in sorted(_sources(files(package))):
            found.update(f"{package.__name__}/{'/'.join(parts)}:{len(content)}:".encode())
            found.update(content)
    return f"{__version__}+{found.hexdigest()[:16]}"


def _sources(folder: Traversable, *above: str) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield path and content of each module below a folder, which may be in a zip archive."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, *above, entry.name)
        elif entry.name.endswith(".py"):
            yield (*above, entry.name), entry.read_bytes()


def settings_fingerprint(settings: PlanSettings, epoch: int = 1) -> Fingerprint:
    """Return the state fingerprint as far as settings tell it: without the subject key and column types."""
    return fingerprint(
        settings.policy,
        settings.shards,
        NO_KEY,
        {},
        algorithm=settings.algorithm.name,
        parameters=settings.algorithm.fixed_settings,
        sampling_and_noise=settings.sampling_and_noise,
        privacy=settings.privacy,
        epoch=epoch,
    )


def policy_digest(settings: PlanSettings) -> str:
    """Return 32 digits of a hash of the ``settings_fingerprint``."""
    fields = settings_fingerprint(settings)
    return _digest({name: value for name, value in fields.items() if name != "subject_key"})


def hierarchies_digest(settings: PlanSettings) -> str:
    """Return 32 digits of a hash of the hierarchies, by attribute."""
    policy = settings.policy
    return _digest({a.name: hierarchy_digest(a.hierarchy) for a in policy.with_hierarchy})


def settings_digest(settings: PlanSettings) -> str:
    """Return 32 digits of a hash of privacy models, algorithm and parameters, which may change at a restore.

    Secrets and locations are not included. A setting at its default is not either, so that a new setting changes no
    hash.
    """
    return _digest(_guarantees(settings) | {"algorithm": [settings.algorithm.name, _stated(settings.algorithm)]})


def in_force_digest(settings: PlanSettings) -> str:
    """Return 16 digits of a hash of the settings that a release is judged by, in the column ``in_force`` of ``audit``.

    These are the columns with their roles, domains, hierarchies and published forms, the privacy models, and sampling
    and noise. Delays and other parameters of the algorithm are not among them: a release under another delay has the
    same guarantees.
    """
    published = {a.name: a.publish for a in settings.policy.attributes if a.publish not in ("interval", "ancestor")}
    suppressed = {"generalizes": True} if settings.algorithm.generalizes_suppressed else {}
    representative = {"representative": True} if settings.algorithm.has_representative else {}
    stated = {"policy": policy_digest(settings), "publish": published, **suppressed, **representative}
    return _digest(_guarantees(settings) | stated)[:16]


def _guarantees(settings: PlanSettings) -> dict[str, Any]:
    privacy = settings.privacy
    return {
        "privacy": privacy.in_force,
        "references": {name: repr(privacy.reference_of(name)) for name in settings.policy.sensitive},
        "lasting": _stated(privacy.lasting),
        "noise_within": _stated(privacy.noise_within_release),
        "sampling_and_noise": _stated(settings.sampling_and_noise),
        "ends": {attribute.name: attribute.ends for attribute in settings.policy.numeric},
        "pseudonym": _stated(settings.policy.pseudonym),
    }


def _stated(value: Any) -> Any:
    """Return the settings of a dataclass that differ from their defaults, as plain values."""
    if not is_dataclass(value):
        return repr(value)
    stated = {}
    for field in fields(value):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if (own := repr(getattr(value, field.name))) != repr(default):
            stated[field.name] = own
    return stated


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:32]
