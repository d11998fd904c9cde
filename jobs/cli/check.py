"""Implementation of ``crenel check``: a configuration with its derived settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from crenel.description import guarantee_lines, roles
from crenel.evidence.budget import account
from crenel.jobs.cli.budget import account_in_short, budget_in_short
from crenel.jobs.cli.cli_common import grid, indent
from crenel.jobs.cli.savepoint import compare, read_shards
from crenel.jobs.config.flink_settings import STATE
from crenel.jobs.config.load import Config, load
from crenel.jobs.failure import without_passwords
from crenel.jobs.local.logs import flink_logs
from crenel.jobs.local.preload import start_java
from crenel.jobs.local.run import refused
from crenel.jobs.local.sample import first_row_warnings
from crenel.operators.digests import in_force_digest

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
    changed = [] if against is None else compare(against, stored, layout.plan.context.fingerprint)
    console.print(f"{path} is valid.", soft_wrap=True)
    if against is not None:
        there = len({state.shard for state in stored})
        stored_state = f"the state of {there} of {config.shards.count} shards"
        if changed is None:
            stored_state = f"with -n; the {there} stored shards buffer no tuples, and those of this epoch start empty"
        console.print(f"It can go on from {against}: {stored_state}.", soft_wrap=True)
    for warning in (*(changed or ()), *config.warnings, *planned.warnings):
        console.print(f"Warning: {without_passwords(warning)}.", soft_wrap=True)
    console.print()
    _print(console, "policy", roles(config.settings))
    in_force = ("in_force", f"{in_force_digest(config)}, the hash of these settings in audit")
    lines = [*guarantee_lines(config.settings, config.lines), in_force]
    _print(console, f"privacy and {config.algorithm.name}", lines)
    if config.algorithm.private:
        figures = config.algorithm.account(config.privacy)
        _print(console, "differential privacy of each person", account_in_short(figures))
    if config.sampling_and_noise is not None:
        # The layout has the steps that follow from the columns' types.
        found = account(layout.plan.policy, config.privacy.k, config.sampling_and_noise)
        _print(console, "differential privacy", budget_in_short(found))
    for name, columns in layout.sinks.items():
        sink = config.sinks.get(name)
        kept = "discarded" if sink is None else f"{sink['connector']} {config.tables.get(name, '')}".rstrip()
        title = f"{name}: {kept}, with the columns"
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
            job = build(local_environment(settings), config, creates=False)
            job.explain()
        except (Py4JError, JavaException) as error:
            raise refused(error, config) from None
    # A job that resumes from state reads other rows.
    if not settings.keys().isdisjoint(STATE):
        return _Planned(layout, job.warnings)
    strange = first_row_warnings(config, source_table(tables).options or {})
    return _Planned(layout, (*job.warnings, *strange))


def _print(console: Console, title: str, rows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> None:
    console.print(title, style="bold")
    indent(console, grid(rows), below=1)
