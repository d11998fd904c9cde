"""Diagnostics of streams with unexpected figures."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, TREE, block, planned


def found(
    plan: AnonymizationPlan, first: float = 50.0, watermarks: tuple[int, ...] = (), rides: tuple[int, int] | None = None
) -> dict[str, float]:
    """Return the entries in the summary of a shard, of 300 tuples, the first of that age.

    ``rides``: by how much the watermark is behind that rides on the tuples, and with each how many it moves.
    """
    harness = Harness(ShardFunction(plan))
    tuples = block(0, 300)
    tuples.numeric[0, 0] = first
    if rides is not None:
        behind, every = rides
        newest = tuples.event_time[np.maximum(np.arange(300) // every * every - 1, 0)]
        tuples = dataclasses.replace(tuples, watermark=newest - behind)
    for start in range(0, 300, 30):
        rows = (np.arange(300) // 30) == start // 30
        watermark = None if tuples.watermark is None else tuples.watermark[rows]
        part = dataclasses.replace(tuples, **tuples.chosen(rows), watermark=watermark)
        harness.element(KEY, part.to_bytes())
        if start < len(watermarks) * 30:
            harness.advance(watermarks[start // 30])
    harness.advance(END)
    return {name: amount for _, name, amount in harness.side["summary"]}


def plan(*, domain: tuple[float, float] | None = None, noise: bool = False, **castle: Delay) -> AnonymizationPlan:
    made = planned(Castle(**castle))
    attributes = {"age": Numeric(domain, 1), "group": Categorical(TREE)}
    terms = dataclasses.replace(
        made.context,
        policy=dataclasses.replace(made.context.policy, quasi_identifiers=attributes),
        sampling_and_noise=SamplingAndNoise(0.9, 50.0, range="observed") if noise else None,
    )
    return dataclasses.replace(made, context=terms)


def test_one_far_value_in_an_observed_range_is_noted() -> None:
    assert 900 < found(plan(delay=Delay(20)), 100_000.0)["stretch.age"] < 1200
    assert found(plan(delay=Delay(20)))["stretch.age"] < 1.2


def test_declared_and_noised_ranges_are_not_watched() -> None:
    assert "stretch.age" not in found(plan(delay=Delay(20), domain=(0, 200_000)), 100_000.0)
    assert "stretch.age" not in found(plan(delay=Delay(20), noise=True), 100_000.0)


def test_tuples_that_left_long_after_their_delay_are_counted() -> None:
    # One tuple a second comes, and may wait for five; the watermark comes with the end alone.
    assert found(plan(delay=Delay(event_time=5000)))["overdue"] > 240
    every_block = tuple(range(29_000, 300_000, 30_000))
    late = found(plan(delay=Delay(event_time=5000)), watermarks=every_block)["overdue"]
    assert 0 < late < 240
    assert found(plan(delay=Delay(event_time=60_000)), watermarks=every_block)["overdue"] == 0
    assert found(plan(delay=Delay(20)))["overdue"] == 0


@pytest.mark.parametrize(
    ("behind", "every", "overdue"), [(0, 1, False), (1000, 1, False), (0, 4, False), (0, 30, True)]
)
def test_what_rides_on_blocks_tells_when_tuples_left(behind: int, every: int, overdue: bool) -> None:
    assert (found(plan(delay=Delay(event_time=5000)), rides=(behind, every))["overdue"] > 0) == overdue
