"""Compile the core ahead of its first use: ``python -m anonymity.warm``. Once done, it takes a second."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anonymity.castle import Castle
from anonymity.memory import Memory
from anonymity.policy import CastleParameters, Numeric, Policy, Privacy
from state.block import Block
from state.shard import Stored

_TUPLES = 64


def main() -> None:
    """Run a few tuples through every procedure: a shard, its end, and its restore."""
    policy = Policy((Numeric("x"),), sensitive=("s",), subject="who", event_time="at")
    privacy, parameters = Privacy(2, 2), CastleParameters(delay_tuples=_TUPLES, delay_event_time=1000)
    members = pa.schema([("s", pa.int64())])
    numbers = np.arange(_TUPLES)
    block = Block(
        shard=0,
        numeric=(numbers[:, None] % 7).astype(np.float64),
        categorical=np.zeros((_TUPLES, 0), np.int32),
        subject=numbers.astype(np.uint64),
        sensitive=(numbers[:, None] % 3).astype(np.uint64),
        event_time=numbers,
        members=pa.record_batch([pa.array(numbers)], schema=members),
    )
    castle = Castle(policy, privacy, parameters, members=members, shard=0, key=bytes(32))
    castle.push(block)
    changes = Memory(castle, {}).changes()
    entries = [{key: blob for key, blob in e.items() if blob} for e in (changes.blocks, changes.gamma, changes.omega)]
    stored = Stored(changes.shard, *entries)
    restored, _ = Memory.restore(policy, privacy, parameters, members=members, fingerprint={}, stored=stored)
    restored.finish()


if __name__ == "__main__":
    main()
