"""Steps of a replay: the admission of one shard's tuples, and the progress of event time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.evidence.sample import ReplaySetting, Sample
from crenel.evidence.shard_driver import ShardDriver
from crenel.evidence.tables import ShardOutput
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
    def of(cls, sample: Sample, setting: ReplaySetting, *, fine: bool) -> Steps:
        """Return steps that are small relative to the delay bounds of a setting.

        ``fine``: also where the step size does not affect the releases, so that their times are known.
        """
        algorithm, tuples = setting.algorithm, [_MOST]
        times = algorithm.durations.values()
        least = sample.milliseconds * setting.shards.count // _TICKS + 1
        if fine:
            bounds = (algorithm.value_of(path) for path, unit in algorithm.bounds().items() if unit == "tuples")
            tuples += [bound // _PARTS for bound in bounds if bound is not None]
        tick = min((max(time // _PARTS, least) for time in times), default=sample.milliseconds + 1)
        return cls(max(_LEAST, min(tuples)), tick)


def driven(
    sample: Sample, members: pa.RecordBatch, shards: ShardDriver, number: int, mine: NDArray[np.int64], steps: Steps
) -> Iterator[ShardOutput]:
    """Run a shard over its part of a sample, and yield the output of each step.

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
        yield from _passing(shards, number, watermark, int(passed[start]), steps.milliseconds)
        yield shards.push_admitted(_block(tuples, start, stop, number, passed), after=int(mine[stop - 1]))
    yield from _passing(shards, number, watermark, int(watermark[-1]), steps.milliseconds)
    yield shards.finish_shard(number, len(sample) - 1)


def _parts(sample: Sample, mine: NDArray[np.int64], steps: Steps) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each block of a shard."""
    clock = sample.clock[mine]
    ticks = np.flatnonzero(np.diff(clock // steps.milliseconds)) + 1
    begins = np.unique(np.concatenate([np.arange(0, len(mine), steps.tuples), ticks]))
    if len(mine):
        yield from zip(begins.tolist(), [*begins[1:].tolist(), len(mine)], strict=True)


def _passing(
    shards: ShardDriver, number: int, watermark: NDArray[np.int64], now: int, tick: int
) -> Iterator[ShardOutput]:
    """Yield the outputs of the steps that fall due until the watermark is ``now``.

    Each comes when a step of event time is full.
    """
    while (due := shards.next_deadline(number)) is not None and due <= now:
        row = int(np.searchsorted(watermark, min((due // tick + 1) * tick, now)))
        yield shards.advance_shard(number, int(watermark[row]), row)


def _block(tuples: TupleColumns, start: int, stop: int, shard: int, passed: NDArray[np.int64]) -> Block:
    values: dict[str, Any] = {f.name: getattr(tuples, f.name) for f in fields(TupleColumns)}
    members = values.pop("members").slice(start, stop - start)
    columns: dict[str, Any] = {name: None if column is None else column[start:stop] for name, column in values.items()}
    return Block(shard=shard, members=members, watermark=passed[start:stop], **columns)
