"""Invariants of a lasting guarantee, on any stream and under any policy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.nearest.shard import NearestShard
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import Kept, columns_of, judged, judged_as_restored, steps_of
from tests.support.example_counts import LAWS, examples, reach
from tests.support.forgets import forgets_of, with_forgets
from tests.support.lasting_drive import LastingSetting, lasting_cases
from tests.support.nearest_drive import NearestSetting
from tests.support.observer import Observer
from tests.support.source import IDENTITY, Forget, Push, Row
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


def observed(
    case: Case,
    horizon: int | None,
    forgets: Mapping[int, tuple[int, ...]] | None = None,
    restores: Container[int] = (),
) -> Observer:
    """Judge the whole view of an observer of a stream."""
    shard, observer = Kept(case.setting), Observer(case.setting.policy, horizon)
    for number, step in enumerate(with_forgets(case.steps(ONE_BY_ONE), forgets or {})):
        out = shard.take(step)
        observer.observe(step, out)
        if number in restores:
            shard.restore()
        if len(out.release_id) and horizon is None:
            assert (found := observer.diversity()) is None or found >= case.setting.privacy.l
    assert observer.fewest is None or observer.fewest >= case.setting.privacy.k
    return observer


@given(st.data(), st.booleans(), st.booleans())
@LAWS
def test_k_persons_are_behind_all_rows_of_a_person_together_within_the_horizon_and_whoever_was_forgotten(
    data: st.DataObject, has_horizon: bool, erases: bool
) -> None:
    case = data.draw(
        lasting_cases(moved="widen", forgets=has_horizon) | lasting_cases(moved="suppress", forgets=has_horizon)
    )
    assert case.setting.privacy.lasting is not None
    observed(case, case.setting.privacy.lasting.horizon, data.draw(forgets_of(case)) if erases else None)


def moving(chance: Random) -> Case:
    """Return a stream of few persons with homes far apart, some of whom move, and of rows that come late."""
    people, moves = chance.choice((4, 6, 12)), chance.choice((0.0, 0.05, 0.3))
    home = [float(chance.randrange(100)) for _ in range(people)]
    now, watermark, rows, passed = 0, NO_TIME, list[Row](), list[int]()
    for i in range(60):
        now += chance.choice((0, 1, 1, 5, 30))
        person = chance.randrange(people)
        if chance.random() < moves:
            home[person] = float(chance.randrange(100))
        late = chance.choice((0, 0, 0, chance.randrange(150)))
        rows.append(Row((home[person],), (chance.choice(("flu", "cold", "gout")), i), person, now - late))
        watermark = max(watermark, now - 5) if chance.random() < 0.5 else watermark
        passed.append(watermark)
    policy = Policy(
        {"place": Numeric((0.0, 99.0) if chance.random() < 0.8 else None, ends=chance.choice((None, 10.0)))},
        sensitive=("illness",),
        passthrough=(IDENTITY,),
        subject="who",
        event_time="at",
    )
    lasting = Persons("lasting", chance.choice((None, 20, 60, 200)), chance.choice(("widen", "widen", "suppress")))
    parameters = Nearest(
        Delay(chance.choice((1, 3, 8)), chance.choice((5, 20, 40))), reuse_limit=chance.choice((0, 0, 20))
    )
    if lasting.horizon is not None:
        parameters = replace(
            parameters,
            delay=Delay(
                parameters.delay.tuples, min(parameters.delay.event_time or 0, lasting.horizon), parameters.delay.jitter
            ),
        )
    privacy = Privacy(chance.choice((2, 2, 3)), chance.choice((1, 1, 2)), persons=lasting)
    return Case(LastingSetting(policy, privacy, parameters, (pa.string(), pa.int64())), tuple(rows), tuple(passed))


def test_they_are_where_persons_move_and_return_late_or_after_a_request() -> None:
    chance = Random(1)
    for _ in range(examples(80)):
        case = moving(chance)
        often = chance.choice((0, 3, 10))
        forgets = {
            i: (case.rows[i - 1 - chance.randrange(min(i, 9))].subject,) for i in chance.sample(range(1, 60), often)
        }
        assert case.setting.privacy.lasting is not None
        observed(case, case.setting.privacy.lasting.horizon, forgets, chance.sample(range(200), 12))


def test_the_observer_finds_persons_where_each_release_stands_alone() -> None:
    def found(case: Case) -> bool:
        old = case.setting
        privacy = replace(old.privacy, persons=None)
        setting = NearestSetting(old.policy, privacy, old.algorithm, old.types)
        shard, observer = setting.shard(), Observer(old.policy, None)
        for step, out in steps_of(setting, shard, case.steps(ONE_BY_ONE)):
            observer.observe(step, out)
        assert isinstance(shard, NearestShard)
        return observer.fewest == 1 and privacy.k > 2

    assert reach(lasting_cases(), found)


def test_a_person_whose_anonymity_set_has_lost_all_members_is_suppressed() -> None:
    policy = Policy({"q": Numeric()}, passthrough=(IDENTITY,), subject="who")
    setting = LastingSetting(
        policy,
        Privacy(1, persons=Persons("lasting")),
        Nearest(Delay(0), loss_window=1, reuse_limit=1),
        (pa.int64(),),
    )
    rows = [Row((5.0,), (i,), subject=person) for i, person in enumerate((0, 1, 1))]
    first, _, checker = judged(setting, [Push((rows[0],)), Push((rows[1],)), Forget((0,)), Push((rows[2],))])
    assert [len(out) for out in first] == [1, 1, 0, 0]  # the second reuses the release of the first
    assert dict(checker.reasons) == {"linkable": 1}
