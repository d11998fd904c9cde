"""Implementation of ``crenel check``: a configuration with its derived settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from crenel.anonymity.model.attributes import Numeric, QuasiIdentifier
from crenel.anonymity.model.privacy_model import Parameter, PrivacyModel
from crenel.evidence.budget import account
from crenel.jobs.cli.budget import budget_in_short
from crenel.jobs.cli.cli_common import grid, indent
from crenel.jobs.cli.savepoint import changed_settings, read_shards, require_same
from crenel.jobs.config.kafka import broker_warnings
from crenel.jobs.config.load import Config, load
from crenel.jobs.config.start_positions import STATE
from crenel.jobs.failure import without_passwords
from crenel.jobs.local.logs import flink_logs
from crenel.jobs.local.preload import start_java
from crenel.jobs.local.run import refused
from crenel.jobs.local.sample import first_row_warnings

if TYPE_CHECKING:
    from crenel.jobs.pipeline.layout import Layout


def show_configuration(path: Path, overrides: Sequence[str], console: Console, against: str | None = None) -> None:
    """Validate a configuration and print its effect.

    ``against`` is the folder of a savepoint that a job with this configuration is to resume from.

    Raises
    ------
    ConfigError
        Lists all problems of the configuration.
    SavepointError
        The savepoint cannot be read, or the configuration differs in a field that cannot change.
    JavaError
        No usable Java.
    """
    config = load(path, overrides)
    # Checks without Flink come first, because it starts slowly.
    stored = read_shards(against) if against is not None else []
    planned = _plan(config, against)
    layout = planned.layout
    changed: list[str] = []
    goes_on = True
    if against is not None:
        from crenel.jobs.pipeline.digests import stored_under  # imports Flink, as _plan has

        now = stored_under(config, layout)
        goes_on = require_same(against, stored, now)
        changed = changed_settings(stored, now) if goes_on else []
    console.print(f"{path} is valid.", soft_wrap=True)
    if against is not None:
        there = len({state.shard for state in stored})
        stored_state = f"the state of {there} of {config.shards.count} shards"
        if not goes_on:
            stored_state = f"with -n; the {there} stored shards buffer no tuples, and those of this epoch start empty"
        console.print(f"It can go on from {against}: {stored_state}.", soft_wrap=True)
    for warning in (*changed, *config.warnings, *planned.warnings):
        console.print(f"Warning: {without_passwords(warning)}.", soft_wrap=True)
    console.print()
    _print(console, "policy", roles(config))
    _print(console, f"privacy and {config.algorithm.name}", guarantee_lines(config))
    if config.sampling_and_noise is not None:
        # The layout has the steps that follow from the columns' types.
        found = account(layout.policy, config.privacy.k, config.sampling_and_noise)
        _print(console, "differential privacy", budget_in_short(found))
    for name, columns in layout.sinks.items():
        sink = config.sinks.get(name)
        title = f"{name}: {'discarded' if sink is None else sink['connector']}, with the columns"
        _print(console, title, [(column.name, column.sql_type) for column in columns])


@dataclass(frozen=True)
class _Planned:
    """A planned job; ``warnings``: caveats before its start."""

    layout: Layout
    warnings: tuple[str, ...]


def _plan(config: Config, against: str | None) -> _Planned:
    settings = {**config.flink, **({} if against is None else {STATE[0]: against})}
    with flink_logs():
        # Flink takes seconds to start and to import, so it waits until the configuration is valid.
        java = start_java()
        from py4j.protocol import Py4JError
        from pyflink.util.exceptions import JavaException

        from crenel.jobs.pipeline.build import build, read_layout
        from crenel.jobs.pipeline.environment import local_environment
        from crenel.jobs.pipeline.source_table import source_table

        java.join()
        try:
            tables = local_environment(config.flink)
            layout = read_layout(tables, config)
            # Planning the job finds problems with sinks. It needs its own catalog, because the source exists in the
            # first.
            job = build(local_environment(settings), config)
            job.explain()
        except (Py4JError, JavaException) as error:
            raise refused(error, config) from None
    # A job that resumes from state reads other rows.
    warnings = (*job.warnings, *broker_warnings(job.setup.tables))
    if not settings.keys().isdisjoint(STATE):
        return _Planned(layout, warnings)
    strange = first_row_warnings(config, source_table(tables).options or {})
    return _Planned(layout, (*warnings, *strange))


def roles(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the role of each column, in words."""
    policy = config.policy
    yield "subject", policy.subject or "none: every row is its own person"
    yield "event time", policy.event_time or "none"
    for attribute in policy.quasi_identifiers:
        yield "quasi-identifier", f"{attribute.name}: {_described(attribute)}"
    yield "sensitive", ", ".join(policy.sensitive) or "none"
    for noised in policy.noised:
        yield "noised", f"{noised.name}: {_described(noised)}"
    yield "pass-through", ", ".join(policy.passthrough) or "none"
    yield "drop", ", ".join(policy.drop) or "none"
    yield "reference", policy.reference or "none"
    if policy.pseudonym is not None:
        until = {"stream": "always the same", "day": "another each UTC day", "release": "another in each release"}
        yield "pseudonym", f"{policy.pseudonym.column}: a code of the subject, {until[policy.pseudonym.scope]}"
    yield "missing values", "rejected" if policy.missing == "reject" else "a category of their own"


def _described(attribute: QuasiIdentifier) -> str:
    if isinstance(attribute, Numeric):
        grid = "" if attribute.ends is None else f", published between multiples of {attribute.ends:.15g}"
        if attribute.domain is None:
            return f"numeric, losses relative to the range observed{grid}"
        least, most = attribute.domain
        return f"numeric from {least:.15g} to {most:.15g}{grid}"
    tree = attribute.hierarchy
    return f"categorical, {tree.leaves} values under {len(tree.labels) - tree.leaves} labels"


def guarantee_lines(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the privacy models and settings, in words."""
    privacy, parameters, shards = config.privacy, config.parameters, config.shards
    yield "k", f"{privacy.k} distinct subjects in every release"
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


def _print(console: Console, title: str, rows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> None:
    console.print(title, style="bold")
    indent(console, grid(rows), below=1)
