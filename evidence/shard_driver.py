"""Shards and admissions of a plan within one process, which streams and replays drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Admission, Admitted, Counters, Shard, Step
from crenel.anonymity.compiled.random import shard_key
from crenel.evidence.tables import ShardOutput
from crenel.operators.plan import ROW, AnonymizationPlan
from crenel.state.block import NO_TIME, Block
from crenel.state.shard import Changes, StoredShard

LiveT = TypeVar("LiveT")


@dataclass
class _Kept(Generic[LiveT]):
    """A live shard or admission, and its stored state where shards remember theirs."""

    live: LiveT
    stored: StoredShard = field(default_factory=lambda: StoredShard(b"", {}))

    def keep(self, changes: Changes | None) -> None:
        """Apply the changes of a step to the stored state."""
        if changes is not None:
            self.stored.apply(changes)


class ShardDriver:
    """All shards of a plan, which begin at their first tuple; their last published column is a row.

    Outputs come in the order of the steps. ``after`` is that of ``ShardOutput``.
    """

    def __init__(self, plan: AnonymizationPlan) -> None:
        self._plan = plan
        self._shards: dict[int, _Kept[Shard]] = {}
        self._admissions: dict[int, _Kept[Admission]] = {}

    def push(self, block: Block, watermark: int = NO_TIME) -> Iterator[ShardOutput]:
        """Push a block through its admission, where there is one, and to the shards of its tuples."""
        if not self._plan.context.admissions:
            yield self.push_admitted(block, watermark)
            return
        for part in self.admit(block).blocks(block):
            yield self.push_admitted(part, watermark)
        self.report(block.shard)
        yield self.advance_shard(block.shard, watermark)  # stores the counts

    def admit(self, block: Block) -> Admitted:
        """Have the admission of a block's number decide about its tuples."""
        kept = self._admission(block.shard)
        admitted = kept.live.admit(block)
        kept.keep(admitted.changes)
        return admitted

    def report(self, number: int) -> None:
        """Pass the report of an admission to the shard of its number."""
        self._shard(number).live.observe_report(number, self._admission(number).live.report)

    def push_admitted(self, block: Block, watermark: int = NO_TIME, after: int = 0) -> ShardOutput:
        """Push a block to its shard."""
        return self._output(block.shard, self._shard(block.shard).live.push(block, watermark), after)

    def advance(self, watermark: int) -> Iterator[ShardOutput]:
        """Release the tuples of all shards that are due by the watermark."""
        for number in sorted(self._shards):
            due = self.next_deadline(number)
            if due is not None and due <= watermark:
                yield self.advance_shard(number, watermark)

    def advance_shard(self, number: int, watermark: int, after: int = 0) -> ShardOutput:
        """Release the tuples of one shard that are due by the watermark."""
        return self._output(number, self._shard(number).live.advance(watermark), after)

    def next_deadline(self, number: int) -> int | None:
        """Return ``Shard.next_deadline`` of a shard."""
        return self._shard(number).live.next_deadline

    def finish(self) -> Iterator[ShardOutput]:
        """Publish or suppress all buffered tuples."""
        for number in sorted(self._shards):
            yield self.finish_shard(number)

    def finish_shard(self, number: int, after: int = 0) -> ShardOutput:
        """Publish or suppress the buffered tuples of one shard."""
        return self._output(number, self._shard(number).live.finish(), after)

    def forget(self, subjects: NDArray[np.uint64]) -> Iterator[ShardOutput]:
        """Forget persons in all shards; ``subjects`` as of ``Shard.forget``."""
        for number in sorted(self._shards):
            yield self._output(number, self._shard(number).live.forget(subjects), 0)

    def clear(self) -> None:
        """Drop all shards."""
        self._shards.clear()
        self._admissions.clear()

    @property
    def counters(self) -> dict[int, Counters]:
        """Copy of the counters of each shard, by its number."""
        return {number: shard.live.counters for number, shard in sorted(self._shards.items())}

    @property
    def buffered_rows(self) -> NDArray[np.int64]:
        """(buffered tuples,) the row of each, ascending."""
        buffered = [shard.live.buffered().column(ROW).to_numpy() for shard in self._shards.values()]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *buffered]))

    @property
    def stored(self) -> dict[int, StoredShard]:
        """Stored state of each shard by its number, and of each admission by -1 - its number."""
        shards = {number: shard.stored for number, shard in self._shards.items()}
        return shards | {~number: admission.stored for number, admission in self._admissions.items()}

    def restore(self, stored: Mapping[int, StoredShard]) -> None:
        """Restore all shards; ``stored`` as of the property."""
        algorithm, context = self._plan.algorithm, self._plan.context
        for number, state in stored.items():
            if number >= 0:
                self._shards[number] = _Kept(algorithm.restored(context, state, f"shard {number}"), state)
            elif algorithm.admission is not None:
                admission = algorithm.admission.restored(context, state, f"shard {~number}")
                self._admissions[~number] = _Kept(admission, state)

    def _shard(self, number: int) -> _Kept[Shard]:
        if number not in self._shards:
            plan = self._plan
            self._shards[number] = _Kept(plan.algorithm.new(plan.context, number, shard_key(plan.seed, number)))
        return self._shards[number]

    def _admission(self, number: int) -> _Kept[Admission]:
        if number not in self._admissions:
            plan, stage = self._plan, self._plan.algorithm.admission
            assert stage is not None
            self._admissions[number] = _Kept(stage.new(plan.context, number, shard_key(plan.seed, number)))
        return self._admissions[number]

    def _output(self, number: int, step: Step, after: int) -> ShardOutput:
        shard = self._shard(number)
        shard.keep(step.changes)
        return ShardOutput.of(shard.live, step, after)
