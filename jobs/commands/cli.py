"""The command line."""

from __future__ import annotations

import json as jsonlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from math import inf, isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from anonymity.regions.learn import RegionsError
from evidence.attack.effort import AttackError
from evidence.report.shown import ReportError
from jobs.commands import attack as attack_command
from jobs.commands import plan as plan_command
from jobs.commands import why as why_command
from jobs.commands import within
from jobs.commands.account import NothingToAccountError, account
from jobs.commands.check import show_configuration
from jobs.commands.demo import REPORT, show_files
from jobs.commands.demo import demo as run_demo
from jobs.commands.forget import request
from jobs.commands.hierarchy import UnknownHierarchyError, hierarchy_text
from jobs.commands.plot import PlotError, draw
from jobs.commands.regions import write_regions
from jobs.commands.report import Place, report_of_run
from jobs.commands.report import report as write_report
from jobs.commands.savepoint import SavepointError
from jobs.commands.verify import show, verdict_of
from jobs.config.load import Config, ConfigError, load
from jobs.local.java import JavaError
from jobs.local.outputs import OutputsError
from jobs.local.run import JobError
from jobs.local.run import run as run_job
from jobs.local.sample import SampleError
from jobs.plan.options import Bounds, PlanError, share_of, wait_of

app = typer.Typer(
    name="crenel",
    help="Anonymise a stream of personal records while it flows: CASTLE, windows and others, on Apache Flink.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Configuration = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A YAML file; see docs/configuration.md.", dir_okay=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a field first, such as privacy.k=20. May be repeated."),
]


@app.command()
def run(
    configuration: Configuration,
    overrides: Overrides = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Tasks side by side; without it as the configuration says, else 1.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what left as a page for people; needs the extra 'report'."),
    ] = None,
) -> None:
    """Run a job here until its input ends, and tell what became of the rows."""
    with _reported(configuration):
        place = None if report is None else Place(report)
        config = load(configuration, overrides or [])
        _warn(config)
        summary = run_job(config, parallelism=parallelism)
        if place is not None:
            report_of_run(config, configuration.name, place, summary)
        if json:
            print(jsonlib.dumps(summary.as_json()))
            return
        console = _console()
        console.print(summary.as_table())
        for warning in summary.warnings:
            console.print(f"Warning: {warning}.", soft_wrap=True)
        table = Table.grid(padding=(0, 2))
        for name, options in config.sinks.items():
            table.add_row(name, f"{options['connector']} {options.get('path', '')}")
        if place is not None:
            table.add_row("report", str(place.path))
        console.print()
        console.print(table)


@app.command()
def check(
    configuration: Configuration,
    overrides: Overrides = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="SAVEPOINT", help="Whether the state in this folder of a savepoint fits as well."),
    ] = None,
) -> None:
    """Validate a configuration, with the columns of its source, and show what would run."""
    with _reported(configuration):
        show_configuration(configuration, overrides or [], _console(), against)


@app.command()
def budget(
    configuration: Configuration,
    overrides: Overrides = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(metavar="E", min=0, help="Show the delta of this epsilon. May be repeated; without it of some."),
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
    """Show what sampling and noise are worth: epsilon, delta, and how far noise moves each attribute."""
    with _reported(configuration):
        if not all(map(isfinite, epsilon or ())):
            raise typer.BadParameter("--epsilon must be a finite number")
        wanted = _wanted(wanted_epsilon, wanted_delta)
        config = load(configuration, overrides or [])
        if config.differential_privacy is None and config.privacy.noise_within is None:
            raise NothingToAccountError
        found = None if config.differential_privacy is None else account(config, epsilon or None, wanted)
        if plot is not None:
            if found is None:
                raise typer.BadParameter("--plot draws delta, and the configuration has no differential_privacy")
            draw(plot, config.privacy.k, found.sample_rate)
        _warn(config)
        if json:
            figures = {} if found is None else found.as_json()
            print(jsonlib.dumps(figures | {"noise_within_release": within.as_json(config)}))
            return
        console = _console()
        if found is not None:
            found.show(console)
        within.show(console, config)
        if plot is not None:
            console.print(f"\n{plot} shows delta against epsilon.", soft_wrap=True)


@app.command()
def hierarchy(
    configuration: Configuration,
    column: Annotated[
        str | None, typer.Argument(metavar="COLUMN", help="A categorical quasi-identifier; needed where there are two.")
    ] = None,
    overrides: Overrides = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there, and not to standard output.", dir_okay=False)
    ] = None,
) -> None:
    """Write a hierarchy as CSV, one line a value, from the value to the root, also where it is built."""
    with _reported(configuration):
        text = hierarchy_text(load(configuration, overrides or []).policy, column)
        if output is None:
            typer.echo(text, nl=False)
            return
        try:
            output.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            _end(f"{output} cannot be written: {error.strerror}", 1)


@app.command()
def regions(
    configuration: Configuration,
    count: Annotated[int, typer.Option(min=1, help="Regions, as many as shards.count shall be.")],
    write: Annotated[Path, typer.Option(metavar="FILE", help="The file for shards.regions.", dir_okay=False)],
    overrides: Overrides = None,
    sample: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="Tuples to learn from; of a source without an end the first.")
    ] = 20_000,
) -> None:
    """Learn regions of the quasi-identifiers from the source, by which a stream can be divided into shards."""
    with _reported(configuration):
        try:
            write_regions(configuration, overrides or [], count, sample, write, _console())
        except RegionsError as error:
            _end(f"{configuration}: {error}; lower --count, or read more rows with --sample", 1)
        except OSError as error:
            _end(f"{write} cannot be written: {error.strerror}", 1)


@app.command()
def forget(
    configuration: Configuration,
    subjects: Annotated[
        list[str] | None,
        typer.Option(
            "--subject", metavar="S", help="A person, as policy.subject has it. May be repeated; without it from stdin."
        ),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Ask a job that runs to forget persons: write a request for each into the table of source.forget."""
    with _reported(configuration):
        persons = subjects or [line for line in sys.stdin.read().splitlines() if line]
        if not persons:
            raise typer.BadParameter("nobody is named; give --subject, or one person a line on standard input")
        request(configuration, overrides or [], persons, _console())


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=0, help="Rows of the stream.")] = 50_000,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the files there: the stream and all that came out.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes another stream.")] = 1,
) -> None:
    """Anonymise a made-up stream of clinic visits, and show what comes out."""
    with _reported(Path("the demo's configuration")):
        console = _console()
        if keep is not None:
            ended = run_demo(keep.absolute(), rows, seed, console)
            try:
                report_of_run(ended.config, ended.name, Place(keep.absolute() / REPORT), ended.summary)
            except ReportError as error:
                typer.echo(f"crenel: warning: {error}", err=True)
            show_files(keep.absolute(), console)
            return
        with tempfile.TemporaryDirectory(prefix="crenel-demo-") as folder:
            run_demo(Path(folder), rows, seed, console)
        console.print(
            f"\nThe files are gone again; 'crenel demo --keep DIR' keeps them, with {REPORT}, a page for people."
        )


@app.command()
def report(
    configuration: Configuration,
    overrides: Overrides = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Write it there; an HTML file.", dir_okay=False)] = Path(
        "report.html"
    ),
    source: Annotated[
        bool, typer.Option("--input", help="Read the source too, and show what came in beside what left.")
    ] = False,
) -> None:
    """Write what left, as its sinks hold it, as a page for people; needs the extra 'report'."""
    with _reported(configuration):
        config = write_report(configuration, overrides or [], Place(output), source=source)
        _warn(config)
        _console().print(f"{output} tells what left.", soft_wrap=True)


@app.command()
def verify(
    configuration: Configuration,
    overrides: Overrides = None,
    since: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What --json printed before: the last releases of then must be there still."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all that was found as one JSON object.")] = False,
) -> None:
    """Check what a run has left against what was promised, from its outputs alone: exit code 1 where that is broken."""
    with _reported(configuration):
        verdict = verdict_of(load(configuration, overrides or []), since)
        if json:
            print(jsonlib.dumps(verdict.as_json()))
        else:
            show(verdict, _console())
        if not verdict.holds:
            raise typer.Exit(1)


@app.command()
def plan(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows as the source has them, read in its place.")
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Tuples of the sample: the first of the source.")] = 50_000,
    most_loss: Annotated[
        float | None, typer.Option(metavar="LOSS", min=0, max=1, help="Most mean loss, such as 0.2.")
    ] = None,
    most_delay: Annotated[
        str | None,
        typer.Option(metavar="DELAY", help="What 99 of 100 tuples may wait for: 10min, or '1000 tuples'."),
    ] = None,
    most_suppressed: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Most tuples that may be suppressed, such as 1%.")
    ] = None,
    least_k: Annotated[int | None, typer.Option(metavar="K", min=1, help="Least k; without it as configured.")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,VALUE",
            help="What to try of algorithm, k, l, delay, shards, or a field such as castle.max_clusters. May be "
            "repeated.",
        ),
    ] = None,
    settings: Annotated[int, typer.Option(min=1, help="Settings that are tried, at most.")] = 100,
    write_regions: Annotated[
        Path | None, typer.Option("--regions", metavar="FILE", help="Write learned regions, where it recommends any.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw all settings as PNG or SVG; needs the extra 'plot'.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all settings, and not only the best.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as one JSON object.")] = False,
) -> None:
    """Replay a sample of the source under many settings, and recommend one for what is wanted."""
    with _reported(configuration):
        bounds = Bounds(
            loss=most_loss,
            delay=None if most_delay is None else wait_of(most_delay, "--most-delay"),
            suppressed=None if most_suppressed is None else share_of(most_suppressed, "--most-suppressed"),
            k=least_k,
        )
        given = plan_command.Options(
            sample=sample,
            rows=rows,
            settings=settings,
            vary=vary or (),
            bounds=bounds,
            regions=write_regions,
            picture=plot,
            everything=everything,
            as_json=json,
        )
        kept = plan_command.show_plan(configuration, overrides or [], given, _console())
        if not kept:
            raise typer.Exit(1)


@app.command()
def why(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows as the source has them, read in its place.")
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Tuples of the sample: the first of the source.")] = 50_000,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Look at what a run has left in its sinks as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all as one JSON object.")] = False,
) -> None:
    """Replay a sample, and tell what was suppressed, rejected or lost, and which setting would have saved it."""
    with _reported(configuration):
        given = why_command.Options(sample=sample, rows=rows, outputs=outputs, as_json=json)
        why_command.show_why(configuration, overrides or [], given, _console())


@app.command()
def attack(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The run's input: rows as the source has them, read in its place."),
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Rows of the input, at most.")] = 100_000,
    replay: Annotated[bool, typer.Option("--replay", help="Attack replays alone, and no outputs of a run.")] = False,
    within_rows: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=0, help="The observer knows the order to within N rows. May be repeated."),
    ] = None,
    within_time: Annotated[
        list[str] | None,
        typer.Option(metavar="T", help="The observer knows times to within T, as '1 min'. May be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Replays.")] = 5,
    targets: Annotated[int, typer.Option(min=1, help="People that are looked for in each, at most.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as one JSON object.")] = False,
) -> None:
    """Attack what a run has left, and replays of its input: what could be learnt by who knows this or that."""
    with _reported(configuration):
        given = attack_command.Options(sample, rows, replay, within_rows or (), within_time or (), seeds, targets)
        found = attack_command.attack(configuration, overrides or [], given)
        if json:
            print(jsonlib.dumps(found.as_json()))
        else:
            attack_command.show(found, given, _console())


@app.callback(invoke_without_command=True)
def _main(show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if show_version:
        print(f"crenel {version('crenel')}")
        raise typer.Exit


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


def _warn(config: Config) -> None:
    for warning in config.warnings:
        typer.echo(f"crenel: warning: {warning}", err=True)


def _console() -> Console:
    # What is printed holds names and text of the user's own, which are no markup.
    return Console(markup=False, highlight=False, emoji=False)


@contextmanager
def _reported(configuration: Path) -> Iterator[None]:
    """End with a message and an exit code, not with a traceback."""
    try:
        yield
    except ConfigError as error:
        _end(f"{configuration} is not a valid configuration:{_listed(error.problems)}", 2)
    except SavepointError as error:
        _end(f"{configuration} cannot go on from {error.place}:{_listed(error.problems)}", 2)
    except OutputsError as error:
        _end(f"{configuration}: {error}", 2)
    except UnknownHierarchyError as error:
        _end(f"{configuration} {error}", 2)
    except AttackError as error:
        _end(f"{configuration}: {error}", 2)
    except NothingToAccountError:
        neither = "has neither differential_privacy nor noise_within_release"
        _end(f"{configuration} {neither}, so there is nothing to account for", 2)
    except (PlanError, PlotError, ReportError, SampleError) as error:
        _end(str(error), 2)
    except JobError as error:
        _end(f"{error}\nFlink's logs are in {error.logs}; they may hold values of records.", 1)
    except JavaError as error:
        _end(str(error), 1)
    except KeyboardInterrupt:
        _end("stopped; the job was cancelled, and what it had not published yet is lost", 130)


def _listed(problems: Sequence[str]) -> str:
    return "".join(f"\n- {problem}" for problem in problems).replace("\n", "\n  ")


def _end(message: str, code: int) -> None:
    typer.echo(f"crenel: {message}", err=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
