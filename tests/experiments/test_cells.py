"""The experiment drives cells in windows, and scales counts by the sample rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from experiments.castle.queries import Case, Generalized, published, workload_error
from experiments.cells.accountants import _maxima
from experiments.cells.audit import bounds, lower_bound
from experiments.cells.comparison import EPSILON, SAMPLE_RATE, _cells, _queried, k_of, labeled
from experiments.harness import Stream

ROWS, WIDTH, SHARE = 8000, 4000, 0.3


def _stream() -> Stream:
    """Return a stream of two numbers, one of which is not queried, and the row."""
    random = np.random.default_rng(3)
    return Stream(
        Policy((Numeric("fnlwgt", (0, 9), 1), Numeric("age", (0, 99), 1)), passthrough=("row",)),
        np.column_stack([random.integers(0, 10, ROWS), random.integers(0, 100, ROWS)]).astype(np.float64),
        np.zeros((ROWS, 0), np.int32),
        np.zeros((ROWS, 0), np.uint64),
        pa.record_batch([pa.array(np.arange(ROWS))], names=["row"]),
    )


def test_windows_are_published_apart_and_counts_are_scaled() -> None:
    tuples = _stream()
    made = _cells(tuples, WIDTH, SHARE, 3, 0)
    (releases,) = made.releases
    starts = np.cumsum(releases.tuples) - releases.tuples
    windows = np.array(releases.members[-1], np.int64) // WIDTH
    least, most = (end.reduceat(windows, starts) for end in (np.minimum, np.maximum))
    assert (least == most).all()
    assert set(least.tolist()) == {0, 1}
    assert releases.tuples.min() >= k_of(EPSILON - EPSILON * SHARE)
    # All but few of the sampled tuples are published: they stand for all.
    found = published(tuples, made)
    queried = _queried(found, SAMPLE_RATE, ("age",))
    assert [attribute.name for attribute in queried.tuples.policy.quasi_identifiers] == ["age"]
    assert abs((queried.of >= 0).sum() * queried.weight / ROWS - 1) < 0.1
    case = Case("cells", ("age",), 10, WIDTH, 0.5)
    assert workload_error(case, queried, 0, 250) < 0.2 < workload_error(case, _queried(found, 1, ("age",)), 0, 250)


def test_noisy_counts_stand_for_all_records() -> None:
    tuples = _stream()
    made = _cells(tuples, WIDTH, SHARE, 3, 0, is_noisy=True)
    assert made.counters.synthetic > 0
    queried = _queried(published(tuples, made), 1, ("age",))
    assert queried.copies is not None
    assert int(queried.copies.sum()) == made.counters.released
    assert made.counters.released + sum(made.counters.suppressed.values()) == ROWS + made.counters.synthetic
    case = Case("noisy cells", ("age",), 10, WIDTH, 0.5)
    counted = workload_error(case, queried, 0, 250)
    assert counted < 0.2 < workload_error(case, replace(queried, copies=queried.copies // 2), 0, 250)


def test_queries_select_some_of_the_sensitive_values() -> None:
    random = np.random.default_rng(4)
    values = random.integers(0, 9, ROWS)
    plain = _stream().of_attributes(("age",))
    tuples = replace(
        plain, policy=replace(plain.policy, sensitive=("illness",)), sensitive=values.astype(np.uint64).reshape(-1, 1)
    )
    empty = np.zeros((ROWS, 0), np.int32)
    exact = Generalized(tuples, tuples.numeric, tuples.numeric, empty, np.arange(ROWS))
    case = Case("exact", ("age",), 1, ROWS, 0.1)
    assert workload_error(case, exact, 0, 250) == pytest.approx(0, abs=1e-12)
    # One box for all records knows the values, but not that age depends on them.
    dependent = replace(tuples, numeric=tuples.numeric // 9 + 11.0 * values[:, None])
    low, high = dependent.numeric.min(0, keepdims=True), dependent.numeric.max(0, keepdims=True)
    one_box = Generalized(dependent, low, high, empty[:1], np.zeros(ROWS, np.int64))
    assert workload_error(case, one_box, 0, 250) > 0.2


def test_the_audit_bounds_the_epsilon_of_randomized_response() -> None:
    random = np.random.default_rng(5)
    right = np.exp(1) / (1 + np.exp(1))
    present, absent = (random.random((2, 4000)) < np.array([[right], [1 - right]])).astype(np.int64)
    assert 0.8 < lower_bound(present, absent, 0.0) < 1
    assert lower_bound(present, present, 0.0) == 0
    assert lower_bound(np.ones(100, np.int64), np.zeros(100, np.int64), 0.0) > 1


def test_the_largest_divergence_of_pairs_is_taken_in_each_direction() -> None:
    right = np.exp(1) / (1 + np.exp(1))
    answer, event = np.array([right, 1 - right]), np.array([0.01, 0.99])
    pairs = [(answer, answer[::-1]), (event, np.array([0.0, 1.0]))]
    epsilons, with_person, without = _maxima(pairs, 3.0)
    growth = np.exp(epsilons)
    of_answer = np.maximum(right - growth * (1 - right), 0) + np.maximum(1 - right - growth * right, 0)
    assert with_person == pytest.approx(np.maximum(of_answer, 0.01 + np.maximum(0.99 - growth, 0)), abs=1e-12)
    assert without == pytest.approx(np.maximum(of_answer, np.maximum(1 - 0.99 * growth, 0)), abs=1e-12)


def test_clopper_pearson_bounds() -> None:
    # scipy.stats.beta.ppf(0.025, 10, 91) and ppf(0.975, 11, 90)
    assert bounds(10, 100, 0.025) == pytest.approx((0.04900469, 0.17622260), abs=1e-6)
    assert bounds(0, 20, 0.05)[0] == 0
    assert bounds(20, 20, 0.05)[1] == 1


def test_labels_take_the_place_of_values() -> None:
    values = ["cold", "cancer", "allergy", "hiv"]
    tuples = _stream()
    tuples = replace(
        tuples,
        policy=replace(tuples.policy, sensitive=("diagnosis",)),
        members=pa.record_batch([pa.array(values)], names=["diagnosis"]),
        sensitive=np.arange(4, dtype=np.uint64).reshape(4, 1),
    )
    found = labeled(tuples, {"cold": "acute", "allergy": "acute", "cancer": "chronic", "hiv": "chronic"})
    assert found.members.column("diagnosis").to_pylist() == ["acute", "chronic", "acute", "chronic"]
    assert found.sensitive[0] == found.sensitive[2] != found.sensitive[1] == found.sensitive[3]
