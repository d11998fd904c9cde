"""Stream of one shard: its watermark over all encoders, and diagnostics."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, ShardContext
from crenel.anonymity.buffer.queue import tuple_watermarks
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.state.block import NO_TIME, Block

_OUTERMOST = 4
"""Number of outermost values kept at each end; the inner range excludes all but the last of them."""

_ENOUGH = 100
"""Minimum number of values for judging a range."""

_APART = 10_000
"""Milliseconds between two arrivals that are remembered; the wait of the oldest tuple is exact to as much."""

_LOOK = 1000
"""Milliseconds between two observations of all shards."""


class WatermarkMerger:
    """Merger of the watermarks that blocks carry from all encoders.

    An encoder knows only the watermark of its own input. The watermark of the stream is the minimum over all encoders,
    so the watermarks of blocks count only after each encoder has sent one. Until then only Flink's watermark counts,
    which arrives later and accounts for idle sources.

    Parameters
    ----------
    encoders : number of parallel encoders; if some never send a watermark, only Flink's counts
    """

    def __init__(self, encoders: int) -> None:
        self._encoders = encoders
        self._latest: dict[int, int] = {}

    def merge(self, block: Block) -> Block:
        """Return the block with the watermark over all encoders, or without one."""
        if block.watermark is None or not len(block):
            return block
        others = [mark for encoder, mark in self._latest.items() if encoder != block.encoder]
        self._latest[block.encoder] = max(self._latest.get(block.encoder, NO_TIME), int(block.watermark[-1]))
        if len(self._latest) < self._encoders:
            return replace(block, watermark=None)
        return replace(block, watermark=np.minimum(block.watermark, min(others))) if others else block

    @property
    def silent(self) -> int:
        """Number of encoders from which no watermark has come."""
        return max(self._encoders - sum(mark != NO_TIME for mark in self._latest.values()), 0)


class Arrivals:
    """Times of the clock at which the buffered tuples of a shard have arrived, or were loaded.

    Parameters
    ----------
    now : milliseconds
    """

    def __init__(self, now: int) -> None:
        self._known = deque([(0, now)])

    def observe(self, admitted: int, now: int) -> None:
        """Observe the time at which tuples arrive after so many admitted ones."""
        if now - self._known[-1][1] >= _APART:
            self._known.append((admitted, now))

    def oldest(self, counters: Counters) -> int:
        """Return the time at which the oldest buffered tuple has arrived."""
        position = counters.tuples_in - counters.oldest_waiting
        while len(self._known) > 1 and self._known[1][0] <= position:
            self._known.popleft()
        return self._known[0][1]


class WaitingTimes:
    """Seconds of the clock that the shards of a task wait: their oldest tuple, and all of them for event time.

    Parameters
    ----------
    watermarks : of the encoders
    timed : whether tuples are due by event time; otherwise no wait for it is observed

    Attributes
    ----------
    oldest : since the oldest buffered tuple has arrived
    standstill : since event time has passed, or tuples wait for it
    silent : number of encoders from which no watermark has come, while tuples wait and no event time has passed
    """

    def __init__(self, watermarks: WatermarkMerger, *, timed: bool) -> None:
        self._watermarks, self._timed = watermarks, timed
        self._passed, self._since, self._seen = int(NO_TIME), 0, 0
        self.oldest = self.standstill = self.silent = 0

    def observe(self, shards: Iterable[tuple[Counters, Arrivals]], watermark: int, now: int) -> None:
        """Observe all shards at a watermark; ``now``: milliseconds of the clock."""
        if (not self._timed or watermark == self._passed) and now - self._seen < _LOOK:
            return
        self._seen = now
        oldest = [arrivals.oldest(counters) for counters, arrivals in shards if counters.buffered]
        self.oldest = (now - min(oldest, default=now)) // 1000
        if not self._timed:
            return
        if watermark > self._passed or not oldest or not self._since:
            self._passed, self._since = watermark, now
        self.standstill = (now - self._since) // 1000
        self.silent = self._watermarks.silent if oldest and self._passed == NO_TIME else 0

    def results(self) -> Iterator[tuple[str, int]]:
        """Yield the wait for event time as (name, amount), if no watermark has come from some encoder."""
        if self.silent:
            yield "readers_without_watermark", self.silent
            yield "event_time_standstill_s", self.standstill


class StreamDiagnostics:
    """Observations of one shard's stream that explain unexpected results in a run's summary.

    They are not part of the state: after a restore they start anew.

    Parameters
    ----------
    context : numeric attributes without a domain are observed, unless there is noise, because their original values
        must stay secret
    delay : maximum delay of a tuple in milliseconds of event time; None: no such bound
    """

    def __init__(self, context: ShardContext, delay: int | None) -> None:
        watched = [] if context.sampling_and_noise is not None else context.policy.numeric
        self._columns = {attribute.name: i for i, attribute in enumerate(watched) if attribute.domain is None}
        self._outermost = {name: np.empty(0) for name in self._columns}
        self._delay = delay
        self._values = 0
        self._newest = NO_TIME
        self._overdue = self._late = 0
        self._rejected = Counter[tuple[int, int]]()

    def observe_block(self, block: Block, watermark: int = NO_TIME) -> None:
        """Observe the tuples and the rejected records of a block that arrives at a watermark."""
        self._rejected.update(block.rejected.pairs)
        if self._delay is not None and len(block):
            self._late += late_tuples(block, watermark, self._delay)
        if len(block):
            self._newest = max(self._newest, int(block.event_time.max()))
            self._values += len(block)
        for name, column in self._columns.items():
            self._outermost[name] = _ends(np.concatenate((self._outermost[name], block.numeric[:, column])))

    def observe_releases(self, releases: Releases, watermark: int | None = None, block: Block | None = None) -> None:
        """Observe the releases of a step at a watermark; None: the input has ended.

        ``block`` is the block of the step; its own watermarks then decide when each release was due.
        """
        if self._delay is None or not len(releases):
            return
        times = releases.event_time
        now: Any = self._newest if watermark is None else watermark
        if len(watermarks := tuple_watermarks(block, now)):
            now = watermarks[np.minimum(np.searchsorted(watermarks, times + self._delay), len(watermarks) - 1)]
        overdue = (times != NO_TIME) & (times < now - 2 * self._delay)
        self._overdue += int(releases.tuples[overdue].sum())

    def results(self, encoded: Sequence[str | None]) -> Iterator[tuple[str, float]]:
        """Yield the observations as (name, amount); ``encoded``: columns to which rejected records refer.

        ``overdue``: tuples released after more than twice their delay. ``late``: tuples that were due at their arrival.
        ``rejected_in.REASON.COLUMN``: records rejected for a reason and a column. ``stretch.NAME``: ratio of the
        attribute's range with and without a few outermost values.
        """
        yield "overdue", self._overdue
        yield "late", self._late
        for (column, reason), rows in self._rejected.items():
            yield f"rejected_in.{REJECTIONS[reason]}.{encoded[column] or ''}", rows
        for name, values in self._outermost.items():
            if self._values >= _ENOUGH:
                inner = values[-_OUTERMOST] - values[_OUTERMOST - 1]
                if inner > 0:
                    yield f"stretch.{name}", float((values[-1] - values[0]) / inner)


def late_tuples(block: Block, watermark: int, delay: int) -> int:
    """Return how many tuples of a block were due at their arrival; ``delay``: in milliseconds of event time."""
    known = tuple_watermarks(block, watermark)
    watermarks = known if len(known) else np.full(len(block), watermark)
    return late_by(block.event_time, watermarks, delay)


def late_by(times: NDArray[np.int64], watermarks: NDArray[np.int64], delay: int) -> int:
    """Return how many tuples were due at their arrival; ``NO_TIME`` stands for an unknown time or watermark."""
    timed = (times != NO_TIME) & (watermarks != NO_TIME)
    return int((watermarks[timed] - times[timed] >= delay).sum())


def _ends(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the smallest and largest values, sorted."""
    if len(values) <= 2 * _OUTERMOST:
        return np.sort(values)
    parted = np.partition(values, (_OUTERMOST - 1, len(values) - _OUTERMOST))
    return np.sort(np.concatenate((parted[:_OUTERMOST], parted[-_OUTERMOST:])))
