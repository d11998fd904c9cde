"""CASTLE on one shard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters
from crenel.anonymity.algorithms.castle import procedures
from crenel.anonymity.algorithms.castle.gamma import relink
from crenel.anonymity.buffer.arrays import CastleArrays, empty_arrays, with_slots
from crenel.anonymity.buffer.delayed_shard import DelayedShard
from crenel.anonymity.buffer.release_buffer import GENERALIZED, REUSED
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_clusters import ClusterSnapshot
from crenel.anonymity.compiled.random import RandomStream


@dataclass(frozen=True)
class CastleCounters(Counters):
    """Counters of a CASTLE shard.

    Attributes
    ----------
    merges, splits : number of merges and of splits so far
    open_clusters : number of clusters in Gamma
    tau : mean loss of the most recent releases
    """

    merges: int
    splits: int
    open_clusters: int
    tau: float


class CastleShard(DelayedShard):
    """In-memory state of one CASTLE shard; its algorithm is ``Castle``."""

    arrays: CastleArrays

    @property
    def counters(self) -> CastleCounters:
        now = self.arrays.now
        return CastleCounters(
            **self._counts(),
            merges=int(now.merges),
            splits=int(now.splits),
            open_clusters=int(now.open),
            tau=float(now.tau),
        )

    def _begin(self, random: RandomStream, clusters: int) -> CastleArrays:
        context = self.context
        return empty_arrays(context.policy, context.privacy, context.algorithm, random, clusters)

    def _enlarged(self, arrays: CastleArrays, slots: int) -> CastleArrays:
        return with_slots(arrays, slots, self.context.policy, self.context.algorithm)

    def _run(self, admitted: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: int, *, ended: bool) -> None:
        procedures.castle(self._shared(), admitted, watermarks, watermark, ended)

    def _remove_tuples(self, slots: NDArray[np.int32]) -> None:
        procedures.forget(self._shared(), slots)

    def _relink(self, slots: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
        relink(self._shared(), slots, rows)

    def _departed_alone(self, releases: Releases) -> NDArray[np.bool_]:
        return np.repeat(np.isin(releases.kind, (REUSED, GENERALIZED)), releases.tuples)

    def _restore_gamma(self, snapshot: ClusterSnapshot) -> dict[int, int]:
        clusters = self.arrays.clusters
        for row, entry in enumerate(snapshot.gamma.values()):
            clusters.id[row] = entry.id[0]
            clusters.box.lower[row], clusters.box.upper[row] = entry.lower[0], entry.upper[0]
            clusters.box.node[row] = entry.node[0] + self.offsets
        self.arrays.now.open = len(snapshot.gamma)
        return {int(entry.id[0]): row for row, entry in enumerate(snapshot.gamma.values())}
