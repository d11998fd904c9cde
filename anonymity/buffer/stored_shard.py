"""Stored state of a shard, for all algorithms: initial state, reading with its checks, and writing.

``crenel.anonymity.buffer.stored_clusters`` and ``stored`` of an algorithm's folder add their own fields and checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.release_buffer import ShardTotals
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.buffer.well_formed import require, require_counts, require_tuples
from crenel.anonymity.compiled.random import RandomStream
from crenel.anonymity.model.fingerprint import require_same
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import Domain, domain
from crenel.state.block import BufferedTuples
from crenel.state.codec import readable
from crenel.state.counters import REAL, WHOLE
from crenel.state.shard import Inventory, ShardState, StoredShard, entries_of, require_complete

BLOCKS = "blocks"
"""Kind of the stored entries that hold buffered tuples."""

StateT = TypeVar("StateT", bound=ShardState, covariant=True)
TuplesT = TypeVar("TuplesT", bound=BufferedTuples)
OtherT = TypeVar("OtherT")


@dataclass(frozen=True, kw_only=True)
class Snapshot(Generic[StateT, TuplesT]):
    """Decoded state of one shard.

    Attributes
    ----------
    state : state without entries
    blocks : tuples that were buffered when their block was stored, by block number
    inventory : inventory of the stored entries
    further : entries of kinds that an algorithm or a privacy model adds, as stored
    """

    state: StateT
    blocks: dict[int, TuplesT] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=lambda: Inventory((BLOCKS,)))
    further: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)

    @property
    def seen(self) -> Mapping[int, bytes]:
        """Stored frequencies of sensitive values (``crenel.anonymity.buffer.stored_frequencies``)."""
        return self.further.get(SEEN, {})


def initial_state(made: type[StateT], context: ShardContext, number: int, key: bytes, **own: Any) -> StateT:
    """Return the state of a shard before its first tuple.

    Parameters
    ----------
    made : class of the state
    key : the 32 bytes of the shard's random stream
    own : fields that the algorithm adds, and ``numbers``
    """
    space = domain(context.policy)
    return made(
        shard=number,
        fingerprint=dict(context.fingerprint),
        lower=space.lower,
        upper=space.upper,
        key=np.frombuffer(key, "<u4").astype(np.uint64),
        key_used=0,
        kinds=np.zeros(len(KINDS), np.int64),
        delays=np.zeros((0, 2), np.int64),
        members=context.stored_members,
        **own,
    )


def read_snapshot(
    made: type[StateT],
    tuples: type[TuplesT],
    context: ShardContext,
    stored: StoredShard,
    where: str,
    require_own: Callable[[StateT], None],
    require_blocks: Callable[[StateT, dict[int, TuplesT]], None],
    others: Mapping[str, tuple[str, Callable[[bytes, str], OtherT]]] | None = None,
) -> tuple[Snapshot[StateT, TuplesT], dict[str, dict[int, OtherT]], str]:
    """Decode and validate a stored shard under a context that may differ where this is safe.

    Parameters
    ----------
    made, tuples : classes of the state and of the buffered tuples
    where : name of the shard in errors next to its number, such as ``key 3``
    require_own, require_blocks : functions that raise ``ValueError`` where fields of the algorithm are out of range for
        compiled code, and where the buffered tuples do not fit the state
    others : by kind of entries that the algorithm adds, the name of one in errors, and a function that decodes one from
        its blob and its name

    Returns
    -------
    snapshot : the decoded state
    decoded : the entries of ``others`` by kind and key, not yet validated
    shard : name of the shard in errors

    Raises
    ------
    crenel.state.codec.StateError
        The bytes are damaged, of an unknown version or of another algorithm, or do not belong together.
    crenel.anonymity.model.errors.RestoreError
        A setting that cannot change differs from the stored one; the message names the fields.
    """
    state = made.from_bytes(stored.shard, where)
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, context.fingerprint, shard)
    others = others or {}
    entries = entries_of(stored, (BLOCKS, *others), state.entries)
    blocks = {
        number: tuples.from_bytes(blob, context.members, f"{shard}, block {number}")
        for number, blob in sorted(entries[BLOCKS].items())
    }
    decoded = {
        kind: {key: decode(blob, f"{shard}, {name} {key}") for key, blob in sorted(entries[kind].items())}
        for kind, (name, decode) in others.items()
    }
    require_complete(state.entries, entries, shard)
    with readable(f"{made.KIND} state of {shard}"):
        _require_state(context, state)
        require_own(state)
    with readable(f"blocks state of {shard}"):
        end = 0
        for block in blocks.values():
            require_tuples(block, block.position, context.policy)
            require(bool(end <= block.position[0]), "positions")
            end = int(block.position[-1]) + 1
        require(bool(end <= state.numbers[0]), "positions")
        require_blocks(state, blocks)
    further = {kind: blobs for kind, blobs in entries.items() if kind != BLOCKS and kind not in others}
    snapshot = Snapshot(state=state, blocks=blocks, inventory=Inventory.of(entries), further=further)
    return snapshot, decoded, shard


def _require_state(context: ShardContext, state: ShardState) -> None:
    """Raise ``ValueError`` for a number out of range, which compiled code would not detect."""
    require(state.numbers.ndim == 1 and state.numbers.dtype == np.int64, "numbers")
    require(0 <= int(min(state.numbers)) <= int(max(state.numbers)) < 2**62, "numbers")
    require(state.lower.shape == state.upper.shape == (len(context.policy.numeric),), "ranges")
    require(state.lower.dtype == state.upper.dtype == np.float64, "ranges")
    require(not (np.isnan(state.lower).any() or np.isnan(state.upper).any()), "ranges")
    require(state.key.shape == (8,) and state.key.dtype == np.uint64 and bool((state.key < 2**32).all()), "key")
    require_counts(state.suppressed, state.kinds, state.delays)


class LifetimeCounters:
    """Counters of one shard over its lifetime, in arrays of compiled code.

    Parameters
    ----------
    totals : counts of the compiled procedures; initialized with the stored counts
    privacy : names the reasons of suppression
    state : the stored counts
    """

    def __init__(self, totals: ShardTotals, privacy: Privacy, state: ShardState) -> None:
        self._totals, self._reasons = totals, privacy.reasons
        for name in (*WHOLE, *REAL):
            setattr(totals.sums, name, getattr(state, name))
        for i, reason in enumerate(self._reasons):
            totals.suppressed[i] = state.suppressed.get(reason, 0)
        totals.kinds[: len(state.kinds)] = state.kinds
        totals.delays[state.delays[:, 0]] = state.delays[:, 1]
        # Counts under privacy models that the job no longer has.
        self._earlier = {
            reason: amount for reason, amount in state.suppressed.items() if reason not in self._reasons and amount
        }

    def counted(self) -> dict[str, Any]:
        """Return the counts as fields of ``crenel.anonymity.algorithm.Counters``."""
        releases = dict(zip(KINDS, self._totals.kinds.tolist(), strict=True))
        return {**self._common(), "releases": releases, "delays": self._totals.delays.copy()}

    def state(
        self, context: ShardContext, number: int, domain: Domain, random: RandomStream, inventory: Inventory
    ) -> dict[str, Any]:
        """Return the fields that every shard stores, except ``ShardState.numbers``."""
        delays = self._totals.delays
        buckets = np.flatnonzero(delays)
        return {
            "shard": number,
            "fingerprint": dict(context.fingerprint),
            "lower": domain.lower,
            "upper": domain.upper,
            "key": random.key.astype(np.uint64),
            "key_used": int(random.used[0]),
            "entries": inventory.recorded(),
            "kinds": self._totals.kinds,
            "delays": np.stack([buckets, delays[buckets]], axis=1),
            "members": context.stored_members,
            **self._common(),
        }

    def _common(self) -> dict[str, Any]:
        suppressed = self._earlier | dict(zip(self._reasons, self._totals.suppressed.tolist(), strict=True))
        numbers: dict[str, Any] = {name: getattr(self._totals.sums, name).item() for name in (*WHOLE, *REAL)}
        return {**numbers, "suppressed": suppressed}
