"""Grouping and repair give what the plain Python reference gives, window by window."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.log import ACTIONS
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import in_blocks
from tests.support.example_counts import LAWS, reach
from tests.support.source import IDENTITY, Row
from tests.support.window_drive import WindowSetting, take, taken_by
from tests.support.window_reference import Reference

TREE = from_paths(
    [
        ["a", "ab", "abc", "*"],
        ["b", "ab", "abc", "*"],
        ["c", "c2", "abc", "*"],
        ["d", "de", "*"],
        ["e", "de", "*"],
        ["f", "*"],
    ]
)


@st.composite
def windows(draw: st.DrawFn, *, repeats: bool) -> tuple[WindowSetting, list[Row]]:
    """Return a setting and the tuples of one window; where no pattern ``repeats``, no two of them are alike."""
    subject, sensitive = draw(st.sampled_from((None, "who"))), draw(st.integers(1, 2))
    policy = Policy(
        {"x": Numeric((0, 1)), "c": Categorical(TREE), "y": Numeric((-4, 4))},
        sensitive=("s", "t")[:sensitive],
        passthrough=(IDENTITY,),
        subject=subject,
        event_time="at",
    )
    k = draw(st.integers(2, 5))
    l = draw(st.integers(1, 1 if repeats else k))  # noqa: E741
    parameters = Suhdsa(
        event_time=2**40,
        distortion_weight=1.0,
        neighbors=draw(st.integers(1, 4)),
        growth_cap=draw(st.sampled_from((2, 2.5, 3, 5))),
        numeric=draw(st.sampled_from(("mean", "median"))),
        categorical=draw(st.sampled_from(("mode", "ancestor"))),
        weights={"y": draw(st.sampled_from((0.5, 2.0)))},
    )
    chance = Random(draw(st.integers(0, 2**32)))
    rows: list[Row] = []
    common = chance.choice((0.5, 0.8, 0.95))
    for i in range(draw(st.integers(0, 40))):
        values = (chance.random(), chance.choice("abcdef"), chance.uniform(-4, 4))
        if repeats and rows and chance.random() < 0.5:
            values = chance.choice(rows).values  # type: ignore[assignment]
        seen = ["usual" if chance.random() < common else chance.choice("pqrs") for _ in range(sensitive)]
        person = None if subject is None else chance.randrange(20)
        rows.append(Row(values, (*seen, i), person, event_time=chance.randrange(1000)))
    return WindowSetting(policy, Privacy(k, l), parameters, (*[pa.string()] * sensitive, pa.int64())), rows


def released(setting: WindowSetting, rows: list[Row]) -> tuple[list[set[int]], list[bool], list[tuple[int, int, str]]]:
    """Members of each release by position, whether it was merged, and the actions: group, partner, what."""
    window = setting.shard()
    members: list[set[int]] = []
    merged: list[bool] = []
    done: list[tuple[int, int, str]] = []
    for step in in_blocks(rows, 1000):
        found = taken_by(setting, window, step)
        out, actions = found.releases, found.repairs.actions
        members += [set(out.members[-1][out.offsets[i] : out.offsets[i + 1]]) for i in range(len(out))]
        merged += [kind == 1 for kind in out.kind.tolist()]
        columns = (actions.group.tolist(), actions.neighbor.tolist(), actions.action.tolist())
        done += [(group, partner, ACTIONS[what]) for group, partner, what in zip(*columns, strict=True)]
    return members, merged, done


def reference(setting: WindowSetting, rows: list[Row]) -> Reference:
    """Return the same window, grouped and repaired by the reference."""
    slow = Reference(setting.policy, setting.algorithm, rows, setting.privacy.k, setting.privacy.l)
    if not slow.unsatisfiable():
        slow.group()
        slow.repair()
    return slow


def compare(setting: WindowSetting, rows: list[Row]) -> Reference:
    slow = reference(setting, rows)
    members, merged, done = released(setting, rows)
    lawful = [group for group in slow.groups if group.members and not any(slow.lack(group.members))]
    assert done == [(a.group, a.partner, "merge" if a.pair is None else "swap") for a in slow.actions]
    assert members == [set(group.members) for group in lawful]
    assert merged == [group.merged for group in lawful]
    return slow


@given(windows(repeats=True))
@LAWS
def test_groups_are_those_of_the_reference(window: tuple[WindowSetting, list[Row]]) -> None:
    compare(*window)


@given(windows(repeats=False))
@LAWS
def test_repairs_are_those_of_the_reference(window: tuple[WindowSetting, list[Row]]) -> None:
    compare(*window)


def test_windows_with_several_swaps_and_merges_are_among_them() -> None:
    def several(window: tuple[WindowSetting, list[Row]]) -> bool:
        kinds = [action.pair is None for action in reference(*window).actions]
        return kinds.count(True) > 1 and kinds.count(False) > 1

    reach(windows(repeats=False), several)


def test_a_tuple_has_no_event_time_in_a_stream_without_any() -> None:
    policy = Policy({"x": Numeric((0, 1))}, passthrough=(IDENTITY,))
    setting = WindowSetting(policy, Privacy(2), Suhdsa(10), (pa.int64(),))
    window = setting.shard()
    outputs = [take(setting, window, step) for step in in_blocks([Row((0.5,), (i,)) for i in range(3)], 3)]
    assert [out.event_time.tolist() for out in outputs] == [[], [NO_TIME]]
