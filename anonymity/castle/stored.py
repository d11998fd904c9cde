"""What of a shard is stored, and how it comes back.

``Memory`` tells after each step which state entries to write, so that whatever was kept at a checkpoint is the shard
as it stood: restored, it goes on as if nothing had happened (design, "What always holds", 6).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anonymity.castle import arrays as at
from anonymity.castle.gamma import relink
from anonymity.castle.reference import share
from anonymity.castle.shard import Castle
from anonymity.compiled.random import random_stream
from anonymity.noise.perturb import Noise
from anonymity.policy import CastleParameters, DifferentialPrivacy, Policy, PolicyError, Privacy, changed_fields
from anonymity.space.domain import NONE, scales
from anonymity.tuples.stored_blocks import StoredBlocks
from state.block import Block
from state.shard import Buffered, Changes, Generalisations, NoiseState, ShardState, Stored

_SCALARS = [at.NEXT_POSITION, at.NEXT_CLUSTER, at.NEXT_RELEASE, at.CLOCK]


class Memory:
    """What is stored of one shard.

    Parameters
    ----------
    castle : the shard, with nothing stored of it yet
    fingerprint : hash by field, of what a restored shard must have in common with it (``anonymity.policy.fingerprint``)
    """

    def __init__(self, castle: Castle, fingerprint: dict[str, str]) -> None:
        self._castle = castle
        self._fingerprint = fingerprint
        self._blocks = StoredBlocks()
        self._gone: NDArray[np.int64] = np.zeros(0, np.int64)
        self._gamma: set[int] = set()
        self._omega: dict[int, int] = {}  # stored entries, oldest first, and the last release in each
        self._forgotten: dict[int, bytes | None] = {}  # entries as a restore left them, still to be written

    def changes(self) -> Changes:
        """What to write after one step of the shard."""
        blocks = self._settle()
        block = self._castle.last_step.block
        if block is not None and len(block):
            blocks.update(self._keep(block))
        live = self._castle.live
        oldest = int(live.scalars[at.NEXT_POSITION])
        if live.scalars[at.BUFFERED]:
            oldest = int(live.tuples.position[live.scalars[at.OLDEST]])
        gone = np.concatenate([self._gone, self._castle.last_step.left_alone])
        self._gone = gone[(gone >= oldest) & self._is_stored(gone)]
        omega = self._forgotten | self._changed_omega()
        self._forgotten = {}
        return Changes(self._shard(oldest), blocks, self._changed_gamma(), omega)

    def _settle(self) -> dict[int, bytes | None]:
        # Tuples of the block that is being pushed are not counted yet: _keep counts those that stayed.
        left = self._castle.last_step.left
        return self._blocks.settle(left[left < self._end()])

    def _end(self) -> int:
        castle = self._castle
        return int(castle.live.scalars[at.NEXT_POSITION]) - len(castle.last_step.admitted)

    def _keep(self, block: Block) -> dict[int, bytes | None]:
        number = self._blocks.number()
        slots = self._castle.last_step.admitted
        tuples, clusters = self._castle.live.tuples, self._castle.live.clusters
        stays = tuples.cluster[slots] != NONE
        if not stays.any():
            return {}
        self._blocks.add(number, self._end(), np.count_nonzero(stays))
        kept = slots[stays]
        buffered = Buffered(
            position=tuples.position[kept],
            cluster=clusters.id[tuples.cluster[kept]],
            **block.chosen(stays),
        )
        return {number: buffered.to_bytes()}

    def _is_stored(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        # A block's tuples reach up to the next block's first position, stored or not; rather too many than too few.
        return np.searchsorted(self._blocks.firsts, positions, side="right") > 0

    def _changed_gamma(self) -> dict[int, bytes | None]:
        live, offsets = self._castle.live, self._castle.offsets
        clusters = live.clusters
        rows = clusters.rows[: live.scalars[at.OPEN]]
        current = set(clusters.id[rows].tolist())
        entries: dict[int, bytes | None] = dict.fromkeys(self._gamma - current)
        self._gamma = current
        box = clusters.box
        for row in rows[clusters.changed[rows]].tolist():
            one = slice(row, row + 1)
            entry = Generalisations(
                clusters.id[one],
                box.lower[one],
                box.upper[one],
                box.node[one] - offsets,
                np.zeros(1, np.int64),
                np.zeros_like(clusters.diversity[one]),
            )
            entries[int(clusters.id[row])] = entry.to_bytes("gamma")
        clusters.changed[:] = False
        return entries

    def _changed_omega(self) -> dict[int, bytes | None]:
        live, offsets = self._castle.live, self._castle.offsets
        omega = live.omega
        used = int(live.scalars[at.OMEGA_USED])
        rows = (live.scalars[at.OMEGA_NEXT] - used + np.arange(used)) % max(len(omega.release), 1)  # oldest first
        releases = omega.release[rows]
        oldest = self._oldest_reusable()
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
                omega.box.node[new] - offsets,
                omega.subjects[new],
                omega.diversity[new],
            )
            self._omega[int(entry.id[0])] = int(entry.id[-1])
            entries[int(entry.id[0])] = entry.to_bytes("omega")
        return entries

    def _oldest_reusable(self) -> int:
        scalars, releases = self._castle.live.scalars, self._castle.live.omega.release
        if not scalars[at.OMEGA_USED]:
            return int(scalars[at.NEXT_RELEASE])
        return int(releases[(scalars[at.OMEGA_NEXT] - scalars[at.OMEGA_USED]) % len(releases)])

    def _shard(self, oldest: int) -> bytes:
        live = self._castle.live
        buckets = np.flatnonzero(live.delays)
        return ShardState(
            shard=self._castle.shard,
            fingerprint=self._fingerprint,
            scalars=np.append(live.scalars[_SCALARS], [self._blocks.next_number, self._oldest_reusable()]),
            oldest=oldest,
            gone=self._gone,
            ring=live.ring,
            ring_used=int(live.scalars[at.RING_USED]),
            ring_next=int(live.scalars[at.RING_NEXT]),
            lower=live.domain.lower,
            upper=live.domain.upper,
            key=live.random.key.astype(np.uint64),
            key_used=int(live.random.used[0]),
            totals=live.totals,
            loss_total=float(live.loss_total[0]),
            delays=np.stack([buckets, live.delays[buckets]], axis=1),
            rejected=self._castle.rejected,
            noise=_noise(self._castle.noise),
        ).to_bytes()

    @classmethod
    def restore(
        cls,
        policy: Policy,
        privacy: Privacy,
        parameters: CastleParameters,
        *,
        members: pa.Schema,
        fingerprint: dict[str, str],
        stored: Stored,
        differential_privacy: DifferentialPrivacy | None = None,
        where: str = "",
    ) -> tuple[Castle, Memory]:
        """A shard as it was stored, under a policy that may differ where that is safe.

        Generalisations that promise less than the new k and l are forgotten for good. Tuples that the new delays have
        made overdue leave in the next step. ``where`` names the shard in errors beside its number, such as ``key 3``.

        Raises
        ------
        state.codec.StateError
            The bytes are damaged or of an unknown version.
        PolicyError
            The policy differs from the stored one in something that cannot change; it names the fields.
        """
        state = ShardState.from_bytes(stored.shard, where)
        shard = f"shard {state.shard}" + (f" ({where})" if where else "")
        require_same(state.fingerprint, fingerprint, shard)
        gamma = [
            Generalisations.from_bytes("gamma", blob, f"{shard}, cluster {i}") for i, blob in _sorted(stored.gamma)
        ]
        blocks = {i: Buffered.from_bytes(blob, members, f"{shard}, block {i}") for i, blob in _sorted(stored.blocks)}
        omega = {
            i: Generalisations.from_bytes("omega", blob, f"{shard}, release {i}") for i, blob in _sorted(stored.omega)
        }
        next_block, oldest_reusable = state.scalars[len(_SCALARS) :].tolist()
        reusable = {i: _promising(entry, privacy, oldest_reusable) for i, entry in omega.items()}
        key = state.key.astype("<u4").tobytes()
        castle = Castle(policy, privacy, parameters, members=members, shard=state.shard, key=key, clusters=len(gamma))
        if differential_privacy is not None:
            castle.noise = _restored_noise(policy, differential_privacy, key, state)
        memory = cls(castle, fingerprint)
        _restore_shard(castle, state)
        castle.live = castle.live._replace(random=random_stream(key, state.key_used))
        rows = _restore_gamma(castle, gamma)
        _restore_omega(castle, list(reusable.values()))
        memory._restore_blocks(blocks, state, rows)
        memory._blocks.next_number = next_block
        memory._gone = state.gone
        memory._gamma = set(stored.gamma)
        memory._omega = {i: int(entry.id[-1]) for i, entry in reusable.items() if len(entry.id)}
        # Kept in the store, they would be back under a later policy, or not, as releases were stored together.
        memory._forgotten = {
            i: entry.to_bytes("omega") if len(entry.id) else None
            for i, entry in reusable.items()
            if len(entry.id) < len(omega[i].id)
        }
        return castle, memory

    def _restore_blocks(self, blocks: dict[int, Buffered], state: ShardState, rows: dict[int, int]) -> None:
        castle = self._castle
        for number, buffered in blocks.items():
            slots = castle.admit(buffered)
            castle.live.tuples.position[slots] = buffered.position
            waits = np.isin(buffered.cluster, list(rows)) & (buffered.position >= state.oldest)
            waits &= ~np.isin(buffered.position, state.gone)
            castle.release_slots(slots[~waits])
            kept = slots[waits]
            row = np.array([rows[i] for i in buffered.cluster[waits].tolist()], np.int32)
            relink(share(castle.live), kept, row)
            self._blocks.add(number, buffered.position[0], len(kept))


def _noise(noise: Noise | None) -> NoiseState | None:
    return None if noise is None else NoiseState(int(noise.stream.used[0]), noise.sampled_out, noise.observed)


def _restored_noise(policy: Policy, parameters: DifferentialPrivacy, key: bytes, state: ShardState) -> Noise:
    if state.noise is None:
        return Noise(policy, parameters, key)
    used, sampled_out, observed = state.noise.used, state.noise.sampled_out, state.noise.observed
    return Noise(policy, parameters, key, used=used, sampled_out=sampled_out, observed=observed)


def _sorted(entries: dict[int, bytes]) -> list[tuple[int, bytes]]:
    return sorted(entries.items())  # a state back end has them in any order


def require_same(stored: dict[str, str], now: dict[str, str], where: str) -> None:
    """Raise ``PolicyError`` where a stored fingerprint differs from the policy's; it names the fields."""
    if changed := changed_fields(stored, now):
        raise PolicyError(
            f"the stored state of {where} was made under another policy; these cannot change on a restore: "
            f"{', '.join(changed)}. Start without the savepoint, or restore under the policy it was made with"
        )


def _restore_shard(castle: Castle, state: ShardState) -> None:
    live = castle.live
    live.scalars[_SCALARS] = state.scalars[: len(_SCALARS)]
    if len(live.ring) == len(state.ring):
        live.ring[:] = state.ring
        live.scalars[at.RING_USED], live.scalars[at.RING_NEXT] = state.ring_used, state.ring_next
    else:
        oldest = state.ring_next if state.ring_used == len(state.ring) else 0
        kept = np.roll(state.ring[: state.ring_used], -oldest)[-len(live.ring) :]
        live.ring[: len(kept)] = kept
        live.scalars[at.RING_USED] = len(kept)
        live.scalars[at.RING_NEXT] = len(kept) % len(live.ring)
    used = int(live.scalars[at.RING_USED])
    total = 0.0
    for loss in live.ring[:used].tolist():  # in the order in which the procedures sum it
        total += loss
    live.tau[0] = total / used if used else 0.0
    live.domain.lower[:] = state.lower
    live.domain.upper[:] = state.upper
    live.domain.scale[:] = scales(state.lower, state.upper, len(castle.policy.quasi_identifiers))
    live.totals[:] = state.totals
    live.loss_total[0] = state.loss_total
    live.delays[state.delays[:, 0]] = state.delays[:, 1]
    castle.rejected[:] = state.rejected


def _restore_gamma(castle: Castle, gamma: list[Generalisations]) -> dict[int, int]:
    live = castle.live
    clusters = live.clusters
    for row, entry in enumerate(gamma):
        clusters.id[row] = entry.id[0]
        clusters.box.lower[row], clusters.box.upper[row] = entry.lower[0], entry.upper[0]
        clusters.box.node[row] = entry.node[0] + castle.offsets
    live.scalars[at.OPEN] = len(gamma)
    return {int(entry.id[0]): row for row, entry in enumerate(gamma)}


def _promising(entry: Generalisations, privacy: Privacy, oldest: int) -> Generalisations:
    safe = (entry.subjects >= privacy.k) & (entry.diversity >= privacy.l).all(axis=1) & (entry.id >= oldest)
    return Generalisations(**{name: column[safe] for name, column in vars(entry).items()})


def _restore_omega(castle: Castle, omega: list[Generalisations]) -> None:
    live = castle.live
    size = len(live.omega.release)
    row = 0
    for entry in reversed(omega):  # the youngest at the end of the ring
        rows = np.arange(len(entry.id))[::-1][: size - row]
        into = np.arange(size - 1 - row, size - 1 - row - len(rows), -1)
        live.omega.release[into] = entry.id[rows]
        live.omega.box.lower[into], live.omega.box.upper[into] = entry.lower[rows], entry.upper[rows]
        live.omega.box.node[into] = entry.node[rows] + castle.offsets
        live.omega.subjects[into] = entry.subjects[rows]
        live.omega.diversity[into] = entry.diversity[rows]
        row += len(rows)
    live.scalars[at.OMEGA_USED] = row
    live.scalars[at.OMEGA_NEXT] = 0
