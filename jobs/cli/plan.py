"""Implementation of ``crenel plan``: the cost of other settings, and a recommendation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.model.durations import MINUTE
from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, SHARD_BY_SUBJECT
from crenel.evidence.plan.choice import Figures
from crenel.evidence.plan.grid import Wait
from crenel.evidence.plan.plan import Limits, PlanResult, Request, plan
from crenel.evidence.plan.point import Point
from crenel.jobs.cli.cli_common import in_minutes, indent, parse_option_duration, table
from crenel.jobs.cli.plot import require_drawable, save
from crenel.jobs.config.load import OUTPUTS, Config, load
from crenel.jobs.local.sample import read_beginning
from crenel.jobs.local.stop import shielded_from_terminal, temporary_folder
from crenel.jobs.progress import replay_bar
from crenel.plan_settings import PlannedSettings, setting_of

_SHOWN = 20
"""Maximum number of table rows, unless all are requested."""
_TUPLES = re.compile(r"\s*([0-9]+)\s*tuples?\s*")
_SHARDS = re.compile(r"\s*([0-9]+)\s*(?:by\s+(\S.*?))?\s*")
_SHARE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)\s*")


class PlanError(InputError):
    """Error for an invalid option; the message names it and valid values."""


@dataclass(frozen=True)
class PlanOptions:
    """Options of the command, beside those of every command; texts as the user wrote them.

    Attributes
    ----------
    sample : a file that replaces the source
    rows : tuples of the sample, at most
    settings : replays, at most
    vary : user-defined dimensions
    max_loss, max_delay, max_suppressed, min_k : constraints; None: none
    regions : file for learned regions
    picture : file for the picture
    shows_all : whether to show all settings
    as_json : whether to print one JSON object
    """

    sample: Path | None
    rows: int
    settings: int
    vary: Sequence[str]
    max_loss: float | None
    max_delay: str | None
    max_suppressed: str | None
    min_k: int | None
    regions: Path | None
    picture: Path | None
    shows_all: bool
    as_json: bool


@dataclass(frozen=True)
class Shown:
    """A plan, and its form in the configuration.

    Attributes
    ----------
    is_whole : whether the sample is the complete source
    text : configuration sections of the chosen setting; empty without one
    replaced : the sections that the text replaces
    regions : content of the regions file that the text names; None where it names none
    """

    plan: PlanResult
    is_whole: bool
    text: str
    replaced: Sequence[str]
    regions: str | None


def show_plan(path: Path, overrides: Sequence[str], options: PlanOptions, console: Console) -> bool:
    """Replay settings around a configured one, and show them; return whether one meets the constraints.

    Raises
    ------
    ConfigError, JobError, JavaError, SampleError
        As ``crenel.jobs.local.sample.read_beginning`` does; or the configuration of the chosen setting is not valid.
    PlanError
        An option is invalid, or the regions file cannot be written.
    PlotError
        The picture cannot be drawn.
    """
    delay = None if options.max_delay is None else parse_delay(options.max_delay, "--max-delay")
    suppressed = None if options.max_suppressed is None else parse_share(options.max_suppressed, "--max-suppressed")
    config = load(path, overrides)
    if options.picture is not None:
        require_drawable(options.picture)
    varied = parse_varied(options.vary)
    regions = "regions.yaml" if options.regions is None else str(options.regions.absolute())
    with replay_bar() as progress, temporary_folder("crenel-plan-") as folder:
        beginning = read_beginning(config, options.rows, options.sample)
        sample = beginning.sample
        limit = None if delay is None else delay_limit(delay, timed=sample.milliseconds > 0)
        limits = Limits(options.max_loss, limit, suppressed, options.min_k)
        request = Request(sample, setting_of(config, beginning.privacy), limits, varied, options.settings)
        configuration = PlannedSettings(config.settings, beginning.privacy, folder)
        result = plan(request, configuration, progress, shielded_from_terminal)
        shown = Shown(result, beginning.is_complete, "", (), None)
        if result.chosen is not None:
            point = result.chosen.setting
            text = configuration.block(point, regions)
            learned = configuration.learned_regions(point)
            shown = replace(shown, text=text, replaced=_replaced(configuration, point, config), regions=learned)
    if options.regions is not None and shown.regions is not None:
        try:
            options.regions.write_text(shown.regions, encoding="utf-8")
        except OSError as error:
            raise PlanError(f"--regions: {options.regions} cannot be written: {error.strerror}") from None
    if options.picture is not None:
        save(result.figure(), options.picture)
    if options.as_json:
        print(json.dumps(_as_json(shown)))
    else:
        _show(shown, options, console)
    return result.meets


def _replaced(configuration: PlannedSettings, point: Point, config: Config) -> list[str]:
    """Return the sections and sinks that a block replaces or makes useless."""
    own = {output.name for output in known_algorithms()[point.algorithm].outputs}
    unfit = sorted(config.sinks.keys() - own - OUTPUTS.keys())
    return [*configuration.replaced(point), *(f"sinks.{name}" for name in unfit)]


def parse_delay(text: str, option: str) -> Wait:
    """Parse ``1000 tuples`` or ``10 min`` to tuples or milliseconds; raise ``PlanError`` for anything else."""
    if match := _TUPLES.fullmatch(text):
        return int(match[1]), None
    milliseconds = parse_option_duration(text)
    if milliseconds is None:
        raise PlanError(f"{option}: must be a duration such as '10 min', or a number of tuples such as '1000 tuples'")
    return None, milliseconds


def delay_limit(delay: Wait, *, timed: bool) -> float:
    """Return the maximum delay in the measure of the sample; ``timed``: whether the sample has event time.

    Raises
    ------
    PlanError
        The sample does not have this measure.
    """
    tuples, milliseconds = delay
    if timed and milliseconds is None:
        raise PlanError("--max-delay: this stream has event time, so give a duration such as '10 min'")
    if not timed and tuples is None:
        raise PlanError(
            "--max-delay: the stream has no event time, so a duration has no meaning; give '1000 tuples', or name "
            "a column in policy.event_time"
        )
    return float(tuples or 0 if milliseconds is None else milliseconds)


def parse_share(text: str, option: str) -> float:
    """Parse a share such as ``1%`` or ``0.01``; raise ``PlanError`` if it is not from 0 to 1."""
    match = _SHARE.fullmatch(text)
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= 1:
        raise PlanError(f"{option}: must be a share such as '1%' or '0.01'")
    return share


def parse_varied(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Parse ``NAME=VALUE,VALUE`` to values by the name of a dimension of ``Grid``, or texts by a dotted field.

    Raises
    ------
    PlanError
        An unknown name, or an invalid value.
    """
    varied: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name, parts = name.strip(), tuple(value.strip() for value in values.split(",") if value.strip())
        if not (name and equals and parts):
            raise PlanError("--vary: is not of the form NAME=VALUE,VALUE, such as k=5,10,20")
        if "." in name:
            varied[name] = parts
        elif name in _DIMENSIONS:
            dimension, parse = _DIMENSIONS[name]
            varied[dimension] = tuple(parse(part, f"--vary {name}") for part in parts)
        else:
            names = ", ".join(_DIMENSIONS)
            raise PlanError(f"--vary: {name!r} is none of {names}, and no dotted field such as castle.x")
    return varied


def _parse_algorithm(text: str, option: str) -> str:
    if text not in known_algorithms():
        raise PlanError(f"{option}: {text!r} is none of {', '.join(known_algorithms())}")
    return text


def _parse_whole(text: str, option: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise PlanError(f"{option}: must be whole numbers, 1 or more")
    return int(text)


def _parse_shards(text: str, option: str) -> tuple[int, str]:
    match = _SHARDS.fullmatch(text)
    if match is None or int(match[1]) < 1:
        raise PlanError(f"{option}: must be such as '4', '4 by {SHARD_BY_SUBJECT}' or '4 by {SHARD_BY_REGIONS}'")
    return int(match[1]), match[2] or SHARD_BY_SUBJECT


_DIMENSIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "algorithm": ("algorithms", _parse_algorithm),
    "k": ("k", _parse_whole),
    "l": ("l", _parse_whole),
    "delay": ("waits", parse_delay),
    "shards": ("shards", _parse_shards),
}
"""Attribute of ``Grid``, and parser of its values, by the name of a dimension."""


def _as_json(shown: Shown) -> dict[str, Any]:
    """Return a plan as plain values for ``json.dumps``."""
    document = shown.plan.to_dict()
    document["sample"]["whole"] = shown.is_whole
    return document | {"yaml": shown.text}


def _show(shown: Shown, options: PlanOptions, console: Console) -> None:
    result, chosen = shown.plan, shown.plan.chosen
    console.print(_summary(shown), soft_wrap=True)
    console.print()
    rows = _rows(result, all_of_them=options.shows_all)
    settings = table("", "algorithm", "k", "l", "delay of the setting", "shards", *_further(result), *_costs(result))
    for point in rows:
        settings.add_row(_mark(result, point), *_named(result, point), *_amounts(result, result.figures[point]))
    console.print(settings)
    rest = len(result.figures) - len(rows)
    console.print(
        "\n> recommended, = configured, * on the Pareto front: no setting with the same k and l is as good in loss, "
        f"suppressed and delay, and better in one.{f' {rest} others were replayed; --all shows them.' if rest else ''}"
        f"{f' {len(result.impossible)} are invalid with this policy.' if result.impossible else ''}",
        soft_wrap=True,
    )
    for name, problem in result.unfit.items():
        console.print(f"{name} was not tried: {problem}.", soft_wrap=True)
    if chosen is None:
        console.print("\nNo setting has the required k and l.", soft_wrap=True)
        return
    if chosen.figures.suppressed >= 1:
        console.print("\nNo setting releases any of so few tuples; take a sample of a few thousand.")
        return
    console.print()
    if chosen.missed:
        console.print(f"No setting meets {_wanted(result)}. The nearest misses {_missed(result)}:", soft_wrap=True)
    else:
        console.print(f"Recommended, because it meets {_wanted(result)}{_reason(result)}:", soft_wrap=True)
    console.print()
    console.print(shown.text, soft_wrap=True, end="")
    console.print(f"\nIt replaces {', '.join(shown.replaced)} in the configuration.", soft_wrap=True)
    if shown.regions is not None:
        console.print(_regions(options, chosen.setting), soft_wrap=True)
    if result.steps:
        console.print("\nOne step from it in each dimension:")
        indent(console, _beside(result))
    if options.picture is not None:
        console.print(f"\n{options.picture} shows all of them.", soft_wrap=True)


def _summary(shown: Shown) -> str:
    sample = shown.plan.sample
    rows = f"{len(sample):,} tuples, {'all of the source' if shown.is_whole else 'the first of the source'}"
    rejected = len(sample.rejected.column)
    text = f"{rows}{f'; {rejected:,} rows were rejected' if rejected else ''}"
    if shown.plan.timed:
        minutes = sample.milliseconds / MINUTE
        text += f"; {len(sample) / minutes:.3g} a minute over {minutes:,.0f} minutes of event time"
        text += f", whose watermark is {in_minutes(sample.lag)} behind" if sample.lag else ""
    return f"{text}. {len(shown.plan.figures)} settings were replayed."


def _rows(result: PlanResult, *, all_of_them: bool) -> list[Point]:
    if all_of_them:
        return sorted(result.figures, key=lambda point: result.figures[point].delay)
    named = [result.configured, *([] if result.chosen is None else [result.chosen.setting])]
    best = [point for point in result.best if result.wanted.satisfies_privacy(point) and point not in named]
    best = sorted(best, key=lambda point: result.figures[point].cost)[:_SHOWN]
    rows = [point for point in dict.fromkeys([*named, *best]) if point in result.figures]
    return sorted(rows, key=lambda point: (result.figures[point].delay, result.figures[point].cost))


def _mark(result: PlanResult, point: Point) -> str:
    chosen = result.chosen is not None and result.chosen.setting == point and not result.chosen.missed
    return f"{'>' if chosen else ''}{'=' if point == result.configured else ''}{'*' if point in result.best else ''}"


def _further(result: PlanResult) -> list[str]:
    return list(dict.fromkeys(name for point in result.figures for name, _ in point.further))


def _named(result: PlanResult, point: Point) -> list[str]:
    further = dict(point.further)
    own = [further.get(name, "") for name in _further(result)]
    return [point.algorithm, str(point.k), str(point.l), point.delay, point.divided, *own]


def _costs(result: PlanResult) -> list[str]:
    unit = "" if result.timed else " (tuples)"
    return ["mean loss", "suppressed", f"delay p50{unit}", f"delay p99{unit}"]


def _amounts(result: PlanResult, costs: Figures) -> list[str]:
    delays = [_delay(result, costs.middle), _delay(result, costs.delay)]
    return [f"{costs.loss:.3f}", f"{costs.suppressed:.2%}", *delays]


def _delay(result: PlanResult, delay: float) -> str:
    if delay == inf:
        return "-"  # no tuple was published before the sample ended
    return in_minutes(delay) if result.timed else f"{delay:,.0f}"


def _wanted(result: PlanResult) -> str:
    wanted = result.wanted
    bounds = [f"k >= {wanted.k}", *([f"l >= {wanted.l}"] if wanted.l > 1 else [])]
    bounds += [f"loss <= {wanted.loss:.3g}"] if wanted.loss < 1 else []
    bounds += [f"suppressed <= {wanted.suppressed:.2%}"] if wanted.suppressed < 1 else []
    if wanted.delay < inf:
        bounds.append(f"delay p99 <= {_delay(result, wanted.delay)}{'' if result.timed else ' tuples'}")
    return ", ".join(bounds)


def _missed(result: PlanResult) -> str:
    missed = {} if result.chosen is None else result.chosen.missed
    never = "as no tuple was published before the sample ended"
    return " and ".join(f"{name} {never if times == inf else f'by {times - 1:.0%}'}" for name, times in missed.items())


def _reason(result: PlanResult) -> str:
    return (
        " with the shortest delay"
        if result.wanted.sooner
        else " with the least loss, suppressed tuples counted as lost"
    )


def _regions(options: PlanOptions, point: Point) -> str:
    if options.regions is not None:
        return f"{options.regions} holds quantiles of the sample."
    return (
        "regions.yaml is written by this command with --regions regions.yaml, or by 'crenel regions CONFIG "
        f"--count {point.shards} --write regions.yaml'."
    )


def _beside(result: PlanResult) -> Table:
    steps = table("", "loss", "suppressed", "delay p99", "")
    if result.chosen is None:
        return steps
    now, here = result.chosen.figures, result.chosen.setting
    for name, point in result.steps:
        costs = result.figures[point]
        change = [f"{costs.loss - now.loss:+.3f}", f"{100 * (costs.suppressed - now.suppressed):+.2f} points"]
        if inf in (costs.delay, now.delay):
            change.append("-")
        else:
            more = costs.delay - now.delay
            change.append(f"{'+' if more >= 0 else '-'}{_delay(result, abs(more))}")
        less = "weaker guarantee" if point.k < here.k or point.l < here.l else ""
        steps.add_row(f"{name} {_of(name, here)} -> {_of(name, point)}", *change, less)
    return steps


def _of(name: str, point: Point) -> str:
    words = {"delay": point.delay, "shards": point.divided}
    return words.get(name) or str(getattr(point, name))
