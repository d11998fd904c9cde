"""The experiment drives cells in windows, and scales counts by the sample rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import ceil, exp, floor

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from experiments.castle.queries import Case, Generalized, loss, published, workload_error
from experiments.cells.accountants import _maxima
from experiments.cells.audit import bounds, lower_bound
from experiments.cells.comparison import EPSILON, SAMPLE_RATE, _cells, _queried, k_of, labeled
from experiments.cells.safepub import Lattice, Search, find_scheme, ks_of, publish, rate_of
from experiments.harness import Stream

ROWS, WIDTH, SHARE = 8000, 4000, 0.3


def _stream() -> Stream:
    """Return a stream of two numbers, one of which is not queried, and the row."""
    random = np.random.default_rng(3)
    return Stream(
        Policy({"fnlwgt": Numeric((0, 9), 1), "age": Numeric((0, 99), 1)}, passthrough=("row",)),
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
    assert [attribute.name for attribute in queried.tuples.policy.attributes] == ["age"]
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


_GROUPS = Categorical(from_paths([("a", "*"), ("b", "*")])).named("group")


def _table(rows: Sequence[tuple[float, int]], numbers: bool = True) -> Stream:
    """Return a table of an age, unless without ``numbers``, and a group."""
    age = (Numeric((0, 15), 1).named("age"),) if numbers else ()
    values = np.array(rows, np.float64).reshape(-1, 2)
    return Stream(
        Policy(by_name((*age, _GROUPS))),
        values[:, : len(age)],
        values[:, 1:].astype(np.int32),
        np.zeros((len(rows), 0), np.uint64),
        pa.record_batch([pa.array(np.arange(len(rows)))], names=["row"]),
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_record_changes_the_score_of_safepub_by_one_at_most(k: int) -> None:
    values = [(0.0, 0), (1.0, 0), (15.0, 1)]
    largest = 0.0
    for size in range(5):
        for rows in combinations_with_replacement(values, size):
            lattice = Lattice(_table(rows))
            schemes = [*product(*(range(len(levels)) for levels in lattice.levels))]
            assert len(schemes) == 6
            for row in values:
                other = Lattice(_table([*rows, row]))
                largest = max(largest, *(abs(lattice.score(each, k) - other.score(each, k)) for each in schemes))
    assert largest == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.5, 0.9])
def test_safepub_has_the_least_k(epsilon: float) -> None:
    rate, least = rate_of(epsilon), 1e-6
    k, by_theorem = ks_of(epsilon, least)
    assert exp(-epsilon) == pytest.approx(1 - rate)

    def divergence(k: int) -> float:
        """Return the largest hockey-stick divergence of published counts with and without a person."""
        found = 0.0
        for persons in range(k, 4 * k):
            count = np.arange(k, persons + 1)
            one, other = binom.pmf(count, persons, rate), binom.pmf(count, persons - 1, rate)
            for p, q in ((one, other), (other, one)):
                below = max(1 - p.sum() - exp(epsilon) * (1 - q.sum()), 0)
                found = max(found, np.maximum(p - exp(epsilon) * q, 0).sum() + below)
        return float(found)

    def bound(k: int) -> float:
        """Return the delta of Theorem 5 of Li, Qardaji and Su."""
        gamma = (exp(epsilon) - 1 + rate) / exp(epsilon)
        persons = np.arange(ceil(k / gamma - 1), 4 * k)
        return float(max(binom.sf(floor(gamma * n), n, rate) for n in persons))

    assert divergence(k) <= least < divergence(k - 1)
    assert bound(by_theorem) <= least < bound(by_theorem - 1)


def test_the_search_of_safepub_is_private_only_where_its_final_choice_is() -> None:
    k, epsilon, runs = 4, 1.0, 4000
    tables = [Lattice(_table([(0, 0)] * size, numbers=False)) for size in (k - 1, k)]
    random, share = np.random.default_rng(7), {}
    for choice in ("exact", "private"):
        search = Search(epsilon, 1, choice)
        share[choice] = [np.mean([find_scheme(of, k, search, random) == (1,) for _ in range(runs)]) for of in tables]
    assert share["exact"] == [0, 1]
    # 0.9 of epsilon is left to the final choice, between scores of -1 and -1, or -4/3 and 0.
    assert share["private"] == pytest.approx([0.5, 1 / (1 + exp(-0.45 * 4 / 3))], abs=0.03)


@pytest.mark.parametrize("choice", ["exact", "private"])
def test_safepub_publishes_classes_of_k_under_one_scheme(choice: str) -> None:
    random = np.random.default_rng(6)
    tuples = _table([*zip(random.integers(0, 16, ROWS).tolist(), (random.random(ROWS) < 0.02).tolist(), strict=True)])
    tuples = replace(
        tuples,
        policy=replace(tuples.policy, sensitive=("illness",)),
        sensitive=random.integers(0, 3, ROWS).astype(np.uint64).reshape(-1, 1),
    )
    k, search = 50, Search(5.0, 4, "private" if choice == "private" else "exact")
    found, lost, suppressed = publish(tuples, 0.5, k, search, 0)
    sizes = np.bincount(found.of[found.of >= 0])
    assert sizes[sizes > 0].min() >= k
    assert sizes.sum() / (1 - suppressed) / ROWS == pytest.approx(rate_of(0.5), abs=0.02)
    assert 0 < suppressed < 0.2
    assert lost == pytest.approx((1 - suppressed) * loss(found) + suppressed)
    kept = found.of >= 0
    box = found.of[kept]
    assert (found.lower[box] <= tuples.numeric[kept]).all()
    assert (tuples.numeric[kept] <= found.upper[box]).all()
    assert np.isin(found.upper - found.lower, [(15.0,), (3.0,), (0.0,)]).all()
    assert len(np.unique(found.upper[box] - found.lower[box])) == 1
    assert len({*zip(box.tolist(), tuples.sensitive[kept, 0].tolist(), strict=True)}) == (sizes > 0).sum()
    again, other = publish(tuples, 0.5, k, search, 0)[0], publish(tuples, 0.5, k, search, 1)[0]
    assert (again.of == found.of).all()
    assert ((other.of >= 0) != kept).any()
