"""Stored state of a SUHDSA shard: that of a batch shard, and what a window leaves to the next."""

from __future__ import annotations

from math import isfinite

import numpy as np

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.batch import stored as batch
from crenel.anonymity.buffer.stored_shard import Snapshot, initial_state, read_snapshot
from crenel.anonymity.buffer.well_formed import require
from crenel.anonymity.space.domain import NONE
from crenel.state.block import BufferedTuples
from crenel.state.shard import StoredShard
from crenel.state.suhdsa import SuhdsaState

KEPT = (
    *("next_window", "merges", "swaps", "window_tuples", "target", "dwelt", "most_values", "step_up", "judged"),
    *("entropy", "settled", "loss_sum", "delay_sum", "last_cost"),
)
"""Fields of ``SuhdsaArrays.now`` in ``SuhdsaState.kept``."""

SuhdsaSnapshot = Snapshot[SuhdsaState, BufferedTuples]


def initial_snapshot(context: ShardContext, number: int, key: bytes) -> SuhdsaSnapshot:
    """Return the state of a shard before its first tuple; ``key`` is the 32 bytes of its random stream."""
    return SuhdsaSnapshot(state=initial_state(SuhdsaState, context, number, key, numbers=np.zeros(2, np.int64)))


def read(context: ShardContext, stored: StoredShard, where: str = "") -> SuhdsaSnapshot:
    """Return the stored state, as ``crenel.anonymity.buffer.stored_shard.read_snapshot`` does.

    k, l, other privacy models, sizes and delays may differ. Buffered tuples are grouped under the new context, and the
    next step publishes or suppresses those that are overdue under them.
    """
    return read_snapshot(SuhdsaState, BufferedTuples, context, stored, where, _require_state, _require_blocks)[0]


def _require_state(state: SuhdsaState) -> None:
    batch.require_state(state)
    require(state.reason.ndim == 1 and state.reason.dtype == np.int8, "reason")
    require(bool(((state.reason >= 0) & (state.reason < len(state.reasons))).all()), "reason")
    require(set(state.kept) in ({*KEPT}, set()), "kept")
    require(all(isfinite(number) and NONE <= number < 2**62 for number in state.kept.values()), "kept")


def _require_blocks(state: SuhdsaState, blocks: dict[int, BufferedTuples]) -> None:
    batch.require_blocks(state, blocks)
    require(len(state.reason) <= sum(map(len, blocks.values())), "reason")
