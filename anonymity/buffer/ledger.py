"""State changes of a shard to store after each step.

A shard restored from a checkpoint (``crenel.anonymity.buffer.stored_clusters``) continues as if nothing had happened
(docs/privacy/guarantees.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.arrays import CastleArrays
from crenel.anonymity.buffer.stored_blocks import StoredBlocks
from crenel.anonymity.buffer.stored_clusters import ClusterSnapshot, model_parameters
from crenel.anonymity.buffer.stored_shard import LifetimeCounters
from crenel.anonymity.noise.perturb import Noise
from crenel.anonymity.space.domain import NONE, node_offsets
from crenel.state.block import Block
from crenel.state.castle import CastleState, ClusteredTuples, Generalizations, NoiseState
from crenel.state.shard import Changes


@dataclass(frozen=True)
class MovedTuples:
    """Tuples that a step admitted, published or suppressed.

    Attributes
    ----------
    block : the admitted tuples (perturbed, where noise is on); None where there are none
    admitted : (tuples,) slots of the admitted tuples, in order
    departed : (tuples,) positions of the published and suppressed tuples
    departed_alone : (tuples,) positions of those among them that left others of their cluster behind
    forgets : whether the step erases persons, with all stored traces of them
    """

    block: Block | None
    admitted: NDArray[np.int32]
    departed: NDArray[np.int64]
    departed_alone: NDArray[np.int64]
    forgets: bool = False


class ClusterLedger:
    """Stored state of one shard, and its changes after each step.

    Parameters
    ----------
    context : policy, privacy models and algorithm of the shard
    snapshot : the stored state of the shard; the caller adds its blocks to ``blocks``
    tuples : returns the stored form of buffered tuples, given slots in order of position
    """

    def __init__(
        self, context: ShardContext, snapshot: ClusterSnapshot, tuples: Callable[[NDArray[np.int32]], ClusteredTuples]
    ) -> None:
        state = snapshot.state
        self._context, self._number, self._tuples = context, state.shard, tuples
        self.blocks = StoredBlocks(int(state.numbers[3]))
        self._gone = state.gone
        self._gamma = set(snapshot.gamma)
        self._next_cluster = int(state.numbers[1])
        # Stored entries, oldest first, with the last release of each.
        self._omega = {i: int(entry.id[-1]) for i, entry in snapshot.omega.items()}
        self._forgotten = dict(snapshot.forgotten)
        self._inventory = snapshot.inventory
        self._offsets = node_offsets(context.policy)

    def changes(
        self,
        arrays: CastleArrays,
        noise: Noise | None,
        history: LifetimeCounters,
        moved: MovedTuples,
        further: Mapping[str, dict[int, bytes | None]],
    ) -> Changes:
        """Return the entries to write after one step.

        ``further`` holds changed entries of kinds that other modules write.
        """
        now = arrays.now
        oldest = int(arrays.tuples.position[now.oldest]) if now.waiting else int(now.next_position)
        blocks = self._changed_blocks(arrays, moved)
        # A tuple that arrived and departed in the same step was never stored.
        before = moved.departed_alone[moved.departed_alone < now.next_position - len(moved.admitted)]
        gone = np.concatenate([self._gone, before])
        self._gone = gone[(gone >= oldest) & self.blocks.covers(gone)]
        entries = {
            "blocks": blocks | self._rewritten_blocks(arrays, moved),
            "gamma": self._changed_gamma(arrays),
            "omega": self._forgotten | self._changed_omega(arrays),
            **further,
        }
        self._forgotten = {}
        self._inventory.update(entries)
        return Changes(self._state(arrays, noise, history, oldest).to_bytes(), entries)

    def _changed_blocks(self, arrays: CastleArrays, moved: MovedTuples) -> dict[int, bytes | None]:
        # Tuples of the pushed block are not counted yet.
        first = int(arrays.now.next_position) - len(moved.admitted)
        changed: dict[int, bytes | None] = dict.fromkeys(self.blocks.depart(moved.departed[moved.departed < first]))
        if moved.block is None or not len(moved.block):
            return changed
        number, tuples = self.blocks.number(), arrays.tuples
        stays = tuples.cluster[moved.admitted] != NONE
        if stays.any():
            slots = moved.admitted[stays]
            self.blocks.add(number, slots, tuples.position[slots], len(slots))
            cluster = arrays.clusters.id[tuples.cluster[slots]]
            buffered = ClusteredTuples(position=tuples.position[slots], cluster=cluster, **moved.block.chosen(stays))
            changed[number] = buffered.to_bytes()
        return changed

    def _moved_on(self, arrays: CastleArrays, moved: MovedTuples) -> NDArray[np.int64]:
        # Positions of stored tuples whose cluster is younger than they are. They could not leave with their first
        # cluster.
        tuples, clusters, now = arrays.tuples, arrays.clusters, arrays.now
        stored_before = int(now.next_position) - len(moved.admitted)
        rows = clusters.rows[: now.open]
        rows = rows[clusters.id[rows] >= self._next_cluster]
        rows = rows[tuples.position[clusters.head[rows]] < stored_before]
        self._next_cluster = int(now.next_cluster)
        if not len(rows):
            return np.zeros(0, np.int64)
        positions = tuples.position[np.isin(tuples.cluster, rows)]
        return np.sort(positions[positions < stored_before])

    def _rewritten_blocks(self, arrays: CastleArrays, moved: MovedTuples) -> dict[int, bytes | None]:
        entries: dict[int, bytes | None] = {}
        position, cluster = arrays.tuples.position, arrays.tuples.cluster
        # The store does not say which departed tuples it still contains, so any block with departed tuples may hold
        # some of a forgotten person.
        anew = self.blocks.partly_departed() if moved.forgets else self.blocks.sparse()
        for number, slots in {**dict(anew), **dict(self.blocks.containing(self._moved_on(arrays, moved)))}.items():
            first, end = self.blocks.span(number)
            kept = slots[(cluster[slots] != NONE) & (position[slots] >= first) & (position[slots] < end)]
            self.blocks.rewrite(number, kept, position[kept])
            self._gone = self._gone[(self._gone < first) | (self._gone >= end)]
            entries[number] = self._tuples(kept).to_bytes()
        return entries

    def _changed_gamma(self, arrays: CastleArrays) -> dict[int, bytes | None]:
        clusters = arrays.clusters
        rows = clusters.rows[: arrays.now.open]
        current = set(clusters.id[rows].tolist())
        entries: dict[int, bytes | None] = dict.fromkeys(self._gamma - current)
        self._gamma = current
        box = clusters.box
        nothing = np.zeros((1, len(self._context.policy.sensitive)), np.int64)
        for row in rows[clusters.changed[rows]].tolist():
            one = slice(row, row + 1)
            entry = Generalizations(
                clusters.id[one],
                box.lower[one],
                box.upper[one],
                box.node[one] - self._offsets,
                np.zeros(1, np.int64),
                nothing,
            )
            entries[int(clusters.id[row])] = entry.to_bytes("gamma")
        clusters.changed[:] = False
        return entries

    def _changed_omega(self, arrays: CastleArrays) -> dict[int, bytes | None]:
        omega, now = arrays.omega, arrays.now
        used = int(now.omega_used)
        rows = (now.omega_next - used + np.arange(used)) % max(len(omega.release), 1)  # oldest first
        releases = omega.release[rows]
        oldest = _oldest_reusable(arrays)
        entries: dict[int, bytes | None] = {}
        for first, last in list(self._omega.items()):
            if last >= oldest:
                break
            del self._omega[first]
            entries[first] = None
        stored = next(reversed(self._omega.values()), -1)
        new = rows[np.searchsorted(releases, stored, side="right") :]
        if len(new):
            entry = Generalizations(
                omega.release[new],
                omega.box.lower[new],
                omega.box.upper[new],
                omega.box.node[new] - self._offsets,
                omega.subjects[new],
                omega.diversity[new],
                omega.span[new],
            )
            self._omega[int(entry.id[0])] = int(entry.id[-1])
            entries[int(entry.id[0])] = entry.to_bytes("omega")
        return entries

    def _state(self, arrays: CastleArrays, noise: Noise | None, history: LifetimeCounters, oldest: int) -> CastleState:
        now = arrays.now
        numbers = (now.next_position, now.next_cluster, now.next_release, self.blocks.next_number)
        return CastleState(
            **history.state(self._context, self._number, arrays.domain, arrays.random, self._inventory),
            numbers=np.array([*numbers, _oldest_reusable(arrays)], np.int64),
            oldest=oldest,
            gone=self._gone,
            ring=arrays.ring,
            ring_used=int(now.ring_used),
            ring_next=int(now.ring_next),
            merges=int(now.merges),
            splits=int(now.splits),
            noise=None if noise is None else _noise(noise),
            model_parameters=model_parameters(self._context),
        )


def _oldest_reusable(arrays: CastleArrays) -> int:
    now, releases = arrays.now, arrays.omega.release
    if not now.omega_used:
        return int(now.next_release)
    return int(releases[(now.omega_next - now.omega_used) % len(releases)])


def _noise(noise: Noise) -> NoiseState:
    return NoiseState(int(noise.stream.used[0]), noise.sampled_out, noise.observed)
