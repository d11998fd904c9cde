"""What a shard needs of Flink, whatever the algorithm: state, timers, wake-ups, outputs, and a summary at the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pyflink.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, TimeDomain

from anonymity.castle.shard import Counters
from anonymity.release import Releases
from anonymity.tuples.delays import delay_of_bucket
from anonymity.window.shard import WindowCounters
from operators.emit import REJECTED_TYPE, SUMMARY_TYPE, SUPPRESSED_TYPE, Emitter, row
from operators.shards.metrics import Gauges, ShardMetrics
from operators.shards.plan import OperatorPlan
from state.block import Block
from state.flink import ShardStore
from state.shard import Changes, Stored

SUPPRESSED = OutputTag("suppressed", SUPPRESSED_TYPE)
REJECTED = OutputTag("rejected", REJECTED_TYPE)
SUMMARY = OutputTag("summary", SUMMARY_TYPE)

END = 2**63 - 1
"""Event time at the end of the input."""

WAKE_UP = 10_000
"""Milliseconds of processing time between two wake-ups of a shard: so long after a restore all of them are loaded."""


class Core(Protocol):
    """What ``anonymity.castle.shard.Castle`` and ``anonymity.window.shard.Window`` have in common."""

    shard: int

    @property
    def counters(self) -> Counters | WindowCounters: ...

    @property
    def next_deadline(self) -> int | None: ...

    def push(self, block: Block, watermark: int) -> Releases: ...

    def advance(self, watermark: int) -> Releases: ...

    def finish(self) -> Releases: ...


class Store(Protocol):
    """What is stored of a core: ``anonymity.castle.stored.Memory`` and its like."""

    def changes(self) -> Changes: ...


C = TypeVar("C", bound=Core)


class Shard(Generic[C]):
    """The live form of one key: the core, what is stored of it, its counters, and the timer that is set for it."""

    def __init__(self, core: C, memory: Store) -> None:
        self.core = core
        self.memory = memory
        self.counters = core.counters
        self.timer: int | None = None


class ShardFunction(KeyedProcessFunction, Generic[C]):  # type: ignore[misc]
    """Anonymises the blocks of each shard.

    In: rows (shard key, bytes of a ``state.block.Block``). Out: releases; side outputs ``SUPPRESSED``, ``REJECTED``
    and, once the input has ended, ``SUMMARY``. All of them must be wired, and those of a subclass: PyFlink sends what
    is yielded for a side output to the main one where no side output is.

    Attributes
    ----------
    counted : names of the counters that are metrics, and that the summary begins with
    gauges : further metrics
    """

    counted: ClassVar[tuple[str, ...]]
    gauges: ClassVar[Gauges]

    def __init__(self, plan: OperatorPlan) -> None:
        self._plan = plan

    @abstractmethod
    def new(self, number: int) -> tuple[C, Store]:
        """A shard of which nothing is stored."""

    @abstractmethod
    def restored(self, stored: Stored, where: str) -> tuple[C, Store]:
        """A shard as it was stored; ``where`` names it in errors."""

    def further(self, core: C, releases: Releases) -> Iterator[tuple[OutputTag, Any]]:
        """What else a step yields, after its ``releases``."""
        return iter(())

    def open(self, runtime_context: RuntimeContext) -> None:
        self._store = ShardStore(runtime_context)
        self._emitter = Emitter(self._plan)
        self._shards: dict[int, Shard[C]] = {}
        self._metrics = ShardMetrics(runtime_context.get_metrics_group(), self._shards, self.counted, self.gauges)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key = value[0]
        block = Block.from_bytes(value[1], self._plan.members, f"key {key}")
        shard = self._shards.get(key)
        if shard is None:
            shard = self._load(ctx, key, block.shard)
        # A watermark that comes within a bundle is held until its end, so a tuple may be overdue before a timer fires.
        releases = shard.core.push(block, ctx.timer_service().current_watermark())
        self._keep(shard, ctx)
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
        watermark = ctx.timer_service().current_watermark()
        ended = watermark == END
        releases = shard.core.finish() if ended else shard.core.advance(watermark)
        self._keep(shard, ctx)
        yield from self._emit(releases, shard)
        if timestamp == END:
            for name, amount in (*summary(shard.counters, self.counted), *in_force(self._plan)):
                yield SUMMARY, row([shard.core.shard, name, amount])

    def _load(self, ctx: KeyedProcessFunction.Context, key: int, number: int | None) -> Shard[C]:
        timers = ctx.timer_service()
        if timers.current_watermark() != END:
            # Timers are part of the state; registered twice, this one still fires once. A drained job has none left.
            timers.register_event_time_timer(END)
        self._wake_up_later(ctx)
        stored = self._store.read()
        if stored is not None:
            core, memory = self.restored(stored, f"key {key}")
        elif number is None:
            raise RuntimeError("a timer fired for a shard of which nothing is stored")
        else:
            core, memory = self.new(number)
        shard = self._shards[key] = Shard(core, memory)
        return shard

    def _wake_up_later(self, ctx: KeyedProcessFunction.Context) -> None:
        # A restored shard is known to Flink alone until something comes for its key. Its old deadline may lie far
        # behind the one of a shorter event-time delay, so a timer of processing time brings it back soon after.
        if self._plan.policy.event_time is not None:
            timers = ctx.timer_service()
            # At whole intervals, where a restored series of wake-ups and one that was begun anew become one.
            timers.register_processing_time_timer((timers.current_processing_time() // WAKE_UP + 1) * WAKE_UP)

    def _keep(self, shard: Shard[C], ctx: KeyedProcessFunction.Context) -> None:
        """After a step: store what it changed, set the timer, and count what it did."""
        self._store.write(shard.memory.changes())
        self._set_timer(shard, ctx)
        before, shard.counters = shard.counters, shard.core.counters
        self._metrics.update(before, shard.counters)

    def _set_timer(self, shard: Shard[C], ctx: KeyedProcessFunction.Context) -> None:
        # One timer a shard, for its earliest deadline; one that is set too early finds nothing due and sets the next.
        deadline = shard.core.next_deadline
        if deadline is not None and (shard.timer is None or deadline < shard.timer):
            if shard.timer is not None:
                ctx.timer_service().delete_event_time_timer(shard.timer)
            ctx.timer_service().register_event_time_timer(deadline)
            shard.timer = deadline

    def _emit(self, releases: Releases, shard: Shard[C]) -> Iterator[Any]:
        for suppressed in self._emitter.suppressed(releases, shard.core.shard):
            yield SUPPRESSED, suppressed
        yield from self._emitter.releases(releases, shard.core.shard)
        yield from self.further(shard.core, releases)


def summary(counters: Counters | WindowCounters, counted: Sequence[str]) -> Iterator[tuple[str, float]]:
    """A shard's counters as (name, amount); ``delay.N`` counts tuples that waited for about N later ones."""
    for name in (*counted, "loss_sum", "longest_delay"):
        yield name, getattr(counters, name)
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
