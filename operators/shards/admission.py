"""First stage of an algorithm of two stages, as a Flink function from blocks by person to blocks by shard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext

from crenel.anonymity.algorithm import Admission, AdmissionStage
from crenel.anonymity.buffer.stored_columns import restored_by
from crenel.anonymity.compiled.random import shard_key
from crenel.anonymity.model.errors import RestoreError
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.rows import row
from crenel.operators.shards.function import END
from crenel.operators.signed_errors import ErrorSigner
from crenel.operators.worker import flush_each, prepare_worker
from crenel.state.block import Block
from crenel.state.codec import kind_of
from crenel.state.flink import ShardStore
from crenel.state.operator import Refusal, Report

BLOCK_TYPE = Types.ROW([Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
"""Type of the rows that a shard receives: its key and bytes."""

ADDRESSED_TYPE = Types.ROW([Types.INT(), BLOCK_TYPE])
"""Type of the rows of a stream that is then keyed: the key again, and the row."""


class AdmissionFunction(KeyedProcessFunction):  # type: ignore[misc]
    """Flink function that decides which tuples go on to which shard.

    Input: rows as of ``crenel.operators.shards.function.ShardFunction``, with a row that begins each key. Output: rows
    (shard key, row) for that function. A report follows each block, to the shard of the same number, and each alarm, to
    all shards. Flink keeps the order of the rows from one key to another, so a report comes after all tuples that it
    covers. A request to forget goes to all shards, because tuples of the person may wait in any; what an admission
    knows of the person only bounds later tuples, and expires by itself.
    """

    def __init__(self, plan: AnonymizationPlan) -> None:
        self._plan = plan
        self._signer = ErrorSigner()

    def open(self, runtime_context: RuntimeContext) -> None:
        with self._signer.signing():
            prepare_worker()
            self._store = ShardStore(runtime_context, self._plan.algorithm.entries)
            self._admissions: dict[int, Admission] = {}
            self._keys = self._plan.keys
            self._since = round(time.time() * 1000)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        with self._signer.signing():
            yield from self._unless_refused(value[0], self._process(value[0], value[1], ctx))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        with self._signer.signing():
            key = ctx.get_current_key()
            yield from self._unless_refused(key, self._on_timer(key, ctx))

    def _process(self, key: int, blob: bytes | None, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if blob is not None and kind_of(blob) == "forget":
            yield from (_addressed(shard, blob) for shard in self._keys)
            return
        admission = self._observed(key, ctx)
        if blob is None:
            yield from self._reported(admission, self._keys)
            return
        block = Block.from_bytes(blob, self._plan.context.members, f"key {key}")
        admitted = admission.admit(block)
        self._store.write(admitted.changes)
        parts = (_addressed(self._keys[part.shard], part.to_bytes()) for part in admitted.blocks(block))
        yield from flush_each(parts, len(block))
        yield from self._reported(admission, [key])

    def _on_timer(self, key: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield from self._reported(self._observed(key, ctx), self._keys)

    def _unless_refused(self, key: int, results: Iterator[Any]) -> Iterator[Any]:
        """Yield results, or a refusal to the shard of the same number where stored state does not fit the job."""
        try:
            yield from results
        except RestoreError as error:
            if not self._plan.refuses:
                raise
            yield _addressed(key, Refusal(self._signer.report(error)).to_bytes())

    def _observed(self, key: int, ctx: KeyedProcessFunction.Context) -> Admission:
        """Return the admission of a key after it has observed the clock, with a timer for its next alarm."""
        timers = ctx.timer_service()
        admission = self._admissions.get(key)
        if admission is None:
            admission = self._admissions[key] = self._load(key)
            if timers.current_watermark() < END:
                # A restored shard may have lost counts that it has not stored, and hears of them before it ends.
                timers.register_event_time_timer(END)
        admission.observe_clock(timers.current_processing_time(), self._since)
        if (alarm := admission.next_alarm) is not None:
            timers.register_processing_time_timer(alarm)
        return admission

    def _load(self, key: int) -> Admission:
        plan, stored, stage = self._plan, self._store.read(), self._stage
        if stored is None:
            number = plan.numbers[key]
            return stage.new(plan.context, number, shard_key(plan.seed, number))
        admission, changes = restored_by(stage.restored, plan.algorithm, plan.context, stored, f"key {key}")
        if changes is not None:
            self._store.write(changes)
        return admission

    @property
    def _stage(self) -> AdmissionStage:
        stage = self._plan.algorithm.admission
        assert stage is not None
        return stage

    @staticmethod
    def _reported(admission: Admission, keys: Any) -> Iterator[Any]:
        report = Report(admission.number, admission.report).to_bytes()
        yield from (_addressed(key, report) for key in keys)


def _addressed(key: int, blob: bytes) -> Any:
    return row([key, row([key, blob])])
