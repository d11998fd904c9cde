"""The operator of Mondrian between Flink and the core, in a fake runtime."""

from __future__ import annotations

from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.model.delay import Window
from crenel.operators.shards.function import END, ShardFunction
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, block, left, planned


def started(window: Window, runtime: FakeRuntime | None = None) -> Harness:
    return Harness(ShardFunction(planned(Mondrian(window))), runtime)


def test_a_timer_closes_the_window_whose_event_time_has_passed() -> None:
    harness = started(Window(event_time=60_000))
    harness.element(KEY, block(100, 50).to_bytes())
    assert harness.runtime.timers == {(END, KEY), (160_000, KEY)}
    assert not harness.main
    harness.advance(160_000)
    assert left(harness) == list(range(100, 150))
    assert len(harness.main) > 1
    assert harness.runtime.timers == {(END, KEY)}


def test_all_of_a_bounded_input_is_one_window() -> None:
    harness = started(Window())
    for first in range(0, 150, 50):
        harness.element(KEY, block(first, 50).to_bytes())
    assert not left(harness)
    harness.advance(END)
    assert left(harness) == list(range(150))
    assert not harness.runtime.state[KEY, "blocks"]
    assert ("windows", 1) in [(name, amount) for _, name, amount in harness.side["summary"]]
