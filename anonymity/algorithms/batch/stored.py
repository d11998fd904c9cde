"""Initial and stored state of a batch shard."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.stored_shard import BLOCKS, Snapshot, initial_state, read_snapshot
from crenel.anonymity.buffer.well_formed import require
from crenel.state.batch import BatchState
from crenel.state.block import BufferedTuples
from crenel.state.shard import StoredShard

ENTRIES = (BLOCKS,)

BatchSnapshot = Snapshot[BatchState, BufferedTuples]


def initial_snapshot(context: ShardContext, number: int, key: bytes) -> BatchSnapshot:
    """Return the state of a shard before its first tuple; ``key`` is the 32 bytes of its random stream."""
    return BatchSnapshot(state=initial_state(BatchState, context, number, key, numbers=np.zeros(2, np.int64)))


def read(context: ShardContext, stored: StoredShard, where: str) -> BatchSnapshot:
    """Return the stored state, as ``crenel.anonymity.buffer.stored_shard.read_snapshot`` does."""
    return read_snapshot(BatchState, BufferedTuples, context, stored, where, _require_state, _require_blocks)[0]


def _require_state(state: BatchState) -> None:
    require(state.numbers.shape == (2,), "numbers")
    require(all(isinstance(amount, int) for amount in state.counted.values()), "counted")


def _require_blocks(state: BatchState, blocks: dict[int, BufferedTuples]) -> None:
    require(all(number <= block.position[0] for number, block in blocks.items()), "positions")
