"""Stored state of a SUHDSA shard, the counterpart of ``crenel.anonymity.buffer.stored_shard``.

Nothing else of a window survives its close, so buffered tuples are the only entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.suhdsa.arrays import WindowArrays
from crenel.anonymity.buffer.lifetime_counters import LifetimeCounters
from crenel.anonymity.buffer.stored_blocks import StoredBlocks
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.buffer.well_formed import require, require_counts, require_tuples
from crenel.anonymity.model.fingerprint import require_same
from crenel.anonymity.model.outcomes import FIRST_KINDS
from crenel.anonymity.space.domain import NONE, domain
from crenel.state.block import Block
from crenel.state.codec import readable
from crenel.state.stored import Changes, Inventory, Stored, entries_of, require_complete
from crenel.state.window import Held, WindowState

ENTRIES = ("blocks",)

CONTROLLERS = ("window_tuples", "target", "dwelt", "most_values", "step_up", "judged")
"""Fields of ``WindowArrays.now`` in the order of ``WindowState.controllers``."""

CONTROL = ("entropy", "settled", "loss_sum", "delay_sum", "last_cost")
"""Fields of ``WindowArrays.now`` in the order of ``WindowState.control``."""


@dataclass(frozen=True)
class Snapshot:
    """Stored state of a shard.

    Attributes
    ----------
    state : state without tuples
    blocks : tuples that were buffered when their block was stored, by block number
    inventory : inventory of the stored entries
    seen : stored value frequencies (``crenel.anonymity.buffer.stored_frequencies``)
    """

    state: WindowState
    blocks: dict[int, Held] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=lambda: Inventory(ENTRIES))
    seen: Mapping[int, bytes] = field(default_factory=dict)


def begun(terms: ShardContext, number: int, key: bytes) -> Snapshot:
    """Return the state of a shard before its first tuple; ``key`` is the 32 bytes of its random stream."""
    space = domain(terms.policy)
    size = NONE if terms.parameters.tuples is None else terms.parameters.tuples
    state = WindowState(
        shard=number,
        fingerprint=dict(terms.fingerprint),
        numbers=np.zeros(4, np.int64),
        first=0,
        carried=np.zeros(0, np.int64),
        reason=np.zeros(0, np.int8),
        reasons=terms.privacy.reasons,
        controllers=np.array([size, terms.privacy.l, 0, 0, 0, 0], np.int64),
        control=np.array([0.0, NONE, 0.0, 0.0, NONE]),
        lower=space.lower,
        upper=space.upper,
        key=np.frombuffer(key, "<u4").astype(np.uint64),
        key_used=0,
        released=0,
        longest=0,
        merges=0,
        swaps=0,
        loss=0.0,
        suppressed={},
        kinds=np.zeros(FIRST_KINDS, np.int64),
        delays=np.zeros((0, 2), np.int64),
    )
    return Snapshot(state)


def read(terms: ShardContext, stored: Stored, where: str = "") -> Snapshot:
    """Read stored state under terms that may differ where that is safe.

    k, l, other privacy models, sizes and delays may differ. Buffered tuples are grouped under the new terms, and the
    next step publishes or suppresses those that are overdue under them. ``where`` names the shard in errors beside its
    number, such as ``key 3``.

    Raises
    ------
    crenel.state.codec.StateError
        The bytes are damaged, inconsistent, of an unknown version, or from a shard of another algorithm.
    crenel.anonymity.model.errors.PolicyError
        The terms differ from the stored ones in a field that cannot change; the message names the fields.
    """
    state = WindowState.from_bytes(stored.shard, where)
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, terms.fingerprint, shard)
    entries = entries_of(stored, ENTRIES, state.entries)
    blocks = {i: Held.from_bytes(b, terms.members, f"{shard}, block {i}") for i, b in sorted(entries["blocks"].items())}
    require_complete(state.entries, entries, shard)
    with readable(f"window state of {shard}"):
        _require_well_formed(terms, state)
    with readable(f"blocks state of {shard}"):
        _require_blocks(terms, state, blocks)
    return Snapshot(state, blocks, Inventory.of(entries), entries.get(SEEN, {}))


_KINDS_OF_COLUMNS = {
    **dict.fromkeys(("numbers", "carried", "gone", "controllers"), np.dtype(np.int64)),
    **dict.fromkeys(("control", "lower", "upper"), np.dtype(np.float64)),
    "reason": np.dtype(np.int8),
    "key": np.dtype(np.uint64),
}


def _require_well_formed(terms: ShardContext, state: WindowState) -> None:
    """Raise ``ValueError`` for a number out of range, which compiled code would not detect."""
    for name, kind in _KINDS_OF_COLUMNS.items():
        require(getattr(state, name).dtype == kind, name)
    require(state.numbers.shape == (4,) and 0 <= int(min(state.numbers)) <= int(max(state.numbers)) < 2**62, "numbers")
    require(0 <= state.first <= state.numbers[0], "first")
    require(state.carried.ndim == 1 and bool((np.diff(state.carried) > 0).all()), "carried")
    require(not len(state.carried) or 0 <= state.carried[0] <= state.carried[-1] < state.first, "carried")
    require(state.gone.ndim == 1 and bool((np.diff(state.gone) > 0).all()), "gone")
    require(not len(state.gone) or state.first <= state.gone[0] <= state.gone[-1] < state.numbers[0], "gone")
    require(state.reason.shape == state.carried.shape, "reason")
    require(bool(((state.reason >= 0) & (state.reason < len(state.reasons))).all()), "reason")
    require(state.controllers.shape == (len(CONTROLLERS),) and bool((state.controllers >= NONE).all()), "controllers")
    require(bool((state.controllers[1:] >= 0).all() and (state.controllers[1] >= 1)), "controllers")
    require(state.control.shape == (len(CONTROL),) and bool(np.isfinite(state.control).all()), "control")
    require(state.lower.shape == state.upper.shape == (len(terms.policy.numeric),), "ranges")
    require(not (np.isnan(state.lower).any() or np.isnan(state.upper).any()), "ranges")
    require(state.key.shape == (8,) and bool((state.key < 2**32).all()), "key")
    require_counts(state.suppressed, state.kinds, state.delays)


def _require_blocks(terms: ShardContext, state: WindowState, blocks: dict[int, Held]) -> None:
    """Raise ``ValueError`` where the stored tuples differ from the buffered positions of the state."""
    end = 0
    waiting = [np.zeros(0, np.int64)]
    for number, held in blocks.items():
        require_tuples(held, held.position, terms.policy)
        require(0 <= number < state.numbers[3] and end <= held.position[0], "positions")
        end = int(held.position[-1]) + 1
        waiting.append(held.position[_waits(held, state)])
        require(len(waiting[-1]) > 0, "positions")
    found = np.concatenate(waiting)
    new = found[len(state.carried) :]
    require(np.array_equal(found[: len(state.carried)], state.carried), "carried")
    require(len(new) + len(state.gone) == state.numbers[0] - state.first, "positions")
    require(not np.isin(new, state.gone).any(), "positions")
    require(not len(new) or (new[0] == state.first and new[-1] < state.numbers[0]), "positions")


def _waits(held: Held, state: WindowState) -> NDArray[np.bool_]:
    return np.isin(held.position, state.carried) | (held.position >= state.first)


@dataclass(frozen=True)
class Moved:
    """Tuples that entered and left the buffer in a step.

    Attributes
    ----------
    block : the admitted tuples; None if there are none
    admitted : (tuples,) their slots, in order
    left : (tuples,) positions of the tuples that left the buffer
    forgets : whether to erase the tuples that left, with all other stored tuples of their persons
    """

    block: Block | None
    admitted: NDArray[np.int32]
    left: NDArray[np.int64]
    forgets: bool = False


class Ledger:
    """Record of the stored entries of one shard.

    Parameters
    ----------
    terms : context of the shard
    snapshot : state from which the shard was restored; ``blocks`` lists its blocks
    tuples : function from slots, in order of position, to buffered tuples in their stored form
    """

    def __init__(self, terms: ShardContext, snapshot: Snapshot, tuples: Callable[[NDArray[np.int32]], Held]) -> None:
        self._terms, self._number, self._tuples = terms, snapshot.state.shard, tuples
        self.blocks = StoredBlocks(int(snapshot.state.numbers[3]))
        self._gone = snapshot.state.gone
        self._inventory = snapshot.inventory

    def changes(
        self,
        arrays: WindowArrays,
        history: LifetimeCounters,
        moved: Moved,
        further: Mapping[str, dict[int, bytes | None]],
    ) -> Changes:
        """Return the changes to store after one step; ``further`` has changed entries of other kinds."""
        blocks = self._changed_blocks(arrays, moved) | self._rewritten_blocks(arrays, forgets=moved.forgets)
        if moved.forgets:
            self._gone = np.sort(np.concatenate([self._gone, moved.left]))
        entries = {"blocks": blocks, **further}
        self._inventory.update(entries)
        return Changes(self._state(arrays, history).to_bytes(), entries)

    def _changed_blocks(self, arrays: WindowArrays, moved: Moved) -> dict[int, bytes | None]:
        # Tuples of the pushed block are not stored yet.
        first = int(arrays.now.next_position) - len(moved.admitted)
        changed: dict[int, bytes | None] = dict.fromkeys(self.blocks.leave(moved.left[moved.left < first]))
        if moved.block is None or not len(moved.block):
            return changed
        number, points = self.blocks.number(), arrays.points
        stays = points.waits[moved.admitted]
        if stays.any():
            slots = moved.admitted[stays]
            self.blocks.add(number, slots, points.position[slots], len(slots))
            changed[number] = Held(position=points.position[slots], **moved.block.chosen(stays)).to_bytes()
        return changed

    def _rewritten_blocks(self, arrays: WindowArrays, *, forgets: bool) -> dict[int, bytes | None]:
        entries: dict[int, bytes | None] = {}
        position, waits = arrays.points.position, arrays.points.waits
        # Departed tuples stay in stored blocks without an index by person, so erasure rewrites every partial block.
        for number, slots in list(self.blocks.partly_left() if forgets else self.blocks.sparse()):
            first, end = self.blocks.span(number)
            kept = slots[waits[slots] & (position[slots] >= first) & (position[slots] < end)]
            self.blocks.rewrite(number, kept, position[kept])
            entries[number] = self._tuples(kept).to_bytes()
        return entries

    def _state(self, arrays: WindowArrays, history: LifetimeCounters) -> WindowState:
        now, points = arrays.now, arrays.points
        carried, new = arrays.held[: now.carried], arrays.held[now.carried : now.held]
        numbers = (now.next_position, now.next_release, now.next_window, self.blocks.next_number)
        first = int(points.position[new[0]]) if len(new) else int(now.next_position)
        self._gone = self._gone[self._gone >= first]
        return WindowState(
            shard=self._number,
            fingerprint=dict(self._terms.fingerprint),
            numbers=np.array(numbers, np.int64),
            first=first,
            gone=self._gone,
            carried=points.position[carried],
            reason=points.reason[carried],
            reasons=self._terms.privacy.reasons,
            controllers=np.array([getattr(now, name) for name in CONTROLLERS], np.int64),
            control=np.array([getattr(now, name) for name in CONTROL]),
            lower=arrays.domain.lower,
            upper=arrays.domain.upper,
            key=arrays.random.key.astype(np.uint64),
            key_used=int(arrays.random.used[0]),
            merges=int(now.merges),
            swaps=int(now.swaps),
            entries=self._inventory.told(),
            **history.stored(),
        )
