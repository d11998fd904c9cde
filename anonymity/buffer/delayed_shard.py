"""Shards that buffer tuples up to a delay bound: admission, release, storage and restore."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import REPAIRS, Shard, ShardContext, Step
from crenel.anonymity.buffer.ledger import ClusterLedger, MovedTuples
from crenel.anonymity.buffer.published_forms import with_forms
from crenel.anonymity.buffer.queue import tuple_watermarks
from crenel.anonymity.buffer.releases import Leaving, Releases, collect
from crenel.anonymity.buffer.repair_rows import rows_of
from crenel.anonymity.buffer.slots import Slots, mask_of_subjects
from crenel.anonymity.buffer.stored_clusters import ClusterSnapshot
from crenel.anonymity.buffer.stored_frequencies import StoredSeen
from crenel.anonymity.buffer.stored_shard import LifetimeCounters
from crenel.anonymity.compiled.random import RandomStream, key_bytes, random_stream
from crenel.anonymity.compiled.reference import Description, share
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.noise.perturb import Noise
from crenel.anonymity.noise.release_noise import admit
from crenel.anonymity.privacy_models.buffered_values import entries_of
from crenel.anonymity.privacy_models.counting import grown
from crenel.anonymity.privacy_models.lookup import renumber
from crenel.anonymity.privacy_models.value_frequencies import ValueFrequencies, remove_value
from crenel.anonymity.space.boxes_by_attribute import lay_rows
from crenel.anonymity.space.domain import NONE, node_offsets, scales
from crenel.state.block import LAST_TIMER, NO_TIME, Block, TupleColumns
from crenel.state.castle import ClusteredTuples

_FEWEST_SLOTS = 1024
_NO_SLOTS = np.zeros(0, np.int32)


class DelayedShard(Shard):
    """Live state of one shard that buffers tuples up to a delay bound, as CASTLE does.

    Parameters
    ----------
    context : policy, privacy models and algorithm of the shard
    snapshot : the stored state of the shard (``crenel.anonymity.buffer.stored_clusters``)
    """

    _outlive: ClassVar[tuple[str, ...]] = ("now", "ring", "domain", "metric", "clusters", "omega", "totals")
    """Names of the arrays that are not indexed by slot."""

    _description: Description | None = None

    def __init__(self, context: ShardContext, snapshot: ClusterSnapshot) -> None:
        self.context, self.number = context, snapshot.state.shard
        for problem in context.algorithm.problems(context.policy, context.privacy):
            raise PolicyError(problem)
        self.offsets = node_offsets(context.policy)
        self._slots = Slots(context.policy, context.members, _FEWEST_SLOTS)
        self._ledger = ClusterLedger(context, snapshot, self._buffered) if context.remembers else None
        self.arrays = self._restored_arrays(snapshot)
        self._seen = StoredSeen(self._counted, snapshot.seen, f"shard {self.number}")
        self._history = LifetimeCounters(self.arrays.totals, context.privacy, snapshot.state)
        self._noise = _restored_noise(context, snapshot)
        rows = self._restore_gamma(snapshot)
        self._restore_omega(snapshot)
        for number, buffered in snapshot.blocks.items():
            self._restore_block(number, buffered, snapshot, rows)

    def push(self, block: Block, watermark: int = NO_TIME) -> Step:
        """Admit a block of tuples and release the due ones, as ``Shard.push`` does.

        With noise, sampling and perturbation come first. Tuples that sampling rejects leave no trace but a count
        (CASTLEGUARD, Algorithm 1).
        """
        return self._step(block if self._noise is None else self._noise.admit(block), watermark, ended=False)

    def advance(self, watermark: int) -> Step:
        return self._step(None, watermark, ended=False)

    def finish(self) -> Step:
        """Release all buffered tuples in order of expiry, because the input has ended."""
        return self._step(None, NO_TIME, ended=True)

    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        tuples, now = self.arrays.tuples, self.arrays.now
        slots = np.flatnonzero(tuples.cluster != NONE).astype(np.int32)
        slots = slots[mask_of_subjects(self.context.policy, tuples.subject[slots], subjects)]
        slots = slots[np.argsort(tuples.position[slots])]
        positions = tuples.position[slots]
        # A cluster's box is the smallest around its buffered tuples. It shrinks to the tuples of the remaining persons
        # and closes with the last of them, so no value of a forgotten person shapes it.
        self._remove_tuples(slots)
        self._forget_persons(subjects)
        self._remove_values(slots)
        self._slots.give_back(slots)
        self._empty_out()
        if self.context.policy.noised:
            # Reusable generalizations hold the minimum and maximum of noised values but not their owners, so all are
            # dropped.
            now.omega_used = now.omega_next = 0
        self.arrays.totals.sums.forgotten += len(slots)
        return self._result(self._collected(), MovedTuples(None, _NO_SLOTS, positions, positions[:0], forgets=True))

    @property
    def _counted(self) -> ValueFrequencies:
        """Frequencies of sensitive values in the stream so far."""
        seen: ValueFrequencies = self.arrays.checks.lookup.seen
        return seen

    def buffered(self) -> pa.RecordBatch:
        return self._slots.batch(np.flatnonzero(self.arrays.tuples.cluster != NONE).astype(np.int32))

    @property
    def next_deadline(self) -> int | None:
        arrays = self.arrays
        if self.context.algorithm.delay.event_time is None or not arrays.now.waiting:
            return None
        return min(int(arrays.by_time.due[arrays.by_time.slots[0]]), LAST_TIMER)

    def _counts(self) -> dict[str, Any]:
        now, position = self.arrays.now, self.arrays.tuples.position
        waiting, came = int(now.waiting), int(now.next_position)
        return {
            **self._history.counted(),
            "tuples_in": came,
            "sampled_out": 0 if self._noise is None else self._noise.sampled_out,
            "buffered": waiting,
            "oldest_waiting": came - (int(position[now.oldest]) if waiting else came),
        }

    @property
    def random_key(self) -> bytes:
        return key_bytes(self.arrays.random.key)

    def _step(self, block: Block | None, watermark: int, *, ended: bool) -> Step:
        admitted = _NO_SLOTS if block is None else self._admit(block)
        self._empty_out()
        self._run(admitted, tuple_watermarks(block, watermark), watermark, ended=ended)
        releases = self._collected()
        return self._result(releases, None if self._ledger is None else self._moved(block, admitted, releases))

    def _moved(self, block: Block | None, admitted: NDArray[np.int32], releases: Releases) -> MovedTuples:
        position, out = self.arrays.tuples.position, self.arrays.out
        released, withheld = out.members[: out.filled.members], out.suppressed[: out.filled.suppressed]
        departed = np.concatenate([position[released], position[withheld]])
        alone = self._departed_alone(releases)
        return MovedTuples(block, admitted, departed, np.concatenate([position[released[alone]], position[withheld]]))

    def _empty_out(self) -> None:
        filled = self.arrays.out.filled
        filled.releases = filled.members = filled.suppressed = 0
        self.arrays.repairs.now.rows = 0

    def _collected(self) -> Releases:
        arrays = self.arrays
        out, tuples = arrays.out, arrays.tuples
        released, withheld = out.members[: out.filled.members], out.suppressed[: out.filled.suppressed]
        subject = None if self.context.policy.pseudonym is None else tuples.subject
        leaving = Leaving(released, withheld, tuples.position, tuples.event_time, subject)
        releases = collect(
            out, int(arrays.now.next_release), leaving, self._slots.give_back, self.offsets, arrays.noise
        )
        return with_forms(
            releases,
            self.context.policy,
            released,
            tuples.numeric,
            tuples.leaf,
            self.offsets,
            k=self.context.privacy.k,
            subject=None if self.context.policy.subject is None else tuples.subject,
            in_classes=self.context.publishes_in_classes,
        )

    def _result(self, releases: Releases, moved: MovedTuples | None) -> Step:
        changes, log, reasons = None, self.arrays.repairs, self.context.privacy.reasons
        further = {REPAIRS: rows_of(log, self.number, reasons, releases)} if log.now.rows else {}
        if self._ledger is not None and moved is not None:
            entries = {**self._further(), **self._seen.changes(self._counted)}
            changes = self._ledger.changes(self.arrays, self._noise, self._history, moved, entries)
        if self._slots.spare():
            self._shrink()
        return Step(releases, changes, further)

    def _empty(self, random: RandomStream, clusters: int) -> Any:
        """Return the arrays of ``_begin``, with a repair log if it has a reader."""
        arrays = self._begin(random, clusters)
        arrays.repairs.now.enabled = REPAIRS in self.context.logs
        return arrays

    def _shared(self) -> Any:
        """Return the arrays by reference, as compiled procedures take them."""
        if self._description is None or self._description.arrays is not self.arrays:
            self._description = share(self.arrays)
        return self._description

    @abstractmethod
    def _begin(self, random: RandomStream, clusters: int) -> Any:
        """Return the arrays of a shard without tuples and with room for ``clusters`` clusters."""

    @abstractmethod
    def _enlarged(self, arrays: Any, slots: int) -> Any:
        """Return the same arrays with ``slots`` slots."""

    @abstractmethod
    def _run(self, admitted: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: int, *, ended: bool) -> None:
        """Admit tuples and release the due ones; ``watermarks`` as in ``buffer.queue.tuple_watermarks``."""

    @abstractmethod
    def _remove_tuples(self, slots: NDArray[np.int32]) -> None:
        """Remove buffered tuples, given in order of position, from their clusters and from the queue."""

    def _remove_values(self, slots: NDArray[np.int32]) -> None:
        """Remove forgotten tuples from the frequencies of sensitive values."""
        arrays = self.arrays
        if self._counted.follows.any():
            remove_value(self._counted, arrays.tuples.sensitive[slots], self.context.privacy.k)
            waits = np.flatnonzero(arrays.tuples.cluster != NONE).astype(np.int32)
            renumber(arrays.checks.lookup, arrays.waiting.value, arrays.tuples.sensitive, waits)

    def _forget_persons(self, subjects: NDArray[np.uint64]) -> None:
        """Erase further knowledge about persons without buffered tuples; most algorithms have none."""

    @abstractmethod
    def _relink(self, slots: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
        """Return buffered tuples to their clusters after a restore, in order of position."""

    @abstractmethod
    def _departed_alone(self, releases: Releases) -> NDArray[np.bool_]:
        """Return (members,) whether a published tuple left other tuples of its cluster behind."""

    @abstractmethod
    def _restore_gamma(self, snapshot: ClusterSnapshot) -> dict[int, int]:
        """Open the stored clusters and return the row of each, by id."""

    def _further(self) -> Mapping[str, dict[int, bytes | None]]:
        """Return changed entries of kinds that the ledger does not write."""
        return {}

    def _admit(self, tuples: TupleColumns) -> NDArray[np.int32]:
        """Copy tuples into free slots and return these, in the tuples' order."""
        self._reserve(len(tuples))
        slots = self._slots.take(len(tuples), tuples.members) if len(tuples) else _NO_SLOTS
        admit(self.arrays.noise, slots, tuples.members)
        into = self.arrays.tuples
        into.numeric[slots] = tuples.numeric
        into.leaf[slots] = tuples.categorical + self.offsets
        into.sensitive[slots] = tuples.sensitive
        into.event_time[slots] = tuples.event_time
        if tuples.subject is not None:
            into.subject[slots] = tuples.subject
        return slots

    def _reserve(self, count: int) -> None:
        policy, arrays = self.context.policy, self.arrays
        if (slots := self._slots.reserve(count)) is not None:
            arrays = self._enlarged(arrays, slots)
        checked = len(arrays.checks.address) > 0
        entries = count * entries_of(sum(policy.widths), by_name=policy.subject is not None, checked=checked)
        if (counts := grown(arrays.waiting.counts, entries)) is not arrays.waiting.counts:
            arrays = arrays._replace(waiting=arrays.waiting._replace(counts=counts))
        self.arrays = arrays

    def _buffered(self, slots: NDArray[np.int32]) -> ClusteredTuples:
        tuples = self.arrays.tuples
        return ClusteredTuples(
            numeric=tuples.numeric[slots],
            categorical=tuples.leaf[slots] - self.offsets,
            subject=None if self.context.policy.subject is None else tuples.subject[slots],
            sensitive=tuples.sensitive[slots],
            event_time=tuples.event_time[slots],
            members=self._slots.batch(slots),
            position=tuples.position[slots],
            cluster=self.arrays.clusters.id[tuples.cluster[slots]],
        )

    def _restored_arrays(self, snapshot: ClusterSnapshot) -> Any:
        state = snapshot.state
        random = random_stream(key_bytes(state.key), state.key_used)
        arrays = self._empty(random, len(snapshot.gamma))
        now = arrays.now
        now.next_position, now.next_cluster, now.next_release = state.numbers[:3].tolist()
        now.merges, now.splits = state.merges, state.splits
        arrays.domain.lower[:], arrays.domain.upper[:] = state.lower, state.upper
        arrays.domain.scale[:] = scales(state.lower, state.upper, len(self.context.policy.attributes))
        arrays.metric.scale[:] = arrays.domain.scale * arrays.weight
        _restore_ring(arrays, snapshot)
        return arrays

    def _restore_omega(self, snapshot: ClusterSnapshot) -> None:
        omega, now = self.arrays.omega, self.arrays.now
        size, row = len(omega.release), 0
        for entry in reversed(snapshot.omega.values()):  # the newest at the end of the ring
            rows = np.arange(len(entry.id))[::-1][: size - row]
            into = np.arange(size - 1 - row, size - 1 - row - len(rows), -1)
            omega.release[into] = entry.id[rows]
            omega.box.lower[into], omega.box.upper[into] = entry.lower[rows], entry.upper[rows]
            omega.box.node[into] = entry.node[rows] + self.offsets
            omega.subjects[into] = entry.subjects[rows]
            omega.diversity[into] = entry.diversity[rows]
            omega.span[into] = entry.span[rows]
            lay_rows(self.arrays.domain, omega.by_attribute, omega.box, into)
            row += len(rows)
        now.omega_used, now.omega_next = row, 0

    def _restore_block(
        self, number: int, buffered: ClusteredTuples, snapshot: ClusterSnapshot, rows: dict[int, int]
    ) -> None:
        state = snapshot.state
        waits = np.isin(buffered.cluster, list(rows)) & (buffered.position >= state.oldest)
        waits &= ~np.isin(buffered.position, state.gone)
        slots = self._admit(buffered)
        self.arrays.tuples.position[slots] = buffered.position
        self._slots.give_back(slots[~waits])
        kept = slots[waits]
        row = np.array([rows[i] for i in buffered.cluster[waits].tolist()], np.int32)
        self._relink(kept, row)
        if self._ledger is not None:
            self._ledger.blocks.add(number, slots, buffered.position, len(kept))

    def _shrink(self) -> None:
        """Free the memory of a past burst by moving tuples to the first slots, in order of position."""
        before = self.arrays
        used = np.flatnonzero(before.tuples.cluster != NONE).astype(np.int32)
        used = used[np.argsort(before.tuples.position[used])]
        slots = self._slots.shrink(used)
        if self._ledger is not None:
            moved = np.full(len(before.tuples.cluster), NONE, np.int32)
            moved[used] = np.arange(len(used))
            self._ledger.blocks.renumber(moved)
        context = self.context
        rows = len(before.clusters.rows)
        made = self._enlarged(self._empty(before.random, rows), slots)
        lookup = made.checks.lookup._replace(seen=before.checks.lookup.seen)
        made = made._replace(checks=made.checks._replace(lookup=lookup))
        clusters = before.clusters
        clusters.head[:] = clusters.tail[:] = NONE
        clusters.tuples[:] = clusters.subjects[:] = 0
        now = before.now
        now.waiting, now.oldest, now.youngest = 0, NONE, NONE
        olds: list[NDArray[Any]] = [*before.tuples]
        news: list[NDArray[Any]] = [*made.tuples]
        for old, new in zip(olds, news, strict=True):
            new[: len(used)] = old[used]
        made.noise.value[: len(used)] = before.noise.value[used]
        row = made.tuples.cluster[: len(used)].copy()
        changed = clusters.changed.copy()
        kept = {name: getattr(before, name) for name in self._outlive}
        self.arrays = made._replace(**kept)
        entries = len(used) * entries_of(
            sum(context.policy.widths),
            by_name=context.policy.subject is not None,
            checked=len(made.checks.address) > 0,
        )
        waiting = self.arrays.waiting
        self.arrays = self.arrays._replace(waiting=waiting._replace(counts=grown(waiting.counts, entries)))
        self._relink(np.arange(len(used), dtype=np.int32), row)
        clusters.changed[:] = changed


def _restore_ring(arrays: Any, snapshot: ClusterSnapshot) -> None:
    state, now, ring = snapshot.state, arrays.now, arrays.ring
    if len(ring) == len(state.ring):
        ring[:] = state.ring
        now.ring_used, now.ring_next = state.ring_used, state.ring_next
    else:
        oldest = state.ring_next if state.ring_used == len(state.ring) else 0
        kept = np.roll(state.ring[: state.ring_used], -oldest)[-len(ring) :]
        ring[: len(kept)] = kept
        now.ring_used = len(kept)
        now.ring_next = len(kept) % len(ring)
    used = int(now.ring_used)
    total = 0.0
    for loss in ring[:used].tolist():  # in the order in which the procedures sum it
        total += loss
    now.tau = total / used if used else 0.0


def _restored_noise(context: ShardContext, snapshot: ClusterSnapshot) -> Noise | None:
    if context.sampling_and_noise is None:
        return None
    key, noise = key_bytes(snapshot.state.key), snapshot.state.noise
    if noise is None:
        return Noise(context.policy, context.sampling_and_noise, key)
    return Noise(
        context.policy,
        context.sampling_and_noise,
        key,
        used=noise.used,
        sampled_out=noise.sampled_out,
        observed=noise.observed,
    )
