"""Nearest release on one shard, with a lasting guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext, Step
from crenel.anonymity.algorithms.nearest.lasting import procedures, record
from crenel.anonymity.algorithms.nearest.lasting.arrays import (
    LastingArrays,
    empty_arrays,
    with_persons,
    with_slots,
)
from crenel.anonymity.algorithms.nearest.lasting.restore import restore
from crenel.anonymity.algorithms.nearest.shard import NearestCounters, NearestShard
from crenel.anonymity.buffer.delayed_shard import DelayedShard
from crenel.anonymity.buffer.stored_clusters import ClusterSnapshot
from crenel.anonymity.compiled.random import RandomStream
from crenel.anonymity.compiled.reference import share
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import round_all
from crenel.state.block import LAST_TIMER, Block

ANONYMITY_SETS = "anonymity_sets"
"""Kind of the stored entries of anonymity sets."""


class LastingNearestShard(NearestShard):
    """In-memory state of one shard with a lasting guarantee (``Privacy.lasting``); otherwise as ``NearestShard``."""

    arrays: LastingArrays
    _record: record.Record | None = None

    _outlive: ClassVar[tuple[str, ...]] = (*DelayedShard._outlive, "persons", "groups", "host", "bound")

    def __init__(self, context: ShardContext, snapshot: ClusterSnapshot) -> None:
        self._entries = record.read(
            snapshot.further.get(ANONYMITY_SETS, {}), context.policy, f"shard {snapshot.state.shard}"
        )
        super().__init__(context, snapshot)
        procedures.settle(self._shared())
        if context.remembers:
            self._record = record.Record(self.offsets, self._entries, self.arrays)
        self._entries = {}

    @property
    def next_deadline(self) -> int | None:
        due, now, bound = super().next_deadline, self.arrays.groups.now, self.arrays.bound
        if bound.horizon < 0 or not now.known:
            return due
        forgets = min(int(now.earliest) + int(bound.horizon) + 2 * int(bound.step), LAST_TIMER)
        return forgets if due is None else min(due, forgets)

    @property
    def counters(self) -> NearestCounters:
        return replace(super().counters, persons_below_k=int(self.arrays.persons.now.below_k))

    def _begin(self, random: RandomStream, clusters: int) -> LastingArrays:
        return empty_arrays(self.context.policy, self.context.privacy, self.context.algorithm, random)

    def _enlarged(self, arrays: LastingArrays, slots: int) -> LastingArrays:  # type: ignore[override]
        larger = with_slots(arrays, slots, self.context.policy, self.context.algorithm)
        if larger is not arrays:
            procedures.rebuild_cells(share(larger))
        return larger

    def _reserve(self, count: int) -> None:
        super()._reserve(count)
        self.arrays = with_persons(self.arrays, count, self.context.policy)

    def _run(self, admitted: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: int, *, ended: bool) -> None:
        procedures.lasting(self._shared(), admitted, watermarks, watermark, ended)

    def _remove_tuples(self, slots: NDArray[np.int32]) -> None:
        procedures.remove_slots(self._shared(), slots)

    def _forget_persons(self, subjects: NDArray[np.uint64]) -> None:
        super()._forget_persons(subjects)
        procedures.forget_subjects(self._shared(), subjects)
        if self._record is not None:
            self._record.forget_subject(subjects)

    def _relink(self, slots: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
        procedures.relink(self._shared(), slots)

    def _restore_gamma(self, snapshot: ClusterSnapshot) -> dict[int, int]:
        people = sum(len(entry.subject) + len(entry.group) for entry in self._entries.values())
        self.arrays = with_persons(self.arrays, people, self.context.policy)
        restore(self.arrays, self._entries, self.offsets)
        round_all(self.arrays.domain, self.arrays.groups.box)  # they may have been published under another grid
        procedures.introduce(self._shared())
        return super()._restore_gamma(snapshot)

    def _restore_omega(self, snapshot: ClusterSnapshot) -> None:
        super()._restore_omega(snapshot)
        arrays = self.arrays
        rows = {int(group): row for row, group in enumerate(arrays.groups.id.tolist()) if group != NONE}
        used = slice(len(arrays.host) - int(arrays.now.omega_used), None)
        arrays.host[used] = [rows.get(release, NONE) for release in arrays.omega.release[used].tolist()]

    def _shrink(self) -> None:
        self.arrays.persons.first[:] = NONE
        super()._shrink()

    def _further(self) -> Mapping[str, dict[int, bytes | None]]:
        assert self._record is not None
        return {**super()._further(), ANONYMITY_SETS: self._record.changes(self.arrays)}

    def _step(self, block: Block | None, watermark: int, *, ended: bool) -> Step:
        step = super()._step(block, watermark, ended=ended)
        if self._record is None:
            record.forget_changes(self.arrays)
        return step
