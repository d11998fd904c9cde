"""Invariants of a lasting guarantee, on any stream and under any policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.nearest.shard import Nearest
from tests.support.drive import Kept, apply, columns_of, judged, steps_of
from tests.support.example_counts import LAWS, reach
from tests.support.forgets import forgets_of, with_forgets
from tests.support.lasting_drive import lasting_cases
from tests.support.nearest_drive import NearestSetting
from tests.support.observer import Observer
from tests.support.strategies import ONE_BY_ONE, Case, cuts


@given(lasting_cases(), cuts)
@LAWS
def test_k_and_l_hold_values_lie_inside_and_every_tuple_leaves_once_in_time(case: Case, cut: tuple[int, ...]) -> None:
    judged(case.setting, case.steps(cut))


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


@given(lasting_cases() | lasting_cases(forgets=True), cuts, cuts)
@LAWS
def test_how_a_stream_is_cut_changes_nothing(case: Case, one: tuple[int, ...], other: tuple[int, ...]) -> None:
    first, counters, _ = judged(case.setting, case.steps(one))
    second, again, _ = judged(case.setting, case.steps(other))
    assert columns_of(first) == columns_of(second)
    assert replace(counters, delays=again.delays) == again


@given(lasting_cases() | lasting_cases(forgets=True), cuts, st.lists(st.integers(0, 60), max_size=8))
@LAWS
def test_a_shard_restored_after_any_step_goes_on_as_if_nothing_had_happened(
    case: Case, cut: tuple[int, ...], restores: list[int]
) -> None:
    steps = case.steps(cut)
    never_stored, shard = case.setting.castle(), Kept(case.setting)
    for number, step in enumerate(steps):
        expected = apply(case.setting, never_stored, step)
        assert columns_of([shard.take(step)]) == columns_of([expected])
        assert str(shard.castle.counters) == str(never_stored.counters)
        assert (shard.castle.next_deadline is None) == (never_stored.next_deadline is None)
        if number in restores:
            shard.restore()


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
