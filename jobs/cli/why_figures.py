"""Figures of ``crenel why``, and their form as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.evidence.losses import losses
from crenel.evidence.outputs import Outputs
from crenel.evidence.replay import Replayed, Waited
from crenel.evidence.why.parts import Part
from crenel.jobs.config.load import Config
from crenel.jobs.local.sample import Beginning
from crenel.jobs.plan.remedies import Remedies, Remedy


@dataclass(frozen=True)
class Why:
    """The content to show.

    Attributes
    ----------
    found : the configured setting and its alternatives
    parts : categories and ranges with a suppression rate above average; None where sampling hides the suppressed tuples
    run : outputs of a run; None: not requested
    """

    config: Config
    beginning: Beginning
    found: Remedies
    parts: list[Part] | None
    run: Outputs | None

    @property
    def k(self) -> int:
        """The minimum count of a part that is shown."""
        return self.config.privacy.k


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


def as_json(why: Why) -> dict[str, Any]:
    """Return all content as plain values for ``json.dumps``."""
    found, totals = why.found, why.found.configured.totals
    return {
        "sample": {
            "tuples": totals.tuples,
            "rejected": len(why.beginning.sample.rejected.column),
            "whole": why.beginning.whole,
            "shorter_than_two_delays": found.short,
        },
        "mean_loss": totals.mean_loss,
        "suppressed": totals.share_suppressed,
        "suppressed_by_reason": dict(found.withheld),
        "losses": {
            name: {
                "loss": loss,
                "share": share_of_loss(found.losses, name),
                "others": others(found, name),
                "without": None if name not in found.left_out else _remedy(found, found.left_out[name]),
            }
            for name, loss in found.losses.items()
        },
        "above_their_share": None if why.parts is None else [vars(part) | {"share": part.share} for part in why.parts],
        "counts_rounded_down_to": why.k,
        "rejected": rejected_rows(found.configured.outputs.rejected, why.k),
        "tried": [_remedy(found, remedy) for remedy in found.tried],
        "nearest": {
            reason: None if (nearest := found.nearest(reason)) is None else nearest.change
            for reason, count in found.withheld.items()
            if count
        },
        "impossible": dict(found.impossible),
        "outputs": None if why.run is None else of_run(why.run, why.config),
    }


def _remedy(found: Remedies, remedy: Remedy) -> dict[str, Any]:
    delay = waited(remedy)
    return {
        "kind": remedy.kind,
        "change": remedy.change,
        "promises_less": remedy.weaker,
        "withheld_by_reason": dict(remedy.withheld),
        "saves": {reason: found.saves(remedy, reason) for reason, count in found.withheld.items() if count},
        "mean_loss": remedy.mean_loss,
        "losses": dict(remedy.losses),
        "delay_p99": None if delay is None else delay.p99,
    }


def of_run(run: Outputs, config: Config) -> dict[str, Any]:
    """Return the number of released tuples of a run, the reasons of suppression, and the loss of each attribute."""
    counts = None if run.suppressed is None else _counts(run.suppressed, ["reason"])
    return {
        "released": run.released.num_rows,
        "suppressed_by_reason": None if counts is None else {row["reason"]: row["count_all"] for row in counts},
        "fully_generalized": None if run.audit is None else _fully_generalized(run.audit),
        "losses": losses(run, representative=config.algorithm.representative(config.parameters)),
        "rejected": rejected_rows(run.rejected, config.privacy.k),
    }


def _fully_generalized(audit: pa.Table) -> int:
    return int(pc.sum(pc.equal(audit["kind"], "generalized")).as_py() or 0)


def rejected_rows(table: pa.Table | None, k: int) -> list[dict[str, Any]]:
    """Return rejected rows by column and reason, largest count first; ``rows`` are rounded down to a multiple of k."""
    found = [] if table is None else _counts(table, ["column", "reason"])
    return [{"column": row["column"], "reason": row["reason"], "rows": row["count_all"] // k * k} for row in found]


def _counts(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    counted = table.group_by(columns).aggregate([([], "count_all")])
    rows: list[dict[str, Any]] = counted.sort_by([("count_all", "descending")]).to_pylist()
    return rows


def share_of_loss(of: Mapping[str, float | None], name: str) -> float | None:
    """Return an attribute's share of the total loss, 0 to 1; None where it is unknown."""
    whole = sum(loss or 0.0 for loss in of.values())
    loss = of[name]
    return None if loss is None or not whole else loss / whole


def others(found: Remedies, name: str) -> float | None:
    """Return the mean loss of all other attributes; None where that of this one is unknown, or there is no other."""
    mean, own, count = found.configured.totals.mean_loss, found.losses.get(name), len(found.losses)
    return None if mean is None or own is None or count == 1 else max(mean * count - own, 0.0) / (count - 1)


def waited(of: Remedy | Replayed) -> Waited | None:
    """Return the delays: in event time where there is any, else in tuples of the sample."""
    return of.totals.sample_delay if of.totals.event_delay is None else of.totals.event_delay
