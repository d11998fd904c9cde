"""Summary of a job over all of its shards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from crenel.anonymity.algorithm import Algorithm, Counters
from crenel.anonymity.model.outcomes import KINDS, LINKABLE, REJECTIONS, REUSE_RISK
from crenel.anonymity.model.policy import Policy
from crenel.evidence.input_warnings import late_warnings, rejection_warnings
from crenel.jobs.local.rest import LONG, WAITING, no_watermark
from crenel.state.counters import declared

_PARAMETER = "parameter."
_STRETCH = "stretch."
_REJECTED_IN = "rejected_in"
_IDENTITIES = ("run", "settings")
_COMMON = ("tuples_in", "sampled_out", "released")
_SHOWN = tuple(declaration for declaration in declared(Counters) if declaration.label)

_ENOUGH = 100
"""Minimum number of tuples for meaningful shares."""

_MANY_SUPPRESSED = 0.1
_WIDE = 2.0
_MOSTLY = 0.5
_FULL = 2.0

MORE_DISORDER = "let the watermark of source.ddl stay further behind, as ts - INTERVAL '1' HOUR"
"""How a job allows for more disorder."""

_LONGER = "let tuples wait longer"

_REMEDIES = {
    "outlier": f"more than half of the clusters were larger than theirs; {_LONGER}, or keep fewer clusters open",
    "too_few_subjects": f"fewer than k people waited together; {_LONGER}, or divide the stream into fewer shards",
    LINKABLE: "too few people were near what would have been published; lower "
    "privacy.noise_within_release.confidence.k or privacy.noise_within_release.epsilon. Larger windows help too, a "
    "longer delay of CASTLE does not",
}
_OF_KEYS = (
    f"too few records shared all values that would have been published; {_LONGER}, or publish fewer values: a coarser "
    "partition, or fewer sensitive columns"
)
_OF_VALUES = (
    "those that waited together had too few sensitive values. A stream that comes ordered by a sensitive value does "
    f"that: read it in the order of its events, or {_LONGER}"
)


@dataclass(frozen=True)
class DelaySummary:
    """Delays in later tuples of the shard.

    Attributes
    ----------
    p50, p99 : percentiles (nearest rank), from 64 on rounded down by less than 1 in 32
    longest : the longest delay, exact
    tuples : tuples by delay, rounded as the percentiles are
    """

    p50: int
    p99: int
    longest: int
    tuples: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class RunSummary:
    """Numbers of a run.

    Attributes
    ----------
    rows_in : rows read: admitted tuples, tuples that sampling excluded, and rejected rows
    sampled_out : tuples that sampling excluded
    released : tuples released
    suppressed, rejected : tuples and rows by reason, every reason named; suppressed tuples that are published fully
        generalized also count as released
    forgotten : tuples of persons who were forgotten while the tuples were buffered
    synthetic : released records that no tuple stands for
    releases : releases by kind (``crenel.anonymity.model.outcomes.KINDS``), every kind named
    further : counters with a line of their own (``crenel.state.counters.declared``), as far as the shards have them
    counts : further counts of the algorithm, by name
    algorithm : of the run
    mean_loss : mean InfoLoss in [0, 1] of the released tuples; None where none was released
    delay : None where no tuple was admitted
    parameters : privacy parameters by name: k, l, and sample_rate and phi where there is noise
    seconds : from the start of the run to the end of the job
    event_time_field : the field that depends on event time; None without one
    overdue : tuples with a delay of more than twice that field's time
    late : tuples that were due at their arrival by that field's time
    rejected_in : rejected rows by column and reason, as far as known
    policy : of the run; None: unknown, so no warning names a remedy for rejected rows
    stretch : by numeric attribute without a domain, the factor by which a few outliers widen the range
    fullest : the shard with the largest ratio of actual to expected share of the tuples, and that ratio; None where no
        shares are expected, or no tuple was admitted
    identities : with a chained audit log, the ``run`` and a hash of the ``settings``, as its rows state them
    silent : readers of the source without a watermark before the end, and the seconds that records waited for one
    """

    rows_in: int
    sampled_out: int
    released: int
    suppressed: dict[str, int]
    rejected: dict[str, int]
    forgotten: int
    synthetic: int
    releases: dict[str, int]
    further: dict[str, int]
    counts: dict[str, int]
    algorithm: Algorithm
    mean_loss: float | None
    delay: DelaySummary | None
    parameters: dict[str, float]
    seconds: float
    event_time_field: str | None
    overdue: int
    stretch: dict[str, float]
    fullest: tuple[int, float] | None
    late: int = 0
    rejected_in: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    policy: Policy | None = field(default=None, repr=False)
    identities: dict[str, str] = field(default_factory=dict)
    silent: tuple[int, int] = (0, 0)

    @classmethod
    def of(
        cls,
        rows: Iterable[tuple[int, str, float]],
        seconds: float,
        algorithm: Algorithm,
        reasons: Sequence[str],
        event_time_field: str | None = None,
        expected: Sequence[float] = (),
        policy: Policy | None = None,
    ) -> RunSummary:
        """Add up the reports of the shards at the end of the input.

        Parameters
        ----------
        rows : (shard, name, amount) as ``crenel.operators.shards.function.summary`` names them, in any order
        algorithm : of the run
        reasons : possible reasons for suppression (``Privacy.reasons``)
        event_time_field : the field that depends on event time; None without one
        expected : the expected share of the tuples by shard, where it is known
        policy : of the run, where it is known

        Raises
        ------
        ValueError
            The numbers do not account for every row that was read.
        """
        totals: dict[str, float] = defaultdict(float)
        longest = 0
        parameters: dict[str, float] = {}
        stretch: dict[str, float] = {}
        identities: dict[str, str] = {}
        rejected_in: dict[tuple[str | None, str], int] = defaultdict(int)
        came = [0.0] * len(expected)
        for shard, name, amount in rows:
            if expected and name == "tuples_in":
                came[shard] = amount
            if name.startswith(_PARAMETER):
                parameters[name.removeprefix(_PARAMETER)] = amount
                continue
            if name.startswith(_STRETCH):
                attribute = name.removeprefix(_STRETCH)
                stretch[attribute] = max(stretch.get(attribute, 0.0), amount)
                continue
            group, _, identity = name.partition(".")
            if group == _REJECTED_IN:
                reason, _, column = identity.partition(".")
                rejected_in[column or None, reason] += int(amount)
                continue
            if group in _IDENTITIES:
                identities[group] = identity
                continue
            if name in WAITING:  # of a task, and not of a shard
                totals[name] = max(totals[name], amount)
                continue
            totals[name] += amount
            if name == "longest_delay":
                longest = max(longest, int(amount))

        def count(name: str) -> int:
            return int(totals[name])

        suppressed, rejected, releases = (
            {name: count(f"{group}.{name}") for name in names}
            for group, names in (("suppressed", reasons), ("rejected", REJECTIONS), ("releases", KINDS))
        )
        tuples, released = count("tuples_in"), count("released")
        forgotten = count("forgotten")
        synthetic = count("synthetic")
        lost = tuples + synthetic - released - sum(suppressed.values()) + releases["generalized"] - forgotten
        if lost:
            raise ValueError(f"{abs(lost)} tuples are {'unaccounted for' if lost > 0 else 'accounted for twice'}")
        delays = {int(name.removeprefix("delay.")): count(name) for name in totals if name.startswith("delay.")}
        return cls(
            rows_in=tuples + count("sampled_out") + sum(rejected.values()),
            sampled_out=count("sampled_out"),
            released=released,
            suppressed=suppressed,
            rejected=rejected,
            forgotten=forgotten,
            synthetic=synthetic,
            releases=releases,
            further={shown.name: count(shown.name) for shown in _SHOWN if shown.name in totals},
            counts={name: count(name) for name in algorithm.counted if name not in _COMMON},
            algorithm=algorithm,
            mean_loss=totals["loss_sum"] / released if released else None,
            delay=DelaySummary(_percentile(delays, 50), _percentile(delays, 99), longest, delays) if delays else None,
            parameters=parameters,
            seconds=seconds,
            event_time_field=event_time_field,
            overdue=count("overdue"),
            stretch=stretch,
            fullest=_fullest(came, expected),
            late=count("late"),
            rejected_in=dict(rejected_in),
            policy=policy,
            identities=dict(sorted(identities.items())),
            silent=(count(WAITING[0]), count(WAITING[1])),
        )

    @property
    def withheld(self) -> int:
        """Suppressed tuples that were not published."""
        return sum(self.suppressed.values()) - self.releases["generalized"]

    @property
    def reused(self) -> int:
        """Releases under an earlier generalization."""
        return self.releases["reused"]

    @property
    def warnings(self) -> list[str]:
        """Warnings about unexpected results, each with its field and a remedy."""
        return list(run_warnings(self))

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain values for ``json.dumps``."""
        return {
            "rows_in": self.rows_in,
            "sampled_out": self.sampled_out,
            "released": self.released,
            "suppressed": self.suppressed,
            "withheld": self.withheld,
            "rejected": self.rejected,
            "forgotten": self.forgotten,
            "releases": sum(self.releases.values()),
            "releases_by_kind": self.releases,
            "reused": self.reused,
            **self.further,
            **self.counts,
            "mean_loss": self.mean_loss,
            "delay_tuples": self.delay and {"p50": self.delay.p50, "p99": self.delay.p99, "max": self.delay.longest},
            "parameters": self.parameters,
            "seconds": round(self.seconds, 3),
            **self.identities,
            "warnings": self.warnings,
        }

    def as_table(self) -> Table:
        """Return the summary as a table for people."""
        suppressed, rejected = sum(self.suppressed.values()), sum(self.rejected.values())
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(justify="right", no_wrap=True)
        table.add_column()
        table.add_row("rows in", f"{self.rows_in:,}", "")
        if self.sampled_out:
            table.add_row("sampled out", f"{self.sampled_out:,}", self._share(self.sampled_out))
        table.add_row("released", f"{self.released:,}", self._share(self.released))
        published = ", published fully generalized" if suppressed and not self.withheld else ""
        table.add_row("suppressed", f"{suppressed:,}", self._share(suppressed, self.suppressed) + published)
        table.add_row("rejected", f"{rejected:,}", self._share(rejected, self.rejected))
        if self.forgotten:
            table.add_row("forgotten", f"{self.forgotten:,}", self._share(self.forgotten))
        table.add_row("releases", f"{sum(self.releases.values()):,}", _listed(self.releases))
        table.add_row(*self.algorithm.summary(self.counts))
        loss = "-" if self.mean_loss is None else f"{self.mean_loss:.3f}"
        table.add_row("mean loss", loss, "of released tuples; 0: nothing generalized, 1: everything")
        if self.delay is not None:
            others = f"tuples at the median, {self.delay.p99:,} at the 99th percentile, {self.delay.longest:,} at most"
            table.add_row("delay", f"{self.delay.p50:,}", others)
        for shown in _SHOWN:
            if (amount := self.further.get(shown.name)) is not None:
                share = f"{amount / self.released:.1%} of released tuples" if self.released else ""
                table.add_row(shown.label, f"{amount:,}", shown.words.format(share=share))
        if "sample_rate" in self.parameters:
            rate, phi = self.parameters["sample_rate"], self.parameters["phi"]
            table.add_row(
                "noise", "", f"sample rate {rate:g}, phi {phi:g}; see 'crenel budget' and docs/concepts/noise.md"
            )
        if "run" in self.identities:
            hashed = f"settings {self.identities['settings']}; 'crenel verify --run' requires this run"
            table.add_row("run", self.identities["run"], hashed)
        table.add_row("time", f"{self.seconds:.1f}", "seconds, start of Flink included")
        return table

    def _share(self, rows: int, reasons: dict[str, int] | None = None) -> str:
        if not self.rows_in:
            return ""
        listed = _listed(reasons or {})
        return f"{rows / self.rows_in:.1%}" + (f": {listed}" if listed else "")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count)


def _fullest(came: Sequence[float], expected: Sequence[float]) -> tuple[int, float] | None:
    total = sum(came)
    if not total:
        return None
    times = [tuples / total / share if share else 0.0 for tuples, share in zip(came, expected, strict=True)]
    return max(enumerate(times), key=lambda pair: pair[1])


def _percentile(counts: dict[int, int], percent: int) -> int:
    """Return the nearest-rank percentile: the smallest value that at least ``percent`` of all do not exceed."""
    rank = -(-sum(counts.values()) * percent // 100)
    reached = 0
    for value in sorted(counts):
        reached += counts[value]
        if reached >= rank:
            return value
    raise ValueError("a percentile of nothing")


def run_warnings(summary: RunSummary) -> Iterator[str]:
    """Yield warnings about unexpected results of a run, each with its field and a remedy."""
    if summary.reused:
        yield (
            f"{summary.algorithm.name}.reuse_limit: {summary.reused:,} of {summary.released:,} released tuples were "
            f"published alone under an earlier generalization. {REUSE_RISK}. Set it to 0, unless no recipient can know "
            "when records arrive"
        )
    readers, seconds = summary.silent
    if readers and seconds >= LONG and summary.event_time_field is not None:
        yield no_watermark(readers, seconds, summary.event_time_field)
    tuples, suppressed = summary.rows_in - summary.sampled_out - sum(summary.rejected.values()), summary.suppressed
    if summary.rows_in == 0:
        yield (
            "source.ddl: no row was read, so nothing was published; check the path, or the topic and its offsets, and "
            "the WHERE of source.query"
        )
    if summary.policy is not None:
        yield from rejection_warnings(summary.policy, summary.rows_in, summary.rejected_in)
    if tuples < _ENOUGH:
        return
    field_of_time = summary.event_time_field
    late = [] if field_of_time is None else [*late_warnings(field_of_time, summary.late, tuples, MORE_DISORDER)]
    yield from late
    if (amount := sum(suppressed.values())) >= _MANY_SUPPRESSED * tuples and not late:
        reason = max(suppressed, key=lambda name: suppressed[name])
        why = _REMEDIES.get(reason, _OF_VALUES)
        if summary.algorithm.private and reason == "too_few_subjects":
            why = _OF_KEYS
        yield f"suppressed: {amount / tuples:.0%} of the tuples, most of them as {reason.replace('_', ' ')}: {why}"
    for name, times in sorted(summary.stretch.items()):
        if times >= _WIDE:
            yield (
                f"policy.quasi_identifiers.{name}.domain: is not given, and a few far values make the observed range "
                f"{times:.3g} times as wide as all others. Intervals grow, and the stated loss, a share of that range, "
                "is the smaller for it; give the domain, so that rows outside of it are rejected"
            )
    if summary.fullest is not None and summary.fullest[1] > _FULL:
        shard, times = summary.fullest
        yield (
            f"shards.regions: shard {shard} got {times:.3g} times its expected share of the tuples, so the stream is "
            "not like what its regions were learned from; learn them anew with 'crenel regions'"
        )
    if summary.overdue >= _MOSTLY * tuples and summary.event_time_field is not None:
        yield (
            f"{summary.event_time_field}: {summary.overdue / tuples:.0%} of the tuples left after more than twice "
            "that time, as rows were read faster than watermarks came. Let the source's table have "
            "'scan.watermark.emit.strategy' = 'on-event', lower flink.pipeline.auto-watermark-interval, or bound the "
            "delay in tuples too"
        )
