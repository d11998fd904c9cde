"""Shards that collect a window and divide it when it closes, by one method, ``divided``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crenel.anonymity.algorithm import Algorithm, Counters, Section, Setting, Shard, ShardContext, add_algorithm
from crenel.anonymity.algorithms.batch.shard import BatchShard, Choice
from crenel.anonymity.algorithms.batch.stored import ENTRIES
from crenel.anonymity.algorithms.batch.suppress_to_satisfy import suppress_to_satisfy
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.batch import BatchState
from crenel.state.shard import StoredShard

_LAST = 2**63 - 2
"""Maximum epoch milliseconds at which a timer can fire before the end of the input."""


@dataclass(frozen=True)
class ClosedBy:
    """Bounds that close a window; without bounds, the end of the input closes it.

    Attributes
    ----------
    tuples : window size in tuples, k or more; None: no such bound
    event_time : milliseconds of event time beyond the window's first tuple, 0 or more; None: no such bound
    """

    tuples: int | None = None
    event_time: int | None = None

    def problems(self, policy: Policy, privacy: Privacy, algorithm: str) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        if self.tuples is not None and self.tuples < privacy.k:
            yield f"{algorithm}.window.tuples: must be k ({privacy.k}) or more, not {self.tuples}"
        if self.event_time is not None and policy.event_time is None:
            yield f"{algorithm}.window.event_time: needs a column of the role policy.event_time"

    def require(self, algorithm: str) -> None:
        """Raise ``PolicyError`` where a number is out of its range."""
        for name, value, least in (("tuples", self.tuples, 1), ("event_time", self.event_time, 0)):
            if value is not None and value < least:
                raise PolicyError(f"{algorithm}.window.{name}: must be {least} or more, not {value}")

    def tell(self) -> Iterator[tuple[str, str]]:
        """Yield the bounds as ``crenel check`` shows them."""
        if self.tuples is not None:
            yield "window.tuples", f"{self.tuples} close a window"
        if self.event_time is not None:
            yield "window.event_time", f"{self.event_time} ms close a window"
        if self.tuples is None and self.event_time is None:
            yield "window", "all of the input"


def algorithm_of_windows(
    *,
    name: str,
    parameters: type,
    settings: tuple[Setting, ...],
    new: Callable[[ShardContext, int, bytes], Shard],
    restored: Callable[[ShardContext, StoredShard, str], Shard],
    tell: Callable[[Any], Iterator[tuple[str, str]]],
    summary: Callable[[Mapping[str, int]], tuple[str, str, str]],
    compile: Callable[[Privacy], None],
) -> Algorithm:
    """Register an algorithm whose shards are ``ShardOfWindows``, from the fields of ``Algorithm`` that differ.

    ``parameters`` has a ``window`` and ``problems``; ``settings`` are those besides the window's.
    """
    bounds = (
        Setting("window.tuples", "window.tuples", "positive", "a whole number, privacy.k or more, or null"),
        Setting("window.event_time", "window.event_time", "duration", "a duration such as '10 s', or null"),
    )
    window = Section("window", "{tuples: 1000}, {event_time: 10 s}, or both, or null for all of a bounded input")
    return add_algorithm(
        Algorithm(
            name=name,
            parameters=parameters,
            settings=(*bounds, *settings),
            sections=(window,),
            example="{window: {tuples: 1000}}",
            new=new,
            restored=restored,
            state=("batch", BatchState),
            entries=(*ENTRIES, SEEN),
            problems=_problems,
            counted={
                "tuples_in": "tuples admitted",
                "released": "tuples released",
                "windows": "windows closed",
            },
            gauges={},
            tell=tell,
            summary=summary,
            compile=compile,
            arrays=True,
            delay_tuples=lambda given: None if given.window.tuples is None else given.window.tuples - 1,
        )
    )


def _problems(policy: Policy, privacy: Privacy, parameters: Any) -> Iterator[str]:
    yield from parameters.problems(policy, privacy)


@dataclass(frozen=True)
class WindowsCounters(Counters):
    """Counters of a windowed shard; ``windows`` is the number of closed windows."""

    windows: int


class ShardOfWindows(BatchShard):
    """In-memory state of one shard whose parameters have a ``window`` (``ClosedBy``).

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
        return None if self._over is None else min(self._over, _LAST)

    @property
    def counters(self) -> WindowsCounters:
        return WindowsCounters(**self._counts(), windows=self.counted.get("windows", 0))

    @classmethod
    def problems(cls, context: ShardContext) -> Iterator[str]:
        yield from context.parameters.problems(context.policy, context.privacy)

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
    def _window(self) -> ClosedBy:
        found: ClosedBy = self.context.parameters.window
        return found
