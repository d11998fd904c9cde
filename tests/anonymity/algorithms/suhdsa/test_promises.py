"""Windows keep every promise, and seek it with swaps and merges: l of people who come again, and further ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from examples.own_privacy_model import AT_MOST
from tests.support.drive import Kept, columns_of, in_blocks, judged
from tests.support.example_counts import FEW, LAWS, reach
from tests.support.settings import models_of
from tests.support.source import IDENTITY, Push, Row
from tests.support.window_drive import WindowSetting, released_and_repairs, take

POLICY = Policy({"x": Numeric((0, 100))}, sensitive=("illness",), passthrough=(IDENTITY,), subject="who")
TYPES = (pa.string(), pa.int64())


def setting(privacy: Privacy, **parameters: object) -> WindowSetting:
    return WindowSetting(POLICY, privacy, Suhdsa(**parameters), TYPES)  # type: ignore[arg-type]


def rows(people: str, illnesses: str, values: str = "") -> list[Row]:
    """Return a tuple for each letter, all at one place or at tens that ``values`` tells."""
    positions = values or "0" * len(people)
    return [
        Row((10.0 * int(x),), (illness, i), who)
        for i, (who, illness, x) in enumerate(zip(people, illnesses, positions, strict=True))
    ]


# l counts people.


@pytest.mark.parametrize("order", ["0123", "3210", "1302"])
def test_people_who_all_have_one_value_do_not_leave_together(order: str) -> None:
    # A:flu, A:hiv, B:hiv, C:hiv has two values, and everybody has hiv.
    made = setting(Privacy(3, 2), tuples=4, delay=Delay(4))
    given = rows("AABC", "fhhh")
    outputs, counters, _ = judged(made, in_blocks([given[int(i)] for i in order], 4))
    assert sum(map(len, outputs)) == 0
    assert counters.suppressed["too_little_diversity"] == 4


def test_a_swap_helps_people_who_all_have_one_value_though_it_brings_no_new_one() -> None:
    # The first group has f and h, but everybody has h. The second can spare f, which is not new to the first.
    made = setting(Privacy(3, 2), tuples=8, distortion_weight=1.0, neighbors=1)
    out, repairs = released_and_repairs(made, made.shard(), Push(tuple(rows("AABCDEFG", "fhhhffhh", "00009999"))))
    assert len(out) == 2
    assert repairs.windows.violations.tolist() == [1]
    assert repairs.actions.diversity_before.tolist() == [1]
    assert repairs.windows.unrepaired.tolist() == [0]


again = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("aaabcd"), st.integers(0, 9)), max_size=60).map(
    lambda drawn: [Row((10.0 * x,), (illness, i), who) for i, (x, illness, who) in enumerate(drawn)]
)
few_people = st.builds(
    lambda k, least, tuples, stream: (setting(Privacy(k, min(k, least)), tuples=tuples, growth_cap=4), stream),
    st.integers(2, 4),
    st.integers(2, 4),
    st.sampled_from((6, 12, 25)),
    again,
)


@given(few_people)
@LAWS
def test_l_holds_by_its_definition_where_people_come_again(drawn: tuple[WindowSetting, list[Row]]) -> None:
    made, stream = drawn
    judged(made, in_blocks(stream, 7))


@pytest.mark.parametrize("what", ["swap", "merge", "several values"])
def test_repairs_of_people_who_come_again_are_among_them(what: str) -> None:
    def brings_about(drawn: tuple[WindowSetting, list[Row]]) -> bool:
        outputs, _, checker = judged(drawn[0], in_blocks(drawn[1], 7))
        several = any((out.tuples > out.subjects).any() and (out.diversity > 2).any() for out in outputs)
        return several if what == "several values" else checker.actions[what] > 0

    reach(few_people, brings_about)


# Further promises.


def common(out: Releases, stream: list[Row]) -> list[float]:
    """Return the share of persons with the commonest value, of each release."""
    found = []
    for i in range(len(out)):
        held = {
            (stream[p].subject, stream[p].published[0]) for p in out.members[-1][out.offsets[i] : out.offsets[i + 1]]
        }
        found.append(max(Counter(value for _, value in held).values()) / len({who for who, _ in held}))
    return found


def test_a_swap_seeks_a_further_promise() -> None:
    # Of the first group three in four have a; the second can spare b, c and d.
    stream = rows("ABCDEFGH", "aaabbcda", "00009999")
    made = setting(Privacy(4, 1, models=models_of(((AT_MOST, 0.5),))), tuples=8, distortion_weight=1.0)
    out, repairs = released_and_repairs(made, made.shard(), Push(tuple(stream)))
    assert (repairs.windows.swaps.tolist(), repairs.windows.merges.tolist()) == ([1], [0])
    assert common(out, stream) == [0.5, 0.5]


def test_a_merge_seeks_a_further_promise_where_a_swap_would_break_the_other() -> None:
    stream = rows("ABCDEFGH", "aaabaabc", "00009999")
    made = setting(Privacy(4, 1, models=models_of(((AT_MOST, 0.65),))), tuples=8)
    out, repairs = released_and_repairs(made, made.shard(), Push(tuple(stream)))
    assert (repairs.windows.swaps.tolist(), repairs.windows.merges.tolist()) == ([0], [1])
    assert common(out, stream) == [5 / 8]


def test_what_breaks_a_further_promise_is_suppressed_by_its_reason() -> None:
    made = setting(Privacy(2, 1, models=models_of(((AT_MOST, 0.5),))), tuples=4, delay=Delay(4))
    window = made.shard()
    for step in in_blocks(rows("ABCD", "aaaa"), 4):
        out = take(made, window, step)
    assert out.suppressed_reason.tolist() == [made.privacy.reasons.index("too_common")] * 4
    assert window.counters.suppressed["too_common"] == 4


@given(again, st.sampled_from((0.4, 0.5, 0.7)), st.integers(1, 3), st.booleans())
@FEW
def test_a_further_promise_holds_with_k_and_l_and_after_a_restore(
    stream: list[Row],
    share: float,
    l: int,  # noqa: E741
    alone: bool,
) -> None:
    if alone:
        stream = [replace(row, subject=i) for i, row in enumerate(stream)]
    made = setting(Privacy(3, l, models=models_of(((AT_MOST, share),))), tuples=12, growth_cap=4)
    outputs, _, _ = judged(made, in_blocks(stream, 5))
    assert all(found <= share for out in outputs for found in common(out, stream))
    shard, again_outputs = Kept(made), []
    for step in in_blocks(stream, 5):
        again_outputs.append(shard.take(step))
        shard.restore()
    assert columns_of(again_outputs) == columns_of(outputs)


# Event time of releases.


def test_a_row_dated_far_ahead_dates_no_release_but_its_own() -> None:
    policy = replace(POLICY, event_time="at")
    made = WindowSetting(policy, Privacy(2), Suhdsa(4), TYPES)
    stream = [replace(row, event_time=i) for i, row in enumerate(rows("ABCDEFGH", "abababab", "00990099"))]
    stream[1] = replace(stream[1], event_time=10**12)
    window = made.shard()
    first = take(made, window, Push(tuple(stream[:4])))
    step = window.push(made.block(stream[4:]))
    assert sorted(first.event_time.tolist()) == [3, 10**12]
    assert sorted(step.releases.event_time.tolist()) == [5, 7]
    assert [row[1] for row in step.further["windows"]] == [7]
    assert [row[1] for row in window.advance(0).further["windows"]] == []
