"""Initial and stored state of a batch shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.buffer.well_formed import require, require_counts, require_tuples
from crenel.anonymity.model.fingerprint import require_same
from crenel.anonymity.model.outcomes import FIRST_KINDS
from crenel.anonymity.space.domain import domain
from crenel.state.batch import BatchState, Held
from crenel.state.codec import readable
from crenel.state.stored import Inventory, Stored, entries_of, require_complete

ENTRIES = ("blocks",)


@dataclass(frozen=True)
class Snapshot:
    """Stored state of a shard.

    Attributes
    ----------
    state : state without tuples
    blocks : buffered tuples by block number
    inventory : inventory of the stored entries
    seen : stored value frequencies (``crenel.anonymity.buffer.stored_frequencies``)
    """

    state: BatchState
    blocks: dict[int, Held] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=lambda: Inventory(ENTRIES))
    seen: Mapping[int, bytes] = field(default_factory=dict)


def begun(terms: ShardContext, number: int, key: bytes) -> Snapshot:
    """Return the state of a shard before its first tuple; ``key`` is the 32 bytes of its random stream."""
    space = domain(terms.policy)
    state = BatchState(
        shard=number,
        fingerprint=dict(terms.fingerprint),
        numbers=np.zeros(2, np.int64),
        lower=space.lower,
        upper=space.upper,
        key=np.frombuffer(key, "<u4").astype(np.uint64),
        key_used=0,
        released=0,
        longest=0,
        loss=0.0,
        suppressed={},
        kinds=np.zeros(FIRST_KINDS, np.int64),
        delays=np.zeros((0, 2), np.int64),
    )
    return Snapshot(state)


def read(terms: ShardContext, stored: Stored, where: str) -> Snapshot:
    """Read stored state; raise the errors of ``crenel.anonymity.algorithm.Algorithm.restored``."""
    state = BatchState.from_bytes(stored.shard, where)
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, terms.fingerprint, shard)
    entries = entries_of(stored, ENTRIES, state.entries)
    blocks = {i: Held.from_bytes(b, terms.members, f"{shard}, block {i}") for i, b in sorted(entries["blocks"].items())}
    require_complete(state.entries, entries, shard)
    with readable(f"state of {shard}"):
        _require_well_formed(terms, state)
        end = 0
        for number, held in blocks.items():
            require_tuples(held, held.position, terms.policy)
            require(bool(max(number, end) <= held.position[0]), "positions")
            end = int(held.position[-1]) + 1
        require(bool(end <= state.numbers[0]), "positions")
    return Snapshot(state, blocks, Inventory.of(entries), entries.get(SEEN, {}))


def _require_well_formed(terms: ShardContext, state: BatchState) -> None:
    """Raise ``ValueError`` for a number out of range, which compiled code would not detect."""
    require(state.numbers.shape == (2,) and state.numbers.dtype == np.int64, "numbers")
    require(0 <= int(state.numbers.min()) <= int(state.numbers.max()) < 2**62, "numbers")
    require(state.lower.shape == state.upper.shape == (len(terms.policy.numeric),), "ranges")
    require(not (np.isnan(state.lower).any() or np.isnan(state.upper).any()), "ranges")
    require(state.key.shape == (8,) and bool((state.key < 2**32).all()), "key")
    require_counts(state.suppressed, state.kinds, state.delays)
    require(all(isinstance(amount, int) for amount in state.counted.values()), "counted")
