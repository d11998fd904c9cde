"""Parallel replays of one sample, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing import get_context
from types import TracebackType
from typing import TypeAlias

import pyarrow as pa

from crenel.anonymity.model.errors import PolicyError
from crenel.evidence.plan.choice import Figures
from crenel.evidence.plan.point import Point
from crenel.evidence.replay import Totals, replay
from crenel.evidence.sample import ReplaySetting, Sample

Make: TypeAlias = Callable[[], ReplaySetting]
"""A function that makes a setting in another process; it can be pickled, and raises ``PolicyError``."""

Progress: TypeAlias = Callable[[int], Callable[[], object]]
"""A function that is called with a number of replays before they begin; its result is called after each."""

Starting: TypeAlias = Callable[[], AbstractContextManager[object]]
"""A context in which processes start."""


class Replays:
    """Process pool that replays each setting once; use it as a context manager.

    Parameters
    ----------
    sample : to replay
    make : returns a function that makes the setting of a point; raises ``PolicyError``
    starting : context in which processes start
    processes : number of processes; None: one per core; 1: the replays run in this process

    Attributes
    ----------
    figures : of each replayed setting
    totals : complete results of each replayed setting
    impossible : reasons why other settings are invalid
    """

    def __init__(
        self,
        sample: Sample,
        make: Callable[[Point], Make],
        starting: Starting = nullcontext,
        processes: int | None = None,
    ) -> None:
        self._sample, self._make, self._starting = sample, make, starting
        self.figures: dict[Point, Figures] = {}
        self.totals: dict[Point, Totals] = {}
        self.impossible: dict[Point, str] = {}
        self._pool: ProcessPoolExecutor | None = None
        if processes != 1:
            # Spawned and not forked, because Java has threads in this process.
            self._pool = ProcessPoolExecutor(
                processes or cores(), mp_context=get_context("spawn"), initializer=_begin, initargs=(sample,)
            )

    def __enter__(self) -> Replays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                with suppress(OSError):
                    process.terminate()

    def run(self, points: Iterable[Point], done: Callable[[], object] = lambda: None) -> None:
        """Replay new settings, and call ``done`` after each."""
        wanted = [point for point in dict.fromkeys(points) if point not in self.figures | self.impossible.keys()]
        before = list(self.figures)
        running: dict[Future[Totals | str], Point] = {}
        for point in wanted:
            try:
                make = self._make(point)
            except PolicyError as error:
                self.impossible[point] = str(error)
                done()
                continue
            if self._pool is None:
                self._keep(point, _replayed(self._sample, make))
                done()
                continue
            with self._starting():
                running[self._pool.submit(_one, make)] = point
        for future in as_completed(running):
            self._keep(running[future], future.result())
            done()
        # In the order of the requests, and not of completion.
        self.figures = {
            point: self.figures[point] for point in dict.fromkeys([*before, *wanted]) if point in self.figures
        }

    def _keep(self, point: Point, result: Totals | str) -> None:
        if isinstance(result, str):
            self.impossible[point] = result
        else:
            self.totals[point], self.figures[point] = result, Figures.of(result)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_sample: list[Sample] = []


def _begin(sample: Sample) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _sample[:] = [sample]


def _one(make: Make) -> Totals | str:
    (sample,) = _sample
    return _replayed(sample, make)


def _replayed(sample: Sample, make: Make) -> Totals | str:
    """Return the totals of a replay, or the reason why the setting is invalid."""
    try:
        return replay(sample, make())
    except PolicyError as error:
        return str(error)
