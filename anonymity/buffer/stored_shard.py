"""Stored state of a shard: decoding and validation; ``crenel.anonymity.buffer.ledger`` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.well_formed import require, require_boxes, require_counts, require_tuples
from crenel.anonymity.model.fingerprint import require_same
from crenel.anonymity.model.outcomes import FIRST_KINDS
from crenel.anonymity.space.domain import Boxes, domain
from crenel.anonymity.space.ends import round_all
from crenel.state.castle import Buffered, CastleState, Generalizations
from crenel.state.codec import readable
from crenel.state.stored import Inventory, Stored, entries_of, require_complete

ENTRIES = ("blocks", "gamma", "omega")


@dataclass(frozen=True)
class Snapshot:
    """Decoded state of one shard.

    Attributes
    ----------
    state : scalars, counts, random key and fingerprint
    blocks : tuples buffered when their block was stored, by block number
    gamma : the open clusters, one per entry, by cluster id
    omega : generalizations kept for reuse, by the first release of each entry; those below the current privacy models
        are left out
    forgotten : entries of omega that lost rows when they were read, with the new bytes; None where no row remains
    inventory : of the entries in the store
    further : entries of other kinds, which an algorithm or a privacy model adds, as stored
    """

    state: CastleState
    blocks: dict[int, Buffered] = field(default_factory=dict)
    gamma: dict[int, Generalizations] = field(default_factory=dict)
    omega: dict[int, Generalizations] = field(default_factory=dict)
    forgotten: dict[int, bytes | None] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=lambda: Inventory(ENTRIES))
    further: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)


def begun(terms: ShardContext, number: int, key: bytes) -> Snapshot:
    """Return the state of a shard without tuples; ``key``: the 32 bytes of its random stream."""
    space = domain(terms.policy)
    state = CastleState(
        shard=number,
        fingerprint=dict(terms.fingerprint),
        numbers=np.zeros(5, np.int64),
        oldest=0,
        gone=np.zeros(0, np.int64),
        ring=np.zeros(terms.parameters.loss_window),
        ring_used=0,
        ring_next=0,
        lower=space.lower,
        upper=space.upper,
        key=np.frombuffer(key, "<u4").astype(np.uint64),
        key_used=0,
        released=0,
        longest=0,
        merges=0,
        splits=0,
        loss=0.0,
        suppressed={},
        kinds=np.zeros(FIRST_KINDS, np.int64),
        delays=np.zeros((0, 2), np.int64),
    )
    return Snapshot(state)


def read(terms: ShardContext, stored: Stored, where: str = "") -> Snapshot:
    """Decode and validate a stored shard under a context that may differ where this is safe.

    Generalizations that do not satisfy the current privacy models are dropped for good. ``where`` names the shard in
    errors next to its number, such as ``key 3``.

    Raises
    ------
    crenel.state.codec.StateError
        The bytes are damaged, of an unknown version, or do not belong together.
    crenel.anonymity.model.errors.PolicyError
        A setting that cannot change differs from the stored one; the message names the fields.
    """
    state = CastleState.from_bytes(stored.shard, where)
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, terms.fingerprint, shard)
    entries = entries_of(stored, ENTRIES, state.entries)
    gamma = {
        i: Generalizations.from_bytes("gamma", b, f"{shard}, cluster {i}") for i, b in sorted(entries["gamma"].items())
    }
    blocks = {
        i: Buffered.from_bytes(b, terms.members, f"{shard}, block {i}") for i, b in sorted(entries["blocks"].items())
    }
    omega = {
        i: Generalizations.from_bytes("omega", b, f"{shard}, release {i}") for i, b in sorted(entries["omega"].items())
    }
    require_complete(state.entries, entries, shard)
    with readable(f"state of {shard}"):
        _require_well_formed(terms, state, blocks, gamma, omega)
    kept = {i: _promising(entry, terms, state) for i, entry in omega.items()}
    # If they stayed in the store, a later policy could revive some of them, depending on how releases were stored
    # together.
    forgotten = {
        i: entry.to_bytes("omega") if len(entry.id) else None
        for i, entry in kept.items()
        if len(entry.id) < len(omega[i].id)
    }
    kept = {i: entry for i, entry in kept.items() if len(entry.id)}
    further = {kind: blobs for kind, blobs in entries.items() if kind not in ENTRIES}
    return Snapshot(state, blocks, gamma, kept, forgotten, Inventory.of(entries), further)


def _promising(entry: Generalizations, terms: ShardContext, state: CastleState) -> Generalizations:
    privacy = terms.privacy
    asked = [privacy.l_of(column)[0] for column in terms.policy.sensitive]
    safe = (entry.subjects >= privacy.k) & (entry.diversity >= asked).all(axis=1) & (entry.id >= state.numbers[4])
    if not _counted_people(state, terms) or promised(terms).items() - state.promised.items():
        safe[:] = False
    safe &= _on_grid(entry, terms)
    return Generalizations(**{name: column[safe] for name, column in vars(entry).items()})


def _on_grid(entry: Generalizations, terms: ShardContext) -> NDArray[np.bool_]:
    """Return (rows,) whether each interval has its ends where intervals are published now."""
    if all(attribute.ends is None for attribute in terms.policy.numeric):
        return np.ones(len(entry.id), np.bool_)
    rounded = Boxes(np.array(entry.lower), np.array(entry.upper), np.array(entry.node))
    round_all(domain(terms.policy), rounded)
    kept: NDArray[np.bool_] = ((rounded.lower == entry.lower) & (rounded.upper == entry.upper)).all(axis=1)
    return kept


def _counted_people(state: CastleState, terms: ShardContext) -> bool:
    """Return whether the stored diversity counts persons; before version 3 it counted values, which is more."""
    diverse = any(terms.privacy.l_of(column)[0] > 1 for column in terms.policy.sensitive)
    return state.version >= 3 or not diverse or terms.policy.subject is None


def promised(terms: ShardContext) -> dict[str, float]:
    """Return the parameters of each sensitive column's privacy models, except l, by model and column."""
    return {
        f"{name}:{column}": number
        for column in terms.policy.sensitive
        for promise, parameter, _ in terms.privacy.further_of(column)
        for name, number in promise.named(parameter).items()
    }


def _require_well_formed(
    terms: ShardContext,
    state: CastleState,
    blocks: dict[int, Buffered],
    gamma: dict[int, Generalizations],
    omega: dict[int, Generalizations],
) -> None:
    """Raise ``ValueError`` where a number is out of range for compiled code, which does not check bounds."""
    next_position, next_cluster, next_release, next_block, _ = state.numbers.tolist()
    require(min(state.numbers) >= 0 and 0 <= state.oldest <= next_position, "numbers")
    require(len(state.ring) > 0 and 0 <= state.ring_used <= len(state.ring), "ring")
    require(0 <= state.ring_next < len(state.ring) and bool(np.isfinite(state.ring).all()), "ring")
    require(len(state.lower) == len(state.upper) == len(terms.policy.numeric), "ranges")
    require(state.key.shape == (8,) and bool((state.key < 2**32).all()), "key")
    require_counts(state.suppressed, state.kinds, state.delays)
    if state.noise is not None:
        require(state.noise.observed.shape == (2, len(terms.policy.numeric)), "noise")
    end = 0
    clusters: set[int] = set()
    for number, block in blocks.items():
        require_tuples(block, block.position, terms.policy)
        require(number < next_block and end <= block.position[0] and block.position[-1] < next_position, "positions")
        end = int(block.position[-1]) + 1
        waits = (block.position >= state.oldest) & ~np.isin(block.position, state.gone)
        clusters.update(block.cluster[waits].tolist())
    for i, entry in gamma.items():
        require(len(entry.id) == 1 and entry.id[0] == i < next_cluster and i in clusters, "clusters")
        require_boxes(entry.lower, entry.upper, entry.node, terms.policy)
    for entry in omega.values():
        require(bool((np.diff(entry.id) > 0).all()) and len(entry.id) > 0 and entry.id[-1] < next_release, "releases")
        require(len(entry.subjects) == len(entry.diversity) == len(entry.id), "counts")
        require(entry.diversity.shape[1] == len(terms.policy.sensitive), "diversity")
        require(entry.span.shape == (len(entry.id), 2, len(terms.policy.noised)), "noised values")
        require(bool(np.isfinite(entry.span).all()), "noised values")
        require_boxes(entry.lower, entry.upper, entry.node, terms.policy)
