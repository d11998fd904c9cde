"""Windows on one shard: what goes in, what comes out, and what was repaired."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anonymity.compiled.random import random_stream
from anonymity.policy import KINDS, REJECTIONS, SUPPRESSIONS, Policy, Privacy
from anonymity.release import Leaving, Releases, collect
from anonymity.space.domain import node_offsets
from anonymity.tuples.slots import Slots
from anonymity.window import arrays as at
from anonymity.window import procedures as procedures
from anonymity.window.log import Actions, Repairs, Windows
from anonymity.window.made import empty_window, with_slots
from anonymity.window.parameters import WindowParameters
from anonymity.window.reference import share_window
from state.block import NO_TIME, Block, TupleColumns

_FEWEST_SLOTS = 256
_NO_SLOTS = np.zeros(0, np.int32)


@dataclass(frozen=True)
class WindowCounters:
    """What has happened in a shard so far, and how it stands; names as in ``anonymity.castle.shard.Counters``.

    Attributes
    ----------
    tuples_in : tuples let in
    released, suppressed, rejected : tuples by what became of them; the latter two by reason
    releases : releases by kind (``anonymity.policy.KINDS``)
    windows : windows that closed
    swaps, merges : repairs
    loss_sum : InfoLoss summed over released tuples
    buffered, carried : tuples that wait, and those of them that were in a window that closed
    target : l_t
    size : window size in tuples now; None where event time alone closes windows
    oldest_waiting : tuples that came since the oldest that waits
    longest_delay : largest delay so far, in tuples
    delays : how many tuples had which delay; ``anonymity.tuples.delays.delay_of_bucket`` tells the tuples of a bucket
    """

    tuples_in: int
    released: int
    suppressed: dict[str, int]
    rejected: dict[str, int]
    releases: dict[str, int]
    windows: int
    swaps: int
    merges: int
    loss_sum: float
    buffered: int
    carried: int
    target: int
    size: int | None
    oldest_waiting: int
    longest_delay: int
    delays: NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """Which tuples came and went in the last step.

    Attributes
    ----------
    block : the tuples that were let in; None where none came
    admitted : (tuples,) their slots, in order
    left : (tuples,) positions of those that left
    """

    block: Block | None
    admitted: NDArray[np.int32]
    left: NDArray[np.int64]


class Window:
    """The live form of one shard.

    Parameters
    ----------
    policy, privacy, parameters : what is promised, and how
    members : names and types of the columns that are published as they are, in the order of ``policy.members``
    shard : its number, from 0
    key : 32 bytes, the key of its random stream
    clock : nanoseconds from any start; it measures what a window takes and decides nothing

    Attributes
    ----------
    repairs : what the last step did beside its releases
    """

    _run: ClassVar[Any] = staticmethod(procedures.run)

    def __init__(
        self,
        policy: Policy,
        privacy: Privacy,
        parameters: WindowParameters,
        *,
        members: pa.Schema,
        shard: int,
        key: bytes,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        parameters.check(policy, privacy)
        self.policy = policy
        self.parameters = parameters
        self.shard = shard
        self.live = empty_window(policy, privacy, parameters, random_stream(key))
        self._slots = Slots(policy, members, _FEWEST_SLOTS)
        self.rejected = np.zeros(len(REJECTIONS), np.int64)
        self.last_step = Step(None, _NO_SLOTS, np.zeros(0, np.int64))
        self.repairs = self._log([])
        self.offsets = node_offsets(policy)
        self._clock = clock

    def push(self, block: Block, watermark: int = NO_TIME) -> Releases:
        """Let in the tuples of a block, in order, and release what the windows that close give.

        Parameters
        ----------
        watermark : epoch milliseconds that event time had passed before the block

        Raises
        ------
        RuntimeError
            A guarantee would be broken; nothing of this step was emitted.
        """
        self.rejected += np.bincount(block.rejected.reason, minlength=len(REJECTIONS))
        return self._step(block, watermark, ended=False)

    def advance(self, watermark: int) -> Releases:
        """Close the window whose event time has passed, and let go what is overdue; raises as ``push`` does."""
        return self._step(None, watermark, ended=False)

    def finish(self) -> Releases:
        """The input has ended: close the window, and suppress what it cannot release; raises as ``push`` does."""
        return self._step(None, NO_TIME, ended=True)

    @property
    def next_deadline(self) -> int | None:
        """The earliest epoch milliseconds at which a window closes or a tuple must leave; None where none is set."""
        scalars, event_time, held = self.live.scalars, self.live.points.event_time, self.live.held
        due = []
        if self.parameters.event_time is not None and scalars[at.HELD] > scalars[at.CARRIED]:
            due.append(int(event_time[held[scalars[at.CARRIED]]]) + self.parameters.event_time)
        if self.parameters.delay_event_time is not None and scalars[at.HELD]:
            due.append(int(scalars[at.EARLIEST]) + self.parameters.delay_event_time)
        return min(*due, np.iinfo(np.int64).max - 1) if due else None

    @property
    def counters(self) -> WindowCounters:
        """A copy of the shard's counters."""
        live = self.live
        scalars, totals = live.scalars, live.totals
        waiting, came = int(scalars[at.HELD]), int(scalars[at.NEXT_POSITION])
        return WindowCounters(
            tuples_in=came,
            released=int(totals[at.RELEASED]),
            suppressed={reason: int(totals[at.SUPPRESSED + i]) for i, reason in enumerate(SUPPRESSIONS)},
            rejected={reason: int(self.rejected[i]) for i, reason in enumerate(REJECTIONS)},
            releases={kind: int(totals[at.KIND + i]) for i, kind in enumerate(KINDS)},
            windows=int(scalars[at.NEXT_WINDOW]),
            swaps=int(totals[at.SWAPS]),
            merges=int(totals[at.MERGES]),
            loss_sum=float(live.loss_total[0]),
            buffered=waiting,
            carried=int(scalars[at.CARRIED]),
            target=int(scalars[at.TARGET]),
            size=int(scalars[at.SIZE]) if scalars[at.SIZE] > 0 else None,
            oldest_waiting=came - (int(live.points.position[live.held[0]]) if waiting else came),
            longest_delay=int(totals[at.LONGEST_DELAY]),
            delays=live.delays.copy(),
        )

    def admit(self, tuples: TupleColumns) -> NDArray[np.int32]:
        """Copy tuples into free slots; the slots, in the tuples' order."""
        reserved = self._slots.reserve(len(tuples))
        if reserved is not None:
            self.live = with_slots(self.live, reserved, self.policy, self.parameters)
        slots = self._slots.take(tuples.members)
        into = self.live.points
        into.numeric[slots] = tuples.numeric + 0.0  # -0.0 is 0.0
        into.leaf[slots] = tuples.categorical + self.offsets
        into.value[slots, 1:] = tuples.sensitive
        into.event_time[slots] = tuples.event_time
        if tuples.subject is not None:
            into.value[slots, 0] = tuples.subject
        return slots

    def release_slots(self, slots: NDArray[np.int32]) -> None:
        """Free slots whose tuples have left."""
        self._slots.give_back(slots)

    def _step(self, block: Block | None, watermark: int, *, ended: bool) -> Releases:
        slots = _NO_SLOTS if block is None else self.admit(block)
        live = self.live
        scalars = live.scalars
        scalars[[at.OUT_RELEASES, at.OUT_MEMBERS, at.OUT_SUPPRESSED]] = 0
        shared = share_window(live)
        closed = []
        done, since = 0, self._clock()
        while True:
            done = self._run(shared, slots, done, watermark, ended)
            if not scalars[at.CLOSED]:
                break
            now = self._clock()
            rows = slice(0, scalars[at.OUT_ACTIONS])
            actions = live.actions[rows].copy(), live.changes[rows].copy()
            closed.append((live.window.copy(), live.entropy.copy(), now - since, *actions))
            since = now
        self.repairs = self._log(closed)
        return self._collect(block, slots)

    def _log(self, closed: list[tuple[NDArray[np.int64], NDArray[np.float64], int, NDArray, NDArray]]) -> Repairs:  # type: ignore[type-arg]
        windows = np.array([window for window, *_ in closed], np.int64).reshape(-1, at.WINDOW_COLUMNS)
        entropy = np.array([found for _, found, *_ in closed], np.float64).reshape(-1, 2)
        first = int(self.live.scalars[at.NEXT_WINDOW]) - len(closed)
        number = np.arange(first, first + len(closed))
        actions = np.concatenate([np.zeros((0, at.ACTION_COLUMNS), np.int64), *(rows for *_, rows, _ in closed)])
        changes = np.concatenate([np.zeros((0, 2)), *(rows for *_, rows in closed)])
        released, satisfied = windows[:, at.W_RELEASES], windows[:, at.W_SATISFIED]
        return Repairs(
            self.shard,
            Actions(
                window=np.repeat(number, [len(rows) for *_, rows in closed]),
                group=actions[:, at.A_GROUP],
                neighbour=actions[:, at.A_NEIGHBOUR],
                action=actions[:, at.A_ACTION],
                tuples_before=actions[:, at.A_BEFORE],
                tuples_after=actions[:, at.A_AFTER],
                diversity_before=actions[:, at.A_DIVERSITY],
                diversity_after=actions[:, at.A_DIVERSITY_AFTER],
                loss_change=changes[:, 0],
                time_change=changes[:, 1],
                inspected=actions[:, at.A_INSPECTED],
            ),
            Windows(
                window=number,
                tuples=windows[:, at.W_TUPLES],
                groups=windows[:, at.W_GROUPS],
                violations=windows[:, at.W_VIOLATIONS],
                unrepaired=windows[:, at.W_UNREPAIRED],
                swaps=windows[:, at.W_SWAPS],
                merges=windows[:, at.W_MERGES],
                releases=released,
                lsr=np.divide(satisfied, released, out=np.ones(len(closed)), where=released > 0),
                carried=windows[:, at.W_CARRIED],
                target=windows[:, at.W_TARGET],
                entropy_mean=entropy[:, at.W_ENTROPY_MEAN],
                entropy_least=entropy[:, at.W_ENTROPY_LEAST],
                milliseconds=np.array([spent for _, _, spent, *_ in closed], np.float64) / 1e6,
            ),
        )

    def _collect(self, block: Block | None, admitted: NDArray[np.int32]) -> Releases:
        live = self.live
        scalars, position = live.scalars, live.points.position
        slots = live.out.members[: scalars[at.OUT_MEMBERS]].copy()
        withheld = live.out.suppressed[: scalars[at.OUT_SUPPRESSED]].copy()
        leaving = Leaving(slots, withheld, position, live.points.event_time)
        result = collect(
            live.out,
            int(scalars[at.OUT_RELEASES]),
            int(scalars[at.NEXT_RELEASE]),
            leaving,
            self._slots,
            self.offsets,
        )
        self.last_step = Step(block, admitted, np.concatenate([position[slots], position[withheld]]))
        return result
