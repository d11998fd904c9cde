"""How the tuples of one shard are let in, and event time passes, where a sample is replayed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anonymity.algorithm import Algorithm, Shard, Step
from evidence.sample import Sample
from state.block import NO_TIME, Block

_MOST = 2000
"""Tuples of a shard that are let in at once,"""
_LEAST = 16
_PARTS = 16
"""or so small a part of what tuples wait for, where it matters when they leave, but no fewer than ``_LEAST``."""
_TICKS = 4000
"""Most steps of event time that a sample is cut into."""


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
    def of(cls, sample: Sample, algorithm: Algorithm, parameters: Any, *, fine: bool) -> Steps:
        """Steps that are small against what the parameters let tuples wait for.

        ``fine``: also where a tuple leaves at the same place in any case, so that it is known when.
        """
        times, tuples = algorithm.durations(parameters).values(), [_MOST]
        least = sample.milliseconds // _TICKS + 1
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
    comes, or at the end of a step of event time.

    Parameters
    ----------
    members : (rows of the sample,) what the shard holds of published values
    mine : (tuples,) rows of the shard, ascending
    """
    watermark = sample.watermark
    for start, stop in _parts(sample, mine, steps):
        first, last = int(mine[start]), int(mine[stop - 1])
        before = int(watermark[first - 1]) if first else NO_TIME
        yield from _passing(shard, watermark, before, steps.milliseconds)
        yield shard.push(_block(sample, members, mine[start:stop], shard.number), before), last
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


def _block(sample: Sample, members: pa.RecordBatch, rows: NDArray[np.int64], shard: int) -> Block:
    tuples = sample.tuples
    held = members.slice(int(rows[0]), len(rows)) if int(rows[-1]) - int(rows[0]) < len(rows) else members.take(rows)
    return Block(
        shard=shard,
        numeric=tuples.numeric[rows],
        categorical=tuples.categorical[rows],
        subject=None if tuples.subject is None else tuples.subject[rows],
        sensitive=tuples.sensitive[rows],
        event_time=tuples.event_time[rows],
        members=held,
    )
