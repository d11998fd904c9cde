"""Stored state of shards that buffer tuples up to a delay bound: clusters and reusable generalizations.

``crenel.anonymity.buffer.ledger`` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.stored_shard import BLOCKS, Snapshot, initial_state, read_snapshot
from crenel.anonymity.buffer.well_formed import require, require_boxes
from crenel.anonymity.space.domain import Boxes, domain
from crenel.anonymity.space.ends import round_all
from crenel.state.castle import CastleState, ClusteredTuples, Generalizations
from crenel.state.codec import readable
from crenel.state.shard import Inventory, StoredShard

ENTRIES = (BLOCKS, "gamma", "omega")


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot(Snapshot[CastleState, ClusteredTuples]):
    """Decoded state of one shard.

    Attributes
    ----------
    gamma : the open clusters, one per entry, by cluster id
    omega : generalizations kept for reuse, by the first release of each entry; those below the current privacy models
        are left out
    forgotten : entries of omega that lost rows when they were read, with the new bytes; None where no row remains
    """

    inventory: Inventory = field(default_factory=lambda: Inventory(ENTRIES))
    gamma: dict[int, Generalizations] = field(default_factory=dict)
    omega: dict[int, Generalizations] = field(default_factory=dict)
    forgotten: dict[int, bytes | None] = field(default_factory=dict)


def initial_snapshot(context: ShardContext, number: int, key: bytes) -> ClusterSnapshot:
    """Return the state of a shard without tuples; ``key``: the 32 bytes of its random stream."""
    state = initial_state(
        CastleState,
        context,
        number,
        key,
        numbers=np.zeros(5, np.int64),
        oldest=0,
        gone=np.zeros(0, np.int64),
        ring=np.zeros(context.algorithm.loss_window),
        ring_used=0,
        ring_next=0,
        merges=0,
        splits=0,
    )
    return ClusterSnapshot(state=state)


def read(context: ShardContext, stored: StoredShard, where: str = "") -> ClusterSnapshot:
    """Return the stored state, as ``crenel.anonymity.buffer.stored_shard.read_snapshot`` does.

    Generalizations that do not satisfy the current privacy models are dropped for good.
    """
    others = {
        kind: (name, partial(Generalizations.from_bytes, kind))
        for kind, name in (("gamma", "cluster"), ("omega", "release"))
    }
    snapshot, decoded, shard = read_snapshot(
        CastleState, ClusteredTuples, context, stored, where, _require_state, _require_blocks, others
    )
    state, gamma, omega = snapshot.state, decoded["gamma"], decoded["omega"]
    with readable(f"gamma state of {shard}"):
        _require_gamma(context, state, gamma, _clusters(state, snapshot.blocks))
    with readable(f"omega state of {shard}"):
        _require_omega(context, state, omega)
    kept = {i: _promising(entry, context, state) for i, entry in omega.items()}
    # If they stayed in the store, a later policy could revive some of them, depending on how releases were stored
    # together.
    forgotten = {
        i: entry.to_bytes("omega") if len(entry.id) else None
        for i, entry in kept.items()
        if len(entry.id) < len(omega[i].id)
    }
    return ClusterSnapshot(
        **vars(snapshot),
        gamma=gamma,
        omega={i: entry for i, entry in kept.items() if len(entry.id)},
        forgotten=forgotten,
    )


def _promising(entry: Generalizations, context: ShardContext, state: CastleState) -> Generalizations:
    privacy = context.privacy
    requested = [privacy.l_of(column)[0] for column in context.policy.sensitive]
    safe = (entry.subjects >= privacy.k) & (entry.diversity >= requested).all(axis=1) & (entry.id >= state.numbers[4])
    if model_parameters(context).items() - state.model_parameters.items():
        safe[:] = False
    safe &= _on_grid(entry, context)
    return Generalizations(**{name: column[safe] for name, column in vars(entry).items()})


def _on_grid(entry: Generalizations, context: ShardContext) -> NDArray[np.bool_]:
    """Return (rows,) whether each interval has its ends where intervals are published now."""
    if all(attribute.ends is None for attribute in context.policy.numeric):
        return np.ones(len(entry.id), np.bool_)
    rounded = Boxes(np.array(entry.lower), np.array(entry.upper), np.array(entry.node))
    round_all(domain(context.policy), rounded)
    kept: NDArray[np.bool_] = ((rounded.lower == entry.lower) & (rounded.upper == entry.upper)).all(axis=1)
    return kept


def model_parameters(context: ShardContext) -> dict[str, float]:
    """Return the parameters of each sensitive column's privacy models, except l, by model and column."""
    return {
        f"{name}:{column}": number
        for column in context.policy.sensitive
        for model, parameter, _ in context.privacy.further_of(column)
        for name, number in model.named(parameter).items()
    }


def _require_state(state: CastleState) -> None:
    require(state.numbers.shape == (5,) and 0 <= state.oldest <= state.numbers[0], "numbers")
    require(len(state.ring) > 0 and 0 <= state.ring_used <= len(state.ring), "ring")
    require(0 <= state.ring_next < len(state.ring) and bool(np.isfinite(state.ring).all()), "ring")


def _require_blocks(state: CastleState, blocks: dict[int, ClusteredTuples]) -> None:
    require(all(number < state.numbers[3] for number in blocks), "positions")


def _clusters(state: CastleState, blocks: dict[int, ClusteredTuples]) -> set[int]:
    """Return the clusters of the buffered tuples."""
    clusters: set[int] = set()
    for block in blocks.values():
        waits = (block.position >= state.oldest) & ~np.isin(block.position, state.gone)
        clusters.update(block.cluster[waits].tolist())
    return clusters


def _require_gamma(
    context: ShardContext, state: CastleState, gamma: dict[int, Generalizations], clusters: set[int]
) -> None:
    for i, entry in gamma.items():
        require(len(entry.id) == 1 and entry.id[0] == i < state.numbers[1] and i in clusters, "clusters")
        require_boxes(entry.lower, entry.upper, entry.node, context.policy)


def _require_omega(context: ShardContext, state: CastleState, omega: dict[int, Generalizations]) -> None:
    for entry in omega.values():
        require(len(entry.id) > 0 and bool((np.diff(entry.id) > 0).all()), "releases")
        require(bool(entry.id[-1] < state.numbers[2]), "releases")
        require(len(entry.subjects) == len(entry.diversity) == len(entry.id), "counts")
        require(entry.diversity.shape[1] == len(context.policy.sensitive), "diversity")
        require(entry.span.shape == (len(entry.id), 2, len(context.policy.noised)), "noised values")
        require(bool(np.isfinite(entry.span).all()), "noised values")
        require_boxes(entry.lower, entry.upper, entry.node, context.policy)
