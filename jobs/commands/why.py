"""What ``crenel why`` shows: what was suppressed, rejected or lost, and what would have saved it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from evidence.outputs import Outputs
from evidence.replay import Replayed
from evidence.why.losses import losses
from evidence.why.parts import Part, above_their_share
from jobs.commands.account import figures, indent
from jobs.commands.plan import minute, progress_bar
from jobs.config.file import override, read
from jobs.config.load import Config, load
from jobs.local.outputs import read_outputs
from jobs.local.sample import Beginning, read_beginning
from jobs.plan.point import Written
from jobs.plan.remedies import Around, Remedies, Remedy, remedies

_PARTS = 12
"""Categories and ranges that are shown, at most."""

_OF_REJECTION = {
    "missing": "policy.missing: value keeps rows that lack a category; a number has to be there",
    "outside_domain": "a wider policy.quasi_identifiers.NAME.domain lets them in",
    "unknown_category": "a hierarchy that has their values lets them in",
    "bad_type": "the query of the source has to make numbers of them",
}


@dataclass(frozen=True)
class Why:
    """What is shown.

    Attributes
    ----------
    found : the configured setting and others beside it
    parts : suppressed above their share; None where sampling hides which tuples were
    run : outputs of a run; None: they were not asked for
    """

    config: Config
    beginning: Beginning
    found: Remedies
    parts: list[Part] | None
    run: Outputs | None

    @property
    def k(self) -> int:
        """Below, no count of a part is told."""
        return self.config.privacy.k


@dataclass(frozen=True)
class Options:
    """The options of the command beside those of every other.

    Attributes
    ----------
    sample : a file in the place of the source
    rows : tuples of the sample, at most
    outputs : whether what a run has left is looked at as well
    as_json : whether one JSON object is printed
    """

    sample: Path | None
    rows: int
    outputs: bool
    as_json: bool


def show_why(path: Path, overrides: Sequence[str], options: Options, console: Console) -> None:
    """Replay a sample as configured and otherwise, and show what was lost to what.

    Raises
    ------
    ConfigError, JobError, JavaError, SampleError, KeyboardInterrupt
        As ``jobs.local.sample.read_beginning`` does.
    OutputsError
        As ``jobs.local.outputs.read_outputs`` does.
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
    suppressed = _suppressed(found.configured)
    parts = None if suppressed is None else above_their_share(beginning.sample, suppressed, config.privacy.k, _PARTS)
    why = Why(config, beginning, found, parts, run)
    if options.as_json:
        print(json.dumps(as_json(why)))
    else:
        _show(why, console)


def _regions(config: Config, content: Mapping[str, Any]) -> dict[int, str]:
    """The file of regions that the configuration names, by their number."""
    return {} if config.shards.regions is None else {config.shards.count: str(content["shards"]["regions"])}


def _suppressed(replayed: Replayed) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """(tuples of the sample,) whether each was suppressed, published or not; None where it is not known."""
    totals, audit = replayed.totals, replayed.outputs.audit
    if totals.sampled_out or (replayed.suppressed_row < 0).any() or audit is None:
        return None
    mask = np.zeros(totals.tuples, np.bool_)
    mask[replayed.suppressed_row] = True
    alone = audit.filter(pc.equal(audit["kind"], "generalised"))
    pairs = set(zip(alone["shard"].to_pylist(), alone["release_id"].to_pylist(), strict=True))
    if pairs:
        own = zip(replayed.shard.tolist(), replayed.release.tolist(), strict=True)
        mask[replayed.row[np.array([pair in pairs for pair in own], np.bool_)]] = True
    return mask


def as_json(why: Why) -> dict[str, Any]:
    """All that is shown as plain values for ``json.dumps``."""
    found, totals = why.found, why.found.configured.totals
    return {
        "sample": {
            "tuples": totals.tuples,
            "rejected": len(why.beginning.sample.rejected.column),
            "whole": why.beginning.whole,
        },
        "mean_loss": totals.mean_loss,
        "suppressed": totals.share_suppressed,
        "suppressed_by_reason": dict(found.withheld),
        "losses": {
            name: {
                "loss": loss,
                "share": _share(found.losses, name),
                "others": _others(found.losses, name),
                "without": None if name not in found.left_out else _remedy(found, found.left_out[name]),
            }
            for name, loss in found.losses.items()
        },
        "above_their_share": None if why.parts is None else [vars(part) | {"share": part.share} for part in why.parts],
        "counts_rounded_down_to": why.k,
        "rejected": _rejected(found.configured.outputs.rejected, why.k),
        "tried": [_remedy(found, remedy) for remedy in found.tried],
        "nearest": {
            reason: None if (nearest := found.nearest(reason)) is None else nearest.change
            for reason, count in found.withheld.items()
            if count
        },
        "impossible": dict(found.impossible),
        "outputs": None if why.run is None else _of_run(why.run, why.k),
    }


def _remedy(found: Remedies, remedy: Remedy) -> dict[str, Any]:
    waited = _waited(remedy)
    return {
        "kind": remedy.kind,
        "change": remedy.change,
        "promises_less": remedy.weaker,
        "withheld_by_reason": dict(remedy.withheld),
        "saves": {reason: found.saves(remedy, reason) for reason, count in found.withheld.items() if count},
        "mean_loss": _mean(remedy.losses),
        "losses": dict(remedy.losses),
        "delay_p99": None if waited is None else waited.p99,
    }


def _of_run(run: Outputs, k: int) -> dict[str, Any]:
    counts = None if run.suppressed is None else _counts(run.suppressed, ["reason"])
    return {
        "released": run.released.num_rows,
        "suppressed_by_reason": None if counts is None else {row["reason"]: row["count_all"] for row in counts},
        "fully_generalised": None if run.audit is None else _fully_generalised(run.audit),
        "losses": losses(run),
        "rejected": _rejected(run.rejected, k),
    }


def _fully_generalised(audit: pa.Table) -> int:
    return int(pc.sum(pc.equal(audit["kind"], "generalised")).as_py() or 0)


def _rejected(table: pa.Table | None, k: int) -> list[dict[str, Any]]:
    """Rows not let in, by column and reason; ``rows`` is None where they are fewer than k."""
    found = [] if table is None else _counts(table, ["column", "reason"])
    return [
        {name: row[name] for name in ("column", "reason")}
        | {"rows": row["count_all"] if row["count_all"] >= k else None}
        for row in found
    ]


def _counts(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    counted = table.group_by(columns).aggregate([([], "count_all")])
    rows: list[dict[str, Any]] = counted.sort_by([("count_all", "descending")]).to_pylist()
    return rows


def _share(of: Mapping[str, float | None], name: str) -> float | None:
    whole = sum(loss or 0.0 for loss in of.values())
    loss = of[name]
    return None if loss is None or not whole else loss / whole


def _others(of: Mapping[str, float | None], name: str) -> float | None:
    return _mean({other: loss for other, loss in of.items() if other != name})


def _mean(of: Mapping[str, float | None]) -> float | None:
    known = [loss for loss in of.values() if loss is not None]
    return sum(known) / len(known) if known else None


def _show(why: Why, console: Console) -> None:
    found, totals = why.found, why.found.configured.totals
    rejected = len(why.beginning.sample.rejected.column)
    whole = "all of the source" if why.beginning.whole else "the first of the source"
    told = f"{totals.tuples:,} tuples, {whole}, replayed as configured: mean loss {_number(totals.mean_loss)}"
    console.print(f"{told}, suppressed {totals.share_suppressed:.2%}, rejected {rejected:,} rows.", soft_wrap=True)
    _show_losses(why, console)
    if not any(found.withheld.values()):
        console.print("\nNothing was suppressed: each tuple that was let in left within a release.", soft_wrap=True)
    else:
        _show_suppressed(why, console)
    _show_rejected(found.configured.outputs.rejected, why.k, console)
    if why.run is not None:
        _show_run(why.run, why.k, console)


def _show_losses(why: Why, console: Console) -> None:
    found = why.found
    if not found.losses:
        console.print("\nNothing was released, so no attribute lost anything.")
        return
    table = figures("quasi-identifier", "loss", "share of loss", "the others", "without it", "suppressed without it")
    gain = {
        name: (_others(found.losses, name) or 0.0) - (_mean(remedy.losses) or 0.0)
        for name, remedy in found.left_out.items()
    }
    for name in sorted(found.losses, key=lambda name: -gain.get(name, 0.0)):
        remedy, share = found.left_out.get(name), _share(found.losses, name)
        table.add_row(
            name,
            _number(found.losses[name]),
            "-" if share is None else f"{share:.0%}",
            _number(_others(found.losses, name)),
            "-" if remedy is None else _number(_mean(remedy.losses)),
            "-" if remedy is None else f"{remedy.totals.share_suppressed:.2%}",
        )
    console.print("\nLoss by attribute, what costs the others most first:")
    indent(console, table)
    console.print(
        "'the others' is their mean loss now, 'without it' the same where this one is left out.", soft_wrap=True
    )


def _show_suppressed(why: Why, console: Console) -> None:
    found = why.found
    tuples = found.configured.totals.tuples
    reasons = {reason: count for reason, count in found.withheld.items() if count}
    console.print("\nSuppressed, by reason (exact, as in the summary), with the nearest setting that saves most of it:")
    for reason, count in reasons.items():
        indent(console, f"{reason}: {count:,} tuples, {count / tuples:.2%}. {_nearest(found, reason)}")
    console.print()
    if why.parts is None:
        console.print("Which tuples were suppressed is not known with sampling, so no category or range is told.")
    elif not why.parts:
        console.print(
            f"No category and no range with {why.k} persons or more was suppressed clearly above its share.",
            soft_wrap=True,
        )
    else:
        table = figures(
            "quasi-identifier", "category or range", "tuples", "suppressed", "share", "times the share of all"
        )
        for part in why.parts:
            counts = f"{part.tuples:,}", f"{part.suppressed:,}", f"{part.share:.1%}", f"{part.times:.1f}"
            table.add_row(part.column, part.label, *counts)
        console.print(f"Suppressed above their share (counts rounded down to a multiple of k = {why.k}):")
        indent(console, table)
    shown = [r for r in found.tried if r.kind != "quasi_identifiers" or r in map(found.nearest, reasons)]
    if shown:
        console.print("\nWhat was tried:")
        indent(console, _tried(found, shown, list(reasons)))
    for change, problem in found.impossible.items():
        console.print(f"{change} cannot be: {problem}.", soft_wrap=True)


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
    loss = f"mean loss {_number(_mean(nearest.losses))} for {_number(_mean(found.losses))} now"
    return f"Saved by {nearest.change}{_less(nearest)}: {saved}; {loss}."


def _less(remedy: Remedy) -> str:
    return " (promises less)" if remedy.weaker else ""


def _tried(found: Remedies, shown: Sequence[Remedy], reasons: Sequence[str]) -> Table:
    table = figures("", *reasons, "not published", "mean loss", "delay p99", " ")
    now = found.configured.totals
    lost = [f"{found.withheld[reason]:,}" for reason in reasons]
    table.add_row(
        "as configured", *lost, f"{now.withheld:,}", _number(_mean(found.losses)), _delay(found.configured), ""
    )
    for remedy in shown:
        left = [f"{remedy.withheld.get(reason, 0):,}" for reason in reasons]
        less = "promises less" if remedy.weaker else ""
        kept = f"{remedy.totals.withheld:,}"
        table.add_row(remedy.change, *left, kept, _number(_mean(remedy.losses)), _delay(remedy), less)
    return table


def _waited(of: Remedy | Replayed) -> Any:
    return of.totals.sample_delay if of.totals.event_delay is None else of.totals.event_delay


def _delay(of: Remedy | Replayed) -> str:
    waited = _waited(of)
    if waited is None:
        return "-"
    return f"{waited.p99:,} tuples" if of.totals.event_delay is None else minute(waited.p99)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _show_rejected(table: pa.Table | None, k: int, console: Console) -> None:
    rows = _rejected(table, k)
    if not rows:
        return
    console.print("\nRejected, by column and reason (no replay tells what they would give, as they were not let in):")
    shown = figures("column", "reason", "rows", "what would help")
    for row in rows:
        count = f"fewer than {k}" if row["rows"] is None else f"{row['rows']:,}"
        shown.add_row(row["column"], row["reason"], count, _OF_REJECTION.get(row["reason"], ""))
    indent(console, shown)


def _show_run(run: Outputs, k: int, console: Console) -> None:
    told = _of_run(run, k)
    console.print(f"\nThe run's outputs: {told['released']:,} tuples were released.")
    if told["suppressed_by_reason"] is None:
        console.print("It kept no output 'suppressed', so its reasons are not known.")
    elif not told["suppressed_by_reason"]:
        console.print("None is among those that were suppressed and not published.")
    else:
        counted = ", ".join(f"{reason} {count:,}" for reason, count in told["suppressed_by_reason"].items())
        console.print(f"Suppressed and not published: {counted}. The outputs tell no more of them.", soft_wrap=True)
    if told["fully_generalised"]:
        console.print(f"Suppressed and published fully generalised: {told['fully_generalised']:,}.")
    table = figures("quasi-identifier", "loss", "share of loss")
    for name, loss in sorted(told["losses"].items(), key=lambda pair: -(pair[1] or 0.0)):
        share = _share(told["losses"], name)
        table.add_row(name, _number(loss), "-" if share is None else f"{share:.0%}")
    indent(console, table)
    _show_rejected(run.rejected, k, console)
