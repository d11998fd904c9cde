"""Output of the repair log of algorithms that buffer tuples up to a delay bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import REPAIRS, Output
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.repair_log import DECISION, ROW, RepairLog
from crenel.anonymity.space.domain import NONE

OUTPUT = Output(
    REPAIRS,
    {
        "shard": "INT",
        "release_id": "LONG",
        "position": "LONG",
        "first_release": "LONG",
        "releases": "LONG",
        "lacked": "STRING",
        "tuples_before": "LONG",
        "subjects_before": "LONG",
        "loss_before": "DOUBLE",
        "clusters": "LONG",
        "parts_joined": "LONG",
        "chosen": "LONG",
        "all_buffered": "BOOLEAN",
        "candidates": "LONG",
        "reused_release": "LONG",
    },
    {
        "shard": "number of the shard",
        "release_id": "of the release, as in ``audit``; null for a suppressed record",
        "position": "of a suppressed record, as in ``suppressed``; null for a release",
        "first_release": "``release_id`` of the first release of the same decision, such as the first part of a split; "
        "null where the decision released nothing",
        "releases": "number of releases of the same decision, more than 1 after a split",
        "lacked": "[reason](#reasons) against a release of the expiring record's cluster (CASTLE) or of its k nearest "
        "records (nearest) as they were; for a record published without detail, the reason of its suppression; null "
        "where they needed nothing",
        "tuples_before": "number of records of that cluster before merges; of the group before members beyond k",
        "subjects_before": "number of their distinct subjects",
        "loss_before": "their InfoLoss, where they lacked a privacy model: ``loss`` of ``audit`` minus this is the "
        "price of the repair",
        "clusters": "CASTLE: number of clusters that were merged, 1 without a merge",
        "parts_joined": "CASTLE: number of parts of a split that violated a privacy model and joined another part",
        "chosen": "nearest: number of members that joined for a lacking sensitive value, and not as the nearest",
        "all_buffered": "nearest: whether all buffered records became the group, because no smaller group was found",
        "candidates": "number of earlier generalizations that contained the expiring record, of which reuse draws one",
        "reused_release": "``release_id`` of the release whose generalization was reused; null without reuse",
    },
    on_demand=True,
)
"""Output of the log; ``crenel.anonymity.algorithm.ShardContext.logs`` requests it."""


def rows_of(log: RepairLog, shard: int, reasons: Sequence[str], releases: Releases) -> list[tuple[Any, ...]]:
    """Return the log of one step as rows of ``OUTPUT``.

    Parameters
    ----------
    shard : number of the shard
    reasons : ``Privacy.reasons``
    releases : results of the step
    """
    count = int(log.now.rows)
    rows = dict(zip((*ROW, *DECISION), log.rows[:count].T, strict=True))

    def known(column: NDArray[Any], where: NDArray[Any]) -> list[Any]:
        values: list[Any] = column.astype(object).tolist()
        return [value if there else None for value, there in zip(values, where.tolist(), strict=True)]

    def at(values: NDArray[np.int64], index: NDArray[np.int64], where: NDArray[Any]) -> list[Any]:
        return known(values[np.where(where, index, 0)], where) if len(values) else [None] * len(index)

    counts = [known(rows[name], rows[name] != NONE) for name in ("tuples", "subjects")]
    columns = [
        [shard] * count,
        at(releases.release_id, rows["release"], rows["release"] != NONE),
        at(releases.suppressed_position, rows["suppressed"], rows["suppressed"] != NONE),
        at(releases.release_id, rows["first"], rows["releases"] > 0),
        rows["releases"].tolist(),
        [None if reason == NONE else reasons[reason] for reason in rows["lacked"].tolist()],
        *counts,
        known(log.loss[:count], ~np.isnan(log.loss[:count])),
        *(known(rows[name], rows[name] != NONE) for name in ("clusters", "joined", "chosen")),
        known(rows["everything"] == 1, rows["everything"] != NONE),
        *(known(rows[name], rows[name] != NONE) for name in ("candidates", "reused")),
    ]
    return list(zip(*columns, strict=True))
