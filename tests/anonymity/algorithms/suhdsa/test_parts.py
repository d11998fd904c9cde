"""Parts of SUHDSA, one at a time: closing of windows, carried groups, repairs, controllers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.parameters import Adaptive, Target
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.stored import initial_snapshot
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from crenel.state.codec import StateError
from crenel.state.shard import StoredShard
from tests.support.drive import KEY, Kept, Setting, in_blocks
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.window_drive import WindowSetting, released_and_repairs, take, taken_by

POLICY = Policy({"x": Numeric((0, 100))}, sensitive=("s",), passthrough=(IDENTITY,), event_time="at")
TYPES = (pa.string(), pa.int64())


def setting(k: int, l: int = 1, **parameters: object) -> WindowSetting:  # noqa: E741
    return WindowSetting(POLICY, Privacy(k, l), Suhdsa(**parameters), TYPES)  # type: ignore[arg-type]


def rows(values: Sequence[float], sensitive: str, start: int = 0) -> tuple[Row, ...]:
    """Tuples at some places; one letter each is sensitive, and a tuple comes each millisecond."""
    return tuple(
        Row((float(x),), (s, start + i), event_time=start + i)
        for i, (x, s) in enumerate(zip(values, sensitive, strict=True))
    )


def members(out: Releases) -> list[set[int]]:
    return [set(out.members[-1][out.offsets[i] : out.offsets[i + 1]]) for i in range(len(out))]


# Triggers.


def test_a_window_closes_with_the_tuple_that_fills_it() -> None:
    made = setting(2, tuples=4)
    window = made.shard()
    for i, row in enumerate(rows([1] * 8, "a" * 8)):
        assert members(take(made, window, Push((row,)))) == ([set(range(i - 3, i + 1))] if i % 4 == 3 else [])


def test_a_window_closes_when_event_time_has_passed_its_first_tuple() -> None:
    made = setting(2, event_time=10)
    window = made.shard()
    assert window.next_deadline is None
    take(made, window, Push(rows([1, 1, 1], "aaa", start=5)))
    assert window.next_deadline == 15
    assert len(take(made, window, Advance(14))) == 0
    out = take(made, window, Advance(15))
    assert members(out) == [{5, 6, 7}]
    assert out.event_time.tolist() == [7]  # that of the newest member
    assert window.next_deadline is None


def test_whichever_comes_first_closes_a_window() -> None:
    made = setting(2, tuples=3, event_time=10)
    window = made.shard()
    assert len(take(made, window, Push(rows([1, 1, 1, 1], "aaaa")))) == 1
    assert len(take(made, window, Push((), 13))) == 0  # one tuple: fewer than k, so it is carried
    assert window.counters.carried == 1
    assert window.counters.windows == 2


def test_what_is_left_at_the_end_closes() -> None:
    made = setting(2, tuples=100)
    window = made.shard()
    take(made, window, Push(rows([1, 2, 3], "aaa")))
    assert members(take(made, window, Finish())) == [{0, 1, 2}]


# Carried tuples.


def test_tuples_without_enough_subjects_wait_for_the_next_window_and_count_in_it() -> None:
    policy = replace(POLICY, subject="who")
    made = WindowSetting(policy, Privacy(3), Suhdsa(4, delay=Delay(100)), TYPES)
    window = made.shard()
    people = [1, 1, 2, 2, 2, 1, 3, 4]
    given = [replace(row, subject=who) for row, who in zip(rows([1] * 8, "a" * 8), people, strict=True)]
    outputs = [take(made, window, Push((row,))) for row in given]
    # At the fourth tuple there are two people. The four that are carried fill a window, so three new ones close it.
    assert [members(out) for out in outputs] == [[], [], [], [], [], [], [set(range(7))], []]


def test_tuples_that_find_no_release_are_suppressed_when_their_delay_is_over() -> None:
    made = setting(2, 2, tuples=4, delay=Delay(6))
    window = made.shard()
    suppressed = []
    for row in rows([1] * 10, "a" * 10):
        out = take(made, window, Push((row,)))
        assert set(out.suppressed_reason.tolist()) <= {2}  # too_little_diversity
        suppressed.append(out.suppressed_position.tolist())
    assert suppressed == [[], [], [], [], [], [], [0], [1], [2], [3]]
    out = take(made, window, Finish())
    assert out.suppressed_position.tolist() == [4, 5, 6, 7, 8, 9]


def test_a_tuple_that_its_event_time_makes_overdue_is_suppressed_with_its_reason() -> None:
    made = setting(2, event_time=10, delay=Delay(event_time=25))
    window = made.shard()
    take(made, window, Push(rows([1], "a")))
    assert len(take(made, window, Advance(10)).suppressed_reason) == 0
    assert window.next_deadline == 25
    out = take(made, window, Advance(25))
    assert (out.suppressed_reason.tolist(), out.suppressed_position.tolist()) == ([1], [0])  # too_few_subjects


def test_a_new_tuple_that_is_overdue_closes_the_window_for_its_chance() -> None:
    made = setting(2, tuples=100, delay=Delay(200, 10))
    window = made.shard()
    take(made, window, Push(rows([1, 1], "aa")))
    assert members(take(made, window, Advance(10))) == [{0, 1}]


def test_the_default_delay_is_two_windows() -> None:
    assert Suhdsa(50).longest_delay.tuples == 100
    both = Suhdsa(50, event_time=30)
    assert (both.longest_delay.tuples, both.longest_delay.event_time) == (100, 60)


# Repair.

APART = [0, 1, 2, 90, 91, 92]


def test_the_papers_example_swaps_one_pair() -> None:
    # SUHDSA with l-diversity, Section 3.1: six tuples, k = 3, l = 2; the first group holds one value only.
    made = setting(3, 2, tuples=6, distortion_weight=1.0)
    window = made.shard()
    out, repairs = released_and_repairs(made, window, Push(rows(APART, "aaaabb")))
    log, actions = repairs.windows, repairs.actions
    assert (log.groups[0], log.violations[0], log.swaps[0], log.merges[0], log.unrepaired[0]) == (2, 1, 1, 0, 0)
    # The pair that lies nearest to the other's representative: x = 2 and x = 91.
    assert members(out) == [{0, 1, 4}, {2, 3, 5}]
    assert (actions.diversity_before[0], actions.diversity_after[0]) == (1, 2)
    assert (actions.tuples_before[0], actions.tuples_after[0]) == (3, 3)


def test_groups_merge_where_a_swap_would_break_the_other() -> None:
    made = setting(3, 2, tuples=6)
    window = made.shard()
    # To give b away would leave the second group with one value.
    out, repairs = released_and_repairs(made, window, Push(rows(APART, "aaaaab")))
    assert members(out) == [{0, 1, 2, 3, 4, 5}]
    assert repairs.windows.merges.tolist() == [1]
    assert out.kind.tolist() == [1]


def test_a_merge_does_not_outgrow_its_cap_and_what_it_would_have_helped_is_carried() -> None:
    made = setting(3, 2, tuples=7, growth_cap=2)
    window = made.shard()
    out, repairs = released_and_repairs(made, window, Push(rows([*APART, 93], "aaaaaab")))
    assert members(out) == [{3, 4, 5, 6}]
    assert repairs.windows.unrepaired.tolist() == [1]
    assert window.counters.carried == 3


def test_only_the_nearest_neighbors_are_asked() -> None:
    def repaired(neighbors: int) -> tuple[list[set[int]], list[int]]:
        made = setting(2, 2, tuples=6, neighbors=neighbors)
        window = made.shard()
        out, repairs = released_and_repairs(made, window, Push(rows([0, 1, 20, 21, 90, 91], "aaaabb")))
        return members(out), repairs.actions.inspected.tolist()

    # The group at 20 has nothing for the one at 0, and is itself helped by the one at 90.
    assert repaired(1) == ([{2, 3, 4, 5}], [1])
    both, inspected = repaired(2)
    assert sum(map(len, both)) == 6
    assert inspected[0] == 2  # a merge leaves one group less for the next


def test_a_swap_keeps_k_subjects_in_both_groups() -> None:
    # The nearest pair is x = 2 and x = 90. But person 6 is in the second group already, which would be left with two.
    people = [5, 7, 6, 4, 5, 6, 6]
    policy = replace(POLICY, subject="who")
    made = WindowSetting(policy, Privacy(3, 2), Suhdsa(7, distortion_weight=1.0), TYPES)
    given = rows([0, 1, 2, 90, 91, 92, 93], "aaababb")
    window = made.shard()
    out, repairs = released_and_repairs(
        made, window, Push(tuple(replace(r, subject=p) for r, p in zip(given, people, strict=True)))
    )
    assert repairs.windows.swaps.tolist() == [1]
    assert members(out) == [{0, 2, 3}, {1, 4, 5, 6}]


def test_a_low_distortion_weight_takes_the_quicker_action() -> None:
    def actions(weight: float) -> tuple[int, int]:
        made = setting(3, 2, tuples=6, distortion_weight=weight)
        window = made.shard()
        take(made, window, Push(rows([0, 1, 2, 5, 6, 7], "aaaabb")))
        return window.counters.swaps, window.counters.merges

    assert actions(0.0) == (0, 1)
    assert actions(1.0) != actions(0.0)


def test_a_weight_of_zero_takes_an_attribute_out_of_the_distances() -> None:
    policy = replace(POLICY, quasi_identifiers={"x": Numeric((0, 100)), "y": Numeric((0, 100))})
    given = [
        Row((0.0, 0.0), ("a", 0)),
        Row((0.0, 90.0), ("a", 1)),
        Row((50.0, 0.0), ("a", 2)),
        Row((50.0, 90.0), ("a", 3)),
    ]

    def grouped(**weights: float) -> list[set[int]]:
        parameters = Suhdsa(4, weights=weights)
        made = WindowSetting(replace(policy, event_time=None), Privacy(2), parameters, TYPES)
        return members(take(made, made.shard(), Push(tuple(given))))

    assert grouped() == [{0, 2}, {1, 3}]
    assert grouped(y=0.0) == [{0, 1}, {2, 3}]


# Representatives.


@pytest.mark.parametrize(
    ("numeric", "categorical", "number", "label"),
    [("mean", "mode", 4.0, "b"), ("median", "ancestor", 2.0, "ab")],
)
def test_a_representative_stands_for_its_group(numeric: str, categorical: str, number: float, label: str) -> None:
    tree = from_paths([["a", "ab", "*"], ["b", "ab", "*"], ["c", "*"]])
    policy = Policy({"x": Numeric((0, 10)), "c": Categorical(tree)}, passthrough=(IDENTITY,))
    parameters = Suhdsa(3, output="representative", numeric=numeric, categorical=categorical)  # type: ignore[arg-type]
    made = WindowSetting(policy, Privacy(3), parameters, (pa.int64(),))
    out = take(made, made.shard(), Push((Row((0.0, "b"), (0,)), Row((2.0, "a"), (1,)), Row((10.0, "b"), (2,)))))
    assert (out.lower.tolist(), out.upper.tolist()) == ([[number]], [[number]])
    assert tree.labels[out.node[0, 0]] == label
    assert out.loss.tolist() == [(1.0 + 0.5) / 2]  # what is told is the loss of the generalization behind it


# Controllers.


def targets(sensitive: str, target: Target, l: int = 2) -> list[int]:  # noqa: E741
    """l_t after each window of eight tuples."""
    made = setting(4, l, tuples=8, delay=Delay(8), target=target)
    window = made.shard()
    found = []
    for at in range(0, len(sensitive), 8):
        take(made, window, Push(rows([1] * 8, sensitive[at : at + 8], start=at)))
        found.append(window.counters.target)
    return found


EVEN, SKEWED = "aabbccdd", "aaaaaaab"


def test_the_target_rises_where_entropy_drops_and_falls_where_it_is_high() -> None:
    assert targets(EVEN + SKEWED * 3 + EVEN, Target(4, smoothing=1.0, band=0.01, dwell=0)) == [2, 3, 3, 3, 2]


def test_a_smoothed_target_moves_later() -> None:
    found = targets(EVEN + SKEWED * 6, Target(4, smoothing=0.2, band=0.01, dwell=0))
    assert found[:2] == [2, 2]
    assert found[-1] == 3


def test_a_target_dwells() -> None:
    found = targets(EVEN + SKEWED * 3 + EVEN * 5, Target(4, smoothing=1.0, band=0.01, dwell=3))
    assert found == [2, 2, 2, 2, 2, 2, 2, 2, 2]
    found = targets(EVEN + SKEWED * 6, Target(4, smoothing=1.0, band=0.01, dwell=3))
    assert found == [2, 2, 2, 2, 3, 3, 3]


def test_a_change_within_the_band_moves_no_target() -> None:
    assert set(targets(EVEN + SKEWED * 4, Target(4, smoothing=1.0, band=1.0, dwell=0))) == {2}


def test_a_target_never_falls_below_l() -> None:
    assert min(targets(EVEN * 4, Target(4, smoothing=1.0, band=0.0, dwell=0), l=3)) == 3


def test_a_group_that_reaches_l_and_not_the_target_is_released() -> None:
    made = setting(4, 2, tuples=8, target=Target(4, smoothing=1.0, band=0.0, dwell=0))
    window = made.shard()
    out, repairs = released_and_repairs(made, window, Push(rows([1] * 8, SKEWED)))
    assert repairs.windows.target.tolist() == [2]
    assert out.diversity.tolist() == [[2]]
    out, repairs = released_and_repairs(made, window, Push(rows([1] * 8, "aaaaaaaa"[:7] + "c", start=8)))
    assert repairs.windows.lsr.tolist() == [1.0]


@pytest.mark.parametrize(("weight", "smaller"), [(1.0, True), (0.0, False)])
def test_the_window_shrinks_where_delay_counts_and_stays_within_its_bounds(weight: float, smaller: bool) -> None:
    made = setting(2, tuples=40, adaptive=Adaptive(8, delay_weight=weight, windows=1))
    window, sizes = made.shard(), []
    for step in in_blocks(rows([(i * 37) % 101 % 100 for i in range(4000)], "ab" * 2000), 40):
        take(made, window, step)
        sizes.append(window.counters.size)
    assert all(8 <= size <= 40 for size in sizes if size is not None)
    late = sizes[len(sizes) // 2 :]
    assert (sum(size for size in late if size) / len(late) < 15) == smaller


# Reports.


def test_a_window_takes_the_time_that_its_clock_tells() -> None:
    made = setting(3, 2, tuples=6)
    window = SuhdsaShard(made.terms(), initial_snapshot(made.terms(), 0, KEY), clock=count(0, 2_000_000).__next__)
    _, repairs = released_and_repairs(made, window, Push(rows(APART, "aaaabb")))
    assert repairs.windows.milliseconds.tolist() == [2.0]
    assert repairs.windows.repairs_per_second.tolist() == [500.0]


# Stored state.


def stored_after(made: WindowSetting, *steps: Push) -> StoredShard:
    shard = Kept(made, {"k": "v"})
    for step in steps:
        shard.take(step)
    return shard.stored


def restored(made: WindowSetting, stored: StoredShard, fingerprint: str = "v") -> SuhdsaShard:
    return made.again(stored, {"k": fingerprint}, "key 3")


def test_a_block_is_written_once_and_removed_when_its_last_tuple_has_left() -> None:
    made = setting(2, tuples=4)
    window = made.shard()
    written = []
    for step in (
        Push(rows([1, 1, 1], "aaa")),
        Push(rows([1, 1], "aa", start=3)),
        Push(rows([1, 1, 1], "aaa", start=5)),
    ):
        changes = taken_by(made, window, step).changes
        assert changes is not None
        written.append({number: blob is not None for number, blob in changes.entries["blocks"].items()})
    assert written == [{0: True}, {0: False, 4: True}, {4: False}]


def test_a_shard_is_restored_under_another_k() -> None:
    stored = stored_after(setting(2, tuples=4), Push(rows([1, 1, 1], "aaa")))
    made = setting(4, tuples=6)
    window = restored(made, stored)
    assert members(take(made, window, Push(rows([1, 1], "aa", start=3)))) == []
    assert members(take(made, window, Push(rows([1], "a", start=5)))) == [set(range(6))]


def test_what_a_shorter_delay_has_made_overdue_leaves_in_the_next_step() -> None:
    stored = stored_after(setting(2, 2, tuples=4, delay=Delay(50)), Push(rows([1] * 6, "aaaaaa")))
    made = setting(2, 2, tuples=4, delay=Delay(4))
    out = take(made, restored(made, stored), Advance(NO_TIME))
    assert out.suppressed_position.tolist() == [0, 1]


def test_damaged_state_and_state_of_another_kind_are_refused() -> None:
    made = setting(2, tuples=4)
    stored = stored_after(made, Push(rows([1, 1, 1], "aaa")))
    with pytest.raises(StateError, match=r"suhdsa state of key 3, format version 1: checksum"):
        restored(made, replace(stored, shard=stored.shard[:-1] + b"?"))
    damaged = stored.entries["blocks"][0][:-1] + b"?"
    with pytest.raises(StateError, match=r"buffered state of shard 0 \(key 3\), block 0"):
        restored(made, replace(stored, entries={"blocks": {0: damaged}}))
    castle = Kept(Setting(POLICY, Privacy(2), Castle(Delay(9)), TYPES))
    castle.take(Push(rows([1], "a")))
    with pytest.raises(StateError, match="found shard state"):
        restored(made, castle.stored)
    with pytest.raises(PolicyError, match="cannot change on a restore: k"):
        restored(made, stored, fingerprint="other")


# Parameters.


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "suhdsa: give 'tuples', 'event_time', or both"),
        ({"tuples": 0}, "suhdsa.tuples: is too small; a whole number, 1 or more"),
        ({"event_time": -1}, "suhdsa.event_time: is too small; a duration"),
        ({"tuples": 5, "delay": Delay(4)}, r"suhdsa.delay.tuples: must be suhdsa.tuples \(5\) or more, not 4"),
        ({"tuples": 5, "delay": {"event_time": -1}}, "suhdsa.delay.event_time: is too small; a duration"),
        ({"tuples": 5, "distortion_weight": 1.5}, "suhdsa.distortion_weight: is too large; a number from 0 to 1"),
        (
            {"tuples": 5, "distortion_weight": float("nan")},
            "suhdsa.distortion_weight: is not finite; a number from 0 to 1",
        ),
        ({"tuples": 5, "neighbors": 0}, "suhdsa.neighbors: is too small; a whole number, 1 or more"),
        ({"tuples": 5, "growth_cap": 1.9}, "suhdsa.growth_cap: is too small; a number, 2 or more"),
        ({"tuples": 5, "weights": {"x": -1.0}}, "suhdsa.weights.x: is too small; .* numbers from 0"),
        ({"tuples": 5, "weights": {"z": 1.0}}, "suhdsa.weights.z: must be one of x"),
        ({"tuples": 5, "target": Target(9)}, "suhdsa.target.most: must be from 2 to 3, not 9"),
        (
            {"tuples": 5, "target": {"most": 2, "smoothing": 0}},
            "suhdsa.target.smoothing: is too small; a number above 0",
        ),
        ({"tuples": 5, "target": {"most": 2, "band": 2}}, "suhdsa.target.band: is too large; a number from 0 to 1"),
        (
            {"tuples": 5, "target": {"most": 2, "dwell": -1}},
            "suhdsa.target.dwell: is too small; a whole number, 0 or more",
        ),
        ({"event_time": 5, "adaptive": Adaptive(5)}, "suhdsa.adaptive: needs suhdsa.tuples"),
        ({"tuples": 5, "adaptive": Adaptive(6)}, "suhdsa.adaptive.least: must be from 1 to 5, not 6"),
        ({"tuples": 5, "adaptive": Adaptive(2)}, r"suhdsa.adaptive.least: must be k \(3\) or more, not 2"),
        (
            {"tuples": 5, "adaptive": {"least": 3, "windows": 0}},
            "suhdsa.adaptive.windows: is too small; a whole number",
        ),
    ],
)
def test_parameters_that_cannot_be_kept_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        setting(3, 2, **parameters).shard()


def test_event_time_needs_its_column() -> None:
    made = WindowSetting(replace(POLICY, event_time=None), Privacy(2), Suhdsa(event_time=5), TYPES)
    with pytest.raises(PolicyError, match=r"suhdsa.event_time: policy.event_time names no column; name one"):
        made.shard()
    made = WindowSetting(replace(POLICY, event_time=None), Privacy(2), Suhdsa(5, delay=Delay(event_time=5)), TYPES)
    with pytest.raises(PolicyError, match=r"suhdsa.delay.event_time: policy.event_time names no column"):
        made.shard()
    made = WindowSetting(replace(POLICY, sensitive=()), Privacy(2), Suhdsa(5, target=Target(2)), TYPES[1:])
    with pytest.raises(PolicyError, match=r"suhdsa.target: needs a sensitive column"):
        made.shard()
