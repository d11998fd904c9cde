"""Command-line interface."""

from __future__ import annotations

import json as jsonlib
import sys
from math import inf, isfinite
from pathlib import Path
from typing import Annotated

import typer

from crenel import __version__
from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.hierarchy import MISSING, HierarchyError, csv_text
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.regions.learn import RegionsError
from crenel.evidence.budget import account
from crenel.jobs.cli.budget import NothingToAccountError, show_account, show_budget, show_within, within_as_json
from crenel.jobs.cli.check import show_configuration
from crenel.jobs.cli.cli_common import Configuration, Overrides, app, console, end, grid, reported, warn
from crenel.jobs.cli.demo import REPORT, show_files
from crenel.jobs.cli.demo import demo as run_demo
from crenel.jobs.cli.forget import request
from crenel.jobs.cli.plot import draw_budget
from crenel.jobs.cli.schema import configuration_schema
from crenel.jobs.config.load import load
from crenel.jobs.failure import without_passwords
from crenel.jobs.local.folders import clean as remove_abandoned
from crenel.jobs.local.run import run as run_job
from crenel.jobs.local.stop import temporary_folder


@app.command()
def run(
    configuration: Configuration,
    overrides: Overrides = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Parallel tasks; default: the configured number, else 1.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report of the output as an HTML page; needs the extra 'report'."),
    ] = None,
) -> None:
    """Run a job on this machine until its input ends, and summarize its output."""
    with reported(configuration):
        place = None
        if report is not None:  # drawing packages are imported only on demand, here and below
            from crenel.evidence.report.page import Place
            from crenel.jobs.cli.report import report_of_run

            place = Place(report)
        config = load(configuration, overrides or [])
        warn(config.warnings)
        summary = run_job(config, parallelism=parallelism, warn=warn)
        if place is not None:
            report_of_run(config, configuration.name, place, summary)
        if json:
            print(jsonlib.dumps(summary.as_json()))
            return
        shown = console()
        shown.print(summary.as_table())
        for warning in summary.warnings:
            shown.print(f"Warning: {warning}.", soft_wrap=True)
        sinks = config.sinks.items()
        rows = [
            (name, without_passwords(f"{options['connector']} {options.get('path') or options.get('table', '')}"))
            for name, options in sinks
        ]
        shown.print()
        shown.print(grid([*rows, *([] if place is None else [("report", str(place.path))])]))


@app.command()
def check(
    configuration: Configuration,
    overrides: Overrides = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="SAVEPOINT", help="Also check that the job can restore this savepoint, a folder."),
    ] = None,
) -> None:
    """Validate a configuration and the columns of its source, and show the job."""
    with reported(configuration):
        show_configuration(configuration, overrides or [], console(), against)


@app.command()
def schema(
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it into this file instead.", dir_okay=False)
    ] = None,
) -> None:
    """Print the JSON Schema of a configuration, by which an editor completes and checks one."""
    text = jsonlib.dumps(configuration_schema(), indent=1, ensure_ascii=False) + "\n"
    if write is None:
        print(text, end="")
    else:
        write.write_text(text, encoding="utf-8")


@app.command()
def init(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A file of CSV, Parquet or JSON lines; or a .sql file with a CREATE TABLE of Flink."
        ),
    ],
    write: Annotated[Path, typer.Option(metavar="FILE", help="The configuration to write.", dir_okay=False)],
    sample: Annotated[int, typer.Option(min=1, metavar="ROWS", help="Rows to read: the first ones.")] = 100_000,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Names of the columns, for a CSV file whose first line is a record."),
    ] = None,
    contract: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An Open Data Contract (version 3), a schema of Avro or a descriptor set of Protobuf: its tags count.",
            dir_okay=False,
        ),
    ] = None,
    schema_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="A schema object or message of the contract, which has several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE where it exists.")] = False,
) -> None:
    """Profile a file of records, and write a configuration that proposes roles, for a person to complete."""
    with reported(source):
        from crenel.jobs.cli.init import write_configuration

        names = [] if columns is None else [name.strip() for name in columns.split(",")]
        write_configuration(
            source,
            write,
            rows=sample,
            names=names,
            contract_file=contract,
            schema_name=schema_name,
            force=force,
            console=console(),
        )


@app.command()
def budget(
    configuration: Configuration,
    overrides: Overrides = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(metavar="E", min=0, help="Show delta for this epsilon. Repeatable; default: several values."),
    ] = None,
    wanted_epsilon: Annotated[
        float | None,
        typer.Option(metavar="E", help="Find the largest sample_rate for this epsilon, with --wanted-delta."),
    ] = None,
    wanted_delta: Annotated[
        float | None, typer.Option(metavar="D", help="Find the largest sample_rate for this delta, below 1.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw delta against epsilon as PNG or SVG; needs the extra 'plot'."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
) -> None:
    """Show epsilon and delta of sampling, noise or the algorithm cells, and the error of noise for each attribute."""
    with reported(configuration):
        if not all(map(isfinite, epsilon or ())):
            raise typer.BadParameter("--epsilon must be a finite number")
        wanted = _wanted(wanted_epsilon, wanted_delta)
        config = load(configuration, overrides or [])
        private = dict(config.algorithm.account(config.privacy))
        if config.sampling_and_noise is None and config.privacy.noise_within_release is None and not private:
            raise NothingToAccountError
        chosen, k = config.sampling_and_noise, config.privacy.k
        budget_figures = None if chosen is None else account(config.policy, k, chosen, epsilon or None, wanted)
        if plot is not None:
            if budget_figures is None:
                raise typer.BadParameter("--plot draws delta, and the configuration has no sampling_and_noise")
            draw_budget(plot, budget_figures)
        warn(config.warnings)
        if json:
            figures = {} if budget_figures is None else budget_figures.to_dict() | {"warnings": list(config.warnings)}
            print(jsonlib.dumps(figures | private | {"noise_within_release": within_as_json(config)}))
            return
        shown = console()
        if private:
            show_account(private, shown)
        if budget_figures is not None:
            show_budget(budget_figures, shown)
        show_within(config, shown)
        if plot is not None:
            shown.print(f"\n{plot} shows delta against epsilon.", soft_wrap=True)


@app.command()
def hierarchy(
    configuration: Configuration,
    column: Annotated[
        str | None,
        typer.Argument(metavar="COLUMN", help="A column with a hierarchy; required if there are several."),
    ] = None,
    overrides: Overrides = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to this file instead of standard output.", dir_okay=False)
    ] = None,
) -> None:
    """Write a hierarchy as CSV, one line per value, from the value to the root."""
    with reported(configuration):
        text = _hierarchy_text(load(configuration, overrides or []).policy, column)
        if output is None:
            typer.echo(text, nl=False)
            return
        try:
            output.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            end(f"{output} cannot be written: {error.strerror}", 1)


@app.command()
def regions(
    configuration: Configuration,
    count: Annotated[int, typer.Option(min=1, help="Number of regions, which becomes shards.count.")],
    write: Annotated[Path, typer.Option(metavar="FILE", help="The file for shards.regions.", dir_okay=False)],
    overrides: Overrides = None,
    sample: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="Tuples to learn from; the first ones of an unbounded source.")
    ] = 20_000,
    private: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="EPSILON",
            help="Learn at most --count cells for cells.partition, with this epsilon for each person, from all of a "
            "bounded source.",
        ),
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="PERSONS",
            help="With --private: tuples of the source that a cell should have at least; by default, enough persons "
            "for a key that is published often, for each declared label of the sensitive columns.",
        ),
    ] = None,
) -> None:
    """Learn regions of the quasi-identifiers from the source, for shards or for the algorithm cells."""
    if least is not None and private is None:
        raise typer.BadParameter("goes with --private", param_hint="--least")
    with reported(configuration, judges=True):
        from crenel.jobs.cli.regions import write_regions

        try:
            write_regions(configuration, overrides or [], count, sample, write, console(), private, least)
        except RegionsError as error:
            end(f"{configuration}: {error}; lower --count, or read more rows with --sample", 1)
        except OSError as error:
            end(f"{write} cannot be written: {error.strerror}", 1)


@app.command()
def forget(
    configuration: Configuration,
    subjects: Annotated[
        list[str] | None,
        typer.Option(
            "--subject",
            metavar="S",
            help="A person, by the value of policy.subject. Repeatable; default: lines of stdin.",
        ),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Request that a running job forget persons: write one row per person to the table of source.forget."""
    with reported(configuration):
        persons = subjects or [line for line in sys.stdin.read().splitlines() if line]
        if not persons:
            raise typer.BadParameter("no person is named; give --subject, or one person per line on standard input")
        request(configuration, overrides or [], persons, console())


@app.command()
def clean() -> None:
    """Remove temporary folders that no running command owns, the logs of failed runs included."""
    done = remove_abandoned(kept=True)
    typer.echo(f"Removed folders of ended commands: {done.removed}, with {done.size:,} bytes.")
    if done.owned:
        typer.echo(f"Folders of running commands, which are kept: {done.owned}.")
    if done.failed:
        paths = ", ".join(map(str, done.failed))
        end(f"{paths}: cannot be removed completely; check their permissions, and remove them by hand", 1)


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=0, help="Rows of the stream.")] = 50_000,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the input and all outputs in this folder.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated stream.")] = 1,
) -> None:
    """Anonymize a synthetic stream of clinic visits, and show the output."""
    with reported(Path("the demo's configuration")):
        shown = console()
        if keep is not None:
            from crenel.evidence.report.context import ReportError
            from crenel.evidence.report.page import Place
            from crenel.jobs.cli.report import report_of_run

            ended = run_demo(keep.absolute(), rows, seed, shown)
            try:
                report_of_run(ended.config, ended.name, Place(keep.absolute() / REPORT), ended.summary)
            except ReportError as error:
                typer.echo(f"crenel: warning: {error}", err=True)
            show_files(keep.absolute(), shown)
            return
        with temporary_folder("crenel-demo-") as folder:
            run_demo(folder / "demo", rows, seed, shown)  # a subfolder, because the temporary folder holds its lock
        shown.print(f"\nThe files are removed; 'crenel demo --keep DIR' keeps them, and adds the report {REPORT}.")


@app.callback(invoke_without_command=True)
def _main(show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if show_version:
        print(f"crenel {__version__}")
        raise typer.Exit


class UnknownHierarchyError(InputError):
    """Error for an ambiguous or unknown hierarchy; the message lists the existing ones."""

    lead = " "


def _hierarchy_text(policy: Policy, column: str | None = None) -> str:
    """Return the text of a hierarchy file that makes the same tree, without the leaf for missing values.

    Parameters
    ----------
    column : a categorical quasi-identifier, or a generalized sensitive column; None: the only one

    Raises
    ------
    UnknownHierarchyError
        The policy has no such column, or no column is given and there is not exactly one.
    """
    trees = {attribute.name: attribute.hierarchy for attribute in policy.with_hierarchy}
    if not trees:
        raise UnknownHierarchyError("has no categorical quasi-identifier and no generalized column, so no hierarchy")
    if column is None and len(trees) > 1:
        raise UnknownHierarchyError(f"has several hierarchies; name a column: {', '.join(trees)}")
    tree = trees.get(column if column is not None else next(iter(trees)))
    if tree is None:
        raise UnknownHierarchyError(f"has no hierarchy of the column {column!r}; it has {', '.join(trees)}")
    try:
        paths = tree.paths()
    except HierarchyError as error:
        raise UnknownHierarchyError(f"has a hierarchy that {error}") from None
    return csv_text([path for path in paths if policy.missing == "reject" or path[0] != MISSING])


def _wanted(epsilon: float | None, delta: float | None) -> tuple[float, float] | None:
    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise typer.BadParameter("--wanted-epsilon and --wanted-delta go together; give both")
    if not 0 < epsilon < inf:
        raise typer.BadParameter("--wanted-epsilon must be a finite number above 0")
    if not 0 < delta < 1:
        raise typer.BadParameter("--wanted-delta must be above 0 and below 1")
    return epsilon, delta


import crenel.jobs.cli.evidence  # noqa: E402, F401 - its commands are listed behind these
