"""Invariants on any stream and under any policy of Mondrian, judged by the checker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from crenel.anonymity.model.delay import Window
from tests.support.drive import judged
from tests.support.example_counts import FEW, LAWS
from tests.support.mondrian_drive import mondrian_cases
from tests.support.strategies import Case, cuts

ALL = Window()


@given(mondrian_cases(timed=True, window=Window(None, 7)), cuts)
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
