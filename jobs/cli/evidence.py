"""Commands of ``evidence/``, which import their dependencies on call so that other commands start quickly."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from crenel.jobs.cli.cli_common import Configuration, Configurations, Overrides, app, console, reported, warn
from crenel.jobs.config.load import load

Sample = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file with rows of the source, read instead of it.")
]
Rows = Annotated[int, typer.Option(min=2, help="Size of the sample: the first tuples of the source.")]
_ROWS = 50_000


@app.command()
def plan(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Sample = None,
    rows: Rows = _ROWS,
    max_loss: Annotated[
        float | None, typer.Option(metavar="LOSS", min=0, max=1, help="Maximum mean loss, such as 0.2.")
    ] = None,
    max_delay: Annotated[
        str | None,
        typer.Option(metavar="DELAY", help="Maximum p99 of the delay: 10min, or '1000 tuples'."),
    ] = None,
    max_suppressed: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Maximum share of suppressed tuples, such as 1%.")
    ] = None,
    min_k: Annotated[int | None, typer.Option(metavar="K", min=1, help="Minimum k; default: as configured.")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,VALUE",
            help="Values to try of algorithm, k, l, delay, shards, or a field such as castle.max_clusters. Repeatable.",
        ),
    ] = None,
    settings: Annotated[int, typer.Option(min=1, help="Maximum number of settings to try.")] = 100,
    write_regions: Annotated[
        Path | None,
        typer.Option(
            "--regions", metavar="FILE", help="Write learned regions to this file, if the plan recommends them."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw all settings as PNG or SVG; needs the extra 'plot'.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all settings, not only the best.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as one JSON object.")] = False,
) -> None:
    """Replay a sample of the source under many settings, and recommend one within your limits."""
    with reported(configuration, judges=True):
        from crenel.jobs.cli import plan as command

        options = command.PlanOptions(
            sample=sample,
            rows=rows,
            settings=settings,
            vary=vary or (),
            max_loss=max_loss,
            max_delay=max_delay,
            max_suppressed=max_suppressed,
            min_k=min_k,
            regions=write_regions,
            picture=plot,
            shows_all=everything,
            as_json=json,
        )
        if not command.show_plan(configuration, overrides or [], options, console()):
            raise typer.Exit(1)


@app.command()
def why(
    configuration: Configuration,
    overrides: Overrides = None,
    sample: Sample = None,
    rows: Rows = _ROWS,
    outputs: Annotated[bool, typer.Option("--outputs", help="Also read the outputs of a run from its sinks.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False,
) -> None:
    """Explain suppression, rejection and loss in a replayed sample, and the settings that reduce them."""
    with reported(configuration, judges=True):
        from crenel.jobs.cli import why as command

        options = command.WhyOptions(sample=sample, rows=rows, outputs=outputs, as_json=json)
        command.show_why(configuration, overrides or [], options, console())


@app.command()
def report(
    configuration: Configuration,
    overrides: Overrides = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file to write.", dir_okay=False)] = Path(
        "report.html"
    ),
    source: Annotated[
        bool, typer.Option("--input", help="Also read the source, and show input beside output.")
    ] = False,
    attacks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Include results of 'crenel attack --json' for this run."),
    ] = None,
) -> None:
    """Write a report of the output in the sinks as an HTML page; needs the extra 'report'."""
    with reported(configuration, judges=True):
        from crenel.evidence.report.page import Place
        from crenel.jobs.cli.report import report as write_report

        config = write_report(configuration, overrides or [], Place(output), source=source, attacks=attacks)
        warn(config.warnings)
        console().print(f"The report is in {output}.", soft_wrap=True)


@app.command()
def verify(
    configurations: Configurations,
    overrides: Overrides = None,
    since: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An earlier result of --json: its last releases must still exist."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The run that the outputs must be of: its id, as 'crenel run' prints it."),
    ] = None,
    running: Annotated[
        bool,
        typer.Option("--running", help="The job has not ended: its chain needs no closing record."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False,
) -> None:
    """Check outputs: exit code 1 for a violation, 2 if they cannot be read, 3 if a check was impossible."""
    with reported(configurations[0], judges=True):
        from crenel.jobs.cli.verify import EXIT_CODES, show, verdict_of

        are_distinct = len({path.name for path in configurations}) == len(configurations)
        configs = {}
        for path in configurations:
            with reported(path, judges=True):
                configs[path.name if are_distinct else str(path)] = load(path, overrides or [])
        verdict = verdict_of(configs, since, run=run, runs_on=running)
        if json:
            print(jsonlib.dumps(verdict.to_dict()))
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
        typer.Option(metavar="FILE", help="A file with the input of the run, read instead of the source."),
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Maximum number of input rows.")] = 100_000,
    replay: Annotated[bool, typer.Option("--replay", help="Attack replays only, not the outputs of a run.")] = False,
    within_rows: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=0, help="The attacker knows the order of arrival to within N rows. Repeatable."),
    ] = None,
    within_time: Annotated[
        list[str] | None,
        typer.Option(metavar="T", help="The attacker knows times to within T, such as '1 min'. Repeatable."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of replays.")] = 5,
    targets: Annotated[int, typer.Option(min=1, help="Maximum number of target persons in each replay.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False,
) -> None:
    """Estimate re-identification risk of outputs and replays, for attackers with different knowledge."""
    with reported(configuration, judges=True):
        from crenel.jobs.cli import attack as command

        options = command.AttackOptions(sample, rows, replay, within_rows or (), within_time or (), seeds, targets)
        results = command.attack(configuration, overrides or [], options)
        if json:
            print(jsonlib.dumps(results.as_json()))
        else:
            command.show(results, options, console())
