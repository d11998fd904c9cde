"""Invariants on any stream and under any policy of Mondrian, judged by the checker."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from crenel.anonymity.algorithms.batch.windows import ClosedBy, ShardOfWindows
from crenel.anonymity.algorithms.mondrian.algorithm import MondrianParameters
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import KEY, columns_of
from tests.support.example_counts import FEW, LAWS
from tests.support.mondrian_drive import KeptShard, MondrianSetting, judged, mondrian_cases
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.strategies import Case, cuts, restores

ALL = ClosedBy()


@given(mondrian_cases(), cuts, cuts, restores)
@LAWS
def test_every_part_keeps_k_and_l_and_each_window_leaves_as_it_closes_however_blocks_are_cut_and_restored(
    case: Case, one: tuple[int, ...], other: tuple[int, ...], restores: Container[int]
) -> None:
    setting = case.setting
    expected, counters, _ = judged(setting, case.steps(one))
    kept, checker, outputs = KeptShard(setting), setting.checker(), []
    for number, step in enumerate(case.steps(other)):
        outputs.append(kept.take(step))
        checker.observe(step, outputs[-1])
        assert isinstance(kept.shard, ShardOfWindows)
        checker.agree(kept.shard.counters, kept.shard.next_deadline)
        assert bool(kept.stored.entries.get("blocks")) == (kept.shard.counters.buffered > 0)
        if number in restores:
            kept.restore()
    assert columns_of(outputs) == columns_of(expected)
    assert kept.shard.counters.delays.tolist() == counters.delays.tolist()
    assert replace(kept.shard.counters, delays=counters.delays) == counters


@given(mondrian_cases(confident=True, timed=True), cuts)
@LAWS
def test_with_confidence_whoever_is_among_too_few_is_withheld_and_the_rest_of_too_small_a_part_with_them(
    case: Case, cut: tuple[int, ...]
) -> None:
    judged(case.setting, case.steps(cut))


@given(mondrian_cases(timed=True, window=ClosedBy(None, 7)), cuts)
@LAWS
def test_event_time_closes_windows_however_late_tuples_come(case: Case, cut: tuple[int, ...]) -> None:
    judged(case.setting, case.steps(cut))
    judged(case.setting, case.leaps())


@given(mondrian_cases(confident=False, cut="loss"))
@FEW
def test_no_part_has_a_cut_left_that_lowers_the_loss(case: Case) -> None:
    _, _, checker = judged(case.setting, case.steps())
    for members, seen in checker.parts:
        whole = checker.loss_of(members, seen)
        for cut in checker.cuts(members):
            assert sum(checker.loss_of(side, seen) for side in cut) >= whole - 1e-9


@given(mondrian_cases(confident=False, window=ALL, cut="loss"))
@settings(LAWS, suppress_health_check=[*LAWS.suppress_health_check, HealthCheck.filter_too_much])  # three in five
def test_the_cut_that_is_made_is_the_one_of_least_loss(case: Case) -> None:
    k = case.setting.privacy.k
    few = replace(case, rows=case.rows[: 3 * k - 1], passed=case.passed[: 3 * k - 1])  # enough for one cut
    assume(len(few.rows) >= 2 * k > 2)
    _, counters, checker = judged(few.setting, few.steps())
    assume(counters.released)
    members, (_, seen) = checker.closed[0], checker.parts[0]
    totals = [sum(checker.loss_of(side, seen) for side in cut) for cut in checker.cuts(members)]
    least = min([checker.loss_of(members, seen), *totals])
    assert sum(checker.loss_of(part, seen) for part, _ in checker.parts) == pytest.approx(least, rel=1e-9, abs=1e-9)


@given(mondrian_cases(confident=False), st.binary(min_size=32, max_size=32))
@FEW
def test_the_key_decides_only_the_order_of_members_and_their_noise(case: Case, key: bytes) -> None:
    policy = case.setting.policy
    noised = {policy.members.index(attribute.name) for attribute in policy.noised}
    first, counters, _ = judged(case.setting, case.steps(), key)
    second, again, _ = judged(case.setting, case.steps(), KEY)
    assert replace(counters, delays=again.delays, linked=again.linked) == again
    for one, other in zip(first, second, strict=True):
        assert (one.lower.tolist(), one.node.tolist()) == (other.lower.tolist(), other.node.tolist())
        for i, columns in enumerate(zip(one.members, other.members, strict=True)):
            mine, others = (sorted(map(repr, column)) for column in columns)
            assert i in noised or mine == others


@pytest.mark.parametrize("event_time", [-(2**63) + 1, -(2**62), 0, 2**62, 2**63 - 1])
@pytest.mark.parametrize("size", [0, 1, 2**61, 2**62])
def test_event_times_and_windows_at_the_ends_of_their_range_do_not_wrap_around(event_time: int, size: int) -> None:
    policy = Policy((Numeric("age"),), passthrough=(IDENTITY,), event_time="at")
    setting = MondrianSetting(policy, Privacy(1), MondrianParameters(ClosedBy(None, size)), (pa.int64(),))
    rows = (Row((1.0,), (0,), event_time=event_time), Row((2.0,), (1,), event_time=0))
    judged(setting, [Push(rows), *map(Advance, [NO_TIME + 1, -1, 0, 2**62, 2**63 - 1]), Finish()])
