"""Anonymizer as a Flink function from blocks to releases, with the shard in managed state.

The plan names the algorithm; this module does not depend on it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyflink.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, TimeDomain

from crenel.anonymity.algorithm import Algorithm, Shard, Step
from crenel.anonymity.buffer.stored_columns import restored
from crenel.anonymity.compiled.random import shard_key
from crenel.anonymity.model.errors import InvariantError, RestoreError
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.operators.output_columns import summary_counts
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.rows import (
    FORGOTTEN_TYPE,
    REJECTED_TYPE,
    SUMMARY_TYPE,
    SUPPRESSED_TYPE,
    Emitter,
    further_type,
    row,
)
from crenel.operators.shards.chain import Chain
from crenel.operators.shards.metrics import ShardMetrics
from crenel.operators.shards.stream import Arrivals, StreamDiagnostics, WaitingTimes, WatermarkMerger
from crenel.operators.signed_errors import ErrorSigner
from crenel.operators.worker import flush_each, prepare_worker
from crenel.state.block import NO_TIME, Block
from crenel.state.codec import kind_of
from crenel.state.flink import ShardStore
from crenel.state.operator import ChainState, Forget, Refusal, Report, rejected_from_bytes, rejected_to_bytes

SUPPRESSED = OutputTag("suppressed", SUPPRESSED_TYPE)
REJECTED = OutputTag("rejected", REJECTED_TYPE)
FORGOTTEN = OutputTag("forgotten", FORGOTTEN_TYPE)
SUMMARY = OutputTag("summary", SUMMARY_TYPE)

END = 2**62
"""From this watermark on, event time has ended: Flink's last is 2^63 - 1, and an interval join subtracts its bounds."""

WAKE_UP = 10_000
"""Milliseconds of processing time between two wake-ups of a shard, after which a restored shard is loaded."""


def further_tags(algorithm: Algorithm) -> dict[str, OutputTag]:
    """Return the side outputs of an algorithm in addition to those of every job, by name."""
    return {output.name: OutputTag(output.name, further_type(output)) for output in algorithm.outputs}


class KeyedShard:
    """One key: the shard with its counters, rejected records, diagnostics, hash chain and current timer."""

    def __init__(
        self,
        shard: Shard,
        rejected: NDArray[np.int64],
        diagnostics: StreamDiagnostics,
        arrivals: Arrivals,
        chain: Chain | None = None,
    ) -> None:
        self.shard = shard
        self.arrivals = arrivals
        self.chain = chain
        self.diagnostics = diagnostics
        self.counters = shard.counters
        self.rejected = rejected
        self.timer: int | None = None
        self.alarm: int | None = None
        self.closed = False


class ShardFunction(KeyedProcessFunction):  # type: ignore[misc]
    """Flink function that anonymizes the blocks of each shard.

    Input: rows (shard key, bytes of a ``crenel.state.block.Block``, or of a ``Forget``, ``Refusal`` or ``Report`` of
    ``crenel.state.operator``; None where a shard begins). Output: releases; side outputs ``SUPPRESSED``, ``REJECTED``,
    ``FORGOTTEN``, and those of the algorithm (``further_tags``). After the end of the input, ``SUMMARY`` follows, and
    the main output receives the closing record of a chained audit log. All outputs must be connected: PyFlink sends
    results for an unconnected side output to the main one.

    A request to forget applies to all earlier tuples of the shard, and is not stored. The shard does not know that
    later tuples of the same person follow such a request.
    """

    def __init__(self, plan: AnonymizationPlan) -> None:
        self._plan = plan
        self._signer = ErrorSigner()

    def open(self, runtime_context: RuntimeContext) -> None:
        with self._signer.signing():
            self._open(runtime_context)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        with self._signer.signing():
            yield from self._unless_refused(self._process(value, ctx))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        with self._signer.signing():
            yield from self._unless_refused(self._on_timer(timestamp, ctx))

    def _open(self, runtime_context: RuntimeContext) -> None:
        prepare_worker()
        plan = self._plan
        self._store = ShardStore(runtime_context, plan.algorithm.entries, chained=plan.chain is not None)
        self._emitter = Emitter(plan)
        self._tags = further_tags(plan.algorithm)
        self._shards: dict[int, KeyedShard] = {}
        self._watermarks = WatermarkMerger(plan.encoders)
        group = runtime_context.get_metrics_group()
        self._waiting = WaitingTimes(self._watermarks, timed=bool(plan.algorithm.durations))
        counters = lambda: [keyed.counters for keyed in self._shards.values()]  # noqa: E731
        self._metrics = ShardMetrics(group, counters, plan.context, self._waiting)
        self._since = round(time.time() * 1000)
        gc.freeze()  # existing objects stay: scanning them repeatedly takes a tenth of Python's run time

    def _unless_refused(self, results: Iterator[Any]) -> Iterator[Any]:
        """Yield results, or the row that ends the job where stored state does not fit it, which is known before any."""
        try:
            yield from results
        except RestoreError as error:
            if not self._plan.refuses:
                raise
            yield self._emitter.refusal(self._signer.report(error))

    def _process(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key = value[0]
        if value[1] is None:  # the shard begins: its chain needs a run and an end, with or without tuples
            self._begin_chain(f"key {key}")
            ctx.timer_service().register_event_time_timer(END)
            return
        kind = kind_of(value[1])
        if kind == "forget":
            yield from self._forget(Forget.from_bytes(value[1], f"key {key}"), key, ctx)
            return
        if kind == "refusal":
            yield self._emitter.refusal(Refusal.from_bytes(value[1], f"key {key}").why)
            return
        if kind == "report":
            yield from self._follow(Report.from_bytes(value[1], f"key {key}"), key, ctx)
            return
        block = self._watermarks.merge(Block.from_bytes(value[1], self._plan.context.members, f"key {key}"))
        keyed = self._observed(ctx, key, block.shard)
        # Flink delays a watermark that arrives during a bundle until its end; the block carries its own.
        watermark = ctx.timer_service().current_watermark()
        keyed.arrivals.observe(keyed.counters.tuples_in, ctx.timer_service().current_processing_time())
        step = keyed.shard.push(block, watermark)
        keyed.diagnostics.observe_block(block, watermark)
        keyed.diagnostics.observe_releases(step.releases, watermark, block)
        self._keep(keyed, step, ctx)
        yield from flush_each(self._results(step, keyed, block), len(block))

    def _results(self, step: Step, keyed: KeyedShard, block: Block) -> Iterator[Any]:
        yield from self._reject(keyed, block)
        yield from self._emit(step, keyed)

    def _forget(self, request: Forget, key: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        watermark = ctx.timer_service().current_watermark()
        number, tuples = self._plan.numbers.get(key), 0
        if key in self._shards or self._store.known:  # otherwise the shard never received a tuple
            keyed = self._observed(ctx, key)
            before = keyed.counters.forgotten
            step = keyed.shard.forget(np.array([request.subject], np.uint64))
            self._keep(keyed, step, ctx)
            yield from self._emit(step, keyed)
            number, tuples = keyed.shard.number, keyed.counters.forgotten - before
        event_time = None if watermark == NO_TIME or watermark >= END else watermark
        yield FORGOTTEN, row([request.code, number, event_time, ctx.timer_service().current_processing_time(), tuples])

    def _follow(self, report: Report, key: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        keyed, watermark = self._observed(ctx, key), ctx.timer_service().current_watermark()
        if not keyed.shard.observe_report(report.admission, report.amounts):
            return  # most reports follow a block, and a step for each would take as long as the block's
        step = keyed.shard.advance(watermark)
        keyed.diagnostics.observe_releases(step.releases, watermark)
        self._keep(keyed, step, ctx)
        yield from self._emit(step, keyed)

    def _on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()
        live = self._shards.get(key)
        if live is not None and ctx.time_domain() == TimeDomain.PROCESSING_TIME:
            if timestamp % WAKE_UP == 0:
                self._wake_up_later(ctx)
                self._observe_waiting(ctx)
            if timestamp != live.alarm:
                return
        keyed = self._observed(ctx, key)
        if keyed.timer == timestamp:
            keyed.timer = None
        if keyed.alarm == timestamp:
            keyed.alarm = None
        watermark = ctx.timer_service().current_watermark()
        has_ended = watermark >= END
        step = keyed.shard.finish() if has_ended else keyed.shard.advance(watermark)
        keyed.diagnostics.observe_releases(step.releases, None if has_ended else watermark)
        self._keep(keyed, step, ctx)
        yield from self._emit(step, keyed)
        if timestamp >= END and not keyed.closed:  # a deadline may be later still
            keyed.closed = True
            yield from self._close(keyed)
            for name, amount in (*summary(self._plan, keyed), *self._waiting.results()):
                yield SUMMARY, row([keyed.shard.number, name, amount])

    def _observed(self, ctx: KeyedProcessFunction.Context, key: int, number: int | None = None) -> KeyedShard:
        """Return the shard of a key, loaded where it is not live, after it has observed the clock."""
        keyed = self._shards.get(key)
        if keyed is None:
            keyed = self._load(ctx, key, number)
        keyed.shard.observe_clock(ctx.timer_service().current_processing_time(), self._since)
        return keyed

    def _load(self, ctx: KeyedProcessFunction.Context, key: int, number: int | None) -> KeyedShard:
        timers, plan = ctx.timer_service(), self._plan
        if timers.current_watermark() < END:
            # Timers are part of the state; registered twice, this one still fires once. A drained job has none left.
            timers.register_event_time_timer(END)
        self._wake_up_later(ctx)
        stored = self._store.read()
        if stored is not None:
            shard, changes = restored(plan.algorithm, plan.context, stored, f"key {key}")
            if changes is not None:
                self._store.write(changes)
        else:
            number = plan.numbers.get(key) if number is None else number
            if number is None:
                raise InvariantError("a timer fired for a shard of which nothing is stored")
            shard = plan.algorithm.new(plan.context, number, shard_key(plan.seed, number))
        diagnostics = StreamDiagnostics(plan.context, max(plan.algorithm.durations.values(), default=None))
        chain = self._chain(f"key {key}")
        arrivals = Arrivals(timers.current_processing_time())
        keyed = self._shards[key] = KeyedShard(shard, self._rejected(f"key {key}"), diagnostics, arrivals, chain)
        return keyed

    def _chain(self, where: str) -> Chain | None:
        """Return the shard's hash chain, where the audit log has one."""
        state = self._begin_chain(where)
        plan = self._plan
        return None if plan.chain is None or state is None else Chain(plan.chain, plan.published_members, state)

    def _begin_chain(self, where: str) -> ChainState | None:
        """Return the state of the shard's chain, stored at once so that a restored job continues this run."""
        if self._plan.chain is None:
            return None
        blob = self._store.chain
        stored = None if blob is None else ChainState.from_bytes(blob, where)
        state = self._plan.chain.begin(stored)
        if state is not stored:
            self._store.chain = state.to_bytes()
        return state

    def _rejected(self, where: str) -> NDArray[np.int64]:
        blob, reasons = self._store.rejected, len(REJECTIONS)
        return np.zeros(reasons, np.int64) if blob is None else rejected_from_bytes(blob, reasons, where)

    def _reject(self, keyed: KeyedShard, block: Block) -> Iterator[Any]:
        if not len(block.rejected.column):
            return
        counts = np.bincount(block.rejected.reason, minlength=len(REJECTIONS))
        keyed.rejected = keyed.rejected + counts
        self._store.rejected = rejected_to_bytes(keyed.rejected)
        for reason, rows in zip(REJECTIONS, counts.tolist(), strict=True):
            if rows:
                self._metrics.reject(reason, rows)
        for rejected in self._emitter.rejected(block.rejected):
            yield REJECTED, rejected

    def _wake_up_later(self, ctx: KeyedProcessFunction.Context) -> None:
        # Only Flink knows a restored shard until an input arrives for its key, which none may do where the number of
        # shards has changed: the shard would not refuse that. After a reduction of the event-time delay, its stored
        # timer may fire long after the new deadline. A timer of processing time therefore loads it soon.
        timers = ctx.timer_service()
        # At multiples of the interval, so that a restored series of wake-ups and a new one coincide.
        timers.register_processing_time_timer((timers.current_processing_time() // WAKE_UP + 1) * WAKE_UP)

    def _keep(self, keyed: KeyedShard, step: Step, ctx: KeyedProcessFunction.Context) -> None:
        """Store the changes of a step, set the timer, and update the metrics."""
        if step.changes is None:
            raise InvariantError("a shard of a job tells nothing to store")
        self._store.write(step.changes)
        self._set_timer(keyed, ctx)
        before, keyed.counters = keyed.counters, keyed.shard.counters
        self._metrics.update(before, keyed.counters, step.releases)
        self._observe_waiting(ctx)

    def _observe_waiting(self, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        if timers.current_watermark() >= END:
            return  # the summary states the wait before the end
        shards = ((keyed.counters, keyed.arrivals) for keyed in self._shards.values())
        self._waiting.observe(shards, timers.current_watermark(), timers.current_processing_time())

    def _set_timer(self, keyed: KeyedShard, ctx: KeyedProcessFunction.Context) -> None:
        # One timer per shard, for its earliest deadline; one that fires too early finds nothing due and sets the next.
        deadline = keyed.shard.next_deadline
        if deadline is not None and (keyed.timer is None or deadline < keyed.timer):
            if keyed.timer is not None:
                ctx.timer_service().delete_event_time_timer(keyed.timer)
            ctx.timer_service().register_event_time_timer(deadline)
            keyed.timer = deadline
        alarm = keyed.shard.next_alarm
        if alarm is not None and (keyed.alarm is None or alarm < keyed.alarm):
            ctx.timer_service().register_processing_time_timer(alarm)
            keyed.alarm = alarm

    def _emit(self, step: Step, keyed: KeyedShard) -> Iterator[Any]:
        number = keyed.shard.number
        for suppressed in self._emitter.suppressed(step.releases, number):
            yield SUPPRESSED, suppressed
        yield from self._emitter.releases(step.releases, number, keyed.shard.random_key, keyed.chain)
        if keyed.chain is not None and len(step.releases):
            self._store.chain = keyed.chain.state.to_bytes()
        for name, rows in step.further.items():
            for values in rows:
                yield self._tags[name], row(list(values))

    def _close(self, keyed: KeyedShard) -> Iterator[Any]:
        """End the shard's chain, if any; without this record it would look like that of a running job."""
        if keyed.chain is not None:
            yield from self._emitter.closing(keyed.counters, keyed.shard.number, keyed.chain)
            self._store.chain = keyed.chain.state.to_bytes()


def summary(plan: AnonymizationPlan, keyed: KeyedShard) -> Iterator[tuple[str, float]]:
    """Yield a shard's counters and the privacy parameters, as (name, amount).

    ``delay.N`` counts tuples with a delay of about N tuples. Names of parameters begin with ``parameter.``. The result
    includes ``StreamDiagnostics.results``. With a chained audit log, two names state identities, with the amount 1:
    ``run.ID`` the run, and ``settings.HASH`` the settings.
    """
    yield from summary_counts(plan.algorithm, plan.context.privacy, keyed.counters)
    for name, amount in zip(REJECTIONS, keyed.rejected.tolist(), strict=True):
        yield f"rejected.{name}", amount
    yield from keyed.diagnostics.results(plan.checked)
    for name, in_force in plan.context.privacy.in_force.items():
        yield f"parameter.{name}", in_force
    if (noise := plan.context.sampling_and_noise) is not None:
        yield "parameter.sample_rate", noise.sample_rate
        yield "parameter.phi", noise.inverse_scale
    if plan.chain is not None and keyed.chain is not None:
        yield f"run.{keyed.chain.run}", 1
        yield f"settings.{plan.chain.settings}", 1
