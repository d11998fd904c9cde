"""Releases of one step, and totals over all steps, written by the compiled procedures of all algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import record, zeros
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.space.domain import Boxes
from crenel.state.counters import REAL, WHOLE

CLUSTER, MERGED, SPLIT, REUSED, GENERALIZED, AGAIN, WIDENED = range(7)
"""The kinds of releases, as positions in ``crenel.anonymity.model.outcomes.KINDS``."""

DELAY_STEPS = 32
DELAY_BUCKETS = DELAY_STEPS * 60
"""Delays are counted exactly below 64 tuples, then in steps of at most 1/32 of their size."""


@dataclass(frozen=True)
class ReleaseColumns:
    """Columns with one row for each release, as compiled code writes them.

    Attributes
    ----------
    kind : (releases,) position in ``crenel.anonymity.model.outcomes.KINDS``
    subjects : (releases,) distinct subjects in the equivalence class; for ``reused`` those of the original release
    diversity : (releases, sensitive attributes) l-diversity of the equivalence class, counted by persons
        (``crenel.anonymity.privacy_models.tally``)
    loss : (releases,) InfoLoss in [0, 1] (CASTLE, Section 2.2)
    event_time : (releases,) epoch milliseconds of the newest member, ``crenel.state.block.NO_TIME`` without event time
    """

    kind: NDArray[np.int8]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    event_time: NDArray[np.int64]


class ReleaseBuffer(NamedTuple):
    """Releases of one step, with the fields of ``ReleaseColumns``.

    Attributes
    ----------
    filled : numbers of ``releases``, ``members`` and ``suppressed`` tuples written so far
    box : (releases,) their generalizations
    end : (releases,) index after the last member of each release
    members : (members,) slots of members, release by release
    suppressed, reason : (suppressed,) slots of suppressed tuples, and their reasons
    """

    filled: Any
    box: Boxes
    kind: NDArray[np.int8]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    event_time: NDArray[np.int64]
    end: NDArray[np.int64]
    members: NDArray[np.int32]
    suppressed: NDArray[np.int32]
    reason: NDArray[np.int8]


class ShardTotals(NamedTuple):
    """Totals over all steps so far.

    Attributes
    ----------
    sums : numbers of ``crenel.state.counters.CounterState``
    suppressed : (reasons,) suppressed tuples by ``Privacy.reasons``
    kinds : (kinds,) releases by ``crenel.anonymity.model.outcomes.KINDS``
    delays : (buckets,) departed tuples by ``delay_bucket``
    """

    sums: Any
    suppressed: NDArray[np.int64]
    kinds: NDArray[np.int64]
    delays: NDArray[np.int64]


def empty_out(slots: int, boxes: Boxes, sensitive: int) -> ReleaseBuffer:
    """Return an empty buffer for the releases of ``slots`` tuples; ``boxes`` has as many rows."""
    return ReleaseBuffer(
        filled=record("releases members suppressed"),
        box=boxes,
        kind=zeros(slots, np.int8),
        subjects=zeros(slots, np.int64),
        diversity=zeros((slots, sensitive), np.int64),
        loss=zeros(slots),
        event_time=zeros(slots, np.int64),
        end=zeros(slots, np.int64),
        members=zeros(slots, np.int32),
        suppressed=zeros(slots, np.int32),
        reason=zeros(slots, np.int8),
    )


def empty_totals(reasons: int, kinds: int) -> ShardTotals:
    """Return totals of 0."""
    return ShardTotals(
        record(" ".join(WHOLE), " ".join(REAL)),
        np.zeros(reasons, np.int64),
        np.zeros(kinds, np.int64),
        np.zeros(DELAY_BUCKETS, np.int64),
    )


@leaf
def complete(
    shard: Any, position: NDArray[np.int64], kind: Int, subjects: Int, loss: float, stop: Int, event_time: Int
) -> None:
    """Complete the next release, whose box and members, up to ``stop``, are written; record the members' delays.

    Parameters
    ----------
    shard : the ``crenel.anonymity.buffer.arrays.ReleaseArrays`` of the shard
    position : (slots,) positions of all tuples
    event_time : of the newest member. The watermark would not do: an unrelated tuple may be dated far ahead
    """
    out, totals = shard.out, shard.totals
    release, start = out.filled.releases, out.filled.members
    for i in range(start, stop):
        note_delay(totals, shard.now.next_position - 1 - position[out.members[i]])
    out.kind[release] = kind
    out.subjects[release] = subjects
    out.loss[release] = loss
    out.event_time[release] = event_time
    out.end[release] = stop
    totals.sums.released += stop - start
    totals.kinds[kind] += 1
    totals.sums.loss_sum += loss * (stop - start)
    out.filled.releases += 1
    out.filled.members = stop
    shard.now.next_release += 1


@leaf
def note_delay(totals: ShardTotals, waited: Int) -> None:
    """Count a delay in tuples."""
    totals.delays[delay_bucket(waited)] += 1
    totals.sums.longest_delay = max(totals.sums.longest_delay, waited)


@leaf
def delay_bucket(waited: Int) -> Int:
    """Return the histogram bucket of a delay in tuples."""
    shift = 0
    while waited >> shift >= 2 * DELAY_STEPS:
        shift += 1
    return shift * DELAY_STEPS + (waited >> shift)


def delay_of_bucket(bucket: int) -> int:
    """Return the smallest delay, in tuples, of a histogram bucket."""
    shift = max(bucket // DELAY_STEPS - 1, 0)
    return (bucket - shift * DELAY_STEPS) << shift
