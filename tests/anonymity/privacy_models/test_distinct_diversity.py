"""l-diversity counts people: judged by its definition, by brute force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.privacy_models.tally import Counter, Tally, count_set, diversity, empty_counter
from tests.support import checker
from tests.support.drive import Setting, judged
from tests.support.source import IDENTITY, Finish, Push, Row


@entry
def _count(counter: Counter, members: Any, subject: Any, value: Any, known_by_name: bool) -> None:
    count_set(counter, members, subject, value, known_by_name)


@entry
def _diversity(tally: Tally, attribute: int) -> int:
    return diversity(tally, attribute)


def counted(rows: Sequence[tuple[Any, ...]], *, known_by_name: bool = True) -> Tally:
    """Return the tally of tuples, each a person and the values of some columns, in slots of any order."""
    count, columns = len(rows), len(rows[0]) - 1
    numbers: list[dict[Any, int]] = [{} for _ in range(columns + 1)]
    coded = [[number.setdefault(x, len(number)) for number, x in zip(numbers, row, strict=True)] for row in rows]
    slots = np.random.default_rng(0).permutation(count)
    subject, value = np.zeros(count, np.uint64), np.zeros((count, columns), np.int32)
    for slot, (who, *values) in zip(slots, coded, strict=True):
        subject[slot], value[slot] = who * 2**40, values
    counter = empty_counter(columns, count)
    _count(counter, slots.astype(np.int64), subject, value, known_by_name)
    assert (counter.place == -1).all()
    return counter.tally


people = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcde")), min_size=1, max_size=12)
many = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abcde")), min_size=33, max_size=90)


@given(people | many)
def test_a_tally_counts_each_person_once_for_a_value(rows: list[tuple[int, str]]) -> None:
    tally = counted(rows)
    found = {value: len({who for who, other in rows if other == value}) for _, value in rows}
    assert tally.persons[0] == len({who for who, _ in rows})
    assert tally.values[0] == len(found)
    assert tally.held[0] == sum(found.values())
    assert sorted(tally.counts[0, : tally.used[0]]) == sorted(found.values())


@given(people)
def test_without_names_each_tuple_is_its_own_person(rows: list[tuple[int, str]]) -> None:
    tally = counted(rows, known_by_name=False)
    assert tally.persons[0] == tally.held[0] == len(rows)
    assert _diversity(tally, 0) == len({value for _, value in rows})


@given(people)
def test_stated_diversity_is_never_more_than_the_definition_and_exact_for_two(rows: list[tuple[int, str]]) -> None:
    of: dict[int, set[str]] = {}
    for who, value in rows:
        of.setdefault(who, set()).add(value)
    true = checker.diversity(list(of.values()))
    stated = _diversity(counted(rows), 0)
    assert stated <= true
    assert (stated >= 2) == (true >= 2)
    if len(of) == len(rows):
        assert stated == true


def test_a_value_that_everybody_has_is_no_diversity() -> None:
    assert _diversity(counted([("A", "flu"), ("A", "hiv"), ("B", "hiv"), ("C", "hiv")]), 0) == 1


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_people_who_all_have_one_value_do_not_leave_together(order: tuple[int, ...]) -> None:
    policy = Policy({"x": Numeric((0, 9))}, sensitive=("illness",), passthrough=(IDENTITY,), subject="who")
    setting = Setting(policy, Privacy(3, 2), Castle(Delay(10), max_clusters=1), (pa.string(), pa.int64()))
    rows = [("A", "flu"), ("A", "hiv"), ("B", "hiv"), ("C", "hiv")]
    block = Push(tuple(Row((5.0,), (rows[i][1], i), subject=rows[i][0]) for i in order))
    _, counters, _ = judged(setting, [block, Finish()])
    assert counters.released < 4
    assert counters.suppressed["too_little_diversity"] > 0
