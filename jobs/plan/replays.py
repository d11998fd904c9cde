"""Parallel replays of one sample, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.choice import Figures
from crenel.evidence.replay import Totals, replay
from crenel.evidence.sample import Sample, Setting
from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.stop import left_to_us
from crenel.jobs.plan.point import Point, Written


@dataclass(frozen=True)
class Given:
    """Common input of all replays.

    Attributes
    ----------
    privacy : configured privacy models, with the codes of their references
    path, overrides : of the configuration
    """

    sample: Sample
    privacy: Privacy
    path: Path
    overrides: tuple[str, ...]


class Replays:
    """Process pool that replays each setting once; use it as a context manager.

    Attributes
    ----------
    figures : of each replayed setting
    totals : complete results of each replayed setting
    impossible : reasons why other settings are invalid
    """

    def __init__(self, given: Given, written: Written) -> None:
        self._written = written
        self.figures: dict[Point, Figures] = {}
        self.totals: dict[Point, Totals] = {}
        self.impossible: dict[Point, str] = {}
        # Spawned and not forked, because Java has threads in this process.
        self._pool = ProcessPoolExecutor(
            cores(), mp_context=get_context("spawn"), initializer=_begin, initargs=(given,)
        )

    def __enter__(self) -> Replays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                with suppress(OSError):
                    process.terminate()

    def run(self, points: Iterable[Point], done: Callable[[], object] = lambda: None) -> None:
        """Replay new settings, and call ``done`` after each."""
        wanted = [point for point in dict.fromkeys(points) if point not in self.figures | self.impossible.keys()]
        before = list(self.figures)
        begun: dict[Future[Totals | str], Point] = {}
        for point in wanted:
            try:
                overrides = self._written.overrides(point)
            except KeyError:
                self.impossible[point] = "shards.regions: the sample holds too little for so many regions"
                done()
                continue
            with left_to_us():
                begun[self._pool.submit(_one, overrides)] = point
        for future in as_completed(begun):
            point, found = begun[future], future.result()
            if isinstance(found, str):
                self.impossible[point] = found
            else:
                self.totals[point], self.figures[point] = found, Figures.of(found)
            done()
        # In the order of the requests, and not of completion.
        self.figures = {
            point: self.figures[point] for point in dict.fromkeys([*before, *wanted]) if point in self.figures
        }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_given: list[Given] = []


def _begin(given: Given) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _given[:] = [given]


def _one(overrides: Sequence[str]) -> Totals | str:
    """Return the totals of a replay, or the reason why the setting is invalid."""
    (given,) = _given
    try:
        config = load(given.path, [*given.overrides, *overrides])
        return replay(given.sample, setting_of(config, given.privacy))
    except ConfigError as error:
        return error.problems[0]
    except PolicyError as error:
        return str(error)


def setting_of(config: Config, given: Privacy) -> Setting:
    """Return the replay setting of a configuration; ``given`` has the codes of references, as ``Given.privacy``."""
    return Setting(
        algorithm=config.algorithm,
        privacy=_coded(config.privacy, given),
        parameters=config.parameters,
        shards=config.shards,
        seed=config.seed or 0,
        sampling_and_noise=config.sampling_and_noise,
    )


def _coded(privacy: Privacy, given: Privacy) -> Privacy:
    """Return the privacy models, whose references have the codes of the sample's columns."""
    coded = {column.name: column.reference for column in given.sensitive}
    return replace(
        privacy, sensitive=tuple(replace(of, reference=coded.get(of.name, of.reference)) for of in privacy.sensitive)
    )
