"""What of a shard is stored, and how it is read back.

``Ledger`` tells after each step which entries to write, so that whatever was kept at a checkpoint is the shard as it
stood: restored, it goes on as if nothing had happened (design, "What always holds", 6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anonymity.algorithm import Terms
from anonymity.castle.arrays import CastleArrays
from anonymity.fingerprint import require_same
from anonymity.noise.perturb import Noise
from anonymity.policy import KINDS, Privacy
from anonymity.space.domain import NONE, domain, node_offsets
from anonymity.tuples.stored_blocks import StoredBlocks
from anonymity.tuples.well_formed import require, require_boxes, require_counts, require_tuples
from state.block import Block
from state.castle import Buffered, CastleState, Generalisations, NoiseState
from state.codec import readable
from state.stored import Changes, Inventory, Stored, require_complete

ENTRIES = ("blocks", "gamma", "omega")


@dataclass(frozen=True)
class Snapshot:
    """A shard as it was stored.

    Attributes
    ----------
    state : all but its tuples, clusters and generalisations
    blocks : tuples that waited when their block had been placed, by its number
    gamma : the open clusters, one a row of each entry, by id
    omega : generalisations kept for reuse, by the first of each entry; those that promise too little are left out
    forgotten : entries of omega that hold less, or nothing, since it was read
    inventory : of the entries as they are stored
    """

    state: CastleState
    blocks: dict[int, Buffered] = field(default_factory=dict)
    gamma: dict[int, Generalisations] = field(default_factory=dict)
    omega: dict[int, Generalisations] = field(default_factory=dict)
    forgotten: dict[int, bytes | None] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=lambda: Inventory(ENTRIES))


def begun(terms: Terms, number: int, key: bytes) -> Snapshot:
    """A shard before its first tuple; ``key``: the 32 bytes of its random stream."""
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
        kinds=np.zeros(len(KINDS), np.int64),
        delays=np.zeros((0, 2), np.int64),
    )
    return Snapshot(state)


def read(terms: Terms, stored: Stored, where: str = "") -> Snapshot:
    """Read what is stored, under terms that may differ where that is safe.

    Generalisations that promise less than the terms are forgotten for good. ``where`` names the shard in errors beside
    its number, such as ``key 3``.

    Raises
    ------
    state.codec.StateError
        The bytes are damaged, of an unknown version, or do not belong together.
    anonymity.policy.PolicyError
        The terms differ from the stored ones in something that cannot change; it names the fields.
    """
    state = CastleState.from_bytes(stored.shard, where)
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, terms.fingerprint, shard)
    entries = {kind: dict(stored.entries.get(kind, {})) for kind in ENTRIES}
    gamma = {
        i: Generalisations.from_bytes("gamma", b, f"{shard}, cluster {i}") for i, b in sorted(entries["gamma"].items())
    }
    blocks = {
        i: Buffered.from_bytes(b, terms.members, f"{shard}, block {i}") for i, b in sorted(entries["blocks"].items())
    }
    omega = {
        i: Generalisations.from_bytes("omega", b, f"{shard}, release {i}") for i, b in sorted(entries["omega"].items())
    }
    require_complete(state.entries, entries, shard)
    with readable(f"state of {shard}"):
        _require_well_formed(terms, state, blocks, gamma, omega)
    kept = {i: _promising(entry, terms, state) for i, entry in omega.items()}
    # Kept in the store, they would be back under a later policy, or not, as releases were stored together.
    forgotten = {
        i: entry.to_bytes("omega") if len(entry.id) else None
        for i, entry in kept.items()
        if len(entry.id) < len(omega[i].id)
    }
    kept = {i: entry for i, entry in kept.items() if len(entry.id)}
    return Snapshot(state, blocks, gamma, kept, forgotten, Inventory.of(entries))


def _promising(entry: Generalisations, terms: Terms, state: CastleState) -> Generalisations:
    privacy = terms.privacy
    safe = (entry.subjects >= privacy.k) & (entry.diversity >= privacy.l).all(axis=1) & (entry.id >= state.numbers[4])
    if not _counted_people(state, terms) or _promised(privacy).items() - state.promised.items():
        safe[:] = False
    return Generalisations(**{name: column[safe] for name, column in vars(entry).items()})


def _counted_people(state: CastleState, terms: Terms) -> bool:
    """Whether the stored diversity is that of people: before version 3 it counted values, which is more."""
    return state.version >= 3 or terms.privacy.l == 1 or terms.policy.subject is None


def _promised(privacy: Privacy) -> dict[str, float]:
    return {promise.name: parameter for promise, parameter in privacy.further}


def _require_well_formed(
    terms: Terms,
    state: CastleState,
    blocks: dict[int, Buffered],
    gamma: dict[int, Generalisations],
    omega: dict[int, Generalisations],
) -> None:
    """Raise ``ValueError`` where a number is one that compiled code, which looks at no bounds, could not take."""
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
        require_boxes(entry.lower, entry.upper, entry.node, terms.policy)


@dataclass(frozen=True)
class Moved:
    """Which tuples came and went in a step.

    Attributes
    ----------
    block : the tuples that were let in, as they were let in (perturbed, where noise is on); None where none came
    admitted : (tuples,) their slots, in order
    left : (tuples,) positions of those that left
    left_alone : (tuples,) positions of those among them that left their cluster behind
    """

    block: Block | None
    admitted: NDArray[np.int32]
    left: NDArray[np.int64]
    left_alone: NDArray[np.int64]


class Ledger:
    """What is stored of one shard.

    Parameters
    ----------
    terms : of the shard
    snapshot : what it was made from; its blocks are noted in ``blocks``
    tuples : tuples that wait as they are stored, by slots in order of position
    """

    def __init__(self, terms: Terms, snapshot: Snapshot, tuples: Callable[[NDArray[np.int32]], Buffered]) -> None:
        state = snapshot.state
        self._terms, self._number, self._tuples = terms, state.shard, tuples
        self.blocks = StoredBlocks(int(state.numbers[3]))
        self._gone = state.gone
        self._gamma = set(snapshot.gamma)
        # Stored entries, oldest first, and the last release in each.
        self._omega = {i: int(entry.id[-1]) for i, entry in snapshot.omega.items()}
        self._forgotten = dict(snapshot.forgotten)
        self._inventory = snapshot.inventory
        self._offsets = node_offsets(terms.policy)

    def changes(self, arrays: CastleArrays, noise: Noise | None, suppressed: dict[str, int], moved: Moved) -> Changes:
        """What to write after one step."""
        now = arrays.now
        oldest = int(arrays.tuples.position[now.oldest]) if now.waiting else int(now.next_position)
        blocks = self._changed_blocks(arrays, moved)
        # What left in the step in which it came was never stored.
        before = moved.left_alone[moved.left_alone < now.next_position - len(moved.admitted)]
        gone = np.concatenate([self._gone, before])
        self._gone = gone[(gone >= oldest) & self.blocks.within(gone)]
        entries = {
            "blocks": blocks | self._rewritten_blocks(arrays),
            "gamma": self._changed_gamma(arrays),
            "omega": self._forgotten | self._changed_omega(arrays),
        }
        self._forgotten = {}
        self._inventory.update(entries)
        return Changes(self._state(arrays, noise, suppressed, oldest).to_bytes(), entries)

    def _changed_blocks(self, arrays: CastleArrays, moved: Moved) -> dict[int, bytes | None]:
        # Tuples of the block that is being pushed are not counted yet.
        first = int(arrays.now.next_position) - len(moved.admitted)
        changed: dict[int, bytes | None] = dict.fromkeys(self.blocks.leave(moved.left[moved.left < first]))
        if moved.block is None or not len(moved.block):
            return changed
        number, tuples = self.blocks.number(), arrays.tuples
        stays = tuples.cluster[moved.admitted] != NONE
        if stays.any():
            slots = moved.admitted[stays]
            self.blocks.add(number, slots, tuples.position[slots], len(slots))
            cluster = arrays.clusters.id[tuples.cluster[slots]]
            buffered = Buffered(position=tuples.position[slots], cluster=cluster, **moved.block.chosen(stays))
            changed[number] = buffered.to_bytes()
        return changed

    def _rewritten_blocks(self, arrays: CastleArrays) -> dict[int, bytes | None]:
        entries: dict[int, bytes | None] = {}
        position, cluster = arrays.tuples.position, arrays.tuples.cluster
        for number, slots in self.blocks.sparse():
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
        nothing = np.zeros((1, len(self._terms.policy.sensitive)), np.int64)
        for row in rows[clusters.changed[rows]].tolist():
            one = slice(row, row + 1)
            entry = Generalisations(
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
            entry = Generalisations(
                omega.release[new],
                omega.box.lower[new],
                omega.box.upper[new],
                omega.box.node[new] - self._offsets,
                omega.subjects[new],
                omega.diversity[new],
            )
            self._omega[int(entry.id[0])] = int(entry.id[-1])
            entries[int(entry.id[0])] = entry.to_bytes("omega")
        return entries

    def _state(self, arrays: CastleArrays, noise: Noise | None, suppressed: dict[str, int], oldest: int) -> CastleState:
        now, sums = arrays.now, arrays.totals.sums
        buckets = np.flatnonzero(arrays.totals.delays)
        numbers = (now.next_position, now.next_cluster, now.next_release, self.blocks.next_number)
        return CastleState(
            shard=self._number,
            fingerprint=dict(self._terms.fingerprint),
            numbers=np.array([*numbers, _oldest_reusable(arrays)], np.int64),
            oldest=oldest,
            gone=self._gone,
            ring=arrays.ring,
            ring_used=int(now.ring_used),
            ring_next=int(now.ring_next),
            lower=arrays.domain.lower,
            upper=arrays.domain.upper,
            key=arrays.random.key.astype(np.uint64),
            key_used=int(arrays.random.used[0]),
            released=int(sums.released),
            longest=int(sums.longest),
            merges=int(now.merges),
            splits=int(now.splits),
            loss=float(sums.loss),
            suppressed=suppressed,
            kinds=arrays.totals.kinds,
            delays=np.stack([buckets, arrays.totals.delays[buckets]], axis=1),
            noise=None if noise is None else _noise(noise),
            promised=_promised(self._terms.privacy),
            entries=self._inventory.told(),
        )


def _oldest_reusable(arrays: CastleArrays) -> int:
    now, releases = arrays.now, arrays.omega.release
    if not now.omega_used:
        return int(now.next_release)
    return int(releases[(now.omega_next - now.omega_used) % len(releases)])


def _noise(noise: Noise) -> NoiseState:
    return NoiseState(int(noise.stream.used[0]), noise.sampled_out, noise.observed)
