"""Repair log of algorithms that buffer tuples up to a delay bound: one row per release and per suppressed tuple.

Compiled procedures note each decision on an expiring tuple. No row contains a value of a tuple. Without a reader of the
log, a decision costs some assignments and writes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import record, zeros
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.space.boxes import info_loss
from crenel.anonymity.space.domain import NONE, Boxes

ROW = ("release", "suppressed", "first", "releases")
DECISION = ("lacked", "tuples", "subjects", "clusters", "joined", "chosen", "everything", "candidates", "reused")
"""Columns of ``RepairLog.rows``."""


class RepairLog(NamedTuple):
    """Rows of one step, and the current decision.

    Attributes
    ----------
    now : ``enabled``: whether rows are written, 0 or 1; ``rows``: number of rows of the step; ``releases``,
        ``suppressed``: fill levels of the shard's output when the decision began; then ``DECISION``,
        with ``NONE`` for null: ``lacked`` is a position in ``Privacy.reasons``
    rows : (slots, columns) index of the release and of the suppressed tuple in the step's output, or ``NONE``; index of
        the decision's first release; number of its releases; the columns of the decision. Empty where not enabled
    loss : (slots,) InfoLoss before the repair, NaN where nothing lacked
    """

    now: Any
    rows: NDArray[np.int64]
    loss: NDArray[np.float64]


def empty_log(slots: int = 0) -> RepairLog:
    """Return a log without rows and with room for those of ``slots`` tuples."""
    now = record(f"enabled rows releases suppressed {' '.join(DECISION)}", "loss")
    return RepairLog(now, zeros((slots, len(ROW) + len(DECISION)), np.int64), zeros(slots))


def with_slots(log: RepairLog, slots: int) -> RepairLog:
    """Return an enabled log with room for the rows of ``slots`` tuples; others need none."""
    return log if log.now.enabled == 0 else empty_log(slots)._replace(now=log.now)


@leaf
def begin_decision(shard: Any) -> None:
    """Begin the decision on an expiring tuple; ``shard`` is ``crenel.anonymity.buffer.arrays.CastleArrays``."""
    now, out = shard.repairs.now, shard.out
    now.releases, now.suppressed = out.filled.releases, out.filled.suppressed
    now.lacked = now.tuples = now.subjects = now.clusters = now.joined = now.chosen = now.everything = NONE
    now.candidates = now.reused = NONE
    now.loss = np.nan


@leaf
def note_shortfall(shard: Any, boxes: Boxes, row: Int, reason: Int) -> None:
    """Note the reason against a release of a set of tuples, and the loss of its box."""
    now = shard.repairs.now
    now.lacked = reason
    if now.enabled != 0:
        now.loss = info_loss(shard.domain, boxes, row)


@leaf
def end_decision(shard: Any) -> None:
    """Write a row for each release and each suppressed tuple of the decision."""
    log, out = shard.repairs, shard.out
    if log.now.enabled == 0:
        return
    for release in range(log.now.releases, out.filled.releases):
        _write(log, np.int64(release), np.int64(NONE), out.filled.releases)
    for suppressed in range(log.now.suppressed, out.filled.suppressed):
        _write(log, np.int64(NONE), np.int64(suppressed), out.filled.releases)


@leaf
def _write(log: RepairLog, release: Int, suppressed: Int, stop: Int) -> None:
    now = log.now
    row = log.rows[now.rows]
    row[0], row[1], row[2], row[3] = release, suppressed, now.releases, stop - now.releases
    row[4], row[5], row[6], row[7], row[8] = now.lacked, now.tuples, now.subjects, now.clusters, now.joined
    row[9], row[10], row[11], row[12] = now.chosen, now.everything, now.candidates, now.reused
    log.loss[now.rows] = now.loss
    now.rows += 1
