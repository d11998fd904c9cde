"""Invariants on any stream and under any policy of SUHDSA, judged by the checker."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import KEY, columns_of, hashes, in_blocks
from tests.support.example_counts import FEW, LAWS
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.strategies import ONE_BY_ONE, Case, cuts, restores
from tests.support.window_drive import KeptWindow, WindowSetting, judged_windows, taken_by, window_cases


@given(window_cases(), cuts, cuts, restores)
@LAWS
def test_k_and_l_hold_and_every_tuple_leaves_once_in_time_however_blocks_are_cut_and_restored(
    case: Case, one: tuple[int, ...], other: tuple[int, ...], restores: Container[int]
) -> None:
    setting = case.setting
    expected, counters, _ = judged_windows(setting, case.steps(one))
    shard, checker, outputs = KeptWindow(setting), setting.checker(), []
    for number, step in enumerate(case.steps(other)):
        outputs.append(shard.take(step))
        checker.observe(step, outputs[-1], shard.repairs)
        checker.agree(shard.window.counters, shard.window.next_deadline)
        assert shard.stored.entries.keys() <= {"blocks"}
        assert bool(shard.stored.entries.get("blocks")) == (shard.window.counters.buffered > 0)
        if number in restores:
            shard.restore()
    again = shard.window.counters
    assert columns_of(outputs) == columns_of(expected)
    assert again.delays.tolist() == counters.delays.tolist()
    assert replace(again, delays=counters.delays) == counters


@given(window_cases(confident=True, timed=True))
@LAWS
def test_with_confidence_whoever_is_among_too_few_is_withheld_and_the_rest_of_too_small_a_group_is_carried(
    case: Case,
) -> None:
    judged_windows(case.setting, case.steps(ONE_BY_ONE))


@given(window_cases(timed=True, event_time=7, delay_event_time=20), cuts)
@LAWS
def test_event_time_bounds_windows_and_delays_however_late_tuples_come(case: Case, cut: tuple[int, ...]) -> None:
    judged_windows(case.setting, case.steps(cut))


@given(window_cases(timed=True))
@FEW
def test_a_watermark_that_comes_with_a_block_counts_as_passed(case: Case) -> None:
    judged_windows(case.setting, case.leaps())


@given(window_cases(confident=False), st.binary(min_size=32, max_size=32))
@FEW
def test_the_key_decides_only_the_order_of_members_and_their_noise(case: Case, key: bytes) -> None:
    policy = case.setting.policy
    noised = {policy.members.index(attribute.name) for attribute in policy.noised}
    first, counters, _ = judged_windows(case.setting, case.steps(), key)
    second, again, _ = judged_windows(case.setting, case.steps(), KEY)
    assert replace(counters, delays=again.delays, linked=again.linked) == again
    for one, other in zip(first, second, strict=True):
        assert one.lower.tolist() == other.lower.tolist()
        assert one.node.tolist() == other.node.tolist()
        for i, columns in enumerate(zip(one.members, other.members, strict=True)):
            mine, others = (sorted(map(repr, column)) for column in columns)
            assert i in noised or mine == others


@given(window_cases(), cuts)
@FEW
def test_a_push_does_not_change_what_it_is_given(case: Case, cut: tuple[int, ...]) -> None:
    window = case.setting.window()
    for step in case.steps(cut):
        if isinstance(step, Push):
            block = case.setting.block(step.rows)
            before = block.to_bytes()
            window.push(block, step.watermark)
            assert block.to_bytes() == before


@given(
    st.integers(2, 6),
    st.lists(st.integers(1000, 2**40), min_size=6, max_size=60, unique=True),
    st.sampled_from(("generalization", "representative")),
)
@FEW
def test_nothing_raw_leaves_but_means_and_the_ends_of_intervals(k: int, drawn: list[int], output: str) -> None:
    # Values like no count and no number of anything: what turns up in a release or a log is raw.
    policy = Policy((Numeric("age"), Numeric("pay", (0, 2**41))), passthrough=(IDENTITY,), subject="who")
    parameters = SuhdsaParameters(tuples=10, output=output)  # type: ignore[arg-type]
    setting = WindowSetting(policy, Privacy(k), parameters, (pa.int64(),))
    rows = [Row((x + 0.25, x + 0.75), (-1 - i,), subject=x + 2**50) for i, x in enumerate(drawn)]
    raw = {value for row in rows for value in (*row.values, row.subject)}
    raw.update(hashes(row.subject for row in rows).tolist())
    window, outputs = setting.window(), []
    for step in in_blocks(rows, 7):
        found = taken_by(setting, window, step)
        outputs.append(found.releases)
        for log in (found.repairs.actions, found.repairs.windows):
            for values in vars(log).values():
                assert raw.isdisjoint(values.tolist())
    columns = columns_of(outputs)
    # A mean may happen to be someone's value; an interval of one value would be one person's.
    for low, high in zip(columns.pop("lower"), columns.pop("upper"), strict=True):
        assert output == "representative" or all(a < b for a, b in zip(low, high, strict=True))
    for values in columns.values():
        assert raw.isdisjoint(np.ravel(values).tolist())


@pytest.mark.parametrize("event_time", [-(2**63) + 1, -(2**62), 0, 2**62, 2**63 - 1])
@pytest.mark.parametrize("size", [0, 1, 2**61, 2**62])
def test_event_times_and_delays_at_the_ends_of_their_range_do_not_wrap_around(event_time: int, size: int) -> None:
    policy = Policy((Numeric("age"),), passthrough=(IDENTITY,), event_time="at")
    setting = WindowSetting(policy, Privacy(1), SuhdsaParameters(event_time=size), (pa.int64(),))
    rows = (Row((1.0,), (0,), event_time=event_time), Row((2.0,), (1,), event_time=0))
    judged_windows(setting, [Push(rows), *map(Advance, [NO_TIME + 1, -1, 0, 2**62, 2**63 - 1]), Finish()])
