"""Metrics of time that records wait by the clock, which alerts compare with the delay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.compiled.notice import compilation_timer
from crenel.anonymity.model.delay import Delay
from crenel.operators.shards.function import ShardFunction
from crenel.state.block import NO_TIME
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, block, planned

MINUTE = 60_000


def operator() -> ShardFunction:
    return ShardFunction(replace(planned(Nearest(Delay(event_time=60 * MINUTE))), encoders=2))


@pytest.fixture
def harness() -> Harness:
    return Harness(operator())


def send(harness: Harness, count: int, encoder: int, watermark: int = NO_TIME, first: int = 0) -> int:
    """Send tuples; return the event time of the last one."""
    coming = block(first, count)
    harness.element(KEY, replace(coming, watermark=np.full(count, watermark, np.int64), encoder=encoder).to_bytes())
    return int(coming.event_time[-1])


def shown(harness: Harness, name: str) -> int:
    return int(harness.runtime.metrics.known[f"crenel.{name}"]())


def test_readers_without_a_watermark_are_counted_while_tuples_wait(harness: Harness) -> None:
    assert shown(harness, "readers_without_watermark") == 0
    send(harness, 20, encoder=91)
    harness.wait(30_000)
    assert (shown(harness, "readers_without_watermark"), shown(harness, "event_time_standstill_s")) == (2, 30)
    last = send(harness, 20, encoder=91, watermark=1, first=20)
    harness.wait(30_000)
    assert (shown(harness, "readers_without_watermark"), shown(harness, "event_time_standstill_s")) == (1, 60)
    harness.advance(last - MINUTE)  # Flink excludes an idle reader
    harness.wait(10_000)  # a shard is woken up as often
    assert (shown(harness, "readers_without_watermark"), shown(harness, "event_time_standstill_s")) == (0, 0)
    harness.wait(10_000)
    assert (shown(harness, "readers_without_watermark"), shown(harness, "event_time_standstill_s")) == (0, 10)
    harness.advance(last + 61 * MINUTE)
    harness.wait(10_000)
    assert shown(harness, "buffered") == shown(harness, "event_time_standstill_s") == 0


def test_event_time_stands_still_only_while_tuples_wait(harness: Harness) -> None:
    last = send(harness, 20, encoder=91, watermark=1)
    harness.advance(last + 61 * MINUTE)
    harness.wait(5 * MINUTE)  # a quiet stream
    send(harness, 20, encoder=91, watermark=last, first=10_000)
    assert shown(harness, "event_time_standstill_s") == 0
    harness.wait(MINUTE)
    assert shown(harness, "event_time_standstill_s") == 60


def test_the_wait_of_the_oldest_tuple_is_that_of_the_clock(harness: Harness) -> None:
    assert shown(harness, "delay_s") == 3600
    first = send(harness, 20, encoder=91)
    harness.wait(20 * MINUTE)
    send(harness, 20, encoder=91, first=10_000)
    harness.wait(5 * MINUTE)
    assert shown(harness, "oldest_waiting_s") == 25 * 60
    harness.advance(first + 61 * MINUTE)
    harness.wait(MINUTE)
    assert 0 < shown(harness, "buffered") < 20  # of those that came later
    assert shown(harness, "oldest_waiting_s") == 6 * 60


def test_a_tuple_that_ends_a_quiet_time_has_not_waited_through_it(harness: Harness) -> None:
    last = send(harness, 20, encoder=91)
    harness.advance(last + 61 * MINUTE)
    assert shown(harness, "buffered") == 0
    harness.wait(20 * MINUTE)
    send(harness, 20, encoder=91, first=10_000)
    harness.wait(MINUTE)
    assert shown(harness, "oldest_waiting_s") == 60


def test_after_a_restore_the_clock_of_a_wait_begins_anew(harness: Harness) -> None:
    send(harness, 20, encoder=91)
    harness.wait(20 * MINUTE)
    again = Harness(operator(), harness.runtime)
    again.wait(2 * MINUTE)
    assert shown(again, "buffered") == 20
    assert 60 < shown(again, "oldest_waiting_s") <= 120


def test_compilation_is_timed_once_in_a_process(harness: Harness) -> None:
    before, timer = shown(harness, "compilation_s"), compilation_timer()
    timer.on_start(None)
    timer._ts -= 93
    timer.on_end(None)
    assert shown(harness, "compilation_s") - before == 93
