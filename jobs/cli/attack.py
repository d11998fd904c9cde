"""Implementation of ``crenel attack``: attacks on a run's outputs and on replays of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from crenel.evidence.attack.published_records import attack_outputs
from crenel.evidence.attack.replays import attack_replays
from crenel.evidence.attack.result import ALL, Attack, AttackError, AttackResults, Effort
from crenel.evidence.outputs import RunOutputs
from crenel.jobs.cli.cli_common import parse_option_duration, table
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.outputs import OutputsError, read_outputs
from crenel.jobs.local.sample import Beginning, read_beginning
from crenel.jobs.progress import replay_bar
from crenel.plan_settings import setting_of


@dataclass(frozen=True)
class AttackOptions:
    """Options of the command, beside those of every command.

    Attributes
    ----------
    sample : a file that replaces the source
    rows : tuples of the input, at most
    replay : whether to ignore the run's outputs
    within_rows, within_time : precision of the attacker's knowledge of arrivals; without any, a default selection
    seeds, targets : as of ``crenel.evidence.attack.result.Effort``
    """

    sample: Path | None
    rows: int
    replay: bool
    within_rows: Sequence[int]
    within_time: Sequence[str]
    seeds: int
    targets: int

    def effort(self) -> Effort:
        """Return the settings of the attacks; raise ``AttackError`` for an invalid time."""
        usual = Effort()
        given = bool(self.within_rows or self.within_time)
        return Effort(
            seeds=self.seeds,
            targets=self.targets,
            within_rows=tuple(self.within_rows) if given else usual.within_rows,
            within_time=tuple(map(_time_of, self.within_time)) if given else usual.within_time,
        )


@dataclass(frozen=True)
class AttackReport:
    """Results of the attacks.

    Attributes
    ----------
    outputs : on the outputs of the run; None if these were not attacked
    replays : on replays of the input
    tuples : number of tuples of the input
    is_whole : whether these are the complete input
    """

    outputs: AttackResults | None
    replays: AttackResults
    tuples: int
    is_whole: bool

    def as_json(self) -> dict[str, Any]:
        """Return the results for ``--json``."""
        parts = {"outputs": self.outputs, "replays": self.replays}
        results = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        return {"tuples": self.tuples, "whole": self.is_whole, **results}


def attack(path: Path, overrides: Sequence[str], options: AttackOptions) -> AttackReport:
    """Attack the outputs of a configuration, and replays of its input.

    Raises
    ------
    ConfigError, JobError, JavaError
        As ``crenel.jobs.local.sample.read_beginning`` does.
    OutputsError
        There are no readable outputs, and ``replay`` does not ignore them.
    AttackError
        There is nothing to attack, the outputs are of another input, or an option is invalid.
    """
    effort, config = options.effort(), load(path, overrides)
    with replay_bar("attacking replays") as progress:
        done = progress(effort.seeds)
        outputs = None if options.replay else _outputs(config)
        beginning = read_beginning(config, options.rows, options.sample)
        attacked = _attack_outputs(config, outputs, beginning, effort)
        return AttackReport(
            outputs=attacked,
            replays=attack_replays(beginning.sample, setting_of(config, beginning.privacy), effort, done),
            tuples=len(beginning.sample),
            is_whole=beginning.is_complete,
        )


def _outputs(config: Config) -> RunOutputs:
    try:
        return read_outputs(config)
    except OutputsError as error:
        raise OutputsError(f"{error}; with --replay, only replays of the input are attacked") from None


def _attack_outputs(
    config: Config, outputs: RunOutputs | None, beginning: Beginning, effort: Effort
) -> AttackResults | None:
    if outputs is None or not beginning.is_complete:
        return None
    exact = config.sampling_and_noise is None
    return attack_outputs(outputs, beginning.sample, config.privacy.k, effort, exact=exact, shards=config.shards)


def show(report: AttackReport, options: AttackOptions, console: Console) -> None:
    """Print the results."""
    if report.outputs is not None:
        console.print(f"Outputs of the run: {report.outputs.released:,} rows of {report.tuples:,} input rows")
        _show(report.outputs, console)
    elif not options.replay:
        console.print(
            f"The input has more than {report.tuples:,} rows, so the run's outputs were not attacked; raise --rows.",
            soft_wrap=True,
        )
    console.print(
        f"\nReplays of {report.tuples:,} rows: {options.seeds}, each with a fifth of the persons as the control group"
    )
    _show(report.replays, console)
    every = [*(() if report.outputs is None else report.outputs.attacks), *report.replays.attacks]
    above = sum(attack.above for attack in every)
    console.print()
    console.print(
        f"all: all {ALL}. Intervals are of 95 % confidence. "
        f"{above or 'None'} of {len(every)} succeed{'s' if above == 1 else ''} more often than k allows for an "
        f"attacker who knows {ALL} alone. docs/reference/evidence/attack.md describes each attack.",
        soft_wrap=True,
    )


def _show(results: AttackResults, console: Console) -> None:
    attacks = table("attack", "the attacker knows", "success, %", "interval", "baseline", "by k", words=2)
    for column in attacks.columns[2:]:
        column.no_wrap = True
    before = ""
    for attack in results.attacks:
        attacks.add_row(
            "" if attack.name == before else attack.name,
            _short(attack.knows),
            f"{100 * attack.success:.2f}",
            f"{100 * attack.low:.1f} to {100 * attack.high:.1f}",
            "-" if attack.baseline is None else f"{100 * attack.baseline:.2f}",
            "-" if attack.promised is None else f"{100 * attack.promised:.3g}{', above' if attack.above else ''}",
        )
        before = attack.name
    console.print(attacks)
    for line in dict.fromkeys(map(_note, results.attacks)):
        if line:
            console.print(f"  {line}", soft_wrap=True)
    wrong = results.queries
    if wrong.count:
        console.print(
            f"  counts of ranges: median relative error of {wrong.count:,} queries {wrong.error:.1%} "
            f"({wrong.low:.1%} to {wrong.high:.1%})",
            soft_wrap=True,
        )


def _short(knows: str) -> str:
    """Return the attacker's knowledge, shortened for a table with room for figures."""
    return knows.replace(ALL, "all").removesuffix(" of them")


def _note(attack: Attack) -> str:
    return f"{attack.name} ({_short(attack.knows)}): {attack.note}" if attack.note else ""


def _time_of(text: str) -> int:
    milliseconds = parse_option_duration(text)
    if milliseconds is None:
        raise AttackError("--within-time: must be a duration such as '1 min'")
    return milliseconds
