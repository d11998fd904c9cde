"""Identity of a configuration and of the code: hashes, the fingerprint of stored state, and plan of the hash chain."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crenel import __version__, anonymity, operators, state
from crenel.anonymity.model.fingerprint import Fingerprint, fingerprint, hierarchy_digest
from crenel.anonymity.model.secret import NO_KEY
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.layout import Layout
from crenel.jobs.pipeline.sql_types import INSTANTS, INTEGERS, parse
from crenel.operators.encode.columns import Read
from crenel.operators.output_columns import numbers_in_force
from crenel.operators.shards.chain import ChainColumn, ChainPlan, Form

if TYPE_CHECKING:
    from importlib.abc import Traversable

_MICROSECONDS = len("2024-02-29 10:00:00.123456")
"""Characters of a time that a file of Parquet holds."""

_OURS = (anonymity, operators, state)
"""The packages whose code decides about publication."""


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


def policy_digest(config: Config) -> str:
    """Return 32 digits of a hash of the state fingerprint, without the subject key and column types."""
    fields = fingerprint(
        config.policy,
        config.shards,
        NO_KEY,
        {},
        algorithm=config.algorithm.stored_as,
        parameters=config.algorithm.fixed_parameters(config.parameters),
        sampling_and_noise=config.sampling_and_noise,
        privacy=config.privacy,
    )
    return _digest({name: value for name, value in fields.items() if name != "subject_key"})


def hierarchies_digest(config: Config) -> str:
    """Return 32 digits of a hash of the hierarchies, by attribute."""
    policy = config.policy
    return _digest({a.name: hierarchy_digest(a.hierarchy) for a in policy.with_hierarchy})


def settings_digest(config: Config) -> str:
    """Return 32 digits of a hash of privacy models, algorithm and parameters, which may change at a restore.

    Secrets and locations are not included. A setting at its default is not either, so that a new setting changes no
    hash.
    """
    privacy = config.privacy
    return _digest(
        {
            "privacy": privacy.in_force,
            "references": {name: repr(privacy.reference_of(name)) for name in config.policy.sensitive},
            "lasting": _stated(privacy.lasting),
            "noise_within": _stated(privacy.noise_within),
            "algorithm": [config.algorithm.name, _stated(config.parameters)],
            "sampling_and_noise": _stated(config.sampling_and_noise),
            "ends": {attribute.name: attribute.ends for attribute in config.policy.numeric},
            "pseudonym": _stated(config.policy.pseudonym),
        }
    )


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


def stored_under(config: Config, found: Layout) -> Fingerprint:
    """Return the fingerprint of restored state (``crenel.anonymity.model.fingerprint.fingerprint``)."""
    return fingerprint(
        found.policy,
        config.shards,
        config.subject_key,
        found.published,
        algorithm=config.algorithm.stored_as,
        parameters=config.algorithm.fixed_parameters(config.parameters),
        sampling_and_noise=config.sampling_and_noise,
        subject_type=found.subject_type,
        source=found.source,
        budgeted=config.algorithm.budgeted(config.privacy, config.parameters),
        privacy=config.privacy,
        epoch=config.epoch,
    )


def chain_plan(config: Config, found: Layout) -> ChainPlan | None:
    """Return the hash chain settings of a job's audit log; None without a chain."""
    if config.audit_chain is None:
        return None
    encode = found.encode
    types = {column.name: column.sql_type for column in found.sinks["audit"]}
    reads = encode.sensitive + encode.noised + encode.passthrough
    return ChainPlan(
        key=config.audit_chain,
        in_force=tuple(numbers_in_force(config.privacy, config.sampling_and_noise).values()),
        run=secrets.token_hex(8),
        version=code_version(),
        policy=policy_digest(config),
        hierarchies=hierarchies_digest(config),
        settings=settings_digest(config),
        null_text=encode.null_text,
        generalization=tuple(_generalized(column.name, types[column.name]) for column in found.generalization.columns),
        members=tuple(_member(read, found.published[read.name], config.sinks["released"]) for read in reads),
    )


def _member(read: Read, text: str, sink: Mapping[str, str]) -> ChainColumn:
    """Return how the chain hashes a column of members, by its SQL type and the sink of ``released``."""
    form, longest = _form(text), read.longest
    if form == "time" and sink.get("format") == "parquet" and sink.get("parquet.timestamp.time.unit") != "nanos":
        longest = _MICROSECONDS
    return ChainColumn(read.name, form, longest, read.padded)


def _form(text: str) -> Form:
    """Return how the chain hashes the values of a column of members, by its SQL type."""
    name = parse(text).name
    if name in (*INTEGERS, "DECIMAL"):
        return "decimal"
    if name in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return "time"
    return "double" if name == "DOUBLE" else "float" if name == "FLOAT" else "text"


def _generalized(name: str, text: str) -> ChainColumn:
    """Return how the chain hashes a column of the generalization, by its SQL type in the sink."""
    sql = parse(text)
    if sql.name in INSTANTS:
        return ChainColumn(name, "double", unit=sql.unit)
    if sql.name == "DECIMAL":
        return ChainColumn(name, "double", scale=sql.scale)
    return ChainColumn(name, "float" if sql.name == "FLOAT" else "double" if _form(text) != "text" else "text")
