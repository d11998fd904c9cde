"""Implementation of ``crenel why``: suppressed and rejected tuples, information loss, and remedies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from crenel.evidence.outputs import Outputs
from crenel.evidence.replay import Replayed
from crenel.evidence.why.parts import above_their_share
from crenel.jobs.cli.budget import indent
from crenel.jobs.cli.plan import minute
from crenel.jobs.cli.progress import progress_bar
from crenel.jobs.cli.why_figures import (
    Why,
    as_json,
    of_run,
    others,
    rejected_rows,
    share_of_loss,
    suppressed_tuples,
    waited,
)
from crenel.jobs.config.file import override, read
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.outputs import read_outputs
from crenel.jobs.local.sample import read_beginning
from crenel.jobs.plan.point import Written
from crenel.jobs.plan.remedies import Around, Remedies, Remedy, remedies

_PARTS = 12
"""Maximum number of categories and ranges to show."""

_FEW = 30
"""Number of suppressed tuples below which other random choices may have as much effect as a setting."""

_HELPS = {
    "missing": "policy.missing: value keeps rows that lack a category, where a number has to be there",
    "outside_domain": "a wider domain in policy.quasi_identifiers would let them in",
    "unknown_category": "a hierarchy that has their values would let them in",
    "bad_type": "source.query has to make numbers of them",
    "unreadable": "a defect of Crenel; report the line of the TaskManager's log that names its place in the code",
}
"""Remedies for rejections, by reason."""


@dataclass(frozen=True)
class Options:
    """Options of the command, beside those of every command.

    Attributes
    ----------
    sample : a file that replaces the source
    rows : tuples of the sample, at most
    outputs : whether to read the outputs of a run as well
    as_json : whether to print one JSON object
    """

    sample: Path | None
    rows: int
    outputs: bool
    as_json: bool


def show_why(path: Path, overrides: Sequence[str], options: Options, console: Console) -> None:
    """Replay a sample under the configured setting and alternatives, and show the causes of loss.

    Raises
    ------
    ConfigError, JobError, JavaError, SampleError
        As ``crenel.jobs.local.sample.read_beginning`` does.
    OutputsError
        As ``crenel.jobs.local.outputs.read_outputs`` does.
    """
    config = load(path, overrides)
    content = read(path)
    override(content, overrides)
    run = read_outputs(config) if options.outputs else None
    with progress_bar() as show:
        show(0)
        beginning = read_beginning(config, options.rows, options.sample)
        written = Written(config, content, _regions(config, content))
        found = remedies(Around(path, tuple(overrides), written, beginning), show)
    suppressed = suppressed_tuples(found.configured)
    parts = None if suppressed is None else above_their_share(beginning.sample, suppressed, config.privacy.k, _PARTS)
    why = Why(config, beginning, found, parts, run)
    if options.as_json:
        print(json.dumps(as_json(why)))
    else:
        _show(why, console)


def _regions(config: Config, content: Mapping[str, Any]) -> dict[int, str]:
    """Return the configured regions file, by its number of regions."""
    return {} if config.shards.regions is None else {config.shards.count: str(content["shards"]["regions"])}


def _show(why: Why, console: Console) -> None:
    found, totals = why.found, why.found.configured.totals
    rejected = len(why.beginning.sample.rejected.column)
    whole = "all of the source" if why.beginning.whole else "the first of the source"
    told = f"{totals.tuples:,} tuples, {whole}, replayed as configured: mean loss {_number(totals.mean_loss)}"
    console.print(f"{told}, suppressed {totals.share_suppressed:.2%}, rejected {rejected:,} rows.", soft_wrap=True)
    if found.short:
        console.print("It is shorter than twice the configured delay: most left only because it ended.", soft_wrap=True)
    _show_losses(why, console)
    if not any(found.withheld.values()):
        console.print("\nNothing was suppressed: each tuple that was let in left within a release.", soft_wrap=True)
    else:
        _show_suppressed(why, console)
    _show_rejected(found.configured.outputs.rejected, why.k, console)
    if why.run is not None:
        _show_run(why.run, why.config, console)


def _show_losses(why: Why, console: Console) -> None:
    found = why.found
    if not found.losses:
        console.print("\nNothing was released, so no attribute lost anything.")
        return
    table = _table("quasi-identifier", "loss", "of all loss", "others now", "without it", "suppressed")
    gain = {name: (others(found, name) or 0.0) - (remedy.mean_loss or 0.0) for name, remedy in found.left_out.items()}
    for name in sorted(found.losses, key=lambda name: -gain.get(name, 0.0)):
        remedy = found.left_out.get(name)
        table.add_row(
            name,
            _number(found.losses[name]),
            _percent(share_of_loss(found.losses, name)),
            _number(others(found, name)),
            "-" if remedy is None else _number(remedy.mean_loss),
            "-" if remedy is None else f"{remedy.totals.share_suppressed:.2%}",
        )
    console.print("\nLoss by attribute; first the one that costs the others most:")
    indent(console, table)
    console.print(
        "'others now' is the mean loss of all others; 'without it' and 'suppressed' are what a replay gives where the "
        "attribute is left out.",
        soft_wrap=True,
    )


def _show_suppressed(why: Why, console: Console) -> None:
    found = why.found
    tuples = found.configured.totals.tuples
    reasons = {reason: count for reason, count in found.withheld.items() if count}
    console.print("\nSuppressed, by reason (exact, as in the summary):")
    for reason, count in reasons.items():
        console.print(
            f"  {reason}: {count:,} tuple{'s' * (count > 1)}, {count / tuples:.2%}. {_nearest(found, reason)}",
            soft_wrap=True,
        )
    console.print()
    if why.parts is None:
        console.print("Which tuples were suppressed is not known with sampling, so no category or range is told.")
    elif not why.parts:
        console.print(
            f"No category and no range with {why.k} persons or more was suppressed clearly above its share.",
            soft_wrap=True,
        )
    else:
        table = _table("quasi-identifier", "category or range", "tuples", "suppressed", "share", "times all")
        for part in why.parts:
            counts = f"{part.tuples:,}", f"{part.suppressed:,}", f"{part.share:.1%}", f"{part.times:.1f}"
            table.add_row(part.column, part.label, *counts)
        console.print(f"Suppressed above their share (counts rounded down to a multiple of k = {why.k}):")
        indent(console, table)
    shown = [r for r in found.tried if r.kind != "quasi_identifiers" or r in map(found.nearest, reasons)]
    if shown:
        console.print("\nWhat was tried:")
        indent(console, _tried(found, shown))
    for change, problem in found.impossible.items():
        console.print(f"{change} was not tried: {problem}.", soft_wrap=True)


def _nearest(found: Remedies, reason: str) -> str:
    nearest = found.nearest(reason)
    if nearest is None:
        best = max(found.tried, key=lambda remedy: found.saves(remedy, reason), default=None)
        most = 0.0 if best is None else found.saves(best, reason)
        return (
            "Nothing that was tried saves any."
            if best is None or most <= 0
            else (f"Nothing that was tried saves half; {best.change} saves {most:.0%}{_less(best)}.")
        )
    saved = f"{found.saves(nearest, reason):.0%} of them"
    if nearest.kind == "suppression":
        saved += " leave fully generalized"
    loss = f"mean loss {_number(nearest.mean_loss)} for {_number(found.configured.totals.mean_loss)} now"
    few = " So few may be chance." if found.withheld[reason] < _FEW else ""
    return f"Saved by {nearest.change}{_less(nearest)}: {saved}; {loss}.{few}"


def _less(remedy: Remedy) -> str:
    return " (promises less)" if remedy.weaker else ""


def _tried(found: Remedies, shown: Sequence[Remedy]) -> Table:
    table = _table("", "suppressed", "mean loss", "delay p99", "", words=0)
    now = found.configured.totals
    table.add_row("as configured", *_cells(sum(found.withheld.values()), now.mean_loss, _delay(found.configured)), "")
    for remedy in shown:
        cells = _cells(sum(remedy.withheld.values()), remedy.mean_loss, _delay(remedy))
        table.add_row(remedy.change, *cells, "promises less" if remedy.weaker else "")
    return table


def _cells(suppressed: int, loss: float | None, delay: str) -> tuple[str, str, str]:
    return f"{suppressed:,}", _number(loss), delay


def _delay(of: Remedy | Replayed) -> str:
    delay = waited(of)
    if delay is None:
        return "-"
    return f"{delay.p99:,} tuples" if of.totals.event_delay is None else minute(delay.p99)


def _table(first: str, *columns: str, words: int = 0) -> Table:
    """Return a table with a name, ``words`` text columns, and columns of figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, overflow="fold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < words else "right", overflow="fold")
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _show_rejected(table: pa.Table | None, k: int, console: Console) -> None:
    rows = rejected_rows(table, k)
    if not rows:
        return
    console.print(f"\nRejected, by column and reason (counts rounded down to a multiple of k = {k}):", soft_wrap=True)
    shown = _table("column", "reason", "rows", words=1)
    for row in rows:
        shown.add_row(
            row["column"] or "(not known)", row["reason"], f"{row['rows']:,}" if row["rows"] else f"fewer than {k}"
        )
    indent(console, shown)
    for reason in dict.fromkeys(row["reason"] for row in rows):
        if reason in _HELPS:
            console.print(f"{reason}: {_HELPS[reason]}.", soft_wrap=True)
    console.print("No replay tells what they would give, as a sample holds none of them.", soft_wrap=True)


def _show_run(run: Outputs, config: Config, console: Console) -> None:
    told = of_run(run, config)
    console.print(f"\nThe run's outputs: {told['released']:,} tuples were released.")
    if told["suppressed_by_reason"] is None:
        console.print("It kept no output 'suppressed', so its reasons are not known.")
    elif not told["suppressed_by_reason"]:
        console.print("None is among those that were suppressed and not published.")
    else:
        counted = ", ".join(f"{reason} {count:,}" for reason, count in told["suppressed_by_reason"].items())
        console.print(f"Suppressed and not published: {counted}. The outputs tell no more of them.", soft_wrap=True)
    if told["fully_generalized"]:
        console.print(f"Suppressed and published fully generalized: {told['fully_generalized']:,}.")
    table = _table("quasi-identifier", "loss", "share of loss")
    for name, loss in sorted(told["losses"].items(), key=lambda pair: -(pair[1] or 0.0)):
        share = share_of_loss(told["losses"], name)
        table.add_row(name, _number(loss), _percent(share))
    indent(console, table)
    _show_rejected(run.rejected, config.privacy.k, console)
