"""Steps of a replay: the admission of one shard's tuples, and the progress of event time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard, Step
from crenel.evidence.sample import Sample, Setting
from crenel.state.block import NO_TIME, Block, TupleColumns

_MOST = 2000
"""Maximum number of tuples of a shard per step."""
_LEAST = 16
_PARTS = 8
"""Where release times matter, a step is the delay bound divided by this, but at least ``_LEAST`` tuples."""
_TICKS = 2000
"""Maximum number of steps of event time over all shards; each step costs as much as some tuples."""


@dataclass(frozen=True)
class Steps:
    """Step sizes of a replay.

    Attributes
    ----------
    tuples : of the shard, maximum per step
    milliseconds : of event time, approximate maximum per step, 1 or more
    """

    tuples: int
    milliseconds: int

    @classmethod
    def of(cls, sample: Sample, setting: Setting, *, fine: bool) -> Steps:
        """Return steps that are small relative to the delay bounds of a setting.

        ``fine``: also where the step size does not affect the releases, so that their times are known.
        """
        algorithm, parameters, tuples = setting.algorithm, setting.parameters, [_MOST]
        times = algorithm.durations(parameters).values()
        least = sample.milliseconds * setting.shards.count // _TICKS + 1
        if fine:
            bounds = (attrgetter(s.field) for s in algorithm.settings if s.path.rpartition(".")[2] == "tuples")
            tuples += [bound // _PARTS for bound in (of(parameters) for of in bounds) if bound is not None]
        tick = min((max(time // _PARTS, least) for time in times), default=sample.milliseconds + 1)
        return cls(max(_LEAST, min(tuples)), tick)


def driven(
    sample: Sample, members: pa.RecordBatch, shard: Shard, mine: NDArray[np.int64], steps: Steps
) -> Iterator[tuple[Step, int]]:
    """Run a shard over its part of a sample, and yield each step with the newest sample row at that time.

    The watermark follows each tuple of the sample across all shards. Tuples that it makes due are decided before the
    next tuple of the shard, or at the end of a step of event time.

    Parameters
    ----------
    members : (rows of the sample,) published values that the shard holds
    mine : (tuples,) rows of the shard, ascending
    """
    watermark, given = sample.watermark, sample.tuples
    tuples = TupleColumns(
        numeric=given.numeric[mine],
        categorical=given.categorical[mine],
        subject=None if given.subject is None else given.subject[mine],
        sensitive=given.sensitive[mine],
        event_time=given.event_time[mine],
        members=members.take(pa.array(mine)),
    )
    passed = np.concatenate([[NO_TIME], watermark])[mine]
    for start, stop in _parts(sample, mine, steps):
        yield from _passing(shard, watermark, int(passed[start]), steps.milliseconds)
        yield shard.push(_block(tuples, start, stop, shard.number, passed)), int(mine[stop - 1])
    yield from _passing(shard, watermark, int(watermark[-1]), steps.milliseconds)
    yield shard.finish(), len(sample) - 1


def _parts(sample: Sample, mine: NDArray[np.int64], steps: Steps) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each block of a shard."""
    clock = sample.clock[mine]
    ticks = np.flatnonzero(np.diff(clock // steps.milliseconds)) + 1
    begins = np.unique(np.concatenate([np.arange(0, len(mine), steps.tuples), ticks]))
    if len(mine):
        yield from zip(begins.tolist(), [*begins[1:].tolist(), len(mine)], strict=True)


def _passing(shard: Shard, watermark: NDArray[np.int64], now: int, tick: int) -> Iterator[tuple[Step, int]]:
    """Yield the steps that fall due until the watermark is ``now``, each when a step of event time is full."""
    while (due := shard.next_deadline) is not None and due <= now:
        row = int(np.searchsorted(watermark, min((due // tick + 1) * tick, now)))
        yield shard.advance(int(watermark[row])), row


def _block(tuples: TupleColumns, start: int, stop: int, shard: int, passed: NDArray[np.int64]) -> Block:
    values: dict[str, Any] = {f.name: getattr(tuples, f.name) for f in fields(TupleColumns)}
    members = values.pop("members").slice(start, stop - start)
    columns: dict[str, Any] = {name: None if column is None else column[start:stop] for name, column in values.items()}
    return Block(shard=shard, members=members, watermark=passed[start:stop], **columns)
