"""The experiments of (k, epsilon)-anonymity: who is in them, and their own sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anonymity.policy import Categorical
from benchmarks.kepsilon.body import HEIGHT, WEIGHT, heights, weights
from benchmarks.kepsilon.populations import list_a, list_b


@pytest.mark.parametrize(
    ("made", "people", "columns"),
    [
        (list_a, 134_791, ["zip", "sex", "born", "race", "height"]),
        (list_b, 72_825, ["zip", "sex", "born", "weight"]),
    ],
)
def test_invented_lists_have_the_size_and_columns_of_the_papers(made: Any, people: int, columns: list[str]) -> None:
    found = made()
    assert (len(found), list(found.rows)) == (people, columns)
    assert "invented" in found.name
    assert found.rows["zip"].nunique() > 700
    sizes = found.rows["zip"].value_counts()
    assert sizes.max() > 10 * sizes.min()
    again = made.__wrapped__()
    assert again.rows is not found.rows
    assert again.rows.equals(found.rows)


def test_hierarchies_have_the_levels_of_table_1() -> None:
    policy = list_a().policy(by_levels=True, noised=False)
    levels = {a.name: len(a.hierarchy.level_nodes()) for a in policy.quasi_identifiers if isinstance(a, Categorical)}
    # The height makes the lattice eight times larger (Section VII-D).
    assert levels == {"zip": 6, "sex": 2, "born": 5, "race": 2, "height": 8}


def test_each_value_is_below_its_leaf() -> None:
    people = list_b().first(2000)
    policy = people.policy(by_levels=True, noised=False)
    leaves = people.block(policy).categorical.T
    for attribute, found in zip(policy.categorical, leaves, strict=True):
        labels = [attribute.hierarchy.labels[leaf] for leaf in found]
        values = people.rows[attribute.name]
        whole = np.floor(values).astype(int) if attribute.name == "weight" else values
        assert labels == whole.astype(str).tolist()


def test_bodies_have_the_means_and_percentiles_of_the_source() -> None:
    random = np.random.default_rng(1)
    for sex in ("Male", "Female"):
        for group, age in enumerate((18, 25, 35, 45, 55, 65, 75, 85)):
            many = np.full(20_000, age), np.full(20_000, sex, object)
            mean, low, high = HEIGHT[sex][group]
            tall = heights(*many, random)
            assert tall.mean() == pytest.approx(mean, abs=0.3)
            assert np.percentile(tall, 90) - np.percentile(tall, 10) == pytest.approx(high - low, rel=0.04)
            median, low, high = WEIGHT[sex][group]
            heavy = weights(*many, random)
            assert np.median(heavy) == pytest.approx(median, rel=0.01)
            assert np.percentile(heavy, 90) / np.percentile(heavy, 10) == pytest.approx(high / low, rel=0.03)


def test_values_lie_in_the_domain_of_their_noise() -> None:
    for people in (list_a(), list_b()):
        assert people.noised.domain is not None
        low, high = people.noised.domain
        assert low < people.values.min() < people.values.max() < high
