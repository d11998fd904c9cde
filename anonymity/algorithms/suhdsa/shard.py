"""SUHDSA on one shard: admission, release, repair and storage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, Shard, ShardContext, Step
from crenel.anonymity.algorithms.suhdsa import procedures
from crenel.anonymity.algorithms.suhdsa.arrays import FOREVER, SuhdsaArrays, empty_arrays, moved
from crenel.anonymity.algorithms.suhdsa.log import Closed, Repairs, repairs_of
from crenel.anonymity.algorithms.suhdsa.outputs import Rows
from crenel.anonymity.algorithms.suhdsa.stored import CONTROL, CONTROLLERS, Ledger, Moved, SuhdsaSnapshot
from crenel.anonymity.buffer.published_forms import with_forms
from crenel.anonymity.buffer.queue import tuple_watermarks
from crenel.anonymity.buffer.releases import Leaving, collect
from crenel.anonymity.buffer.slots import Slots, mask_of_subjects
from crenel.anonymity.buffer.stored_frequencies import StoredSeen
from crenel.anonymity.buffer.stored_shard import LifetimeCounters
from crenel.anonymity.compiled.random import key_bytes, random_stream
from crenel.anonymity.compiled.reference import share
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.noise.release_noise import admit
from crenel.anonymity.privacy_models.value_frequencies import remove_value
from crenel.anonymity.space.domain import NONE, node_offsets, scales
from crenel.state.block import NO_TIME, Block, BufferedTuples, TupleColumns
from crenel.state.suhdsa import SuhdsaState

_FEWEST_SLOTS = 256
_NO_SLOTS = np.zeros(0, np.int32)


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


class SuhdsaShard(Shard):
    """In-memory state of one shard.

    Parameters
    ----------
    context : context of the shard; its parameters are ``SuhdsaParameters``
    snapshot : stored state (``crenel.anonymity.algorithms.suhdsa.stored``)
    remembers : whether each step returns changes to store; a temporary shard needs none
    clock : nanoseconds from any start, to measure windows; it decides nothing
    """

    _run: ClassVar[Any] = staticmethod(procedures.run)

    def __init__(
        self,
        context: ShardContext,
        snapshot: SuhdsaSnapshot,
        *,
        remembers: bool = True,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        for problem in context.parameters.problems(context.policy, context.privacy):
            raise PolicyError(problem)
        self.context, self.number = context, snapshot.state.shard
        self.offsets = node_offsets(context.policy)
        self._slots = Slots(context.policy, context.members, _FEWEST_SLOTS)
        self._ledger = Ledger(context, snapshot, self._buffered) if remembers else None
        self._clock = clock
        self.arrays = _restored_arrays(context, snapshot.state)
        self._seen = StoredSeen(self.arrays.checks.lookup.seen, snapshot.seen, f"shard {self.number}")
        self._history = LifetimeCounters(self.arrays.totals, context.privacy, snapshot.state)
        self._shared = share(self.arrays)
        for number, tuples in snapshot.blocks.items():
            self._restore_block(number, tuples, snapshot.state)

    def push(self, block: Block, watermark: int = NO_TIME) -> SuhdsaStep:
        return self._step(block, watermark, ended=False)

    def advance(self, watermark: int) -> SuhdsaStep:
        """Close the window whose event time has passed, and publish or suppress overdue tuples."""
        return self._step(None, watermark, ended=False)

    def finish(self) -> SuhdsaStep:
        """Close the window at the end of the input, and suppress its unreleased tuples."""
        return self._step(None, NO_TIME, ended=True)

    def forget(self, subjects: NDArray[np.uint64]) -> SuhdsaStep:
        arrays, now = self.arrays, self.arrays.now
        held, points = arrays.held[: now.held], arrays.points
        leaves = mask_of_subjects(self.context.policy, points.value[held, 0], subjects)
        slots, kept = held[leaves], held[~leaves]
        positions = points.position[slots]
        remove_value(arrays.checks.lookup.seen, points.value[slots, 1:], self.context.privacy.k)
        points.waits[slots] = False
        now.carried -= np.count_nonzero(leaves[: now.carried])
        now.held = len(kept)
        arrays.held[: len(kept)] = kept
        if self.context.parameters.delay_event_time is not None:
            now.earliest = min(points.event_time[kept].tolist(), default=FOREVER)
        self._slots.give_back(slots)
        arrays.totals.sums.forgotten += len(slots)
        self._empty_out()
        return self._result([], Moved(None, _NO_SLOTS, positions, forgets=True))

    def buffered(self) -> pa.RecordBatch:
        return self._slots.batch(self.arrays.held[: self.arrays.now.held])

    @property
    def next_deadline(self) -> int | None:
        """Earliest epoch milliseconds at which a window closes or a tuple is due; None if there is no such time."""
        now, event_time, parameters = self.arrays.now, self.arrays.points.event_time, self.context.parameters
        due = []
        if parameters.event_time is not None and now.held > now.carried:
            due.append(int(event_time[self.arrays.held[now.carried]]) + parameters.event_time)
        if parameters.delay_event_time is not None and now.held:
            due.append(int(now.earliest) + parameters.delay_event_time)
        return min(*due, np.iinfo(np.int64).max - 1) if due else None

    @property
    def counters(self) -> SuhdsaCounters:
        now = self.arrays.now
        waiting, came = int(now.held), int(now.next_position)
        return SuhdsaCounters(
            **self._history.counted(),
            tuples_in=came,
            sampled_out=0,
            buffered=waiting,
            oldest_waiting=came - (int(self.arrays.points.position[self.arrays.held[0]]) if waiting else came),
            windows=int(now.next_window),
            swaps=int(now.swaps),
            merges=int(now.merges),
            carried=int(now.carried),
            target=int(now.target),
            size=int(now.window_tuples) if now.window_tuples > 0 else None,
        )

    @property
    def random_key(self) -> bytes:
        return key_bytes(self.arrays.random.key)

    def _step(self, block: Block | None, watermark: int, *, ended: bool) -> SuhdsaStep:
        admitted = _NO_SLOTS if block is None else self._admit(block)
        self._empty_out()
        closed = self._close_windows(admitted, tuple_watermarks(block, watermark), watermark, ended)
        out, position = self.arrays.out, self.arrays.points.position
        departed = np.concatenate([out.members[: out.filled.members], out.suppressed[: out.filled.suppressed]])
        return self._result(closed, Moved(block, admitted, position[departed]))

    def _empty_out(self) -> None:
        filled = self.arrays.out.filled
        filled.releases = filled.members = filled.suppressed = 0

    def _result(self, closed: list[Closed], step: Moved) -> SuhdsaStep:
        arrays = self.arrays
        repairs = repairs_of(closed, int(arrays.now.next_window) - len(closed))
        out, points = arrays.out, arrays.points
        released, withheld = out.members[: out.filled.members], out.suppressed[: out.filled.suppressed]
        subject = None if self.context.policy.pseudonym is None else points.value[:, 0]
        leaving = Leaving(released, withheld, points.position, points.event_time, subject)
        releases = collect(
            out, int(arrays.now.next_release), leaving, self._slots.give_back, self.offsets, arrays.noise
        )
        policy, k = self.context.policy, self.context.privacy.k
        subject = None if policy.subject is None else points.value[:, 0]
        releases = with_forms(
            releases, policy, released, points.numeric, points.leaf, self.offsets, k=k, subject=subject
        )
        changes = None
        if self._ledger is not None:
            further = self._seen.changes(arrays.checks.lookup.seen)
            changes = self._ledger.changes(arrays, self._history, step, further)
        if self._slots.spare():
            self._shrink()
        return SuhdsaStep(releases, changes, Rows(self.number, repairs, releases), repairs=repairs)

    def _close_windows(
        self, admitted: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: int, ended: bool
    ) -> list[Closed]:
        run, clock, shared = self._run, self._clock, self._shared
        log, actions = self.arrays.log.tobytes, self.arrays.actions
        closed: list[Closed] = []
        done, since = 0, clock()
        while True:
            done, repairs = run(shared, admitted, done, watermarks, watermark, ended)
            if repairs == NONE:
                return closed
            now = clock()
            closed.append(Closed(log(), actions[:repairs].tobytes() if repairs else b"", now - since))
            since = now

    def _admit(self, tuples: TupleColumns) -> NDArray[np.int32]:
        """Copy tuples into free slots, and return the slots in the tuples' order."""
        if (slots := self._slots.reserve(len(tuples))) is not None:
            self._move(slots, np.arange(len(self.arrays.held), dtype=np.int32))
        admitted = self._slots.take(len(tuples), tuples.members) if len(tuples) else _NO_SLOTS
        admit(self.arrays.noise, admitted, tuples.members)
        into = self.arrays.points
        into.numeric[admitted] = tuples.numeric + 0.0  # -0.0 is 0.0
        into.leaf[admitted] = tuples.categorical + self.offsets
        into.value[admitted, 1:] = tuples.sensitive
        into.event_time[admitted] = tuples.event_time
        if tuples.subject is not None:
            into.value[admitted, 0] = tuples.subject
        return admitted

    def _buffered(self, slots: NDArray[np.int32]) -> BufferedTuples:
        points = self.arrays.points
        return BufferedTuples(
            numeric=points.numeric[slots],
            categorical=points.leaf[slots] - self.offsets,
            subject=None if self.context.policy.subject is None else points.value[slots, 0],
            sensitive=points.value[slots, 1:],
            event_time=points.event_time[slots],
            members=self._slots.batch(slots),
            position=points.position[slots],
        )

    def _restore_block(self, number: int, tuples: BufferedTuples, state: SuhdsaState) -> None:
        carried = np.isin(tuples.position, state.carried)
        waits = carried | (tuples.position >= state.first)
        slots = self._admit(tuples)
        points, now = self.arrays.points, self.arrays.now
        points.position[slots] = tuples.position
        points.waits[slots] = waits
        self._slots.give_back(slots[~waits])
        reason = state.reason[np.searchsorted(state.carried, tuples.position[carried])]
        points.reason[slots[carried]] = _positions_of(state.reasons, self.context.privacy.reasons)[reason]
        kept, waiting = slots[waits], int(now.held)
        self.arrays.held[waiting : waiting + len(kept)] = kept
        now.held += len(kept)
        now.carried += np.count_nonzero(carried)
        if self.context.parameters.delay_event_time is not None:
            now.earliest = min([int(now.earliest), *points.event_time[kept].tolist()])
        if self._ledger is not None:
            self._ledger.blocks.add(number, slots, tuples.position, len(kept))

    def _shrink(self) -> None:
        """Release the memory of a burst: move tuples to the first slots, in order of position."""
        used = self.arrays.held[: self.arrays.now.held].copy()
        place = np.zeros(len(self.arrays.held), np.int32)
        place[used] = np.arange(len(used))
        self._move(self._slots.shrink(used), used)
        if self._ledger is not None:
            self._ledger.blocks.renumber(place)

    def _move(self, slots: int, used: NDArray[np.int32]) -> None:
        context, before = self.context, self.arrays
        made = empty_arrays(context.policy, context.privacy, context.parameters, before.random, slots)
        self.arrays = moved(before, made, used)
        self._shared = share(self.arrays)


def _positions_of(stored: Sequence[str], current: Sequence[str]) -> NDArray[np.int8]:
    # A stored reason may belong to a model no longer configured. The next window finds the reason again.
    other = current.index("too_little_diversity")
    return np.array([current.index(reason) if reason in current else other for reason in stored], np.int8)


def _restored_arrays(context: ShardContext, state: SuhdsaState) -> SuhdsaArrays:
    random = random_stream(key_bytes(state.key), state.key_used)
    arrays = empty_arrays(context.policy, context.privacy, context.parameters, random)
    now = arrays.now
    size, target = int(now.window_tuples), int(now.target)
    now.next_position, now.next_release, now.next_window = state.numbers[:3].tolist()
    values = [*state.controllers.tolist(), *state.control.tolist()]
    for name, value in zip((*CONTROLLERS, *CONTROL), values, strict=True):
        setattr(now, name, value)
    # The controllers resume their state, clipped to the current ranges.
    adaptive, aim = context.parameters.adaptive, context.parameters.target
    now.window_tuples = size if adaptive is None else min(max(int(now.window_tuples), adaptive.least), size)
    now.target = target if aim is None else min(max(int(now.target), target), aim.most)
    now.merges, now.swaps = state.merges, state.swaps
    arrays.domain.lower[:], arrays.domain.upper[:] = state.lower, state.upper
    arrays.domain.scale[:] = scales(state.lower, state.upper, len(context.policy.quasi_identifiers))
    return arrays
