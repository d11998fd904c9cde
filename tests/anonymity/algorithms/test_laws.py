"""Invariants of all algorithms on any stream and under any policy, judged by the checker of each."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.durations import LONGEST
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import KEY, Setting, columns_of, judged, judged_as_restored
from tests.support.example_counts import FEW, LAWS
from tests.support.mondrian_drive import MondrianSetting, mondrian_cases
from tests.support.nearest_drive import NearestSetting, nearest_cases
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.strategies import ONE_BY_ONE, Case, cases, cuts, restores
from tests.support.window_drive import WindowSetting, window_cases


@dataclass(frozen=True)
class Drive:
    """An algorithm in these tests.

    Attributes
    ----------
    cases : what draws a setting and a stream
    bounded : parameters by a bound of event time
    stored : kinds of entries that are stored while tuples are buffered, by the parameters
    """

    cases: Callable[..., st.SearchStrategy[Case]]
    setting: type[Setting]
    bounded: Callable[[int], Any]
    stored: Callable[[Any], tuple[str, ...]] = lambda _: ("blocks",)


DRIVES = {
    "castle": Drive(cases, Setting, lambda time: Castle(Delay(event_time=time)), lambda _: ("blocks", "gamma")),
    "nearest": Drive(
        nearest_cases,
        NearestSetting,
        lambda time: Nearest(Delay(None, time)),
        lambda of: ("blocks", "radii") if of.isolation_price else ("blocks",),
    ),
    "suhdsa": Drive(window_cases, WindowSetting, lambda time: Suhdsa(event_time=time)),
    "mondrian": Drive(mondrian_cases, MondrianSetting, lambda time: Mondrian(Window(None, time))),
}
of_all = pytest.mark.parametrize("of", DRIVES.values(), ids=DRIVES)
of_windows = pytest.mark.parametrize("of", [DRIVES["suhdsa"], DRIVES["mondrian"]], ids=["suhdsa", "mondrian"])


@of_all
@given(st.data(), cuts, restores)
@LAWS
def test_k_and_l_hold_and_every_tuple_leaves_once_in_time_however_blocks_are_cut_and_restored(
    of: Drive, data: st.DataObject, cut: tuple[int, ...], restores: Container[int]
) -> None:
    case = data.draw(of.cases())
    # One by one the checker knows when each tuple left, and what had been seen by then.
    expected, counters, _ = judged(case.setting, case.steps(ONE_BY_ONE))
    kinds = of.stored(case.setting.algorithm)
    found, again = judged_as_restored(case.setting, case.steps(cut), restores, kinds)
    assert columns_of(found) == columns_of(expected)
    assert again.delays.tolist() == counters.delays.tolist()
    assert replace(again, delays=counters.delays) == counters


@pytest.mark.parametrize("algorithm", ["castle", "suhdsa", "mondrian"])
@given(st.data(), cuts)
@LAWS
def test_confidence_suppresses_tuples_of_too_few_persons_and_lets_others_of_a_small_class_wait(
    algorithm: str, data: st.DataObject, cut: tuple[int, ...]
) -> None:
    # Clusters of few tuples leave at many moments.
    changed = {"delay": Delay(16), "max_clusters": 2} if algorithm == "castle" else {}
    case = data.draw(DRIVES[algorithm].cases(confident=True, timed=True, **changed))
    judged(case.setting, case.steps(cut if algorithm == "mondrian" else ONE_BY_ONE))


@of_all
@given(st.data())
@FEW
def test_a_watermark_that_comes_with_a_block_counts_as_passed(of: Drive, data: st.DataObject) -> None:
    case = data.draw(of.cases(timed=True))
    judged(case.setting, case.leaps())


@of_windows
@given(st.data(), st.binary(min_size=32, max_size=32))
@FEW
def test_the_key_decides_only_the_order_of_members_and_their_noise(of: Drive, data: st.DataObject, key: bytes) -> None:
    case = data.draw(of.cases(confident=False))
    policy = case.setting.policy
    noised = {policy.members.index(attribute.name) for attribute in policy.noised.values()}
    first, counters, _ = judged(case.setting, case.steps(), key)
    second, again, _ = judged(case.setting, case.steps(), KEY)
    assert replace(counters, delays=again.delays, linked=again.linked) == again
    for one, other in zip(first, second, strict=True):
        assert (one.lower.tolist(), one.node.tolist()) == (other.lower.tolist(), other.node.tolist())
        for i, columns in enumerate(zip(one.members, other.members, strict=True)):
            mine, others = (sorted(map(repr, column)) for column in columns)
            assert i in noised or mine == others


@of_all
@given(st.data(), cuts)
@FEW
def test_a_push_does_not_change_what_it_is_given(of: Drive, data: st.DataObject, cut: tuple[int, ...]) -> None:
    case = data.draw(of.cases())
    shard = case.setting.shard()
    for step in case.steps(cut):
        if isinstance(step, Push):
            block = case.setting.block(step.rows)
            before = block.to_bytes()
            shard.push(block, step.watermark)
            assert block.to_bytes() == before


@of_all
@pytest.mark.parametrize("event_time", [-(2**63) + 1, -(2**62), 0, 2**62, 2**63 - 1])
@pytest.mark.parametrize("size", [0, 1, LONGEST])
def test_event_times_and_delays_at_the_ends_of_their_range_do_not_wrap_around(
    of: Drive, event_time: int, size: int
) -> None:
    policy = Policy({"age": Numeric()}, passthrough=(IDENTITY,), event_time="at")
    setting = of.setting(policy, Privacy(1), of.bounded(size), (pa.int64(),))
    rows = (Row((1.0,), (0,), event_time=event_time), Row((2.0,), (1,), event_time=0))
    judged(setting, [Push(rows), *map(Advance, [NO_TIME + 1, -1, 0, 2**62, 2**63 - 1]), Finish()])
