"""SUHDSA on one shard: when windows close, and what outlasts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, ShardContext, Step
from crenel.anonymity.algorithms.batch.buffered_shard import BufferedShard
from crenel.anonymity.algorithms.suhdsa import procedures
from crenel.anonymity.algorithms.suhdsa.arrays import FOREVER, SuhdsaArrays, config_of, empty_arrays, empty_now
from crenel.anonymity.algorithms.suhdsa.log import Closed, Repairs, repairs_of
from crenel.anonymity.algorithms.suhdsa.outputs import Rows
from crenel.anonymity.algorithms.suhdsa.stored import KEPT, SuhdsaSnapshot
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.slots import mask_of_subjects
from crenel.anonymity.compiled.reference import share
from crenel.anonymity.noise.release_noise import admit, with_slots
from crenel.anonymity.privacy_models.checks import Checks, checks_of
from crenel.anonymity.space.domain import NONE
from crenel.state.block import LAST_TIMER, BufferedTuples
from crenel.state.suhdsa import SuhdsaState

_FEWEST_SLOTS = 256
_SPARE = 8
"""Slots are spare beyond this many times those that a step used, and given back after as many such steps."""


@dataclass(frozen=True)
class SuhdsaCounters(Counters):
    """Counters of a SUHDSA shard.

    Attributes
    ----------
    windows : number of closed windows
    swaps, merges : number of repairs
    carried : number of buffered tuples from closed windows
    target : l_t
    size : current window size in tuples; None where event time alone closes windows
    """

    windows: int
    swaps: int
    merges: int
    carried: int
    target: int
    size: int | None


@dataclass(frozen=True, kw_only=True)
class SuhdsaStep(Step):
    """Result of one step, with its ``repairs``; ``further`` has the same as rows."""

    repairs: Repairs


class SuhdsaShard(BufferedShard):
    """In-memory state of one shard.

    A step closes all windows that its tuples fill in few compiled calls, on arrays that outlast it. A step that cannot
    close a window only buffers its tuples.

    Parameters
    ----------
    context : context of the shard; its algorithm is ``Suhdsa``
    snapshot : stored state (``crenel.anonymity.algorithms.suhdsa.stored``)
    clock : nanoseconds from any start, to measure windows; it decides nothing
    """

    state_class = SuhdsaState
    _run: ClassVar[Any] = staticmethod(procedures.run)

    def __init__(
        self, context: ShardContext, snapshot: SuhdsaSnapshot, *, clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        super().__init__(context, snapshot)
        privacy, state = context.privacy, snapshot.state
        self._config = config_of(context.policy, privacy, context.algorithm)
        self._state = _restored(context, state)
        self._reason = _positions_of(state.reasons, privacy.reasons)[state.reason]  # of carried tuples
        self._note_times(self.waiting.event_time, len(self._reason))
        self._clock, self._closed = clock, list[Closed]()
        self._used = self._spare_steps = 0
        self._resize(_FEWEST_SLOTS)

    def _checks_of(self, context: ShardContext) -> Checks:
        return checks_of(context.policy, context.privacy, aimed=context.algorithm.target is not None)

    @classmethod
    def problems(cls, context: ShardContext) -> Iterator[str]:
        yield from context.algorithm.problems(context.policy, context.privacy)

    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        leaves = mask_of_subjects(self.context.policy, self.waiting.subject, subjects)
        self._reason = self._reason[~leaves[: len(self._reason)]]
        step = super().forget(subjects)
        self._state.earliest = FOREVER
        self._note_times(self.waiting.event_time, len(self._reason))
        return step

    @property
    def next_deadline(self) -> int | None:
        """Earliest epoch milliseconds at which a window closes or a tuple is due; None if there is no such time."""
        now, settings, due = self._state, self.context.algorithm, []
        if settings.event_time is not None and len(self._buffer) > len(self._reason):
            due.append(int(now.opened) + settings.event_time)
        if settings.longest_delay.event_time is not None and len(self._buffer):
            due.append(int(now.earliest) + settings.longest_delay.event_time)
        return min(*due, LAST_TIMER) if due else None

    @property
    def counters(self) -> SuhdsaCounters:
        now = self._state
        return SuhdsaCounters(
            **self._counts(),
            windows=int(now.next_window),
            swaps=int(now.swaps),
            merges=int(now.merges),
            carried=len(self._reason),
            target=int(now.target),
            size=int(now.window_tuples) if now.window_tuples > 0 else None,
        )

    def own_state(self) -> dict[str, Any]:
        now = dict(zip(self._state.dtype.names, self._state.item(), strict=True))
        kept = {name: now[name] for name in KEPT}
        return {"reason": self._reason, "reasons": self.context.privacy.reasons, "kept": kept}

    def _admit_and_release(
        self, coming: BufferedTuples, watermarks: NDArray[np.int64], watermark: int, *, ended: bool = False
    ) -> list[Releases]:
        now, before, carried = self._state, len(self._buffer), len(self._reason)
        self._buffer.add(coming)
        self._note_times(coming.event_time, carried - before)
        if not self._any_due(int(now.next_position) + len(coming), max([watermark, *watermarks[-1:].tolist()]), ended):
            now.next_position += len(coming)
            self._observe(coming)
            return []
        waiting = self.waiting
        arrays = self._arrays_of(waiting)
        now.held, now.carried, now.earliest = before, carried, FOREVER
        self._note_times(waiting.event_time[:before], carried)
        self._closed = self._close_windows(
            np.arange(before, len(waiting), dtype=np.int32), watermarks, watermark, ended
        )
        self._reason = arrays.reason[arrays.held[: now.carried]]
        return [self._left(arrays, waiting)]

    def _note_times(self, times: NDArray[np.int64], first_new: int) -> None:
        """Note event times of buffered tuples, of which ``first_new``, if there, is the first new of the window."""
        now = self._state
        now.earliest = times.min(initial=now.earliest)
        if 0 <= first_new < len(times):
            now.opened = times[first_new]

    def _any_due(self, next_position: int, watermark: int, ended: bool) -> bool:
        """Return whether the buffer may close a window or have an overdue tuple, as ``procedures.next_due`` decides."""
        if ended or not len(self._buffer):
            return len(self._buffer) > 0
        size, delay, due = (
            int(self._state.window_tuples),
            self.context.algorithm.longest_delay.tuples,
            self.next_deadline,
        )
        return (
            0 < size <= len(self._buffer)
            or (delay is not None and int(self._buffer.first.position[0]) < next_position - delay)
            or (due is not None and watermark >= due)
        )

    def _close_windows(
        self, slots: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: int, ended: bool
    ) -> list[Closed]:
        run, clock, shared = self._run, self._clock, self._shared
        log, actions = self.arrays.log.tobytes, self.arrays.actions
        closed: list[Closed] = []
        done, since = 0, clock()
        while True:
            done, repairs = run(shared, slots, done, watermarks, watermark, ended)
            if repairs == NONE:
                return closed
            now = clock()
            closed.append(Closed(log(), actions[:repairs].tobytes() if repairs else b"", now - since))
            since = now

    def _step(self, parts: list[Releases]) -> SuhdsaStep:
        step, closed = super()._step(parts), self._closed
        self._closed = []
        repairs = repairs_of(closed, int(self._state.next_window) - len(closed))
        # The arrays hold nothing between steps, so that the memory of a burst is given back without a copy.
        is_spare = len(self.arrays.held) > _SPARE * max(self._used, _FEWEST_SLOTS)
        self._used, self._spare_steps = 0, self._spare_steps + 1 if is_spare else 0
        if self._spare_steps == _SPARE:
            self._resize(_FEWEST_SLOTS)
        return SuhdsaStep(step.releases, step.changes, Rows(self.number, repairs, step.releases), repairs=repairs)

    def _arrays_of(self, waiting: BufferedTuples) -> SuhdsaArrays:
        count, points, reason = len(waiting), self._points(waiting), self._reason[: len(waiting)]
        if count > len(self.arrays.held):
            self._resize(2 * count)
        self._used = count
        arrays, tuples, filled = self.arrays, self.arrays.tuples, self.arrays.out.filled
        tuples.points.lower[:count], tuples.points.node[:count] = points.lower, points.node
        tuples.event_time[:count], tuples.position[:count] = waiting.event_time, waiting.position
        arrays.codes[:count, 1:] = waiting.sensitive
        if waiting.subject is not None:
            arrays.codes[:count, 0] = waiting.subject
        arrays.held[:count] = np.arange(count)
        arrays.waits[:count] = True
        arrays.reason[: len(reason)] = reason
        admit(arrays.noise, arrays.held[:count], waiting.members)
        filled.releases = filled.members = filled.suppressed = 0
        return arrays

    def _resize(self, slots: int) -> None:
        """Make arrays for ``slots`` tuples, in place of those whose tuples are no longer needed."""
        context = self.context
        self.arrays = empty_arrays(
            context.policy,
            context.algorithm,
            slots,
            now=self._state,
            config=self._config,
            checks=self._checks,
            random=self._random,
            domain=self._domain,
            totals=self._totals,
            noise=with_slots(self._noise, slots),
        )
        self._shared = share(self.arrays)
        self._spare_steps = 0


def _positions_of(stored: Sequence[str], current: Sequence[str]) -> NDArray[np.int8]:
    # A stored reason may belong to a model no longer configured. The next window finds the reason again.
    other = current.index("too_little_diversity")
    return np.array([current.index(reason) if reason in current else other for reason in stored], np.int8)


def _restored(context: ShardContext, state: SuhdsaState) -> Any:
    """Return ``SuhdsaArrays.now``; the controllers resume their state, clipped to the current ranges."""
    settings, least = context.algorithm, context.privacy.l
    now = empty_now()
    now.next_position, now.next_release = state.numbers.tolist()
    for name, value in state.kept.items():
        setattr(now, name, value)
    size, adaptive, aim = settings.tuples or NONE, settings.adaptive, settings.target
    resumed = adaptive is not None and bool(state.kept)
    now.window_tuples = min(max(int(now.window_tuples), adaptive.least), size) if resumed else size
    now.target = least if aim is None else min(max(int(now.target), least), aim.most)
    return now
