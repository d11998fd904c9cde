"""Shards that collect a window and divide it when it closes, by one method, ``divided``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator

from crenel.anonymity.algorithm import Counters, ShardContext
from crenel.anonymity.algorithms.batch.shard import BatchAlgorithm, BatchShard, Choice
from crenel.anonymity.algorithms.batch.suppress_to_satisfy import suppress_to_satisfy
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.fields import about, setting
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import LAST_TIMER


def _window(value: object) -> object:
    return Window() if value is None else value


@setting
class WindowedAlgorithm(BatchAlgorithm):
    """An algorithm whose shards are ``ShardOfWindows``.

    Attributes
    ----------
    window : what closes a window; None: the end of a bounded input
    """

    window: Annotated[
        Window,
        BeforeValidator(_window),
        about("{tuples: 1000}, {event_time: 10 s}, or both, or null for all of a bounded input"),
    ] = Window()

    example: ClassVar[str] = "{window: {tuples: 1000}}"
    counted: ClassVar = {
        "tuples_in": "tuples admitted",
        "released": "tuples released",
        "windows": "windows closed",
    }
    arrays: ClassVar[bool] = True

    @property
    def delay_tuples(self) -> int | None:
        return None if self.window.tuples is None else self.window.tuples - 1

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        yield from self.window.problems(policy, privacy, self.name)

    def describe(self) -> Iterator[tuple[str, str]]:
        yield from self.window.describe()


@dataclass(frozen=True)
class WindowsCounters(Counters):
    """Counters of a windowed shard; ``windows`` is the number of closed windows."""

    windows: int


class ShardOfWindows(BatchShard):
    """In-memory state of one shard of a ``WindowedAlgorithm``.

    A window closes with its last tuple, or when the watermark has passed the event time of its first arrival by
    ``event_time``. A first tuple that is later than that closes its window at once. No tuple is carried over. If the
    whole window violates a privacy model, and ``divided_despite_violation`` returns nothing, tuples of the most common
    values are suppressed under that reason until the rest satisfies the models (``suppress_to_satisfy``). If no rest
    does, the whole window is suppressed.
    """

    _closing = False  # whether the rest of a window is released next, in the same step

    @abstractmethod
    def divided(self) -> Choice:
        """Return the groups and suppressed tuples of ``waiting``; each group must satisfy every privacy model.

        All of ``waiting`` together satisfies every privacy model.
        """

    def divided_despite_violation(self) -> Choice | None:
        """Return the result of ``divided`` if ``waiting`` as a whole violates a privacy model; None: there is none."""
        return None

    def choose(self, watermark: int, *, ended: bool) -> Choice:
        over = self._over
        if not (self._closing or ended or self._full or (over is not None and watermark >= over)):
            return Choice()
        if self._closing:
            self._closing = False
            return self.divided()
        self.counted["windows"] = self.counted.get("windows", 0) + 1
        if self.first_broken(np.arange(len(self._buffer))) == -1:
            return self.divided()
        if (choice := self.divided_despite_violation()) is not None:
            return choice
        dropped = suppress_to_satisfy(self)
        self._closing = len(dropped) < len(self._buffer)
        return Choice(suppressed=dropped)

    def tuples_until_choice(self) -> int | None:
        window = self._window
        if window.event_time is not None and not len(self._buffer):
            return 1  # the next tuple may be late and close its window
        return None if window.tuples is None else max(window.tuples - len(self._buffer), 1)

    @property
    def next_deadline(self) -> int | None:
        return None if self._over is None else min(self._over, LAST_TIMER)

    @property
    def counters(self) -> WindowsCounters:
        return WindowsCounters(**self._counts(), windows=self.counted.get("windows", 0))

    @classmethod
    def problems(cls, context: ShardContext) -> Iterator[str]:
        yield from context.algorithm.problems(context.policy, context.privacy)

    @property
    def _over(self) -> int | None:
        """Event time that closes the window; it may exceed any watermark."""
        event_time = self._window.event_time
        if event_time is None or not len(self._buffer):
            return None
        return int(self._buffer.first.event_time[0]) + event_time

    @property
    def _full(self) -> bool:
        return self._window.tuples is not None and len(self._buffer) >= self._window.tuples

    @property
    def _window(self) -> Window:
        window: Window = self.context.algorithm.window
        return window
