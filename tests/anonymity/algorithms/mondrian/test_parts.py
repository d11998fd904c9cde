"""Cuts of Mondrian in small windows, and the stored bytes of a window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.shard import StoredShard
from examples.own_privacy_model import AT_MOST
from tests.support.drive import Kept, in_blocks, judged, taken
from tests.support.mondrian_drive import MondrianSetting
from tests.support.settings import models_of
from tests.support.source import IDENTITY, Finish, Push, Row

TREE = from_paths([(leaf, leaf.upper(), "*") for leaf in "abc"])


def setting(*names: str, k: int = 2, **parameters: Any) -> MondrianSetting:
    """Numbers from 0 to 10, and ``town``."""
    known = {name: Numeric((0, 10)).named(name) for name in "xy"} | {"town": Categorical(TREE).named("town")}
    policy = Policy(by_name(tuple(known[name] for name in names)), passthrough=(IDENTITY,), subject="who")
    return MondrianSetting(policy, Privacy(k), Mondrian(**parameters), (pa.int64(),))


def parts(made: MondrianSetting, *points: tuple[float | str, ...]) -> list[list[int]]:
    """Return the tuples of each release, by their numbers, of a window that holds these values."""
    rows = tuple(Row(place, (i,), i) for i, place in enumerate(points))
    _, _, checker = judged(made, [Push(rows), Finish()])
    return sorted(sorted(members) for members, _ in checker.parts)


def test_the_widest_attribute_is_cut_or_the_one_that_leaves_the_least_loss() -> None:
    points = [(0.0, 0.0), (4.0, 5.0), (0.0, 5.1), (4.0, 10.0)]
    assert parts(setting("x", "y", cut="widest"), *points) == [[0, 1], [2, 3]]
    assert parts(setting("x", "y", cut="loss"), *points) == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([0.0, 1.0, 2.0, 9.0, 10.0], [[0, 1], [2, 3, 4]]),
        ([0.0, 0.0, 0.0, 9.0, 10.0], [[0, 1, 2], [3, 4]]),
        ([0.0, 9.0, 9.0, 9.0, 9.0], [[0, 1, 2, 3, 4]]),
    ],
    ids=["at the median", "beside its equals", "nowhere"],
)
def test_the_widest_attribute_is_cut_next_to_its_median(points: list[float], expected: list[list[int]]) -> None:
    assert parts(setting("x", cut="widest"), *((x,) for x in points)) == expected


def test_where_the_widest_attribute_cannot_be_cut_the_next_one_is() -> None:
    points = [(10.0 * (i == 0), float(i)) for i in range(4)]
    assert parts(setting("x", "y", cut="widest"), *points) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("cut", ["loss", "widest"])
def test_categories_are_cut_between_the_children_of_their_node(cut: str) -> None:
    assert parts(setting("town", cut=cut), *"aabbcc") == [[0, 1], [2, 3], [4, 5]]


def test_a_child_in_the_middle_is_parted_from_the_others() -> None:
    assert parts(setting("town"), *"abbc") == [[0, 3], [1, 2]]


def test_people_who_come_again_count_once_on_each_side() -> None:
    rows = [Row((float(i // 2),), (i,), "ab"[i % 2] if i < 4 else "cc"[i % 2]) for i in range(6)]
    _, _, checker = judged(setting("x"), in_blocks(rows, 6))
    assert sorted(sorted(members) for members, _ in checker.parts) == [[0, 1], [2, 3, 4, 5]]


def test_several_windows_close_within_one_block_and_the_rest_waits() -> None:
    rows = tuple(Row((float(i % 10),), (i,), i) for i in range(23))
    made = setting("x", window=Window(5))
    shard = made.shard()
    out = taken(made, shard, Push(rows)).releases
    assert shard.counters.buffered == 3
    assert sorted(out.members[0]) == list(range(20))
    assert sorted(taken(made, shard, Finish()).releases.members[0]) == [20, 21, 22]


def test_a_block_is_written_once_while_its_window_is_open() -> None:
    made = setting("x", window=Window(400))
    rows = [Row((float(i % 10),), (i,), i) for i in range(390)]
    whole, kept = Kept(made), Kept(made)
    whole.take(Push(tuple(rows)))
    for step in in_blocks(rows, 30)[:-1]:
        kept.take(step)
    assert len(kept.stored.entries["blocks"]) == 13
    header = 1000
    assert kept.written < whole.written + 13 * header
    kept.take(Finish())
    assert kept.stored.entries["blocks"] == {}


def test_a_shorter_window_closes_what_waits_with_the_next_step_after_a_restore() -> None:
    kept = Kept(setting("x", window=Window(100)))
    kept.take(Push(tuple(Row((float(i),), (i,), i) for i in range(9))))
    kept.restore(replace(kept.setting, algorithm=Mondrian(Window(4))))
    out = kept.take(Push((Row((0.0,), (9,), 9),)))
    assert sorted(out.members[0]) == list(range(9))
    assert kept.live.counters.buffered == 1


def test_what_a_promise_suppressed_is_still_counted_when_it_is_no_longer_made() -> None:
    made = setting("x", window=Window(4))
    made = replace(
        made,
        policy=replace(made.policy, sensitive=("illness",)),
        privacy=Privacy(2, 1, models=models_of(((AT_MOST, 0.5),))),
        types=(pa.string(), pa.int64()),
    )
    kept = Kept(made)
    kept.take(Push(tuple(Row((0.0,), ("flu", i), i) for i in range(4))))
    assert kept.live.counters.suppressed["too_common"] == 4
    for _ in range(2):
        kept.restore(replace(made, privacy=Privacy(2)))
        kept.take(Push(()))
    assert kept.live.counters.suppressed["too_common"] == 4


def test_tuples_that_are_not_those_of_the_state_are_refused() -> None:
    kept = Kept(setting("x"))
    for i in range(2):
        kept.take(Push((Row((float(i),), (i,), i),)))
    kept.stored = StoredShard(kept.stored.shard, {"blocks": {0: kept.stored.entries["blocks"][0]}})
    with pytest.raises(ValueError, match="1 entries where 2 were stored"):
        kept.restore()


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        ({"tuples": 0}, "mondrian.window.tuples: is too small; a whole number, privacy.k or more"),
        ({"event_time": -1}, "mondrian.window.event_time: is too small; a duration"),
        ({"tuples": 2}, r"mondrian.window.tuples: must be k \(3\) or more, not 2"),
        ({"event_time": 1}, "mondrian.window.event_time: policy.event_time names no column; name one"),
    ],
)
def test_a_window_that_cannot_be_is_refused(window: dict[str, int], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        setting("x", k=3, window=window).shard()
