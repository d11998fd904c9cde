"""Stored state of a batch shard: its initial form, reading, and the blocks of buffered tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.stored_shard import BLOCKS, Snapshot, initial_state, read_snapshot
from crenel.anonymity.buffer.well_formed import require
from crenel.state.batch import BatchState
from crenel.state.block import Block, BufferedTuples
from crenel.state.shard import StoredShard

ENTRIES = (BLOCKS,)

BatchSnapshot = Snapshot[BatchState, BufferedTuples]


def initial_snapshot(context: ShardContext, number: int, key: bytes) -> BatchSnapshot:
    """Return the state of a shard before its first tuple; ``key`` is the 32 bytes of its random stream."""
    return BatchSnapshot(state=initial_state(BatchState, context, number, key, numbers=np.zeros(2, np.int64)))


def read(context: ShardContext, stored: StoredShard, where: str) -> BatchSnapshot:
    """Return the stored state, as ``crenel.anonymity.buffer.stored_shard.read_snapshot`` does."""
    return read_snapshot(BatchState, BufferedTuples, context, stored, where, require_state, require_blocks)[0]


def require_state(state: BatchState) -> None:
    """Raise ``ValueError`` where a field that all batch shards have is out of range."""
    require(state.numbers.shape == (2,), "numbers")
    require(all(isinstance(amount, int) for amount in state.counted.values()), "counted")


def require_blocks(_state: BatchState, blocks: dict[int, BufferedTuples]) -> None:
    """Raise ``ValueError`` where a block does not fit its number."""
    require(all(number <= block.position[0] for number, block in blocks.items()), "positions")


class BufferedBlocks:
    """All buffered tuples, oldest first.

    A block is stored on arrival, under the position of its first tuple that is still buffered then. It is stored again
    when some of its tuples have left the buffer, and deleted when all have. Where most buffered tuples leave at once,
    the rest becomes one block.

    Parameters
    ----------
    context : context of the shard, which names the columns
    stored : buffered tuples of each stored block, by that position

    Attributes
    ----------
    nothing : an empty block
    """

    def __init__(self, context: ShardContext, stored: Mapping[int, BufferedTuples]) -> None:
        self.nothing = no_tuples(context)
        self._stored = dict(sorted(stored.items()))
        self._came: list[BufferedTuples] = []  # not yet returned by ``changes``
        self._changed: set[int] = set()
        self._all: BufferedTuples | None = None
        self._count = sum(map(len, self._stored.values()))

    def __len__(self) -> int:
        return self._count

    @property
    def all(self) -> BufferedTuples:
        """All buffered tuples, as one block."""
        if self._all is None:
            self._all = joined([self.nothing, *self._stored.values(), *self._came])
        return self._all

    @property
    def first(self) -> BufferedTuples:
        """First nonempty block, which begins with the oldest tuple; an empty one if the buffer is empty."""
        return next(chain(self._stored.values(), self._came), self.nothing)

    def add(self, tuples: BufferedTuples) -> None:
        """Append tuples to the buffer."""
        if len(tuples):
            self._came.append(tuples)
            self._count += len(tuples)
            self._all = None

    def keep(self, stays: NDArray[np.bool_]) -> None:
        """Keep the tuples of the mask ``stays`` over ``all``, (tuples,), and remove the others."""
        kept, start = int(np.count_nonzero(stays)), 0
        if 2 * kept <= len(stays):  # what is left becomes one block, instead of a few tuples in each
            self._came = [self.all.part(stays)] if kept else []
            self._changed.update(self._stored)
            self._stored, self._count, self._all = {}, kept, None
            return
        for number, tuples in list(self._stored.items()):
            mask = stays[start : start + len(tuples)]
            start += len(tuples)
            if mask.all():
                continue
            self._changed.add(number)
            if mask.any():
                self._stored[number] = tuples.part(mask)
            else:
                del self._stored[number]
        came, self._came = self._came, []
        for tuples in came:
            mask = stays[start : start + len(tuples)]
            start += len(tuples)
            if mask.any():
                self._came.append(tuples if mask.all() else tuples.part(mask))
        self._count, self._all = kept, None

    def changes(self) -> dict[int, bytes | None]:
        """Return the blocks to write since the last call, None for those to delete."""
        if self._came:
            block = self._came[0] if len(self._came) == 1 else joined(self._came)
            number = int(block.position[0])
            self._stored[number] = block
            self._changed.add(number)
            self._came = []
        changed, self._changed = sorted(self._changed), set()
        return {number: self._written(number) for number in changed}

    def _written(self, number: int) -> bytes | None:
        tuples = self._stored.get(number)
        return None if tuples is None else tuples.to_bytes()


def buffered_of(block: Block, first: int) -> BufferedTuples:
    """Return the tuples of a block as buffered tuples, with positions from ``first`` on."""
    position = np.arange(first, first + len(block))
    return BufferedTuples(position=position, **block.chosen(np.ones(len(block), np.bool_)))


def between(tuples: BufferedTuples, start: int, stop: int) -> BufferedTuples:
    """Return the tuples from ``start`` to ``stop``."""
    if start == 0 and stop == len(tuples):
        return tuples
    columns: dict[str, Any] = {f.name: getattr(tuples, f.name) for f in fields(tuples)}
    members = columns.pop("members")
    if members.num_columns:  # a slice would be stored with truth values of later tuples, in the bits of its last byte
        members = members.take(pa.array(np.arange(start, stop)))
    cut: dict[str, Any] = {name: None if column is None else column[start:stop] for name, column in columns.items()}
    return BufferedTuples(members=members, **cut)


def joined(parts: list[BufferedTuples]) -> BufferedTuples:
    """Concatenate blocks of tuples; the result is a copy."""
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(BufferedTuples) if f.name != "members"}
    table = pa.Table.from_batches([part.members for part in parts]).combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
    members = pa.record_batch(arrays, schema=table.schema)
    subject = None if parts[0].subject is None else np.concatenate(columns.pop("subject"))
    columns.pop("subject", None)
    return BufferedTuples(
        subject=subject, members=members, **{name: np.concatenate(found) for name, found in columns.items()}
    )


def no_tuples(context: ShardContext) -> BufferedTuples:
    """Return an empty block with the columns of a policy."""
    policy = context.policy
    return BufferedTuples(
        numeric=np.zeros((0, len(policy.numeric))),
        categorical=np.zeros((0, len(policy.categorical)), np.int32),
        subject=None if policy.subject is None else np.zeros(0, np.uint64),
        sensitive=np.zeros((0, sum(policy.widths)), np.uint64),
        event_time=np.zeros(0, np.int64),
        members=pa.record_batch([pa.array([], field.type) for field in context.members], schema=context.members),
        position=np.zeros(0, np.int64),
    )
