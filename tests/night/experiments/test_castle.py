"""Measures of the experiments of CASTLE, on streams whose result is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.castle import queries
from experiments.castle.arrival import by_arrival, by_release
from experiments.castle.condensation import condense
from experiments.castle.contenders import of_persons, persons_within, shuffled, zipf
from experiments.castle.queries import Case, Generalized, loss, workload_error

TUPLES = zipf(400, 0.5, 2, 50)
CASE = Case("", (), 10, 200, 0.3)
NO_NODES = np.zeros((len(TUPLES), 0), np.int32)


@pytest.fixture(autouse=True)
def _few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_QUERIES", queries._CHUNK)


def _two_values() -> Generalized:
    """Return tuples with two sensitive values, published as they are."""
    tuples = replace(TUPLES, sensitive=TUPLES.sensitive % np.uint64(2))
    return Generalized(tuples, tuples.numeric, tuples.numeric, NO_NODES, np.arange(len(tuples)))


def test_tuples_published_as_they_are_have_no_error_and_no_loss() -> None:
    assert workload_error(CASE, _two_values(), 0) == 0
    assert loss(_two_values()) == 0


def test_suppressed_tuples_and_wide_intervals_are_errors() -> None:
    found = _two_values()
    half = np.where(np.arange(len(TUPLES)) % 2, -1, found.of)
    assert 0.3 < workload_error(CASE, replace(found, of=half), 0) < 0.7
    all_values = replace(found, lower=np.ones_like(found.lower), upper=np.full_like(found.upper, 50))
    assert loss(all_values) == 1
    assert workload_error(CASE, all_values, 0) > 0.1


def test_ranges_of_queries_include_both_ends() -> None:
    prefixes = queries._prefixes(np.array([3, 1, 2, 2, 5]))
    found = queries._within(prefixes, np.array([2, 1, 6]), np.array([3, 1, 9]))
    assert np.unpackbits(found, axis=1, count=5).tolist() == [[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0] * 5]


def test_order_of_arrival_tells_the_row_of_a_person_however_general_it_is() -> None:
    random, last = np.random.default_rng(0), len(TUPLES) - 1
    ends = np.full((1, TUPLES.numeric.shape[1]), 1.0), np.full((1, TUPLES.numeric.shape[1]), 50.0)
    one_class = Generalized(TUPLES, *ends, NO_NODES[:1], np.zeros(len(TUPLES), np.int64))
    assert by_arrival(one_class, 100, 0, random) == 1
    assert 0.2 <= by_arrival(one_class, 100, 2, random) < 0.21
    assert by_release(one_class) == 1 / len(TUPLES)
    # With one suppressed tuple, the row is at the place of the arrival or before it.
    hidden = replace(one_class, of=np.where(np.arange(len(TUPLES)) == last // 2, -1, 0))
    assert 0.5 <= by_arrival(hidden, 100, 0, random) < 0.52
    # Rows whose generalization excludes the person are no candidates.
    exact = replace(one_class, lower=TUPLES.numeric, upper=TUPLES.numeric, of=np.arange(len(TUPLES)))
    assert by_arrival(exact, 100, 2, random) > 0.9


def test_condensation_assigns_each_tuple_to_a_group_of_k_to_2k_that_is_narrow() -> None:
    values = TUPLES.numeric / 49
    group = condense(values, 100, 10, 0)
    sizes = np.bincount(group)
    assert sizes.min() >= 10
    assert sizes.max() < 20
    widths = [np.ptp(values[group == one], axis=0).mean() for one in range(len(sizes))]
    assert np.mean(widths) < 0.3


def test_shuffling_keeps_the_rows_of_a_person_together() -> None:
    persons = shuffled(of_persons(TUPLES, 20, 3), 1)
    assert persons.subject is not None
    assert (persons.subject.reshape(20, 3) == persons.subject[::3, None]).all()
    assert (persons.numeric.reshape(20, 3, 2) == persons.numeric[::3, None]).all()
    assert (np.unique(persons.subject, return_counts=True)[1] == 3).all()
    assert (persons.subject != of_persons(TUPLES, 20, 3).subject).any()


@pytest.mark.parametrize(("within", "furthest"), [(None, 400), (100, 100), (5, 5)])
def test_the_tuples_of_a_person_arrive_as_near_to_each_other_as_stated(within: int | None, furthest: int) -> None:
    found = persons_within(TUPLES, 3, each=5, within=within)
    assert found.subject is not None
    positions = [np.flatnonzero(found.subject == one) for one in np.unique(found.subject)]
    assert {len(each) for each in positions} == {5}
    apart = [int(np.ptp(each)) for each in positions]
    assert furthest * 0.7 < max(apart) < furthest
    assert (np.sort(found.numeric, axis=0) == np.sort(TUPLES.numeric, axis=0)).all()
    assert (found.numeric != TUPLES.numeric).any()
