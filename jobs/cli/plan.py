"""Implementation of ``crenel plan``: the cost of other settings, and a recommendation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crenel.evidence.choice import Figures
from crenel.jobs.cli.budget import figures, indent
from crenel.jobs.cli.plan_picture import draw, require_drawable
from crenel.jobs.cli.progress import progress_bar
from crenel.jobs.config.file import override, read
from crenel.jobs.config.load import load
from crenel.jobs.local.sample import read_beginning
from crenel.jobs.local.stop import temporary_folder
from crenel.jobs.plan.block import replaced
from crenel.jobs.plan.options import Bounds, PlanError, varied
from crenel.jobs.plan.planned import Asked, Plan, plan
from crenel.jobs.plan.point import Point

_MINUTE = 60_000
_SHOWN = 20
"""Maximum number of table rows, unless all are requested."""


@dataclass(frozen=True)
class Options:
    """Options of the command, beside those of every command.

    Attributes
    ----------
    sample : a file that replaces the source
    rows : tuples of the sample, at most
    settings : replays, at most
    vary : user-defined dimensions
    bounds : constraints
    regions : file for learned regions
    picture : file for the picture
    everything : whether to show all settings
    as_json : whether to print one JSON object
    """

    sample: Path | None
    rows: int
    settings: int
    vary: Sequence[str]
    bounds: Bounds
    regions: Path | None
    picture: Path | None
    everything: bool
    as_json: bool


def show_plan(path: Path, overrides: Sequence[str], options: Options, console: Console) -> bool:
    """Replay settings around a configured one, and show them; return whether one meets the constraints.

    Raises
    ------
    ConfigError, JobError, JavaError
        As ``crenel.jobs.local.sample.read_beginning`` does.
    PlanError
        An option is invalid, or the regions file cannot be written.
    SampleError
        As ``crenel.jobs.local.sample.read_beginning`` does.
    PlotError
        The picture cannot be drawn.
    """
    config = load(path, overrides)
    content = read(path)
    override(content, overrides)
    if options.picture is not None:
        require_drawable(options.picture)
    dimensions = varied(options.vary, content)
    asked = Asked(
        path=path,
        overrides=tuple(overrides),
        content=content,
        bounds=options.bounds,
        varied=dimensions,
        settings=options.settings,
        regions="regions.yaml" if options.regions is None else str(options.regions.absolute()),
    )
    with progress_bar() as show, temporary_folder("crenel-plan-") as folder:
        show(0)
        beginning = read_beginning(config, options.rows, options.sample)
        found = plan(config, asked, beginning, folder, show)
    if options.regions is not None and found.regions is not None:
        try:
            options.regions.write_text(found.regions, encoding="utf-8")
        except OSError as error:
            raise PlanError(f"--regions: {options.regions} cannot be written: {error.strerror}") from None
    if options.picture is not None:
        draw(options.picture, found)
    if options.as_json:
        print(json.dumps(as_json(found)))
    else:
        _show(found, options, console)
    return found.chosen is not None and not found.chosen.missed


def as_json(found: Plan) -> dict[str, Any]:
    """Return a plan as plain values for ``json.dumps``."""
    sample, chosen = found.beginning.sample, found.chosen
    return {
        "sample": {
            "tuples": len(sample),
            "rejected": len(sample.rejected.column),
            "whole": found.beginning.whole,
            "minutes": sample.milliseconds / _MINUTE if found.timed else None,
        },
        "delay_in": "milliseconds" if found.timed else "tuples",
        "wanted": {name: None if value == inf else value for name, value in vars(found.wanted).items()},
        "settings": [_setting(found, point) for point in found.figures],
        "impossible": len(found.impossible),
        "meets": chosen is not None and not chosen.missed,
        "chosen": None if chosen is None else _setting(found, chosen.setting),
        "missed": {} if chosen is None else {name: None if by == inf else by for name, by in chosen.missed.items()},
        "steps": [{"dimension": name, **_setting(found, point)} for name, point in found.steps],
        "yaml": found.text,
    }


def _setting(found: Plan, point: Point) -> dict[str, Any]:
    totals, costs = found.totals[point], found.figures[point]
    return {
        "algorithm": point.algorithm,
        "k": point.k,
        "l": point.l,
        "delay_tuples": point.tuples,
        "delay_event_time_ms": point.milliseconds,
        "shards": point.shards,
        "by": point.by,
        **dict(point.further),
        "mean_loss": totals.mean_loss,
        "suppressed": totals.share_suppressed,
        "suppressed_by_reason": totals.suppressed,
        "delay_p50": None if costs.middle == inf else costs.middle,
        "delay_p99": None if costs.delay == inf else costs.delay,
        "releases": sum(totals.releases.values()),
        "fewest_subjects": totals.fewest_subjects,
        "on_front": point in found.best,
    }


def _show(found: Plan, options: Options, console: Console) -> None:
    chosen = found.chosen
    console.print(_told(found), soft_wrap=True)
    console.print()
    shown = _rows(found, everything=options.everything)
    table = figures("", "algorithm", "k", "l", "delay of the setting", "shards", *_further(found), *_costs(found))
    for point in shown:
        table.add_row(_mark(found, point), *_named(found, point), *_amounts(found, found.figures[point]))
    console.print(table)
    left = len(found.figures) - len(shown)
    console.print(
        "\n> recommended, = configured, * on the front: none with the same k and l is as good in loss, suppressed and "
        f"delay and better in one.{f' {left} others were replayed; --all shows them.' if left else ''}"
        f"{f' {len(found.impossible)} cannot be with this policy.' if found.impossible else ''}",
        soft_wrap=True,
    )
    for name, problem in found.unfit.items():
        console.print(f"{name} was not tried: {problem}.", soft_wrap=True)
    if chosen is None:
        console.print("\nNo setting promises what is wanted.", soft_wrap=True)
        return
    if chosen.figures.suppressed >= 1:
        console.print("\nNo setting releases anything of so few tuples; take a sample of a few thousand.")
        return
    console.print()
    if chosen.missed:
        console.print(f"No setting keeps {_wanted(found)}. The nearest misses {_missed(found)}:", soft_wrap=True)
    else:
        console.print(f"Recommended, as it keeps {_wanted(found)}{_why(found)}:", soft_wrap=True)
    others = replaced(found.written, chosen.setting)
    console.print()
    console.print(found.text, soft_wrap=True, end="")
    console.print(f"\nIt takes the place of {', '.join(others)} in the configuration.", soft_wrap=True)
    if found.regions is not None:
        console.print(_regions(options, chosen.setting), soft_wrap=True)
    if found.steps:
        console.print("\nA step to either side of it would give:")
        indent(console, _beside(found))
    if options.picture is not None:
        console.print(f"\n{options.picture} shows all of them.", soft_wrap=True)


def _told(found: Plan) -> str:
    sample = found.beginning.sample
    rows = f"{len(sample):,} tuples, {'all of the source' if found.beginning.whole else 'the first of the source'}"
    rejected = len(sample.rejected.column)
    told = f"{rows}{f'; {rejected:,} rows were rejected' if rejected else ''}"
    if found.timed:
        minutes = sample.milliseconds / _MINUTE
        told += f"; {len(sample) / minutes:.3g} a minute over {minutes:,.0f} minutes of event time"
        told += f", whose watermark is {minute(sample.lag)} behind" if sample.lag else ""
    return f"{told}. {len(found.figures)} settings were replayed."


def _rows(found: Plan, *, everything: bool) -> list[Point]:
    if everything:
        return sorted(found.figures, key=lambda point: found.figures[point].delay)
    named = [found.configured, *([] if found.chosen is None else [found.chosen.setting])]
    best = [point for point in found.best if found.wanted.promised(point) and point not in named]
    best = sorted(best, key=lambda point: found.figures[point].cost)[:_SHOWN]
    rows = [point for point in dict.fromkeys([*named, *best]) if point in found.figures]
    return sorted(rows, key=lambda point: (found.figures[point].delay, found.figures[point].cost))


def _mark(found: Plan, point: Point) -> str:
    chosen = found.chosen is not None and found.chosen.setting == point and not found.chosen.missed
    return f"{'>' if chosen else ''}{'=' if point == found.configured else ''}{'*' if point in found.best else ''}"


def _further(found: Plan) -> list[str]:
    return list(dict.fromkeys(name for point in found.figures for name, _ in point.further))


def _named(found: Plan, point: Point) -> list[str]:
    further = dict(point.further)
    own = [further.get(name, "") for name in _further(found)]
    return [point.algorithm, str(point.k), str(point.l), point.delay, point.divided, *own]


def _costs(found: Plan) -> list[str]:
    unit = "" if found.timed else " (tuples)"
    return ["mean loss", "suppressed", f"delay p50{unit}", f"delay p99{unit}"]


def _amounts(found: Plan, costs: Figures) -> list[str]:
    delays = [_delay(found, costs.middle), _delay(found, costs.delay)]
    return [f"{costs.loss:.3f}", f"{costs.suppressed:.2%}", *delays]


def _delay(found: Plan, delay: float) -> str:
    if delay == inf:
        return "-"  # no tuple was published before the sample ended
    return minute(delay) if found.timed else f"{delay:,.0f}"


def minute(milliseconds: float) -> str:
    """Format a duration in minutes."""
    minutes = milliseconds / _MINUTE
    return f"{minutes:,.0f} min" if minutes >= 100 else f"{minutes:.3g} min"


def _wanted(found: Plan) -> str:
    wanted = found.wanted
    bounds = [f"k >= {wanted.k}", *([f"l >= {wanted.l}"] if wanted.l > 1 else [])]
    bounds += [f"loss <= {wanted.loss:.3g}"] if wanted.loss < 1 else []
    bounds += [f"suppressed <= {wanted.suppressed:.2%}"] if wanted.suppressed < 1 else []
    if wanted.delay < inf:
        bounds.append(f"delay p99 <= {_delay(found, wanted.delay)}{'' if found.timed else ' tuples'}")
    return ", ".join(bounds)


def _missed(found: Plan) -> str:
    missed = {} if found.chosen is None else found.chosen.missed
    told = {name: "as no tuple left before the sample ended" for name, times in missed.items() if times == inf}
    return " and ".join(f"{name} {told.get(name) or f'by {times - 1:.0%}'}" for name, times in missed.items())


def _why(found: Plan) -> str:
    return " and is the soonest" if found.wanted.sooner else " and loses least, suppressed tuples counted as lost"


def _regions(options: Options, point: Point) -> str:
    if options.regions is not None:
        return f"{options.regions} holds quantiles of the sample."
    return (
        "regions.yaml is written by this command with --regions regions.yaml, or by 'crenel regions CONFIG "
        f"--count {point.shards} --write regions.yaml'."
    )


def _beside(found: Plan) -> Table:
    table = figures("", "loss", "suppressed", "delay p99", "")
    if found.chosen is None:
        return table
    now, here = found.chosen.figures, found.chosen.setting
    for name, point in found.steps:
        costs = found.figures[point]
        change = [f"{costs.loss - now.loss:+.3f}", f"{100 * (costs.suppressed - now.suppressed):+.2f} points"]
        if inf in (costs.delay, now.delay):
            change.append("-")
        else:
            more = costs.delay - now.delay
            change.append(f"{'+' if more >= 0 else '-'}{_delay(found, abs(more))}")
        less = "promises less" if point.k < here.k or point.l < here.l else ""
        table.add_row(f"{name} {_of(name, here)} -> {_of(name, point)}", *change, less)
    return table


def _of(name: str, point: Point) -> str:
    shown: dict[str, str] = {"delay": point.delay, "shards": point.divided}
    return shown.get(name) or str(getattr(point, name))
