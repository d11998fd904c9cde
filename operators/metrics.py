"""Flink metrics of an operator that cost time only when they change.

At the end of each bundle Beam reports every metric with a cell to Java, at about 20 microseconds each, whether it
changed or not. A bundle of blocks takes two milliseconds, and an operator has dozens of metrics. So a cell is removed
once it was reported and has no news. Java keeps its state: it adds up the amounts of counters, and keeps gauges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apache_beam.metrics.cells import CounterCell, GaugeCell
from apache_beam.metrics.execution import MetricsEnvironment
from pyflink.metrics import MetricGroup

GROUP = "crenel"
SCALE = 1000
"""Scale of losses and shares in gauges, which are integers in PyFlink: they are given in thousandths."""


class Metrics:
    """Counters and gauges of one operator, in the group ``crenel``.

    All of them exist from the end of the first bundle on, also counters at 0. Gauges trigger the work at the end of a
    bundle, so there must be at least one.

    Parameters
    ----------
    group : the operator's metric group
    """

    def __init__(self, group: MetricGroup) -> None:
        self._group = group.add_group(GROUP)
        self._counters: list[Any] = []
        self._reported: set[Any] = set()

    def counter(self, name: str) -> Any:
        """Register and return a counter."""
        counter = self._group.counter(name)
        self._counters.append(counter)
        return counter

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Register a gauge, read at the end of each bundle."""
        self._group.gauge(name, read)
        gauges: dict[str, Any] | None = getattr(self._group, "_beam_gauge", None)
        if gauges is not None:
            gauges[name] = _Changing(gauges[name], self._end_bundle if len(gauges) == 1 else None)

    def _end_bundle(self) -> None:
        container = MetricsEnvironment.current_container()
        if container is None:
            return
        for counter in self._counters:
            counter.inc(0)  # creates a missing cell
        self._counters.clear()
        cells = container.metrics
        for name, cell in list(cells.items()):
            is_reported = name in self._reported and name.cell_type is CounterCell and not cell.get_cumulative()
            if is_reported or name.cell_type is GaugeCell:
                del cells[name]
            else:
                self._reported.add(name)


class _Changing:
    """A Beam gauge that is set only when it changes.

    Parameters
    ----------
    gauge : Beam's gauge
    first : function to call before each update; None: no function
    """

    def __init__(self, gauge: Any, first: Callable[[], None] | None) -> None:
        self._gauge, self._first = gauge, first
        self._value: int | None = None

    def set(self, value: int) -> None:
        if self._first is not None:
            self._first()
        if value != self._value:
            self._gauge.set(value)
            self._value = value
