"""How the tuples of one shard are let in, and event time passes, where a sample is replayed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard, Step
from crenel.evidence.sample import Sample
from crenel.evidence.setting import Setting
from crenel.state.block import NO_TIME, Block, TupleColumns

_MOST = 2000
"""Tuples of a shard that are let in at once,"""
_LEAST = 16
_PARTS = 8
"""or so small a part of what tuples wait for, where it matters when they leave, but no fewer than ``_LEAST``."""
_TICKS = 2000
"""Most steps of event time that all shards of a sample are cut into together: each costs as much as some tuples."""


@dataclass(frozen=True)
class Steps:
    """In how large steps a sample is taken.

    Attributes
    ----------
    tuples : of the shard, at most so many
    milliseconds : of event time, at most about so many, 1 or more
    """

    tuples: int
    milliseconds: int

    @classmethod
    def of(cls, sample: Sample, setting: Setting, *, fine: bool) -> Steps:
        """Steps that are small against what a setting lets tuples wait for.

        ``fine``: also where a tuple leaves at the same place in any case, so that it is known when.
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
    """Take a shard through its part of a sample, to the end: each step, and the row that had come last by then.

    The watermark follows each tuple of the sample, whatever its shard; what it makes due leaves before the next tuple
    of the shard comes, or at the end of a step of event time.

    Parameters
    ----------
    members : (rows of the sample,) what the shard holds of published values
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
    """Where the blocks of a shard begin and end."""
    clock = sample.clock[mine]
    ticks = np.flatnonzero(np.diff(clock // steps.milliseconds)) + 1
    begins = np.unique(np.concatenate([np.arange(0, len(mine), steps.tuples), ticks]))
    yield from zip(begins.tolist(), [*begins[1:].tolist(), len(mine)], strict=True)


def _passing(shard: Shard, watermark: NDArray[np.int64], now: int, tick: int) -> Iterator[tuple[Step, int]]:
    """What falls due until the watermark is ``now``, each as soon as a step of event time is full."""
    while (due := shard.next_deadline) is not None and due <= now:
        row = int(np.searchsorted(watermark, min((due // tick + 1) * tick, now)))
        yield shard.advance(int(watermark[row])), row


def _block(tuples: TupleColumns, start: int, stop: int, shard: int, passed: NDArray[np.int64]) -> Block:
    held: dict[str, Any] = {f.name: getattr(tuples, f.name) for f in fields(TupleColumns)}
    members = held.pop("members").slice(start, stop - start)
    columns: dict[str, Any] = {name: None if column is None else column[start:stop] for name, column in held.items()}
    return Block(shard=shard, members=members, watermark=passed[start:stop], **columns)
