"""Implementation of ``crenel why``: suppressed and rejected tuples, information loss, and remedies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from crenel.anonymity.model.policy import Policy
from crenel.evidence.input_warnings import place_of, rejection_remedy
from crenel.evidence.replay import Replayed
from crenel.evidence.why.explanation import (
    Explanation,
    RejectedRows,
    RunFigures,
    delay_of,
    explain,
    late_warnings_of,
    mean_loss_of_others,
    share_of_loss,
)
from crenel.evidence.why.remedies import Remedies, Remedy
from crenel.jobs.cli.cli_common import in_minutes, indent, table
from crenel.jobs.config.load import load
from crenel.jobs.local.outputs import read_outputs
from crenel.jobs.local.sample import read_beginning
from crenel.jobs.local.stop import temporary_folder
from crenel.jobs.local.summary import MORE_DISORDER
from crenel.jobs.progress import replay_bar
from crenel.plan_settings import PlannedSettings, setting_of

_FEW = 30
"""Number of suppressed tuples below which other random choices may have as much effect as a setting."""


@dataclass(frozen=True)
class WhyOptions:
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


def show_why(path: Path, overrides: Sequence[str], options: WhyOptions, console: Console) -> None:
    """Replay a sample under the configured setting and alternatives, and show the causes of loss.

    Raises
    ------
    ConfigError, JobError, JavaError, SampleError
        As ``crenel.jobs.local.sample.read_beginning`` does.
    OutputsError
        As ``crenel.jobs.local.outputs.read_outputs`` does.
    """
    config = load(path, overrides)
    run = read_outputs(config) if options.outputs else None
    with replay_bar() as progress, temporary_folder("crenel-why-") as folder:
        beginning = read_beginning(config, options.rows, options.sample)
        configuration = PlannedSettings(config.settings, beginning.privacy, folder)
        setting = setting_of(config, beginning.privacy)
        why = explain(beginning.sample, setting, configuration.make, progress, run)
    if options.as_json:
        document = why.to_dict()
        document["sample"]["whole"] = beginning.is_complete
        print(json.dumps(document))
    else:
        _show(why, console, is_whole=beginning.is_complete)


def _show(why: Explanation, console: Console, *, is_whole: bool) -> None:
    remedies, totals = why.remedies, why.remedies.configured.totals
    extent = "all of the source" if is_whole else "the first of the source"
    replayed = f"{totals.tuples:,} tuples, {extent}, replayed as configured: mean loss {_number(totals.mean_loss)}"
    console.print(
        f"{replayed}, suppressed {totals.share_suppressed:.2%}, rejected {why.rejected_in_sample:,} rows.",
        soft_wrap=True,
    )
    if remedies.is_short:
        console.print("It is shorter than twice the configured delay, so its end decided most tuples.", soft_wrap=True)
    for warning in late_warnings_of(why, MORE_DISORDER):
        console.print(f"\nWarning: {warning}.", soft_wrap=True)
    _show_losses(remedies, console)
    _show_repairs(why, console)
    if not any(remedies.suppressed.values()):
        fate = "counted in a release of synthetic records" if why.synthetic else "published in a release"
        console.print(f"\nNothing was suppressed: each admitted tuple was {fate}.", soft_wrap=True)
    else:
        _show_suppressed(why, console)
    policy = remedies.configured.outputs.policy
    _show_rejected(why.rejected, why.k, policy, console)
    if why.run is not None:
        _show_run(why.run, why, console)


def _show_losses(remedies: Remedies, console: Console) -> None:
    if not remedies.losses:
        console.print("\nNothing was released, so no attribute has a loss.")
        return
    losses = table("quasi-identifier", "loss", "of all loss", "others now", "without it", "suppressed", words=1)
    omitted = remedies.omitted.items()
    gain = {
        name: (mean_loss_of_others(remedies, name) or 0.0) - (remedy_without.mean_loss or 0.0)
        for name, remedy_without in omitted
    }
    for name in sorted(remedies.losses, key=lambda name: -gain.get(name, 0.0)):
        remedy = remedies.omitted.get(name)
        losses.add_row(
            name,
            _number(remedies.losses[name]),
            _percent(share_of_loss(remedies.losses, name)),
            _number(mean_loss_of_others(remedies, name)),
            "-" if remedy is None else _number(remedy.mean_loss),
            "-" if remedy is None else f"{remedy.totals.share_suppressed:.2%}",
        )
    console.print("\nLoss by attribute, first the attribute that costs the others most:")
    indent(console, losses)
    console.print(
        "'others now' is the mean loss of all others; 'without it' and 'suppressed' are the results of a replay that "
        "omits the attribute.",
        soft_wrap=True,
    )


def _show_repairs(why: Explanation, console: Console) -> None:
    if not why.repairs:
        return
    repairs = table("lacked", "releases", "tuples", "loss before", "loss after", words=1)
    for repair in why.repairs:
        repairs.add_row(
            repair.lacked, f"{repair.releases:,}", f"{repair.tuples:,}", _number(repair.before), _number(repair.after)
        )
    console.print("\nRepairs, by what the records lacked before merges or further members:")
    indent(console, repairs)


def _show_suppressed(why: Explanation, console: Console) -> None:
    remedies = why.remedies
    tuples = remedies.configured.totals.tuples
    reasons = {reason: count for reason, count in remedies.suppressed.items() if count}
    console.print("\nSuppressed, by reason (exact, as in the summary):")
    for reason, count in reasons.items():
        console.print(
            f"  {reason}: {count:,} tuple{'s' * (count > 1)}, {count / tuples:.2%}. {_nearest(remedies, reason)}",
            soft_wrap=True,
        )
    console.print()
    if why.parts is None:
        console.print(
            "Where tuples are sampled out, it is unknown which were suppressed, so no category or range is listed.",
            soft_wrap=True,
        )
    elif not why.parts:
        console.print(
            f"No category and no range with {why.k} persons or more was suppressed clearly above its share.",
            soft_wrap=True,
        )
    else:
        parts = table("quasi-identifier", "category or range", "tuples", "suppressed", "share", "times all", words=1)
        for part in why.parts:
            counts = f"{part.tuples:,}", f"{part.suppressed:,}", f"{part.share:.1%}", f"{part.times:.1f}"
            parts.add_row(part.column, part.label, *counts)
        console.print(f"Suppressed above their share (counts rounded down to a multiple of k = {why.k}):")
        indent(console, parts)
    shown = [r for r in remedies.tried if r.kind != "quasi_identifiers" or r in map(remedies.nearest, reasons)]
    if shown:
        console.print("\nAlternatives:")
        indent(console, _tried(remedies, shown))
    for change, problem in remedies.impossible.items():
        console.print(f"{change} was not tried: {problem}.", soft_wrap=True)


def _nearest(remedies: Remedies, reason: str) -> str:
    nearest = remedies.nearest(reason)
    if nearest is None:
        best = max(remedies.tried, key=lambda remedy: remedies.saves(remedy, reason), default=None)
        most = 0.0 if best is None else remedies.saves(best, reason)
        return (
            "No alternative saves any."
            if best is None or most <= 0
            else (f"No alternative saves half; {best.change} saves {most:.0%}{_less(best)}.")
        )
    saved = f"{remedies.saves(nearest, reason):.0%} of them"
    if nearest.kind == "suppression":
        saved += ", published fully generalized"
    loss = f"mean loss {_number(nearest.mean_loss)} for {_number(remedies.configured.totals.mean_loss)} now"
    few = " So few may be chance." if remedies.suppressed[reason] < _FEW else ""
    return f"Saved by {nearest.change}{_less(nearest)}: {saved}; {loss}.{few}"


def _less(remedy: Remedy) -> str:
    return " (weaker guarantee)" if remedy.is_weaker else ""


def _tried(replayed: Remedies, shown: Sequence[Remedy]) -> Table:
    remedies = table("", "suppressed", "mean loss", "delay p99", "", words=1)
    now = replayed.configured.totals
    remedies.add_row(
        "as configured", *_cells(sum(replayed.suppressed.values()), now.mean_loss, _delay(replayed.configured)), ""
    )
    for remedy in shown:
        cells = _cells(sum(remedy.suppressed.values()), remedy.mean_loss, _delay(remedy))
        remedies.add_row(remedy.change, *cells, "weaker guarantee" if remedy.is_weaker else "")
    return remedies


def _cells(suppressed: int, loss: float | None, delay: str) -> tuple[str, str, str]:
    return f"{suppressed:,}", _number(loss), delay


def _delay(replayed: Remedy | Replayed) -> str:
    delay = delay_of(replayed)
    if delay is None:
        return "-"
    return f"{delay.p99:,} tuples" if replayed.totals.event_delay is None else in_minutes(delay.p99)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _show_rejected(rows: Sequence[RejectedRows], k: int, policy: Policy, console: Console) -> None:
    if not rows:
        return
    console.print(f"\nRejected, by column and reason (counts rounded down to a multiple of k = {k}):", soft_wrap=True)
    shown = table("column", "reason", "rows", words=2)
    for row in rows:
        shown.add_row(row.column or "(unknown)", row.reason, f"{row.rows:,}" if row.rows else f"fewer than {k}")
    indent(console, shown)
    for row in rows:
        remedy = rejection_remedy(policy, row.column, row.reason)
        console.print(f"{place_of(policy, row.column)}, {row.reason}: {remedy}.", soft_wrap=True)
    console.print("No replay covers rejected rows, because a sample does not hold them.", soft_wrap=True)


def _show_run(run: RunFigures, why: Explanation, console: Console) -> None:
    released = "synthetic records" if why.synthetic else "tuples"
    console.print(f"\nThe run's outputs: {run.released:,} {released} were released.")
    if run.suppressed is None:
        console.print("It has no output 'suppressed', so the reasons are unknown.")
    elif not run.suppressed:
        console.print("No tuple was suppressed and not published.")
    else:
        counted = ", ".join(f"{reason} {count:,}" for reason, count in run.suppressed.items())
        console.print(
            f"Suppressed and not published: {counted}. The outputs hold nothing else about them.", soft_wrap=True
        )
    if run.fully_generalized:
        console.print(f"Suppressed and published fully generalized: {run.fully_generalized:,}.")
    losses = table("quasi-identifier", "loss", "share of loss", words=1)
    for name, loss in sorted(run.losses.items(), key=lambda pair: -(pair[1] or 0.0)):
        losses.add_row(name, _number(loss), _percent(share_of_loss(run.losses, name)))
    indent(console, losses)
    _show_rejected(run.rejected, why.k, why.remedies.configured.outputs.policy, console)
