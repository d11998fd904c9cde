"""Two stages of ``cells`` over several shards: admissions by person, and shards by cell.

A key of fewer than k persons in each of several shards may have k in all of them. So persons are divided among
admissions, which judge lateness, contribution and coin, and cells are divided among shards, which count, suppress and
publish. A window closes for a shard once each admission has reported that it admits no more of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Admission, Admitted, ShardContext, Step
from crenel.anonymity.algorithms.batch.stored import BatchSnapshot, buffered_of
from crenel.anonymity.algorithms.cells.shard import CellsCounters, CellsShard
from crenel.state.block import NO_TIME, Block, BufferedTuples

_COUNTED = ("late", "over_contribution", "tails")
"""Counters of an admission, which the shard of its number reports."""

_OPEN = "first_open"
"""Number of the first window that an admission still admits tuples of."""


class PersonStage(CellsShard, Admission):
    """Admission of the persons of one shard; it buffers no tuples."""

    def admit(self, block: Block) -> Admitted:
        tuples = buffered_of(block, int(self._state.next_position))
        self._state.next_position += len(tuples)
        own = np.flatnonzero(self.in_sample(tuples, self._windows(tuples.event_time)))
        cell = self._settings.regions.regions(tuples.numeric[own], tuples.categorical[own])
        shard = np.full(len(tuples), -1, np.int64)
        # Neighboring numbers of cells are spread, so that each shard has as many cells, up to one.
        shard[own] = cell % self.context.admissions
        return Admitted(shard, self._changes())

    def observe_clock(self, now: int, since: int) -> None:
        # A clock that is set back must not open windows that were reported as closed.
        super().observe_clock(now if self._clock is None else max(now, self._clock[0]), since)

    @property
    def next_alarm(self) -> int | None:
        width, lateness = self._settings.window, self._settings.lateness
        if self._clock is None or width is None or lateness is None:
            return None
        now, since = self._clock
        if now < since + lateness:
            return since + lateness
        return self._closing((now - lateness) // width, since)

    @property
    def report(self) -> Mapping[str, int]:
        counted = {name: self.counted.get(name, 0) for name in _COUNTED}
        width, lateness, horizon = self._settings.window, self._settings.lateness, self._settings.horizon
        if self._clock is None or width is None or lateness is None:
            return counted
        now, since = self._clock
        if now >= since + lateness:
            return counted | {_OPEN: (now - lateness) // width}
        # After a start, replayed tuples are in time.
        return counted | {_OPEN: NO_TIME if horizon is None else (now - lateness - horizon) // width}


class CellStage(CellsShard):
    """Shard of some of the cells, to which admissions have sent the sampled tuples."""

    def __init__(self, context: ShardContext, snapshot: BatchSnapshot) -> None:
        super().__init__(context, snapshot)
        # Not stored: after a restart, admissions open windows again, and report anew.
        self._first_admitted: dict[int, int] = {}
        self._closed_below: int | None = None
        self._due_below: int | None = None

    def observe_report(self, number: int, report: Mapping[str, int]) -> bool:
        if number == self.number:
            self.counted |= {name: report[name] for name in _COUNTED}
        if _OPEN in report:
            self._first_admitted[number] = report[_OPEN]
        if len(self._first_admitted) < self.context.admissions:
            return False
        below = min(self._first_admitted.values())
        if self._closed_below is not None and below <= self._closed_below:
            return False
        self._closed_below = self._due_below = below
        return True

    @property
    def next_alarm(self) -> int | None:
        return None

    def admitted(self, tuples: BufferedTuples) -> BufferedTuples:
        self._opened(self._windows(tuples.event_time))
        return tuples

    def advance(self, watermark: int) -> Step:
        step = super().advance(watermark)
        self._due_below = None  # tuples of these windows that come now wait for the next report, as one batch
        return step

    @property
    def counters(self) -> CellsCounters:
        counters = super().counters
        return replace(counters, tuples_in=counters.tuples_in + counters.sampled_out)

    def _in_time(self, window: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.ones(len(window), np.bool_) if self._due_below is None else window >= self._due_below
