"""Many replays of one sample, on all cores."""

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
from crenel.evidence.sample import Sample
from crenel.evidence.setting import Setting
from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.stop import left_to_us
from crenel.jobs.plan.point import Point, Written


@dataclass(frozen=True)
class Given:
    """What all replays have in common.

    Attributes
    ----------
    privacy : what the configuration promises, with the codes of its references
    path, overrides : of the configuration
    """

    sample: Sample
    privacy: Privacy
    path: Path
    overrides: tuple[str, ...]


class Replays:
    """Replays settings in processes of their own, each once; to be used in a ``with``.

    Attributes
    ----------
    figures : of each setting that was replayed
    totals : the same in full
    impossible : why a setting cannot be, of those that cannot
    """

    def __init__(self, given: Given, written: Written) -> None:
        self._written = written
        self.figures: dict[Point, Figures] = {}
        self.totals: dict[Point, Totals] = {}
        self.impossible: dict[Point, str] = {}
        # Not forked: Java has threads here.
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
        """Replay those that have not been, calling ``done`` after each."""
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
        # In the order in which they were asked for, and not in that in which they came.
        self.figures = {
            point: self.figures[point] for point in dict.fromkeys([*before, *wanted]) if point in self.figures
        }


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_given: list[Given] = []


def _begin(given: Given) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _given[:] = [given]


def _one(overrides: Sequence[str]) -> Totals | str:
    """A replay, or why the setting cannot be."""
    (given,) = _given
    try:
        config = load(given.path, [*given.overrides, *overrides])
        return replay(given.sample, setting_of(config, given.privacy))
    except ConfigError as error:
        return error.problems[0]
    except PolicyError as error:
        return str(error)


def setting_of(config: Config, given: Privacy) -> Setting:
    """What a configuration holds a replay to; ``given`` has the codes of references, as ``Given.privacy``."""
    return Setting(
        algorithm=config.algorithm,
        privacy=_coded(config.privacy, given),
        parameters=config.parameters,
        shards=config.shards,
        seed=config.seed or 0,
        sampling_and_noise=config.sampling_and_noise,
    )


def _coded(privacy: Privacy, given: Privacy) -> Privacy:
    """Promises whose references have the codes that the sample's columns give them."""
    coded = {column.name: column.reference for column in given.sensitive}
    return replace(
        privacy, sensitive=tuple(replace(of, reference=coded.get(of.name, of.reference)) for of in privacy.sensitive)
    )
