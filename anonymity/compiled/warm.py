"""Compile the core ahead of its first use: ``python -m anonymity.compiled.warm``. Once done, it takes a second."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

from anonymity.castle.shard import Castle
from anonymity.castle.stored import Memory
from anonymity.noise.perturb import Noise
from anonymity.policy import CastleParameters, DifferentialPrivacy, Numeric, Policy, Privacy
from anonymity.window.parameters import WindowParameters
from anonymity.window.shard import Window
from anonymity.window.stored import WindowMemory
from state.block import Block
from state.shard import Changes, Stored

_TUPLES = 64
_POLICY = Policy((Numeric("x"),), sensitive=("s",), subject="who", event_time="at")
_PRIVACY = Privacy(2, 2)
_MEMBERS = pa.schema([("s", pa.int64())])


def castle() -> None:
    """Run a few tuples through every procedure of CASTLE: a shard, its end, and its restore."""
    parameters = CastleParameters(delay_tuples=_TUPLES, delay_event_time=1000)
    made = Castle(_POLICY, _PRIVACY, parameters, members=_MEMBERS, shard=0, key=bytes(32))
    made.push(_block())
    stored = _stored(Memory(made, {}).changes())
    restored, _ = Memory.restore(_POLICY, _PRIVACY, parameters, members=_MEMBERS, fingerprint={}, stored=stored)
    restored.finish()


def window() -> None:
    """Run a few tuples through every procedure of windows: a shard, its end, and its restore."""
    parameters = WindowParameters(tuples=_TUPLES, event_time=1000)
    made = Window(_POLICY, _PRIVACY, parameters, members=_MEMBERS, shard=0, key=bytes(32))
    made.push(_block())
    stored = _stored(WindowMemory(made, {}).changes())
    restored, _ = WindowMemory.restore(_POLICY, _PRIVACY, parameters, members=_MEMBERS, fingerprint={}, stored=stored)
    restored.finish()


def noise() -> None:
    """Sample and perturb a few tuples."""
    policy = Policy((Numeric("x", (0, 6), 1),), sensitive=("s",), subject="who", event_time="at")
    Noise(policy, DifferentialPrivacy(0.5, 1.0), bytes(32)).let_in(_block())


def main() -> None:
    """Compile all of it, in two processes: CASTLE takes longer than the rest."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(castle), pool.submit(window), pool.submit(noise)]:
            done.result()


def _block() -> Block:
    numbers = np.arange(_TUPLES)
    return Block(
        shard=0,
        numeric=(numbers[:, None] % 7).astype(np.float64),
        categorical=np.zeros((_TUPLES, 0), np.int32),
        subject=numbers.astype(np.uint64),
        sensitive=(numbers[:, None] % 3).astype(np.uint64),
        event_time=numbers,
        members=pa.record_batch([pa.array(numbers)], schema=_MEMBERS),
    )


def _stored(changes: Changes) -> Stored:
    entries = [{key: blob for key, blob in e.items() if blob} for e in (changes.blocks, changes.gamma, changes.omega)]
    return Stored(changes.shard, *entries)


if __name__ == "__main__":
    main()
