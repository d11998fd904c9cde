"""Implementation of ``crenel report``, which ``crenel run`` and ``crenel demo`` also use: an HTML page for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from crenel.evidence.attack.result import Attack
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.report.context import Flow, ReportError
from crenel.evidence.report.distributions import Came
from crenel.evidence.report.page import Place, ReportPage
from crenel.evidence_inputs import about
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.outputs import read_outputs
from crenel.jobs.local.sample import reading
from crenel.jobs.local.summary import RunSummary

FIRST_ROWS = 100_000
"""Maximum number of tuples to read from an unbounded source."""


def report(path: Path, overrides: Sequence[str], place: Place, *, source: bool, attacks: Path | None = None) -> Config:
    """Write the page of a run from the contents of its sinks.

    Parameters
    ----------
    path, overrides : of its configuration
    source : whether to read the input too; of an unbounded source, the first ``FIRST_ROWS``
    attacks : output of ``crenel attack --json`` for this run; None: the page omits attacks

    Raises
    ------
    ConfigError, JobError, JavaError, OutputsError, ReportError
        The configuration, the outputs or the source cannot be read, or the page cannot be written.
    """
    config, tried = load(path, overrides), () if attacks is None else _attacks(attacks)
    outputs = read_outputs(config)
    rows = outputs.further.get("summary")
    if rows is None:
        write(config, path.name, place, outputs, _flow_of_outputs(config, outputs), source=source, attacks=tried)
        return config
    columns = (rows[name].to_pylist() for name in ("shard", "name", "amount"))
    try:
        summary = RunSummary.of(
            zip(*columns, strict=True), 0.0, config.algorithm, config.privacy.reasons, policy=config.policy
        )
    except ValueError as error:
        raise ReportError(f"sinks.summary: {error}; is it of the same run as the other sinks?") from None
    write(
        config,
        path.name,
        place,
        outputs,
        _flow(summary),
        source=source,
        warnings=[*_warnings(summary, outputs)],
        attacks=tried,
    )
    return config


@dataclass(frozen=True)
class _Tried:
    """Output of ``crenel attack --json`` for one kind of attacks."""

    attacks: tuple[Attack, ...]


@dataclass(frozen=True)
class _Attacked:
    """Output of ``crenel attack --json``, as far as the page shows it."""

    outputs: _Tried | None
    replays: _Tried


_ATTACKED = TypeAdapter(_Attacked)


def _attacks(path: Path) -> tuple[Attack, ...]:
    try:
        attacked = _ATTACKED.validate_json(path.read_bytes())
    except OSError as error:
        raise ReportError(f"--attacks: {path} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise ReportError(f"--attacks: {path} is not an output of 'crenel attack --json'") from None
    return (*(() if attacked.outputs is None else attacked.outputs.attacks), *attacked.replays.attacks)


def report_of_run(config: Config, name: str, place: Place, summary: RunSummary) -> None:
    """Write the page of a run that has just ended; raise as ``report`` does."""
    outputs = read_outputs(config)
    warnings = [*_warnings(summary, outputs)]
    write(config, name, place, outputs, _flow(summary), source=True, warnings=warnings, ended=summary)


def write(
    config: Config,
    name: str,
    place: Place,
    outputs: RunOutputs,
    flow: Flow,
    *,
    source: bool,
    warnings: Sequence[str] = (),
    attacks: Sequence[Attack] = (),
    ended: RunSummary | None = None,
) -> None:
    """Write a page.

    Parameters
    ----------
    name : of the configuration
    source : whether to read the input
    attacks : results of attacks; none: the page omits them
    ended : summary of a run that has just read the source; if a second read gives another number of rows, the page
        omits the input
    """
    warned = (*config.warnings, *warnings)
    page = ReportPage(
        outputs, about(config.settings, name, warned, further=config.lines, flink=version("apache-flink"))
    )
    if not source or not page.axes:
        place.write(page.html(flow, attacks=attacks))
        return
    came, ends = _came(config, page)
    if ended is not None and came.tuples != ended.rows_in - sum(ended.rejected.values()):
        place.write(page.html(flow, attacks=attacks))
        return
    place.write(page.html(flow, came=came, all_came=ends, attacks=attacks))


def _came(config: Config, page: ReportPage) -> tuple[Came, bool]:
    """Count the input by the bins of a page; return the counts, and whether the source is bounded."""
    with reading(config) as (source, blocks):
        came = Came(page.axes, source.plan.policy)
        for block in blocks:
            came.add(block)
            if not source.ends and came.tuples >= FIRST_ROWS:
                break
    return came, source.ends


def _flow(summary: RunSummary) -> Flow:
    published = summary.releases["generalized"]
    return Flow(
        released=summary.released - published,
        rows_in=summary.rows_in,
        sampled_out=summary.sampled_out,
        suppressed=summary.suppressed,
        rejected=summary.rejected,
        published=published,
        forgotten=summary.forgotten,
        delays=None if summary.delay is None else summary.delay.tuples,
        longest_delay=None if summary.delay is None else summary.delay.longest,
        synthetic=summary.synthetic,
    )


def _flow_of_outputs(config: Config, outputs: RunOutputs) -> Flow:
    """Derive the numbers of rows from the outputs, in the absence of a summary."""
    published = 0 if outputs.audit is None else outputs.audit["kind"].to_pylist().count("generalized")
    suppressed, rejected = (
        None if table is None else dict(Counter(table["reason"].to_pylist()).most_common())
        for table in (outputs.suppressed, outputs.rejected)
    )
    if published and suppressed is not None:
        # Only the summary has their reason, because the sink holds the unpublished ones alone.
        suppressed["unknown reason"] = published
    forgotten = outputs.further.get("forgotten")
    return Flow(
        released=outputs.released.num_rows - published,
        suppressed=suppressed,
        rejected=rejected,
        published=published,
        forgotten=0 if forgotten is None else sum(forgotten["tuples"].to_pylist()),
        synthetic=None if config.algorithm.is_synthetic else 0,
    )


def _warnings(summary: RunSummary, outputs: RunOutputs) -> Iterator[str]:
    yield from summary.warnings
    rows = outputs.released.num_rows
    if rows != summary.released:
        yield (
            f"sinks.released: holds {rows:,} rows, and this run released {summary.released:,}; it has rows of other "
            "runs, or lacks rows of this one, so only the flow and the delay below are exactly of this run"
        )
