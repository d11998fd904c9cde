"""Compilation of the core ahead of its first use, by a few tuples (``crenel.jobs.precompile``)."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pyarrow as pa

from crenel.anonymity.algorithm import Algorithm, ShardContext, known_algorithms
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Persons, Privacy, SamplingAndNoise
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.anonymity.noise.perturb import Noise
from crenel.state.block import Block
from crenel.state.shard import StoredShard

_TUPLES = 64
_MEMBERS = pa.schema([("s", pa.int64())])


def warm_up(
    algorithm: Algorithm, attribute: Numeric | Categorical | None = None, privacy: Privacy | None = None
) -> None:
    """Run a few tuples through every procedure of an algorithm: admission, erasure, restore and end of input.

    ``attribute`` is their quasi-identifier; the default is a number with ends on a grid.
    """
    policy = Policy({"x": attribute or Numeric(ends=1.0)}, sensitive=("s",), subject="who", event_time="at")
    context = ShardContext(policy, privacy or Privacy(2, 2), algorithm, _MEMBERS)
    shard = algorithm.new(context, 0, bytes(32))
    changes = shard.push(_block(len(policy.numeric))).changes
    shard.forget(np.array([_TUPLES - 1], np.uint64))
    if changes is not None:
        entries = {kind: {key: blob for key, blob in e.items() if blob} for kind, e in changes.entries.items()}
        algorithm.restored(context, StoredShard(changes.shard, entries), "").finish()


def noise() -> None:
    """Compile sampling and perturbation on a few tuples."""
    policy = Policy({"x": Numeric((0, 6), 1)}, sensitive=("s",), subject="who", event_time="at")
    Noise(policy, SamplingAndNoise(0.5, 1.0), bytes(32)).admit(_block())


def regions() -> None:
    """Compile the division of tuples among regions."""
    block = _block()
    tree = RegionTree.of(Cut(0, 3.0, Region(0.5, 0), Region(0.5, 0)))
    tree.regions(block.numeric, block.categorical)
    tree.regions(np.zeros((_TUPLES, 2), order="F"), block.categorical)


def algorithm(name: str, *, lasting: bool = False) -> None:
    """Compile one of the algorithms that come with Crenel; ``lasting``: for a guarantee that lasts."""
    import_module("crenel.anonymity.builtin")
    known_algorithms()[name].compile(Privacy(2, persons=Persons("lasting", 2000) if lasting else None))


def _block(numeric: int = 1) -> Block:
    numbers = np.arange(_TUPLES)
    return Block(
        shard=0,
        numeric=(numbers[:, None] % 7).astype(np.float64)[:, :numeric],
        categorical=np.zeros((_TUPLES, 1 - numeric), np.int32),
        subject=numbers.astype(np.uint64),
        sensitive=(numbers[:, None] % 3).astype(np.uint64),
        event_time=numbers,
        members=pa.record_batch([pa.array(numbers)], schema=_MEMBERS),
    )
