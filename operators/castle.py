"""CASTLE as a Flink operator: blocks of a shard go in, releases come out, and the shard lives in managed state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, TimeDomain

from anonymity.castle import Castle, Counters, delay_of_bucket
from anonymity.memory import Memory
from anonymity.random import shard_key
from anonymity.releases import Releases
from operators.emit import REJECTED_TYPE, SUMMARY_TYPE, SUPPRESSED_TYPE, Emitter, row
from operators.metrics import ShardMetrics
from operators.plan import OperatorPlan
from state.block import Block
from state.flink import ShardStore

SUPPRESSED = OutputTag("suppressed", SUPPRESSED_TYPE)
REJECTED = OutputTag("rejected", REJECTED_TYPE)
SUMMARY = OutputTag("summary", SUMMARY_TYPE)

END = 2**63 - 1
"""Event time at the end of the input."""

WAKE_UP = 10_000
"""Milliseconds of processing time between two wake-ups of a shard: so long after a restore all of them are loaded."""


class Shard:
    """The live form of one key: the core, what is stored of it, and the timer that is set for it."""

    def __init__(self, castle: Castle, memory: Memory) -> None:
        self.castle = castle
        self.memory = memory
        self.timer: int | None = None


class CastleFunction(KeyedProcessFunction):  # type: ignore[misc]
    """Anonymises the blocks of each shard; see ``anonymity.castle``.

    In: rows (shard key, bytes of a ``state.block.Block``). Out: releases; side outputs ``SUPPRESSED``, ``REJECTED``
    and, once the input has ended, ``SUMMARY``. All of them must be wired: PyFlink sends what is yielded for a side
    output to the main one where no side output is.
    """

    def __init__(self, plan: OperatorPlan) -> None:
        self._plan = plan

    def open(self, runtime_context: RuntimeContext) -> None:
        self._store = ShardStore(runtime_context)
        self._emitter = Emitter(self._plan)
        self._shards: dict[int, Shard] = {}
        self._metrics = ShardMetrics(runtime_context.get_metrics_group(), self._shards)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        plan = self._plan
        key = value[0]
        block = Block.from_bytes(value[1], plan.members, f"key {key}")
        shard = self._shards.get(key)
        if shard is None:
            shard = self._load(ctx, key, block.shard)
        before = shard.castle.counters
        # A watermark that comes within a bundle is held until its end, so a tuple may be overdue before a timer fires.
        releases = shard.castle.push(block, ctx.timer_service().current_watermark())
        self._store.write(shard.memory.changes())
        self._set_timer(shard, ctx)
        self._metrics.update(before, shard.castle.counters)
        for rejected in self._emitter.rejected(block.rejected):
            yield REJECTED, rejected
        yield from self._emit(releases, shard)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()
        shard = self._shards.get(key)
        if shard is None:
            shard = self._load(ctx, key, None)
        elif ctx.time_domain() == TimeDomain.PROCESSING_TIME:
            self._wake_up_later(ctx)
            return
        if shard.timer == timestamp:
            shard.timer = None
        before = shard.castle.counters
        watermark = ctx.timer_service().current_watermark()
        ended = watermark == END
        releases = shard.castle.finish() if ended else shard.castle.advance(watermark)
        self._store.write(shard.memory.changes())
        self._set_timer(shard, ctx)
        self._metrics.update(before, shard.castle.counters)
        yield from self._emit(releases, shard)
        if timestamp == END:
            for name, amount in (*summary(shard.castle.counters), *in_force(self._plan)):
                yield SUMMARY, row([shard.castle.shard, name, amount])

    def _load(self, ctx: KeyedProcessFunction.Context, key: int, number: int | None) -> Shard:
        timers = ctx.timer_service()
        if timers.current_watermark() != END:
            # Timers are part of the state; registered twice, this one still fires once. A drained job has none left.
            timers.register_event_time_timer(END)
        self._wake_up_later(ctx)
        shard = self._shards[key] = self._restored(key, number)
        return shard

    def _restored(self, key: int, number: int | None) -> Shard:
        plan = self._plan
        stored = self._store.read()
        if stored is not None:
            castle, memory = Memory.restore(
                plan.policy,
                plan.privacy,
                plan.castle,
                members=plan.members,
                fingerprint=plan.fingerprint,
                stored=stored,
                differential_privacy=plan.differential_privacy,
                where=f"key {key}",
            )
            return Shard(castle, memory)
        if number is None:
            raise RuntimeError("a timer fired for a shard of which nothing is stored")
        castle = Castle(
            plan.policy,
            plan.privacy,
            plan.castle,
            members=plan.members,
            shard=number,
            key=shard_key(plan.seed, number),
            differential_privacy=plan.differential_privacy,
        )
        return Shard(castle, Memory(castle, plan.fingerprint))

    def _wake_up_later(self, ctx: KeyedProcessFunction.Context) -> None:
        # A restored shard is known to Flink alone until something comes for its key. Its old deadline may lie far
        # behind the one of a shorter event-time delay, so a timer of processing time brings it back soon after.
        if self._plan.policy.event_time is not None:
            timers = ctx.timer_service()
            # At whole intervals, where a restored series of wake-ups and one that was begun anew become one.
            timers.register_processing_time_timer((timers.current_processing_time() // WAKE_UP + 1) * WAKE_UP)

    def _set_timer(self, shard: Shard, ctx: KeyedProcessFunction.Context) -> None:
        # One timer a shard, for its earliest deadline; one that is set too early finds nothing due and sets the next.
        deadline = shard.castle.next_deadline
        if deadline is not None and (shard.timer is None or deadline < shard.timer):
            if shard.timer is not None:
                ctx.timer_service().delete_event_time_timer(shard.timer)
            ctx.timer_service().register_event_time_timer(deadline)
            shard.timer = deadline

    def _emit(self, releases: Releases, shard: Shard) -> Iterator[Any]:
        for suppressed in self._emitter.suppressed(releases, shard.castle.shard):
            yield SUPPRESSED, suppressed
        yield from self._emitter.releases(releases, shard.castle.shard)


def summary(counters: Counters) -> Iterator[tuple[str, float]]:
    """A shard's counters as (name, amount); ``delay.N`` counts tuples that waited for about N later ones."""
    yield "tuples_in", counters.tuples_in
    yield "sampled_out", counters.sampled_out
    yield "released", counters.released
    yield "merges", counters.merges
    yield "splits", counters.splits
    yield "loss_sum", counters.loss_sum
    yield "longest_delay", counters.longest_delay
    for group in ("suppressed", "rejected", "releases"):
        for name, amount in getattr(counters, group).items():
            yield f"{group}.{name}", amount
    for bucket in counters.delays.nonzero()[0].tolist():
        yield f"delay.{delay_of_bucket(bucket)}", int(counters.delays[bucket])


def in_force(plan: OperatorPlan) -> Iterator[tuple[str, float]]:
    """What was promised, as (name, amount) with ``parameter.`` before each name."""
    yield "parameter.k", plan.privacy.k
    yield "parameter.l", plan.privacy.l
    if plan.differential_privacy is not None:
        yield "parameter.sample_rate", plan.differential_privacy.sample_rate
        yield "parameter.phi", plan.differential_privacy.phi
