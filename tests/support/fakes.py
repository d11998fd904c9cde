"""Just enough of Flink for an operator to run in: keyed state, timers, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyflink.datastream import KeyedProcessFunction, OutputTag, TimeDomain

MIN = -(2**63)
START = 1_700_000_000_000
"""Where processing time begins, milliseconds."""


class FakeState:
    """Value and map state of the current key. Entries are copied, as a state back end does."""

    def __init__(self, runtime: FakeRuntime, name: str) -> None:
        self._runtime, self._name = runtime, name

    def _entries(self) -> dict[Any, bytes]:
        return self._runtime.state.setdefault((self._runtime.key, self._name), {})

    def value(self) -> bytes | None:
        return self._entries().get(None)

    def update(self, value: bytes) -> None:
        self.put(None, value)

    def put(self, key: int | None, value: bytes) -> None:
        self._runtime.writes += 1
        self._entries()[key] = bytes(value)

    def remove(self, key: int) -> None:
        self._runtime.writes += 1
        self._entries().pop(key, None)

    def items(self) -> list[tuple[int, bytes]]:
        return list(self._entries().items())


class FakeMetrics:
    """A metric group that remembers counters and gauges by name, and names of groups before them."""

    def __init__(self, path: str = "", known: dict[str, Any] | None = None) -> None:
        self._path = path
        self.known: dict[str, Any] = {} if known is None else known

    def add_group(self, name: str) -> FakeMetrics:
        return FakeMetrics(f"{self._path}{name}.", self.known)

    def counter(self, name: str) -> FakeCounter:
        counter = self.known[self._path + name] = FakeCounter()
        return counter

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        self.known[self._path + name] = read


class FakeCounter:
    """A counter."""

    def __init__(self) -> None:
        self.count = 0

    def inc(self, amount: int = 1) -> None:
        self.count += amount


class FakeRuntime:
    """The runtime of one operator: its state outlives the function, as in a restart from a checkpoint."""

    def __init__(self) -> None:
        self.state: dict[tuple[int, str], dict[Any, bytes]] = {}
        self.writes = 0
        self.timers: set[tuple[int, int]] = set()
        self.wake_ups: set[tuple[int, int]] = set()
        self.key = 0
        self.watermark = MIN
        self.clock = START
        self.domain = TimeDomain.EVENT_TIME
        self.metrics = FakeMetrics()

    # RuntimeContext
    def get_state(self, descriptor: Any) -> FakeState:
        return FakeState(self, descriptor.name)

    def get_map_state(self, descriptor: Any) -> FakeState:
        return FakeState(self, descriptor.name)

    def get_metrics_group(self) -> FakeMetrics:
        return self.metrics

    # Context and timer service
    def timer_service(self) -> FakeRuntime:
        return self

    def current_watermark(self) -> int:
        return self.watermark

    def get_current_key(self) -> int:
        return self.key

    def register_event_time_timer(self, time: int) -> None:
        self.timers.add((time, self.key))

    def delete_event_time_timer(self, time: int) -> None:
        self.timers.discard((time, self.key))

    def current_processing_time(self) -> int:
        return self.clock

    def register_processing_time_timer(self, time: int) -> None:
        self.wake_ups.add((time, self.key))

    def time_domain(self) -> TimeDomain:
        return self.domain


class Harness:
    """Drives an operator as Flink does: one element at a time, and timers in order once their time has come.

    As after a restore, a new one finds the state and the timers of ``runtime``, and no watermark.
    """

    def __init__(self, function: KeyedProcessFunction, runtime: FakeRuntime | None = None) -> None:
        self.function = function
        self.runtime = runtime or FakeRuntime()
        self.main: list[list[Any]] = []
        self.side: dict[str, list[list[Any]]] = {}
        self.runtime.watermark = MIN
        function.open(self.runtime)  # type: ignore[arg-type]

    def element(self, key: int, value: bytes | None) -> None:
        self.runtime.key = key
        self._collect(self.function.process_element((key, value), self.runtime))  # type: ignore[arg-type]

    def advance(self, watermark: int) -> None:
        """Advance the watermark."""
        self.runtime.watermark = watermark
        self.runtime.domain = TimeDomain.EVENT_TIME
        while due := sorted(timer for timer in self.runtime.timers if timer[0] <= watermark):
            self.runtime.timers.remove(due[0])
            self._fire(*due[0])

    def wait(self, milliseconds: int) -> None:
        """Advance the processing time."""
        until = self.runtime.clock + milliseconds
        self.runtime.domain = TimeDomain.PROCESSING_TIME
        while due := sorted(timer for timer in self.runtime.wake_ups if timer[0] <= until):
            self.runtime.wake_ups.remove(due[0])
            self.runtime.clock = max(self.runtime.clock, due[0][0])
            self._fire(*due[0])
        self.runtime.clock = until

    def _fire(self, time: int, key: int) -> None:
        self.runtime.key = key
        self._collect(self.function.on_timer(time, self.runtime))  # type: ignore[arg-type]

    def _collect(self, outputs: Iterator[Any]) -> None:
        for output in outputs:
            if isinstance(output, tuple) and isinstance(output[0], OutputTag):
                self.side.setdefault(output[0].tag_id, []).append(list(output[1].values))
            else:
                (releases,) = output.values
                self.main += [list(release.values) for release in releases]


class Staged:
    """Drives two operators: what the first one sends reaches the second at once, in order.

    Parameters
    ----------
    runtimes : of the two operators; their clocks go together
    """

    def __init__(
        self, first: KeyedProcessFunction, second: KeyedProcessFunction, runtimes: tuple[FakeRuntime, FakeRuntime]
    ) -> None:
        self.second = Harness(second, runtimes[1])
        self._first = _Sending(first, runtimes[0], self._receive)

    @property
    def main(self) -> list[list[Any]]:
        return self.second.main

    @property
    def side(self) -> dict[str, list[list[Any]]]:
        return self.second.side

    def element(self, key: int, value: bytes | None) -> None:
        self._first.element(key, value)

    def advance(self, watermark: int) -> None:
        """Advance the watermark, in the first operator first."""
        self._first.advance(watermark)
        self.second.advance(watermark)

    def wait(self, milliseconds: int) -> None:
        """Advance the processing time of both."""
        until = self._first.runtime.clock + milliseconds
        self._first.wait(milliseconds)
        self.second.wait(until - self.second.runtime.clock)

    def _receive(self, key: int, value: bytes | None) -> None:
        self.second.wait(self._first.runtime.clock - self.second.runtime.clock)
        self.second.element(key, value)


class _Sending(Harness):
    """Drives an operator whose output are rows (key, row of the key and bytes) for another one."""

    def __init__(
        self, function: KeyedProcessFunction, runtime: FakeRuntime, receive: Callable[[int, bytes | None], None]
    ) -> None:
        super().__init__(function, runtime)
        self._receive = receive

    def _collect(self, outputs: Iterator[Any]) -> None:
        for output in outputs:
            key, (same, value) = output.values[0], output.values[1].values
            assert key == same
            self._receive(key, value)
