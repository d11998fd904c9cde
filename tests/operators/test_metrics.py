"""Metrics as they reach Java: told at the first bundle, and later where they change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.metrics.execution import MetricsContainer
from apache_beam.runners.common import NameContext
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from hypothesis import given
from hypothesis import strategies as st
from pyflink.fn_execution.datastream.process.operations import Operation
from pyflink.fn_execution.metrics.process.metric_impl import GenericMetricGroup

from crenel.operators.metrics import Metrics

COUNTERS = ("in", "out")
GAUGES = ("waiting", "oldest")


class Java:
    """Metrics of one operator in Flink, as Python reports them at the end of each bundle."""

    def __init__(self) -> None:
        self.container = MetricsContainer("step")
        self.known: dict[str, int] = {}
        self.reported: set[str] = set()

    @contextmanager
    def bundle(self, end: Callable[[], None]) -> Iterator[None]:
        """Return a bundle, as ``FunctionOperation`` of PyFlink and Beam's bundle processor have it."""
        sampler = StateSampler("bundle", CounterFactory())
        state = sampler.scoped_state(NameContext("step"), "finish", metrics_container=self.container)
        sampler.start()
        try:
            with state:
                yield
                end()
        finally:
            sampler.stop()
        self.reported = set()
        for key, cell in self.container.metrics.items():
            name, counts = key.metric_name.name, "Counter" in key.cell_type.__name__
            amount = cell.get_cumulative() if counts else cell.get_cumulative().value
            self.known[name] = amount + (self.known.get(name, 0) if counts else 0)
            self.reported.add(name)
        self.container.reset()


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(COUNTERS), st.integers(1, 5))),
            st.tuples(*(st.integers(0, 3) for _ in GAUGES)),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_java_knows_everything_and_is_told_what_has_changed(bundles: list[tuple[list[Any], tuple[int, ...]]]) -> None:
    group, java, now = GenericMetricGroup(None, None), Java(), dict.fromkeys((*COUNTERS, *GAUGES), 0)
    metrics = Metrics(group)
    counters = {name: metrics.counter(name) for name in COUNTERS}
    for gauge in GAUGES:
        metrics.gauge(gauge, lambda gauge=gauge: now[gauge])
    before: dict[str, int] = {}
    for counted, gauges in bundles:
        with java.bundle(Finishing(group).finish):
            for name, amount in counted:
                counters[name].inc(amount)
                now[name] += amount
            now |= dict(zip(GAUGES, gauges, strict=True))
        assert java.known == now
        assert java.reported == {name for name in now if now[name] != before.get(name)}
        before = dict(now)


def test_they_are_of_one_group() -> None:
    group, java = GenericMetricGroup(None, None), Java()
    metrics = Metrics(group)
    metrics.counter("in")
    metrics.gauge("waiting", lambda: 1)
    with java.bundle(Finishing(group).finish):
        pass
    spaces = {json.loads(key.metric_name.namespace)[0] for key in java.container.metrics}
    assert spaces == {"crenel"}


class Finishing(Operation):  # type: ignore[misc]
    """An operation that does nothing but end bundles."""

    def __init__(self, group: GenericMetricGroup) -> None:
        self.base_metric_group, self.operator_state_backend = group, None

    def open(self) -> None: ...

    def close(self) -> None: ...

    def process_element(self, value: Any) -> None: ...
