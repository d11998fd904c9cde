"""The operator between Flink and the core, in a fake runtime: with CASTLE, and some with windows too."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError, RestoreError
from crenel.anonymity.model.outcomes import SUPPRESSIONS
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, WAKE_UP, ShardFunction
from crenel.state.block import NO_TIME, Rejected
from crenel.state.codec import StateError
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, TREE, block, left, members, planned, visits, with_terms, withheld


def plan(sampling_and_noise: SamplingAndNoise | None = None, delay: Delay | None = None) -> AnonymizationPlan:
    return with_terms(planned(Castle(delay or Delay(20))), sampling_and_noise=sampling_and_noise)


PLANS = {
    "castle": plan,
    "windows": lambda **of: planned(Suhdsa(**{"tuples": 20} | of)),
}
of_both = pytest.mark.parametrize("made", PLANS.values(), ids=PLANS)


@of_both
def test_every_tuple_leaves_once_and_the_end_of_the_input_empties_the_shard(
    made: Callable[..., AnonymizationPlan],
) -> None:
    harness = Harness(ShardFunction(made()))
    for first in range(0, 190, 38):
        harness.element(KEY, block(first, 38).to_bytes())
    assert 0 < len(left(harness)) < 190
    harness.advance(END)
    assert left(harness) == list(range(190))
    assert not any(held for (_, kind), held in harness.runtime.state.items() if kind in ("blocks", "gamma"))


def test_a_release_tells_shard_kind_sizes_loss_and_its_interval_in_whole_numbers() -> None:
    harness = Harness(ShardFunction(plan()))
    harness.element(KEY, block(0, 60, shard=5).to_bytes())
    for number, record in enumerate(harness.main):
        release, shard, time, kind, subjects, tuples, diversity, loss, low, high, group, illness, visit = record
        assert (release, shard, tuples) == (number, 5, len(illness))
        assert kind in ("cluster", "merged", "split", "reused")
        assert subjects >= 3
        assert diversity >= 2
        assert 0 <= loss <= 1
        assert isinstance(low, int)
        assert 0 <= low <= high <= 100
        assert group in TREE.labels
        assert time is not None
        assert len(visit) == len(illness)


def test_one_timer_stands_for_all_deadlines_of_a_shard() -> None:
    harness = Harness(ShardFunction(plan(delay=Delay(10_000, 60_000))))
    harness.element(KEY, block(100, 50).to_bytes())
    assert harness.runtime.timers == {(END, KEY), (160_000, KEY)}
    harness.element(KEY, block(0, 50).to_bytes())  # earlier ones arrive later
    assert harness.runtime.timers == {(END, KEY), (60_000, KEY)}
    harness.advance(60_000)
    assert 0 in visits(harness) + [position - 50 for position in withheld(harness)]
    assert all(time > 60_000 for time, _ in harness.runtime.timers)


def test_a_tuple_that_is_overdue_when_it_comes_leaves_at_once() -> None:
    harness = Harness(ShardFunction(plan(delay=Delay(10_000, 1000))))
    harness.advance(10_000_000)
    harness.element(KEY, block(0, 40).to_bytes())
    assert len(left(harness)) == 40


def test_rejected_rows_leave_with_column_and_reason_and_nothing_else() -> None:
    rejected = Rejected(
        np.array([0, 1], np.int16), np.array([1, 2], np.int8), np.array([5000, NO_TIME]), ("row 8", None)
    )
    harness = Harness(ShardFunction(plan()))
    harness.element(KEY, block(0, 0, rejected=rejected).to_bytes())
    assert harness.side["rejected"] == [
        [["age", "group"], ["outside_domain", "unknown_category"], [5000, None], ["row 8", None]]
    ]


def test_shards_do_not_mix() -> None:
    harness = Harness(ShardFunction(plan()))
    for first in range(0, 300, 20):
        harness.element(first % 3, block(first, 20, shard=first % 3).to_bytes())
    harness.advance(END)
    for release in harness.main:
        assert {visit // 20 * 20 % 3 for _, visit in members(release)} == {release[1]}


LONG = {"delay": Delay(10_000, 10**9)}
SHORT = {"delay": Delay(10_000, 5000)}


@pytest.mark.parametrize(
    ("made", "before", "after"),
    [
        (plan, LONG, SHORT),
        (plan, {"delay": Delay(10_000)}, SHORT),
        (PLANS["windows"], {"tuples": None, "event_time": 10**9}, {"tuples": None, "event_time": 2000}),
    ],
    ids=["shorter", "given", "windows"],
)
def test_a_quiet_shard_releases_what_a_new_bound_of_event_time_has_made_overdue(
    made: Callable[..., AnonymizationPlan], before: dict[str, int], after: dict[str, int]
) -> None:
    runtime = FakeRuntime()
    first = Harness(ShardFunction(made(**before)), runtime)
    first.element(KEY, block(0, 40).to_bytes())
    first.advance(44_000)
    first.wait(3 * WAKE_UP)
    assert left(first) == []
    second = Harness(ShardFunction(made(**after)), runtime)
    second.advance(44_000)
    second.wait(WAKE_UP)
    assert left(second) == list(range(40))
    assert not runtime.state[KEY, "blocks"]


def test_a_quiet_shard_that_wakes_before_the_watermark_is_known_releases_when_that_comes() -> None:
    runtime = FakeRuntime()
    Harness(ShardFunction(plan(**LONG)), runtime).element(KEY, block(0, 40).to_bytes())
    second = Harness(ShardFunction(plan(**SHORT)), runtime)
    second.wait(WAKE_UP)
    assert left(second) == []  # by how late records may be, the watermark is behind what was seen
    second.advance(44_000)
    assert left(second) == list(range(40))


def test_wake_ups_change_nothing_under_an_unchanged_policy() -> None:
    runs = []
    for wait, restart in ((0, False), (WAKE_UP, False), (WAKE_UP, True)):
        runtime, parts = FakeRuntime(), []
        for first in range(0, 240, 30):
            if restart or not parts:
                parts.append(Harness(ShardFunction(plan(delay=Delay(event_time=30_000))), runtime))
            parts[-1].wait(wait)
            parts[-1].element(KEY, block(first, 30).to_bytes())
            parts[-1].advance(first * 1000)
        parts[-1].advance(END)
        runs.append(([row for part in parts for row in part.main], parts[-1].side["summary"], runtime.timers))
    assert runs[0] == runs[1] == runs[2]


def test_a_shard_that_is_awake_keeps_one_wake_up_and_writes_nothing() -> None:
    runtime = FakeRuntime()
    for _ in range(2):
        harness = Harness(ShardFunction(plan(**LONG)), runtime)
        runtime.clock += WAKE_UP // 3  # no restart waits for the next wake-up
        harness.element(KEY, block(0, 40).to_bytes())
        written = runtime.writes
        for _ in range(3):
            harness.wait(WAKE_UP)
            ((due, _),) = runtime.wake_ups
            assert 0 < due - runtime.clock <= WAKE_UP
        assert runtime.writes == written


def test_a_shard_that_wakes_after_an_end_of_the_input_has_another_end() -> None:
    runtime = FakeRuntime()
    drained = Harness(ShardFunction(plan(delay=Delay(10_000))), runtime)
    drained.element(KEY, block(0, 40).to_bytes())
    drained.advance(END)
    later = Harness(ShardFunction(plan(delay=Delay(10_000))), runtime)
    later.wait(WAKE_UP)
    later.element(KEY, block(40, 40).to_bytes())
    later.advance(END)
    assert left(drained) + left(later) == list(range(80))


def test_a_shard_whose_key_no_tuple_has_any_more_wakes_up_and_refuses_another_number_of_shards() -> None:
    policy = dataclasses.replace(plan().context.policy, event_time=None)
    runtime, before = FakeRuntime(), with_terms(plan(), policy=policy, fingerprint={"shards.count": "2"})
    Harness(ShardFunction(before), runtime).element(KEY, block(0, 40).to_bytes())
    later = Harness(ShardFunction(with_terms(before, fingerprint={"shards.count": "4"})), runtime)
    later.element(KEY + 1, dataclasses.replace(block(0, 40), shard=1).to_bytes())
    with pytest.raises(RestoreError, match=r"cannot change on a restore: shards\.count"):
        later.wait(WAKE_UP)


def test_state_of_a_version_without_wake_ups_gets_them_with_the_next_tuple() -> None:
    runtime = FakeRuntime()
    Harness(ShardFunction(plan(**LONG)), runtime).element(KEY, block(0, 40).to_bytes())
    runtime.wake_ups.clear()
    later = Harness(ShardFunction(plan(**SHORT)), runtime)
    later.advance(44_000)
    later.element(KEY, block(40, 1).to_bytes())
    assert set(left(later)) >= set(range(40))
    assert len(runtime.wake_ups) == 1


@of_both
def test_the_summary_at_the_end_adds_up(made: Callable[..., AnonymizationPlan]) -> None:
    harness = Harness(ShardFunction(made()))
    harness.element(KEY, block(0, 90, shard=2).to_bytes())
    assert "summary" not in harness.side
    harness.advance(END)
    amounts = {name: amount for shard, name, amount in harness.side["summary"] if shard == 2}
    suppressed = sum(amount for name, amount in amounts.items() if name.startswith("suppressed."))
    delays = sum(amount for name, amount in amounts.items() if name.startswith("delay."))
    assert amounts["tuples_in"] == 90 == amounts["released"] + suppressed == delays
    kinds = Counter(release[3] for release in harness.main)
    assert kinds == {name[9:]: amount for name, amount in amounts.items() if name.startswith("releases.") and amount}


def test_sampled_tuples_are_counted_and_what_is_in_force_is_told() -> None:
    noise = SamplingAndNoise(sample_rate=0.7, phi=20.0)
    harness = Harness(ShardFunction(plan(noise)))
    for first in range(0, 300, 50):
        harness.element(KEY, block(first, 50).to_bytes())
    harness.advance(END)
    amounts = {name: amount for _, name, amount in harness.side["summary"]}
    suppressed = sum(amount for name, amount in amounts.items() if name.startswith("suppressed."))
    assert amounts["tuples_in"] + amounts["sampled_out"] == 300
    assert 60 < amounts["sampled_out"] < 120
    assert len(visits(harness)) + suppressed == amounts["tuples_in"]
    stated_parameters = {name: amount for name, amount in amounts.items() if name.startswith("parameter.")}
    assert stated_parameters == {
        "parameter.k": 3,
        "parameter.l": 2,
        "parameter.sample_rate": 0.7,
        "parameter.phi": 20.0,
    }
    assert harness.runtime.metrics.known["crenel.sampled_out"].count == amounts["sampled_out"]
    reasons = {reason for _, reasons, *_ in harness.side.get("suppressed", []) for reason in reasons}
    assert reasons <= set(SUPPRESSIONS)


def test_an_operator_that_was_restored_draws_the_same_noise() -> None:
    noise = SamplingAndNoise(sample_rate=0.7, phi=20.0)
    runs = []
    for restarted in (False, True):
        runtime = FakeRuntime()
        harness = Harness(ShardFunction(plan(noise)), runtime)
        earlier = []
        for first in range(0, 300, 50):
            if restarted:
                earlier += harness.main
                harness = Harness(ShardFunction(plan(noise)), runtime)
            harness.element(KEY, block(first, 50).to_bytes())
        harness.advance(END)
        runs.append(earlier + harness.main)
    assert runs[0] == runs[1]


def test_metrics_count_steps_and_show_how_shards_stand() -> None:
    harness = Harness(ShardFunction(plan()))
    harness.element(KEY, block(0, 70).to_bytes())
    harness.element(KEY + 1, block(70, 10, shard=1).to_bytes())
    known = harness.runtime.metrics.known
    assert known["crenel.tuples_in"].count == 80
    assert known["crenel.released"].count == len(visits(harness))
    assert known["crenel.buffered"]() == 80 - len(left(harness))
    assert known["crenel.oldest_waiting"]() > 0
    assert 0 < known["crenel.mean_loss_x1000"]() <= 1000
    assert known["crenel.open_clusters"]() > 0
    counted = {name.removeprefix("crenel."): metric.count for name, metric in known.items() if not callable(metric)}
    alone = sum(len(members(release)) == 1 for release in harness.main)
    assert counted["released_alone"] == alone
    assert known["crenel.alone_x1000"]() == round(1000 * alone / counted["released"])
    formed = sum(counted[f"releases_{kind}"] for kind in ("cluster", "merged", "split"))
    assert sum(amount for name, amount in counted.items() if name.startswith("classes_from_")) == formed > 0
    assert counted["loss_sum_x1000"] == pytest.approx(known["crenel.mean_loss_x1000"]() * counted["released"], rel=0.01)
    assert known["crenel.mean_diversity_x1000"]() == round(1000 * counted["diversity_sum"] / counted["released"])
    assert known["crenel.least_class_size"]() >= known["crenel.k"]() == 3
    assert known["crenel.mean_diversity_x1000"]() >= 2000
    assert known["crenel.delay_tuples"]() >= known["crenel.oldest_waiting"]()


@of_both
def test_state_of_another_policy_is_refused_by_name(made: Callable[..., AnonymizationPlan]) -> None:
    runtime = FakeRuntime()
    Harness(ShardFunction(made()), runtime).element(KEY, block(0, 10).to_bytes())
    changed = with_terms(made(), fingerprint={"policy": "another"})
    with pytest.raises(PolicyError, match=r": policy\. .* shard 0 "):
        Harness(ShardFunction(changed), runtime).element(KEY, block(10, 10).to_bytes())


def test_a_damaged_block_is_refused() -> None:
    blob = bytearray(block(0, 10).to_bytes())
    blob[200] ^= 1
    with pytest.raises(StateError, match="checksum"):
        Harness(ShardFunction(plan())).element(KEY, bytes(blob))


def test_full_generalization_is_refused_where_it_would_publish_the_range_that_was_seen() -> None:
    one = plan()
    policy = dataclasses.replace(one.context.policy, quasi_identifiers={"age": Numeric(), "group": Categorical(TREE)})
    castle = Castle(Delay(20), suppression="generalize")
    terms = dataclasses.replace(one.context, policy=policy, algorithm=castle)
    with pytest.raises(PolicyError, match=r"quasi_identifiers\.age\.domain"):
        Castle.new(terms, 0, bytes(32))
