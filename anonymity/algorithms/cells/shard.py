"""One shard of the algorithm ``cells``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, ShardContext, Step
from crenel.anonymity.algorithms.batch import procedures
from crenel.anonymity.algorithms.batch.shard import BatchShard, Choice
from crenel.anonymity.algorithms.batch.stored import BatchSnapshot
from crenel.anonymity.algorithms.cells.contributions import CONTRIBUTIONS, Contributions
from crenel.anonymity.algorithms.cells.count_noise import CountNoise
from crenel.anonymity.algorithms.cells.partition import boxes_of_cells
from crenel.anonymity.algorithms.cells.sampling import Coins
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.privacy_models.checks import SUBJECTS
from crenel.anonymity.space.domain import Boxes
from crenel.state.block import NO_TIME, BufferedTuples


@dataclass(frozen=True, kw_only=True)
class CellsCounters(Counters):
    """Counters of a shard; all of them depend on records that are not published, and stay inside.

    Attributes
    ----------
    windows : number of windows that closed with a record that counts
    sampled_out : number of records that are not in the sample, with those of the next two counters
    late : number of records that arrived after their window had closed
    over_contribution : number of records beyond the contribution bound of their person
    """

    windows: int
    late: int
    over_contribution: int


class CellsShard(BatchShard):
    """In-memory state of one shard; its algorithm is ``Cells``.

    Every decision about a record before its window closes depends on the person's own records, the clock and the
    secret key alone. When the window closes, records with the same cell and the same published values are counted, and
    those that fewer than k persons share are suppressed. A cell is published under its declared box.

    With ``release: noisy``, the count of each such key has noise, and as many records are published as it says. A
    published record then stands for no person, so each one counts as a person of its own, and privacy models judge
    the published records.
    """

    def __init__(self, context: ShardContext, snapshot: BatchSnapshot) -> None:
        super().__init__(context, snapshot)
        settings = self._settings
        self._boxes = boxes_of_cells(settings.regions, context.policy)
        rate, noisy = settings.sample_rate, settings.noisy_counts(context.privacy.k)
        self._coins = None if rate is None else Coins(self.random_key, rate)
        self._noise_of_counts = None if noisy is None else CountNoise(self.random_key, noisy)
        self._threshold = context.privacy.k if noisy is None else noisy.threshold
        if noisy is not None:
            self._config.by_name = False
        self._contributions = Contributions(
            settings.windows,
            settings.reach,
            snapshot.further.get(CONTRIBUTIONS, {}),
            f"shard {self.number}",
        )
        self._clock: tuple[int, int] | None = None
        self._first_open = self._first_window()

    @property
    def _settings(self) -> Any:
        return self.context.algorithm

    def observe_clock(self, now: int, since: int) -> None:
        self._clock = now, since

    @property
    def next_alarm(self) -> int | None:
        if self._first_open is None or self._clock is None or self._settings.lateness is None:
            return None
        return self._closing(self._first_open, self._clock[1])

    def admitted(self, tuples: BufferedTuples) -> BufferedTuples:
        window = self._windows(tuples.event_time)
        stays = self.in_sample(tuples, window)
        self._opened(window[stays])
        return tuples.part(stays)

    def in_sample(self, tuples: BufferedTuples, window: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (tuples,) which ones are in time, within the bound of their person and sampled; count the others."""
        # Without a subject every tuple is its own person, known by its position.
        subject = tuples.position.astype(np.uint64) if tuples.subject is None else tuples.subject
        stays = self._in_time(window)
        self._count("late", ~stays)
        own = np.flatnonzero(stays)
        contributes = np.ones(len(own), np.bool_)
        if tuples.subject is not None:
            contributes = self._contributions.admit(subject[own], window[own])
        self._count("over_contribution", ~contributes)
        stays[own] = contributes
        own = own[contributes]
        sampled = np.ones(len(own), np.bool_)
        if self._coins is not None:
            sampled = self._coins.sampled(subject[own], window[own])
        self._count("tails", ~sampled)
        stays[own] = sampled
        return stays

    def choose(self, watermark: int, *, ended: bool) -> Choice:
        if not ended and (self._clock is None or not self._closed(self._first_open)):
            return Choice()
        window = self._windows(self.waiting.event_time)
        due = np.ones(len(window), np.bool_) if ended else ~self._in_time(window)
        leaving = np.flatnonzero(due)
        if not len(leaving):
            return Choice()
        windows, number = np.unique(window[leaving], return_inverse=True)
        closed = self.counted.get("windows", 0)
        self.counted["windows"] = closed + len(windows)
        # The batch tells a window from its second publication after a restart, which must not have the same noise.
        return self._chosen(leaving, window[leaving], closed + number.reshape(-1))

    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        step = super().forget(subjects)
        self._first_open = self._first_window()
        return step

    def changed_entries(self) -> dict[str, dict[int, bytes | None]]:
        if (forgotten := self._forgotten()) is not None:
            self._contributions.expire(forgotten)
        changed = self._contributions.changes()
        return {CONTRIBUTIONS: changed} if changed else {}

    @property
    def counters(self) -> CellsCounters:
        late, further, tails = (self.counted.get(name, 0) for name in ("late", "over_contribution", "tails"))
        counts = self._counts() | {"sampled_out": late + further + tails}
        counts["tuples_in"] -= counts["sampled_out"]
        windows = self.counted.get("windows", 0)
        return CellsCounters(**counts, windows=windows, late=late, over_contribution=further)

    def _chosen(self, leaving: NDArray[np.int64], window: NDArray[np.int64], batch: NDArray[np.int64]) -> Choice:
        """Return the tuples to release and to suppress, of those whose windows have closed.

        Parameters
        ----------
        leaving : (tuples,) indices of the tuples
        window : (tuples,) numbers of their windows
        batch : (tuples,) for each of a shard's publications of a window, a number of its own
        """
        waiting, arrays = self.waiting, self.arrays()
        cell = self._settings.regions.regions(waiting.numeric[leaving], waiting.categorical[leaving])
        # Every published value is part of the key: what fewer than k persons share may not show.
        key = np.column_stack((window, cell, batch, waiting.sensitive[leaving].view(np.int64)))
        key_number = _numbers(key)
        by_key, persons = np.argsort(key_number, kind="stable"), np.bincount(key_number)
        count = persons
        if self._noise_of_counts is not None:
            count = persons + self._noise_of_counts.drawn(key[by_key[np.cumsum(persons) - persons]])
        count = np.where(count >= self._threshold, count, 0)
        rest = by_key[_ranks(persons) >= np.repeat(count, persons)]
        suppressed = [np.column_stack((leaving[rest], np.full(len(rest), SUBJECTS)))]
        # One member's record after the other; where a count exceeds them, they begin anew.
        order = by_key[np.repeat(np.cumsum(persons) - persons, count) + _ranks(count) % np.repeat(persons, count)]
        starts = np.flatnonzero(np.diff(key[order, :2], axis=0, prepend=key[order[:1], :2] - 1).any(axis=1))
        ends = np.append(starts[1:], len(order)).astype(np.int64) if len(starts) else starts
        members, broken = leaving[order], np.empty(len(ends), np.int64)
        procedures.judge_groups(arrays, members, ends, broken, np.empty(len(ends)))
        groups = np.split(members, ends[:-1]) if len(ends) else []
        for group, check in zip(groups, broken.tolist(), strict=True):
            if check != -1:
                behind = np.unique(group)
                suppressed.append(np.column_stack((behind, np.full(len(behind), self.reason_of(check)))))
        kept, cells = np.flatnonzero(broken == -1), cell[order[starts]]
        return Choice(
            groups=[groups[i] for i in kept.tolist()],
            suppressed=np.concatenate(suppressed),
            published=Boxes(*(column[cells[kept]] for column in self._boxes)),
        )

    def _depart(self, choice: Choice) -> Releases:
        releases = super()._depart(choice)
        self._first_open = self._first_window()
        window = self._settings.window
        times = np.full(len(releases), NO_TIME) if window is None else releases.event_time // window * window
        return replace(releases, event_time=times)

    def _opened(self, window: NDArray[np.int64]) -> None:
        """Note the windows of tuples that are buffered now."""
        if len(window):
            first = int(window.min())
            self._first_open = first if self._first_open is None else min(first, self._first_open)

    def _first_window(self) -> int | None:
        return int(self._windows(self.waiting.event_time).min()) if len(self._buffer) else None

    def _windows(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (tuples,) the number of each tuple's window."""
        window = self._settings.window
        return np.zeros(len(times), np.int64) if window is None else times // window

    def _in_time(self, window: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (windows,) whether each window is still open."""
        width, lateness = self._settings.window, self._settings.lateness
        if self._clock is None or lateness is None or width is None:
            return np.ones(len(window), np.bool_)
        now, since = self._clock
        end = (window + 1) * width
        is_open: NDArray[np.bool_] = np.maximum(end, since) + lateness > now
        if self._settings.horizon is not None:  # after a restart, older windows do not open again
            is_open &= end + lateness + self._settings.horizon > now
        return is_open

    def _closed(self, window: int | None) -> bool:
        return window is not None and not self._in_time(np.array([window]))[0]

    def _closing(self, window: int, since: int) -> int:
        width, lateness = self._settings.window, self._settings.lateness
        assert width is not None
        assert lateness is not None
        return max((window + 1) * width, since) + lateness

    def _forgotten(self) -> int | None:
        """Return the window from which on contributions must be remembered; None: all of them."""
        width, lateness, horizon = self._settings.window, self._settings.lateness, self._settings.horizon
        if self._clock is None or lateness is None or horizon is None or width is None:
            return None
        return (self._clock[0] - lateness - 2 * horizon) // width

    def _count(self, name: str, mask: NDArray[np.bool_]) -> None:
        self.counted[name] = self.counted.get(name, 0) + int(np.count_nonzero(mask))


def _ranks(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from 0 on within each of consecutive groups of these sizes."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _numbers(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (rows,) the number of each row among the distinct ones in lexicographic order.

    ``np.unique`` of whole rows compares them byte by byte, which took a quarter of the time of a window.
    """
    numbers = np.zeros(len(rows), np.int64)
    for column in rows.T:
        values, place = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + place, return_inverse=True)[1]
    return numbers
