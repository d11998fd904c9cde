"""Parts of ``cells``: contribution bound, coins, declared boxes, and what a configuration may say."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.cells.contributions import Contributions
from crenel.anonymity.algorithms.cells.partition import boxes_of_cells
from crenel.anonymity.algorithms.cells.sampling import Coins
from crenel.anonymity.model.attributes import Categorical, Noised, Numeric
from crenel.anonymity.model.builders.cells import Quadkey
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Pseudonym
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree

TREE = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "cd", "*"), ("d", "cd", "*")])
POLICY = Policy(
    {"age": Numeric((0, 100), 1), "weight": Numeric((0, 9)), "group": Categorical(TREE)},
    sensitive=("illness",),
    subject="person",
    event_time="at",
)
LEAF = Region(0.25, 0.0)
CELLS = RegionTree.of(Cut(0, 49.5, Cut(2, 2.0, LEAF, LEAF), Cut(1, 4.5, LEAF, LEAF)))
PARAMETERS = Cells(CELLS, 1.0, 1e-6, sample_rate=0.2, window=1000)

records = st.lists(st.tuples(st.integers(0, 4), st.integers(-6, 6)), max_size=40)


def reference(
    known: dict[int, list[int]],
    subject: np.ndarray[Any, Any],
    window: np.ndarray[Any, Any],
    most: int,
    reach: int | None,
) -> list[bool]:
    """Admit one tuple after the other, by the windows of each person so far, which it extends."""
    found = []
    for person, number in zip(subject.tolist(), window.tolist(), strict=True):
        windows = known[person]
        near = len(windows) if reach is None else sum(abs(other - number) < reach for other in windows)
        found.append(number not in windows and near < most)
        if found[-1]:
            windows.append(number)
    return found


@given(records, st.integers(1, 3), st.none() | st.integers(1, 4), st.integers(1, 10), st.booleans())
def test_the_compiled_bound_admits_as_the_reference_does(
    drawn: list[tuple[int, int]], most: int, reach: int | None, size: int, expires: bool
) -> None:
    known: dict[int, list[int]] = defaultdict(list)
    contributions = Contributions(most, reach, {})
    drawn = sorted(drawn, key=lambda record: record[1] // 4) if expires else drawn
    for start in range(0, len(drawn), size):
        subject, window = np.array(drawn[start : start + size], np.int64).reshape(-1, 2).T
        # Equal low and high bits of hashes, also beyond the range of signed numbers.
        hashes = (subject.astype(np.uint64) << np.uint64(61)) + np.uint64(5)
        assert contributions.admit(hashes, window).tolist() == reference(known, subject, window, most, reach)
        if expires and reach is not None:
            contributions.expire(int(window[-1]) // 4 * 4 - 4 - 2 * reach)
        contributions.changes()


def test_a_table_with_expired_contributions_is_made_anew() -> None:
    contributions = Contributions(1, 2, {})
    persons = np.arange(500, dtype=np.uint64)
    for window in range(12):
        assert contributions.admit(persons, np.full(500, 2 * window)).all()
        assert not contributions.admit(persons, np.full(500, 2 * window + 1)).any()
        contributions.expire(2 * window - 4)
        contributions.changes()
    assert len(contributions) <= 2500
    assert int(contributions._table.used[0]) <= 4000


@given(records, st.integers(1, 3), st.none() | st.integers(1, 4), st.integers(1, 10))
def test_no_person_contributes_to_more_windows_than_the_bound_after_restores_too(
    drawn: list[tuple[int, int]], most: int, reach: int | None, size: int
) -> None:
    stored: dict[int, bytes] = {}
    windows: dict[int, list[int]] = defaultdict(list)
    whole = Contributions(most, reach, {})
    for start in range(0, len(drawn), size):
        subject, window = np.array(drawn[start : start + size], np.int64).reshape(-1, 2).T
        restored = Contributions(most, reach, stored)
        admitted = restored.admit(subject.astype(np.uint64), window)
        assert admitted.tolist() == whole.admit(subject.astype(np.uint64), window).tolist()
        for number, blob in restored.changes().items():
            stored.pop(number, None)
            if blob is not None:
                stored[number] = blob
        for person, of in zip(subject[admitted].tolist(), window[admitted].tolist(), strict=True):
            windows[person].append(of)
    assert all(len(of) == len(set(of)) for of in windows.values())
    spans = (range(-6, 7) if reach is None else range(start, start + reach) for start in range(-6, 7))
    assert all(len([w for w in of if w in span]) <= most for span in spans for of in windows.values())
    assert {person for person, _ in drawn} == windows.keys()
    # Entries merge, so that there are few of them.
    assert len(stored) <= 1 + np.log2(1 + len(drawn))


def test_old_contributions_expire() -> None:
    contributions = Contributions(1, 2, {})
    persons = np.arange(100, dtype=np.uint64)
    assert contributions.admit(persons, np.zeros(100, np.int64)).all()
    assert None not in contributions.changes().values()
    contributions.expire(1)
    assert set(contributions.changes().values()) == {None}
    assert len(contributions) == 0


def test_an_expired_contribution_outlives_no_further_reach_beside_others() -> None:
    contributions, stored = Contributions(1, 2, {}), dict[int, bytes]()
    persons = np.arange(100, dtype=np.uint64) + np.uint64(2**60)
    contributions.admit(persons, np.repeat([0, 900], [1, 99]))  # one of an old window, and the rest of a future one
    for before, holds in ((0, True), (1, True), (2, True), (3, False)):
        contributions.expire(before)
        stored |= {key: blob for key, blob in contributions.changes().items() if blob is not None}
        assert any(persons[:1].tobytes() in blob for blob in stored.values()) == holds
    assert len(contributions) == 99
    assert not Contributions(1, 2, stored).admit(persons[1:], np.full(99, 901)).any()


def test_a_coin_depends_on_key_person_and_window_alone() -> None:
    persons, windows = np.arange(4000, dtype=np.uint64), np.zeros(4000, np.int64)
    coins = Coins(bytes(32), 0.3)
    first = coins.sampled(persons, windows)
    assert abs(first.mean() - 0.3) < 0.03
    assert (coins.sampled(persons[::-1].copy(), windows)[::-1] == first).all()
    for other in (coins.sampled(persons, windows - 1), Coins(bytes([1] * 32), 0.3).sampled(persons, windows)):
        assert abs((first & other).mean() - 0.09) < 0.02


@given(st.floats(0, 100).map(round), st.floats(0, 9), st.integers(0, 3))
def test_each_record_lies_in_the_declared_box_of_its_cell(age: int, weight: float, leaf: int) -> None:
    boxes = boxes_of_cells(CELLS, POLICY)
    (cell,) = CELLS.regions(np.array([[float(age), weight]]), np.array([[leaf]], np.int32)).tolist()
    assert boxes.lower[cell, 0] <= age <= boxes.upper[cell, 0]
    assert boxes.lower[cell, 1] <= weight <= boxes.upper[cell, 1]
    node = int(boxes.node[cell, 0])
    assert TREE.first[node] <= leaf <= TREE.last[node]


def test_the_intervals_of_an_integer_column_end_at_integers() -> None:
    boxes = boxes_of_cells(CELLS, POLICY)
    assert list(zip(boxes.lower[:, 0], boxes.upper[:, 0], strict=True)) == [(0, 49), (0, 49), (50, 100), (50, 100)]
    assert list(zip(boxes.lower[2:, 1], boxes.upper[2:, 1], strict=True)) == [(0, 4.5), (4.5, 9)]


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (replace(POLICY, passthrough=("visit",)), "policy.passthrough"),
        (replace(POLICY, noised={"dose": Noised((0, 1), 0.1)}), "policy.noised"),
        (replace(POLICY, pseudonym=Pseudonym("code", "release")), "policy.pseudonym"),
        (replace(POLICY, event_time_limit=1), "policy.event_time_limit"),
        (replace(POLICY, event_time=None), "cells.window"),
        (replace(POLICY, quasi_identifiers={"age": Numeric()}), "policy.quasi_identifiers.age.domain"),
        (replace(POLICY, quasi_identifiers={"age": Numeric((0, 9), 1)}), "policy.quasi_identifiers.age.step"),
        (
            replace(POLICY, quasi_identifiers={"age": Numeric((0, 9), ends=1)}),
            "policy.quasi_identifiers.age.ends",
        ),
        (
            replace(POLICY, quasi_identifiers={"age": Numeric((0, 9), missing="value")}),
            "policy.quasi_identifiers.age.missing",
        ),
        (
            replace(POLICY, quasi_identifiers={"group": Categorical(TREE, publish="set")}),
            "policy.quasi_identifiers.group.publish",
        ),
        (
            replace(POLICY, quasi_identifiers={"tile": Categorical(Quadkey((11,), ("1", "2")).hierarchy())}),
            "policy.quasi_identifiers.tile.hierarchy",
        ),
    ],
)
def test_what_tells_more_than_the_key_or_is_too_large_is_refused(policy: Policy, field: str) -> None:
    (problem,) = [p for p in PARAMETERS.problems(policy, Privacy(14)) if "age.step" not in p or "age.step" in field]
    assert problem.startswith(f"{field}: ")


def test_a_privacy_model_may_not_compare_with_records_that_are_not_published() -> None:
    policy = replace(POLICY, quasi_identifiers={"age": Numeric((0, 9))})
    (problem,) = PARAMETERS.problems(policy, Privacy(14, models={"t": 0.2}))
    assert problem.startswith("privacy.sensitive.illness.reference: ")


@pytest.mark.parametrize(
    ("changed", "k", "problem"),
    [
        ({}, 11, "privacy.k: must be 12 or more"),
        ({"epsilon": 4.0, "windows": 4}, 9, "privacy.k: must be 10 or more"),
        ({"epsilon": 0.1}, 100, "cells.sample_rate: no k gives"),
        ({"partition": replace(CELLS, epsilon=0.2)}, 12, "privacy.k: must be 13 or more"),
        ({"partition": replace(CELLS, epsilon=1.0)}, 100, "cells.epsilon: must be above 1"),
    ],
)
def test_the_promise_needs_a_least_k(changed: dict[str, Any], k: int, problem: str) -> None:
    policy = replace(POLICY, quasi_identifiers={"age": Numeric((0, 9))})
    (found,) = replace(PARAMETERS, **changed).problems(policy, Privacy(k))
    assert found.startswith(problem)
    if problem.startswith("privacy.k"):
        assert not list(replace(PARAMETERS, **changed).problems(policy, Privacy(k + 1)))


def test_the_account_names_the_bound_that_counts() -> None:
    one = PARAMETERS.account(Privacy(12))
    assert one["delta_over_horizon"] == one["delta_by_composition"] == one["delta_of_window"]
    assert "delta_by_privacy_loss" not in one
    several = replace(PARAMETERS, epsilon=4.0, windows=4).account(Privacy(10))
    assert several["delta_over_horizon"] == several["delta_by_privacy_loss"] <= 1e-6 < several["delta_by_composition"]
    assert several["least_k"] == 10
    # No epsilon of a window goes with such a sample rate.
    losses_only = replace(PARAMETERS, sample_rate=0.5, epsilon=0.6, windows=4).account(Privacy(200))
    assert losses_only["delta_over_horizon"] <= 1e-6
    assert not losses_only.keys() & {"epsilon_of_window", "delta_of_window", "delta_by_composition"}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"sample_rate": 1.0}, "cells.sample_rate"),
        ({"delta": 0.0}, "cells.delta"),
        ({"epsilon": 0.0}, "cells.epsilon"),
        ({"window": 0}, "cells.window"),
        ({"windows": 0}, "cells.windows"),
        ({"horizon": 1500}, "cells.horizon"),
        ({"window": None, "lateness": 10}, "cells.lateness"),
    ],
)
def test_parameters_out_of_range_are_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(PolicyError, match=f"\n  {field}: "):
        replace(PARAMETERS, **changed)
