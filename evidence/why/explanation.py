"""Explanation of suppression, rejection and information loss in a sample, and in the outputs of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.algorithm import REPAIRS
from crenel.evidence.input_warnings import LATENESS, late_warnings
from crenel.evidence.losses import losses
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.plan.point import Point
from crenel.evidence.plan.replays import Make, Progress
from crenel.evidence.replay import Replayed, Waited
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.evidence.why.parts import Part, above_their_share
from crenel.evidence.why.remedies import Remedies, Remedy, remedies
from crenel.operators.shards.stream import late_by

_PARTS = 12
"""Maximum number of categories and ranges."""


@dataclass(frozen=True)
class RejectedRows:
    """Number of rejected rows with a column and a reason, rounded down to a multiple of k; column None: unknown."""

    column: str | None
    reason: str
    rows: int


@dataclass(frozen=True)
class Repaired:
    """Releases whose records lacked a privacy model before a repair, by the repair log.

    Attributes
    ----------
    lacked : reason against a release of the records as they were
    releases, tuples : number of these releases and of their tuples
    before, after : mean InfoLoss of these tuples before and after the repair, 0 to 1
    """

    lacked: str
    releases: int
    tuples: int
    before: float
    after: float


@dataclass(frozen=True)
class RunFigures:
    """Figures of the outputs of a run.

    Attributes
    ----------
    released : number of released tuples
    suppressed : tuples that were suppressed and not published, by reason; None without that output
    fully_generalized : suppressed tuples that were published; None without an audit log
    losses : mean loss of each quasi-identifier
    """

    released: int
    suppressed: Mapping[str, int] | None
    fully_generalized: int | None
    losses: Mapping[str, float | None]
    rejected: tuple[RejectedRows, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "released": self.released,
            "suppressed_by_reason": self.suppressed,
            "fully_generalized": self.fully_generalized,
            "losses": self.losses,
            "rejected": [vars(row) for row in self.rejected],
        }


@dataclass(frozen=True)
class Explanation:
    """Explanation of suppression, rejection and loss.

    Attributes
    ----------
    k : of the setting; all counts of parts and rejected rows are rounded down to a multiple of it
    remedies : the configured setting and its alternatives
    parts : categories and ranges with a suppression rate above average; None where sampling hides the suppressed tuples
    rejected_in_sample : number of rejected rows of the sample
    rejected : the same by column and reason, the largest count first
    run : figures of the outputs of a run; None without outputs
    repairs : repairs of the configured setting, the most expensive first; empty where the algorithm logs none
    synthetic : whether the released records are synthetic, so that none of them is an admitted tuple
    late : field of a delay of event time, and tuples that were due at their arrival by it; None without such a delay
    """

    k: int
    remedies: Remedies
    parts: tuple[Part, ...] | None
    rejected_in_sample: int
    rejected: tuple[RejectedRows, ...]
    run: RunFigures | None
    repairs: tuple[Repaired, ...] = ()
    synthetic: bool = False
    late: tuple[str, int] | None = None

    def __str__(self) -> str:
        totals = self.remedies.configured.totals
        counts = f"{totals.share_suppressed:.2%} suppressed, {self.rejected_in_sample:,} rejected"
        warned = "".join(f"Warning: {warning}.\n" for warning in late_warnings_of(self, LATENESS))
        return f"{totals.tuples:,} records, {counts}\n{warned}{self.to_arrow().to_pandas().to_string(index=False)}"

    def __repr__(self) -> str:
        return str(self)  # not the records of the replay

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        remedies, totals = self.remedies, self.remedies.configured.totals
        return {
            "sample": {
                "tuples": totals.tuples,
                "rejected": self.rejected_in_sample,
                "shorter_than_two_delays": remedies.is_short,
                "late": None if self.late is None else self.late[1],
            },
            "mean_loss": totals.mean_loss,
            "suppressed": totals.share_suppressed,
            "suppressed_by_reason": dict(remedies.suppressed),
            "repairs": [vars(repaired) for repaired in self.repairs],
            "losses": {
                name: {
                    "loss": loss,
                    "share": share_of_loss(remedies.losses, name),
                    "others": mean_loss_of_others(remedies, name),
                    "without": None if name not in remedies.omitted else _as_dict(remedies, remedies.omitted[name]),
                }
                for name, loss in remedies.losses.items()
            },
            "above_their_share": None
            if self.parts is None
            else [vars(part) | {"share": part.share} for part in self.parts],
            "counts_rounded_down_to": self.k,
            "rejected": [vars(row) for row in self.rejected],
            "tried": [_as_dict(remedies, remedy) for remedy in remedies.tried],
            "nearest": {
                reason: None if (nearest := remedies.nearest(reason)) is None else nearest.change
                for reason, count in remedies.suppressed.items()
                if count
            },
            "impossible": dict(remedies.impossible),
            "outputs": None if self.run is None else self.run.to_dict(),
        }

    def to_arrow(self) -> pa.Table:
        """Return one row per replayed setting, the configured one first, with its suppressed tuples and its loss."""
        remedies, configured = self.remedies, self.remedies.configured
        settings: list[tuple[str, str, bool, Remedy | Replayed, Mapping[str, int], float | None]] = [
            ("configured", "as configured", False, configured, remedies.suppressed, configured.totals.mean_loss)
        ]
        settings += [(r.kind, r.change, r.is_weaker, r, r.suppressed, r.mean_loss) for r in remedies.tried]
        delays = [delay_of(result) for _, _, _, result, _, _ in settings]
        columns: dict[str, Any] = {
            "kind": pa.array([kind for kind, *_ in settings], pa.string()),
            "change": pa.array([change for _, change, *_ in settings], pa.string()),
            "is_weaker": pa.array([weaker for _, _, weaker, *_ in settings], pa.bool_()),
            "mean_loss": pa.array([loss for *_, loss in settings], pa.float64()),
            "delay_p99": pa.array([None if delay is None else delay.p99 for delay in delays], pa.int64()),
        }
        for reason in remedies.suppressed:
            amounts = [suppressed.get(reason, 0) for *_, suppressed, _ in settings]
            columns[f"suppressed_{reason}"] = pa.array(amounts, pa.int64())
        return pa.table(columns)


def _as_dict(remedies: Remedies, remedy: Remedy) -> dict[str, Any]:
    delay = delay_of(remedy)
    return {
        "kind": remedy.kind,
        "change": remedy.change,
        "is_weaker": remedy.is_weaker,
        "suppressed_by_reason": dict(remedy.suppressed),
        "saves": {reason: remedies.saves(remedy, reason) for reason, count in remedies.suppressed.items() if count},
        "mean_loss": remedy.mean_loss,
        "losses": dict(remedy.losses),
        "delay_p99": None if delay is None else delay.p99,
    }


def explain(
    sample: Sample,
    setting: ReplaySetting,
    make: Callable[[Point], Make],
    progress: Progress,
    run: RunOutputs | None = None,
) -> Explanation:
    """Explain suppression, rejection and loss in a sample; parameters as of ``remedies``.

    ``run``: outputs of a run under the same setting.
    """
    replayed, k = remedies(sample, setting, make, progress), setting.privacy.k
    suppressed = suppressed_tuples(replayed.configured)
    return Explanation(
        k=k,
        remedies=replayed,
        parts=None if suppressed is None else tuple(above_their_share(sample, suppressed, k, _PARTS)),
        rejected_in_sample=len(sample.rejected.column),
        rejected=rejected_rows(replayed.configured.outputs.rejected, k),
        run=None if run is None else run_figures(run, setting),
        repairs=repairs_of(replayed.configured.outputs),
        synthetic=setting.algorithm.is_synthetic,
        late=_late(sample, setting),
    )


def _late(sample: Sample, setting: ReplaySetting) -> tuple[str, int] | None:
    """Return a delay of event time, and the tuples that were due by it at their arrival; None without one."""
    durations = setting.algorithm.durations
    if not durations:
        return None
    name, delay = max(durations.items(), key=lambda pair: pair[1])
    return f"{setting.algorithm.name}.{name}", late_by(sample.tuples.event_time, sample.watermark, delay)


def late_warnings_of(explanation: Explanation, lateness: str) -> tuple[str, ...]:
    """Return a warning if many tuples were late; ``lateness``: how a user allows for more disorder."""
    if explanation.late is None:
        return ()
    return tuple(late_warnings(*explanation.late, explanation.remedies.configured.totals.tuples, lateness))


def repairs_of(outputs: RunOutputs) -> tuple[Repaired, ...]:
    """Return the releases that lacked a privacy model before a repair, by the repair log; reuse is none."""
    log, audit = outputs.further.get(REPAIRS), outputs.audit
    if log is None or audit is None or "lacked" not in log.column_names:
        return ()
    rows = audit.select(["shard", "release_id", "tuples", "loss"]).to_pylist()
    released = {(row["shard"], row["release_id"]): row for row in rows}
    by_model: dict[str, list[tuple[int, float, float]]] = {}
    for row in log.filter(pc.is_valid(log["loss_before"])).to_pylist():
        release = released.get((row["shard"], row["release_id"]))
        if release is not None and row["reused_release"] is None:
            by_model.setdefault(row["lacked"], []).append((release["tuples"], row["loss_before"], release["loss"]))
    repaired = []
    for lacked, releases in by_model.items():
        tuples, before, after = np.array(releases).T
        means = (float(np.average(loss, weights=tuples)) for loss in (before, after))
        repaired.append(Repaired(lacked, len(releases), int(tuples.sum()), *means))
    return tuple(sorted(repaired, key=lambda one: (one.before - one.after) * one.tuples))


def suppressed_tuples(replayed: Replayed) -> NDArray[np.bool_] | None:
    """Return (tuples of the sample,) whether each was suppressed, published or not; None where it is unknown."""
    totals, audit = replayed.totals, replayed.outputs.audit
    if totals.sampled_out or (replayed.suppressed_row < 0).any() or audit is None:
        return None
    mask = np.zeros(totals.tuples, np.bool_)
    mask[replayed.suppressed_row] = True
    alone = audit.filter(pc.equal(audit["kind"], "generalized"))
    pairs = set(zip(alone["shard"].to_pylist(), alone["release_id"].to_pylist(), strict=True))
    if pairs:
        own = zip(replayed.shard.tolist(), replayed.release.tolist(), strict=True)
        mask[replayed.row[np.array([pair in pairs for pair in own], np.bool_)]] = True
    return mask


def run_figures(run: RunOutputs, setting: ReplaySetting) -> RunFigures:
    """Return the figures of the outputs of a run."""
    generalized = None if run.audit is None else pc.sum(pc.equal(run.audit["kind"], "generalized")).as_py() or 0
    counts = None if run.suppressed is None else _counts(run.suppressed, "reason")
    return RunFigures(
        released=run.released.num_rows,
        suppressed=None if counts is None else {reason: rows for (reason,), rows in counts},
        fully_generalized=generalized,
        losses=losses(run, representative=setting.algorithm.has_representative),
        rejected=rejected_rows(run.rejected, setting.privacy.k),
    )


def rejected_rows(table: pa.Table | None, k: int) -> tuple[RejectedRows, ...]:
    """Return rejected rows by column and reason, the largest count first."""
    counts = [] if table is None else _counts(table, "column", "reason")
    return tuple(RejectedRows(column, reason, rows // k * k) for (column, reason), rows in counts)


def _counts(table: pa.Table, *columns: str) -> list[tuple[tuple[str, ...], int]]:
    # Arrow 11 has no count of rows without a column.
    rows = table.group_by(list(columns)).aggregate([(columns[0], "count", pc.CountOptions(mode="all"))]).to_pylist()
    counts = Counter({tuple(row[name] for name in columns): row[f"{columns[0]}_count"] for row in rows})
    return counts.most_common()


def share_of_loss(losses: Mapping[str, float | None], name: str) -> float | None:
    """Return an attribute's share of the total loss, 0 to 1; None where it is unknown."""
    total = sum(loss or 0.0 for loss in losses.values())
    loss = losses[name]
    return None if loss is None or not total else loss / total


def mean_loss_of_others(remedies: Remedies, name: str) -> float | None:
    """Return the mean loss of all other attributes; None where that of this one is unknown, or there is no other."""
    mean, own, count = remedies.configured.totals.mean_loss, remedies.losses.get(name), len(remedies.losses)
    return None if mean is None or own is None or count == 1 else max(mean * count - own, 0.0) / (count - 1)


def delay_of(result: Remedy | Replayed) -> Waited | None:
    """Return the delays: in event time where there is any, else in tuples of the sample."""
    return result.totals.sample_delay if result.totals.event_delay is None else result.totals.event_delay
