"""Invariants of a lasting guarantee, on any stream and under any policy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.nearest.shard import Nearest
from tests.support.drive import columns_of, judged, judged_as_restored, steps_of
from tests.support.example_counts import LAWS, reach
from tests.support.forgets import forgets_of, with_forgets
from tests.support.lasting_drive import lasting_cases
from tests.support.nearest_drive import NearestSetting
from tests.support.observer import Observer
from tests.support.strategies import ONE_BY_ONE, Case, cuts, restores


@given(lasting_cases() | lasting_cases(forgets=True), cuts, restores)
@LAWS
def test_k_and_l_hold_and_every_tuple_leaves_once_in_time_however_blocks_are_cut_and_restored(
    case: Case, cut: tuple[int, ...], restores: Container[int]
) -> None:
    expected, counters, _ = judged(case.setting, case.steps(ONE_BY_ONE))
    found, again = judged_as_restored(case.setting, case.steps(cut), restores, kinds=())
    assert columns_of(found) == columns_of(expected)
    assert again.delays.tolist() == counters.delays.tolist()
    assert replace(again, delays=counters.delays) == counters


def observed(case: Case, horizon: int | None, forgets: Mapping[int, tuple[int, ...]] | None = None) -> Observer:
    """Judge the whole view of an observer of a stream at every step."""
    shard, observer = case.setting.castle(), Observer(case.setting.policy, horizon)
    for step, out in steps_of(case.setting, shard, with_forgets(case.steps(ONE_BY_ONE), forgets or {})):
        observer.observe(step, out)
        if len(out.release_id):
            assert observer.fewest is None or observer.fewest >= case.setting.privacy.k
            if horizon is None:
                assert (found := observer.diversity()) is None or found >= case.setting.privacy.l
    return observer


@given(lasting_cases(moved="widen") | lasting_cases(moved="suppress"))
@LAWS
def test_k_persons_are_behind_all_rows_of_a_person_together(case: Case) -> None:
    observed(case, None)


@given(lasting_cases(moved="widen", forgets=True) | lasting_cases(moved="suppress", forgets=True))
@LAWS
def test_they_are_within_the_horizon_where_persons_are_forgotten(case: Case) -> None:
    assert case.setting.privacy.lasting is not None
    observed(case, case.setting.privacy.lasting.horizon)


@given(st.data())
@LAWS
def test_k_persons_are_behind_all_rows_where_some_of_them_were_forgotten_on_request(data: st.DataObject) -> None:
    case = data.draw(lasting_cases(moved="widen") | lasting_cases(moved="suppress"))
    observed(case, None, data.draw(forgets_of(case)))


def test_the_observer_finds_persons_where_each_release_stands_alone() -> None:
    def found(case: Case) -> bool:
        old = case.setting
        privacy = replace(old.privacy, lasting=None)
        setting = NearestSetting(old.policy, privacy, old.parameters, old.types)
        shard, observer = setting.castle(), Observer(old.policy, None)
        for step, out in steps_of(setting, shard, case.steps(ONE_BY_ONE)):
            observer.observe(step, out)
        assert isinstance(shard, Nearest)
        return observer.fewest == 1 and privacy.k > 2

    assert reach(lasting_cases(), found)
