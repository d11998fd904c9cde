"""Commands of ``evidence/``, which import their dependencies on call so that other commands start quickly."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from crenel.jobs.cli.cli_common import Configuration, Overrides, app, console, reported, warn
from crenel.jobs.config.load import load

Sample = Annotated[Path | None, typer.Option(metavar="FILE", help="Rows as the source has them, read in its place.")]
Rows = Annotated[int, typer.Option(min=2, help="Tuples of the sample: the first of the source.")]
_ROWS = 50_000


@app.command()
def plan(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Sample = None,
    rows: Rows = _ROWS,
    max_loss: Annotated[
        float | None, typer.Option(metavar="LOSS", min=0, max=1, help="Most mean loss, such as 0.2.")
    ] = None,
    max_delay: Annotated[
        str | None,
        typer.Option(metavar="DELAY", help="What 99 of 100 tuples may wait for: 10min, or '1000 tuples'."),
    ] = None,
    max_suppressed: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Most tuples that may be suppressed, such as 1%.")
    ] = None,
    min_k: Annotated[int | None, typer.Option(metavar="K", min=1, help="Least k; without it as configured.")] = None,
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
    with reported(configuration):
        from crenel.jobs.cli import plan as command
        from crenel.jobs.plan.options import Bounds, share_of, wait_of

        bounds = Bounds(
            loss=max_loss,
            delay=None if max_delay is None else wait_of(max_delay, "--max-delay"),
            suppressed=None if max_suppressed is None else share_of(max_suppressed, "--max-suppressed"),
            k=min_k,
        )
        given = command.Options(
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
        kept = command.show_plan(configuration, overrides or [], given, console())
        if not kept:
            raise typer.Exit(1)


@app.command()
def why(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Sample = None,
    rows: Rows = _ROWS,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Look at what a run has left in its sinks as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all as one JSON object.")] = False,
) -> None:
    """Replay a sample, and tell what was suppressed, rejected or lost, and which setting would have saved it."""
    with reported(configuration):
        from crenel.jobs.cli import why as command

        given = command.Options(sample=sample, rows=rows, outputs=outputs, as_json=json)
        command.show_why(configuration, overrides or [], given, console())


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
    attacks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What 'crenel attack --json' printed of this run, to be shown.")
    ] = None,
) -> None:
    """Write what left, as its sinks hold it, as a page for people; needs the extra 'report'."""
    with reported(configuration):
        from crenel.jobs.cli.report import Place
        from crenel.jobs.cli.report import report as write_report

        config = write_report(configuration, overrides or [], Place(output), source=source, attacks=attacks)
        warn(config.warnings)
        console().print(f"{output} tells what left.", soft_wrap=True)


@app.command()
def verify(
    configuration: Configuration,
    overrides: Overrides = None,
    since: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What --json printed before: the last releases of then must be there still."),
    ] = None,
    running: Annotated[
        bool,
        typer.Option("--running", help="The job has not ended: its chain needs no closing record."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all that was found as one JSON object.")] = False,
) -> None:
    """Check outputs against what was promised: exit code 1 where that is broken, 3 where it could not be checked."""
    with reported(configuration):
        from crenel.jobs.cli.verify import EXIT_CODES, show, verdict_of

        verdict = verdict_of(load(configuration, overrides or []), since, runs_on=running)
        if json:
            print(jsonlib.dumps(verdict.as_json()))
        else:
            show(verdict, console())
        if EXIT_CODES[verdict.outcome]:
            raise typer.Exit(EXIT_CODES[verdict.outcome])


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
    """Attack what a run has left, and replays of its input: what could be learned by who knows this or that."""
    with reported(configuration):
        from crenel.jobs.cli import attack as command

        given = command.Options(sample, rows, replay, within_rows or (), within_time or (), seeds, targets)
        found = command.attack(configuration, overrides or [], given)
        if json:
            print(jsonlib.dumps(found.as_json()))
        else:
            command.show(found, given, console())
