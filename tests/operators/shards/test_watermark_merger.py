"""Watermark of each tuple at its arrival, merged from several encoders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.delay import Delay
from crenel.operators.shards.function import ShardFunction
from crenel.operators.shards.stream import WatermarkMerger
from crenel.state.block import NO_TIME, Block
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, block, planned


def watermarks_after(passed: WatermarkMerger, encoder: int, *watermark: int) -> list[int] | None:
    """Return the watermarks of a block of so many tuples."""
    coming = replace(block(0, len(watermark)), watermark=np.array(watermark, np.int64), encoder=encoder)
    found = passed.merge(coming).watermark
    return None if found is None else found.tolist()


def test_of_one_encoder_all_counts() -> None:
    passed = WatermarkMerger(1)
    assert watermarks_after(passed, 5, NO_TIME, 10, 20) == [NO_TIME, 10, 20]
    assert watermarks_after(passed, 5, 20, 30) == [20, 30]


def test_of_several_nothing_counts_before_each_has_told_and_then_the_least() -> None:
    passed = WatermarkMerger(3)
    assert watermarks_after(passed, 1, 10, 20) is None
    assert watermarks_after(passed, 2, 5) is None
    assert watermarks_after(passed, 1, 30) is None
    assert watermarks_after(passed, 3, 1, 8) == [1, 5]
    assert watermarks_after(passed, 2, 25) == [8]
    assert watermarks_after(passed, 3, 26, 40) == [25, 25]
    assert watermarks_after(passed, 1, 50, 60) == [25, 25]


def test_more_encoders_than_were_planned_count_too() -> None:
    passed = WatermarkMerger(1)
    assert watermarks_after(passed, 1, 10) == [10]
    assert watermarks_after(passed, 2, 3, 12) == [3, 10]


def test_a_block_that_says_nothing_or_holds_no_tuple_stays_as_it_is() -> None:
    passed = WatermarkMerger(2)
    silent = block(0, 3)
    assert passed.merge(silent) is silent
    assert watermarks_after(passed, 1) == []
    assert watermarks_after(passed, 2, 10) is None


def test_tuples_leave_on_time_within_a_block_and_only_by_what_counts() -> None:
    # One tuple a second comes, and may wait for five.
    plan = planned(Castle(Delay(event_time=5000)))
    coming = block(0, 300)
    riding = replace(coming, watermark=coming.event_time - 1000)
    assert longest(ShardFunction(plan), riding) == 5
    assert longest(ShardFunction(plan), coming) == 299
    assert longest(ShardFunction(replace(plan, encoders=2)), riding) == 299


def longest(function: ShardFunction, coming: Block) -> int:
    """For how many later tuples one of a block waited, which Flink told of no watermark."""
    harness = Harness(function)
    harness.element(KEY, coming.to_bytes())
    harness.advance(2**63 - 1)
    (most,) = (amount for _, name, amount in harness.side["summary"] if name == "longest_delay")
    return int(most)
