"""Nearest release on one shard, with the buffer, reuse and storage of CASTLE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, ShardContext
from crenel.anonymity.algorithms.nearest import procedures, stored_radii
from crenel.anonymity.algorithms.nearest.arrays import NearestArrays, empty_arrays, with_slots
from crenel.anonymity.algorithms.nearest.stored_radii import RADII, StoredRadii
from crenel.anonymity.buffer.delayed_shard import DelayedShard
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_clusters import ClusterSnapshot
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.compiled.random import RandomStream
from crenel.anonymity.compiled.reference import share


@dataclass(frozen=True, kw_only=True)
class NearestCounters(Counters):
    """Counters of a nearest-release shard; ``tau`` is the mean loss of the most recent releases."""

    tau: float


class NearestShard(DelayedShard):
    """In-memory state of one shard; its algorithm is ``Nearest``.

    The code shared with CASTLE sees the whole buffer as cluster 0, which is never stored. The list of departed tuples
    covers each stored tuple that has since been published or suppressed.
    """

    _obsolete: dict[str, dict[int, bytes | None]]
    arrays: NearestArrays
    _radii: StoredRadii | None = None

    def __init__(self, context: ShardContext, snapshot: ClusterSnapshot) -> None:
        # Anonymity sets or radii stored by an earlier configuration that had them; the next step deletes them.
        kept = {SEEN, RADII} if context.algorithm.isolation_price else {SEEN}
        self._obsolete = {kind: dict.fromkeys(blobs) for kind, blobs in snapshot.further.items() if kind not in kept}
        super().__init__(context, snapshot)
        if context.algorithm.isolation_price:
            entries = stored_radii.read(snapshot.further.get(RADII, {}), f"shard {self.number}")
            if not stored_radii.restore(self.arrays, entries):
                self._measure_radii()
            self._radii = StoredRadii(entries, self.arrays) if context.remembers else None

    @property
    def counters(self) -> NearestCounters:
        return NearestCounters(**self._counts(), tau=float(self.arrays.now.tau))

    def _begin(self, random: RandomStream, clusters: int) -> Any:
        return empty_arrays(self.context.policy, self.context.privacy, self.context.algorithm, random)

    def _enlarged(self, arrays: NearestArrays, slots: int) -> NearestArrays:
        larger = with_slots(arrays, slots, self.context.policy, self.context.algorithm)
        if larger is not arrays:
            procedures.rebuild_cells(share(larger))
        return larger

    def _run(self, admitted: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: int, *, ended: bool) -> None:
        procedures.nearest(self._shared(), admitted, watermarks, watermark, ended)

    def _remove_tuples(self, slots: NDArray[np.int32]) -> None:
        procedures.forget(self._shared(), slots)

    def _relink(self, slots: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
        procedures.relink(self._shared(), slots)

    def _departed_alone(self, releases: Releases) -> NDArray[np.bool_]:
        return np.ones(int(releases.tuples.sum()), np.bool_)

    def _forget_persons(self, subjects: NDArray[np.uint64]) -> None:
        if self.arrays.isolation.now.price > 0.0:
            self._measure_radii()  # no distance to a tuple of a forgotten person remains, here or in an entry

    def _measure_radii(self) -> None:
        procedures.measure_radii(self._shared())

    def _shrink(self) -> None:
        before = self.arrays
        super()._shrink()
        if before.isolation.now.price > 0.0:
            stored_radii.move(before, self.arrays)

    def _further(self) -> Mapping[str, dict[int, bytes | None]]:
        obsolete, self._obsolete = self._obsolete, {}
        return obsolete if self._radii is None else {**obsolete, RADII: self._radii.changes(self.arrays)}

    def _restore_gamma(self, snapshot: ClusterSnapshot) -> dict[int, int]:
        return {0: 0}
