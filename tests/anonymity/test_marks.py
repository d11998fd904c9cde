"""Watermarks on blocks: each counts as if event time had passed between the tuples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithm import Counters
from crenel.anonymity.buffer.releases import Releases
from tests.support.drive import KEY, columns_of, taken
from tests.support.example_counts import LAWS
from tests.support.lasting_drive import lasting_cases
from tests.support.mondrian_drive import mondrian_cases
from tests.support.nearest_drive import nearest_cases
from tests.support.source import Step
from tests.support.strategies import Case, cases, cuts
from tests.support.window_drive import window_cases

CASES = {
    "castle": cases(timed=True),
    "nearest": nearest_cases(timed=True),
    "lasting": lasting_cases(forgets=True),
    "window": window_cases(timed=True),
    "mondrian": mondrian_cases(timed=True),
}


@pytest.mark.parametrize("algorithm", CASES)
@given(st.data(), cuts, cuts)
@LAWS
def test_what_rides_on_a_block_counts_as_if_it_had_passed_between_its_tuples(
    algorithm: str, data: st.DataObject, one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    case = data.draw(CASES[algorithm])
    first, counters = taken_all(case, case.steps(one))
    second, again = taken_all(case, case.riding(other))
    assert columns_of(first) == columns_of(second)
    assert counters.delays.tolist() == again.delays.tolist()
    assert replace(counters, delays=again.delays) == again


def taken_all(case: Case, steps: Iterable[Step]) -> tuple[list[Releases], Counters]:
    """Return the results of a new shard for each step, and its counters at that step."""
    shard = case.setting.algorithm.new(case.setting.terms(), 0, KEY)
    return [taken(case.setting, shard, step).releases for step in steps], shard.counters
