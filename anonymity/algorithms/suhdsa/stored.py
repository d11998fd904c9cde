"""Stored state of a SUHDSA shard, the counterpart of ``crenel.anonymity.buffer.stored_shard``.

Nothing else of a window survives its close, so buffered tuples are the only entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.suhdsa.arrays import SuhdsaArrays
from crenel.anonymity.buffer.stored_blocks import StoredBlocks
from crenel.anonymity.buffer.stored_shard import BLOCKS, LifetimeCounters, Snapshot, initial_state, read_snapshot
from crenel.anonymity.buffer.well_formed import require
from crenel.anonymity.space.domain import NONE
from crenel.state.block import Block, BufferedTuples
from crenel.state.shard import Changes, StoredShard
from crenel.state.suhdsa import SuhdsaState

ENTRIES = (BLOCKS,)

CONTROLLERS = ("window_tuples", "target", "dwelt", "most_values", "step_up", "judged")
"""Fields of ``SuhdsaArrays.now`` in the order of ``SuhdsaState.controllers``."""

CONTROL = ("entropy", "settled", "loss_sum", "delay_sum", "last_cost")
"""Fields of ``SuhdsaArrays.now`` in the order of ``SuhdsaState.control``."""


SuhdsaSnapshot = Snapshot[SuhdsaState, BufferedTuples]


def initial_snapshot(context: ShardContext, number: int, key: bytes) -> SuhdsaSnapshot:
    """Return the state of a shard before its first tuple; ``key`` is the 32 bytes of its random stream."""
    size = NONE if context.parameters.tuples is None else context.parameters.tuples
    state = initial_state(
        SuhdsaState,
        context,
        number,
        key,
        numbers=np.zeros(4, np.int64),
        first=0,
        carried=np.zeros(0, np.int64),
        reason=np.zeros(0, np.int8),
        reasons=context.privacy.reasons,
        controllers=np.array([size, context.privacy.l, 0, 0, 0, 0], np.int64),
        control=np.array([0.0, NONE, 0.0, 0.0, NONE]),
        merges=0,
        swaps=0,
    )
    return SuhdsaSnapshot(state=state)


def read(context: ShardContext, stored: StoredShard, where: str = "") -> SuhdsaSnapshot:
    """Return the stored state, as ``crenel.anonymity.buffer.stored_shard.read_snapshot`` does.

    k, l, other privacy models, sizes and delays may differ. Buffered tuples are grouped under the new context, and the
    next step publishes or suppresses those that are overdue under them.
    """
    return read_snapshot(SuhdsaState, BufferedTuples, context, stored, where, _require_state, _require_blocks)[0]


_KINDS_OF_COLUMNS = {
    **dict.fromkeys(("carried", "gone", "controllers"), np.dtype(np.int64)),
    "control": np.dtype(np.float64),
    "reason": np.dtype(np.int8),
}


def _require_state(state: SuhdsaState) -> None:
    for name, kind in _KINDS_OF_COLUMNS.items():
        require(getattr(state, name).dtype == kind, name)
    require(state.numbers.shape == (4,) and 0 <= state.first <= state.numbers[0], "first")
    require(state.carried.ndim == 1 and bool((np.diff(state.carried) > 0).all()), "carried")
    require(not len(state.carried) or 0 <= state.carried[0] <= state.carried[-1] < state.first, "carried")
    require(state.gone.ndim == 1 and bool((np.diff(state.gone) > 0).all()), "gone")
    require(not len(state.gone) or state.first <= state.gone[0] <= state.gone[-1] < state.numbers[0], "gone")
    require(state.reason.shape == state.carried.shape, "reason")
    require(bool(((state.reason >= 0) & (state.reason < len(state.reasons))).all()), "reason")
    require(state.controllers.shape == (len(CONTROLLERS),) and bool((state.controllers >= NONE).all()), "controllers")
    require(bool((state.controllers[1:] >= 0).all() and (state.controllers[1] >= 1)), "controllers")
    require(state.control.shape == (len(CONTROL),) and bool(np.isfinite(state.control).all()), "control")


def _require_blocks(state: SuhdsaState, blocks: dict[int, BufferedTuples]) -> None:
    """Raise ``ValueError`` where the stored tuples differ from the buffered positions of the state."""
    waiting = [np.zeros(0, np.int64)]
    for number, block in blocks.items():
        require(0 <= number < state.numbers[3], "positions")
        waiting.append(block.position[_waits(block, state)])
        require(len(waiting[-1]) > 0, "positions")
    found = np.concatenate(waiting)
    new = found[len(state.carried) :]
    require(np.array_equal(found[: len(state.carried)], state.carried), "carried")
    require(len(new) + len(state.gone) == state.numbers[0] - state.first, "positions")
    require(not np.isin(new, state.gone).any(), "positions")
    require(not len(new) or (new[0] == state.first and new[-1] < state.numbers[0]), "positions")


def _waits(tuples: BufferedTuples, state: SuhdsaState) -> NDArray[np.bool_]:
    return np.isin(tuples.position, state.carried) | (tuples.position >= state.first)


@dataclass(frozen=True)
class Moved:
    """Tuples that entered and left the buffer in a step.

    Attributes
    ----------
    block : the admitted tuples; None if there are none
    admitted : (tuples,) their slots, in order
    departed : (tuples,) positions of the tuples that left the buffer
    forgets : whether to erase the tuples that left, with all other stored tuples of their persons
    """

    block: Block | None
    admitted: NDArray[np.int32]
    departed: NDArray[np.int64]
    forgets: bool = False


class Ledger:
    """Record of the stored entries of one shard.

    Parameters
    ----------
    context : context of the shard
    snapshot : state from which the shard was restored; ``blocks`` lists its blocks
    tuples : function from slots, in order of position, to buffered tuples in their stored form
    """

    def __init__(
        self, context: ShardContext, snapshot: SuhdsaSnapshot, tuples: Callable[[NDArray[np.int32]], BufferedTuples]
    ) -> None:
        self._context, self._number, self._tuples = context, snapshot.state.shard, tuples
        self.blocks = StoredBlocks(int(snapshot.state.numbers[3]))
        self._gone = snapshot.state.gone
        self._inventory = snapshot.inventory

    def changes(
        self,
        arrays: SuhdsaArrays,
        history: LifetimeCounters,
        moved: Moved,
        further: Mapping[str, dict[int, bytes | None]],
    ) -> Changes:
        """Return the changes to store after one step; ``further`` has changed entries of other kinds."""
        blocks = self._changed_blocks(arrays, moved) | self._rewritten_blocks(arrays, forgets=moved.forgets)
        if moved.forgets:
            self._gone = np.sort(np.concatenate([self._gone, moved.departed]))
        entries = {"blocks": blocks, **further}
        self._inventory.update(entries)
        return Changes(self._state(arrays, history).to_bytes(), entries)

    def _changed_blocks(self, arrays: SuhdsaArrays, moved: Moved) -> dict[int, bytes | None]:
        # Tuples of the pushed block are not stored yet.
        first = int(arrays.now.next_position) - len(moved.admitted)
        changed: dict[int, bytes | None] = dict.fromkeys(self.blocks.depart(moved.departed[moved.departed < first]))
        if moved.block is None or not len(moved.block):
            return changed
        number, points = self.blocks.number(), arrays.points
        stays = points.waits[moved.admitted]
        if stays.any():
            slots = moved.admitted[stays]
            self.blocks.add(number, slots, points.position[slots], len(slots))
            changed[number] = BufferedTuples(position=points.position[slots], **moved.block.chosen(stays)).to_bytes()
        return changed

    def _rewritten_blocks(self, arrays: SuhdsaArrays, *, forgets: bool) -> dict[int, bytes | None]:
        entries: dict[int, bytes | None] = {}
        position, waits = arrays.points.position, arrays.points.waits
        # Departed tuples stay in stored blocks without an index by person, so erasure rewrites every partial block.
        for number, slots in list(self.blocks.partly_departed() if forgets else self.blocks.sparse()):
            first, end = self.blocks.span(number)
            kept = slots[waits[slots] & (position[slots] >= first) & (position[slots] < end)]
            self.blocks.rewrite(number, kept, position[kept])
            entries[number] = self._tuples(kept).to_bytes()
        return entries

    def _state(self, arrays: SuhdsaArrays, history: LifetimeCounters) -> SuhdsaState:
        now, points = arrays.now, arrays.points
        carried, new = arrays.held[: now.carried], arrays.held[now.carried : now.held]
        numbers = (now.next_position, now.next_release, now.next_window, self.blocks.next_number)
        first = int(points.position[new[0]]) if len(new) else int(now.next_position)
        self._gone = self._gone[self._gone >= first]
        return SuhdsaState(
            **history.state(self._context, self._number, arrays.domain, arrays.random, self._inventory),
            numbers=np.array(numbers, np.int64),
            first=first,
            gone=self._gone,
            carried=points.position[carried],
            reason=points.reason[carried],
            reasons=self._context.privacy.reasons,
            controllers=np.array([getattr(now, name) for name in CONTROLLERS], np.int64),
            control=np.array([getattr(now, name) for name in CONTROL]),
            merges=int(now.merges),
            swaps=int(now.swaps),
        )
