"""Populations and computations of the experiments of (k, epsilon)-anonymity."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.stored import initial_snapshot
from crenel.anonymity.model.attributes import Categorical
from experiments.kepsilon import stream
from experiments.kepsilon.assignment import bound, linked_in_order, posterior
from experiments.kepsilon.body import HEIGHT, WEIGHT, heights, weights
from experiments.kepsilon.causes import unbounded
from experiments.kepsilon.core import (
    ALGORITHMS,
    EPSILONS,
    KS,
    Algorithm,
    choice,
    expected_error,
    key,
    noise,
    published,
    run,
    shard,
    terms,
)
from experiments.kepsilon.decomposition import Search
from experiments.kepsilon.distribution import share_below
from experiments.kepsilon.loss import loss_of
from experiments.kepsilon.noise import RUNS, Measured, cell, error_table, linking_table, suppression_table
from experiments.kepsilon.populations import Population, list_a, list_b


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


def test_the_posterior_of_an_attacker_is_that_of_all_assignments_and_below_its_bound() -> None:
    chance = np.random.default_rng(2)
    for epsilon in (0.5, 2.0, 8.0):
        originals = chance.integers(100, 120, 5).astype(float)
        scale = float(np.ptp(originals)) / epsilon
        published = np.rint(originals + chance.laplace(0, scale, 5))
        expected, total = np.zeros((5, 5)), 0.0
        for order in permutations(range(5)):
            likelihood = float(np.exp(-np.abs(published - originals[list(order)]).sum() / scale))
            total += likelihood
            expected[range(5), order] += likelihood
        found = posterior(originals, published, scale)
        assert found == pytest.approx(expected / total)
        assert found.max() <= bound(5, epsilon)
    # The bound is reached where one person is at one end of the class, and all others at the other end.
    assert posterior(np.array([0.0, 9, 9, 9]), np.array([0.0, 9, 9, 9]), 9.0)[0, 0] == pytest.approx(bound(4, 1.0))
    assert linked_in_order(np.array([3.0, 1, 2]), np.array([2.5, 1, 1.5])) == 3
    assert linked_in_order(np.array([3.0, 1, 2]), np.array([1.5, 1, 2.5])) == 1


def test_hierarchies_have_the_levels_of_table_1() -> None:
    policy = list_a().policy(by_levels=True, noised=False)
    levels = {a.name: len(a.hierarchy.level_nodes()) for a in policy.attributes if isinstance(a, Categorical)}
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


def people_of(count: int = 2000) -> Population:
    """Return some of the invented people of list B, few enough to look at each."""
    return list_b().first(count)


def test_classes_by_hash_suppress_the_records_that_classes_by_argsort_do() -> None:
    people = people_of(300)
    of = terms(people, "OLA", noise(1.0, 5, confident=False))
    working = Search(of, initial_snapshot(of, 0, key(0)))
    working.push(people.block(of.policy))
    sizes = working.levels()
    nodes = [tuple(0 for _ in sizes), tuple(size // 2 for size in sizes), tuple(size - 1 for size in sizes)]
    found = [working.hashed(node) for node in nodes]
    assert found == [working._classes(node).suppressed for node in nodes]
    assert found[0] > found[1] > found[2] == 0
    assert [working.satisfies(node) for node in nodes] == [False, found[1] <= 15, True]


of_each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


@of_each_algorithm
@pytest.mark.parametrize("confident", [False, True])
def test_a_choice_that_is_released_again_gives_what_the_algorithm_gives(algorithm: Algorithm, confident: bool) -> None:
    people, privacy = people_of(), noise(2.0, 5, confident=confident)
    of = terms(people, algorithm, privacy)
    anew = shard(of, algorithm, seed=3)
    anew.push(people.block(of.policy))
    expected = published(people, anew.finish().releases, anew.counters)
    found = run(people, algorithm, privacy, choice(people, algorithm, 5), seed=3)
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.published.tolist() == expected.published.tolist()
    assert (found.linked, found.withheld) == (expected.linked, expected.withheld)
    assert (found.withheld > 0) is confident
    assert run(people, algorithm, privacy, choice(people, algorithm, 5), seed=4).published.tolist() != (
        found.published.tolist()
    )


@of_each_algorithm
def test_error_is_that_of_the_published_values_and_equation_8_expects_it(algorithm: Algorithm) -> None:
    people = unbounded(people_of())
    chosen = choice(people, algorithm, 10)
    before = np.inf
    for epsilon in EPSILONS:
        runs = [run(people, algorithm, noise(epsilon, 10, confident=False, least=0), chosen, seed) for seed in range(4)]
        errors = np.mean([found.errors(people).mean() for found in runs])
        mean_errors = [np.average(found.releases.noise_error[:, 0], weights=found.releases.tuples) for found in runs]
        assert errors == pytest.approx(np.mean(mean_errors))
        assert errors == pytest.approx(expected_error(people, chosen, epsilon), rel=0.06)
        assert errors < before
        before = errors


def test_equation_8_by_hand() -> None:
    people = people_of(4)
    people = replace(people, rows=people.rows.assign(weight=np.array([50.0, 100.0, 80.0, 80.0])))
    chosen = Choice(groups=[np.array([0, 1]), np.array([2, 3])])
    # Diameter 50 over a harmonic mean of 200 / 3 for two of four, and no diameter for the others.
    assert expected_error(people, chosen, 2.0) == pytest.approx(50 / (200 / 3) / 2 / 2)


@of_each_algorithm
def test_linked_are_those_whose_own_original_is_the_nearest_of_their_class(algorithm: Algorithm) -> None:
    people = people_of(1000)
    chosen = choice(people, algorithm, 10)
    found = run(people, algorithm, noise(8.0, 10, confident=False), chosen, 0)
    shown = dict(zip(found.rows.tolist(), found.published.tolist(), strict=True))
    linked = 0
    for group in chosen.groups:
        for row in group.tolist():
            apart = np.abs(people.values[group] - shown[row])
            linked += bool(np.abs(people.values[row] - shown[row]) <= apart.min() + 1e-9)
    assert found.linked == pytest.approx(linked / len(found.rows))


def test_a_cell_has_every_epsilon_and_seed_and_goes_the_expected_way() -> None:
    made = cell(people_of(), "Mondrian", 10, seeds=2)
    for figure in (made.error, made.linked, made.withheld):
        assert np.shape(figure) == (len(EPSILONS), 2)
    assert made.suppressed == 0
    assert 1 < made.classes <= 2000 / 10
    errors, linked, withheld = (np.mean(figure, axis=1) for figure in (made.error, made.linked, made.withheld))
    assert np.all(np.diff(errors) < 0)
    assert np.all(np.diff(linked[1:]) > 0)
    assert withheld[0] == 0 < withheld[-2]
    # Noise that is kept within the domain moves less than equation (8) has it, and hardly less where it is small.
    assert errors[0] < made.expected[0] / 4
    assert errors[-1] == pytest.approx(made.expected[-1], rel=0.1)
    assert cell(people_of(), "Mondrian", 100, seeds=2).linked[-1] < made.linked[-1]


def test_kept_cells_are_found_again_and_tables_have_a_row_for_each_k(tmp_path: Path) -> None:
    made = cell(people_of(500), "OLA", 20, seeds=2)
    kept = tmp_path / "cells.json"
    names = [
        f"{population} {algorithm} {k}, {RUNS[population]} seeds"
        for population in RUNS
        for algorithm in ALGORITHMS
        for k in KS
    ]
    kept.write_text(json.dumps({name: asdict(made) for name in names}), "utf-8")
    measured = Measured(kept)
    measured.run(["a", "b"])  # nothing is missing, so nothing is run
    assert measured.of("b", "OLA", 50) == made
    for table in (error_table, linking_table, suppression_table):
        lines = str(table(measured, "b", "OLA")).strip().splitlines()
        assert "invented list B" in lines[0]
        assert len(lines) == 4 + len(KS)
        assert {line.count("|") for line in lines[2:]} == {len(EPSILONS) + 3}
    assert f"{np.mean(made.linked[-1]) * 100:.2f} %" in str(linking_table(measured, "b", "OLA"))


@of_each_algorithm
def test_nothing_is_lost_at_k_1_and_everything_where_all_are_one_class(algorithm: Algorithm) -> None:
    people = people_of(300)
    nothing = loss_of(people, algorithm, 1, extra=True)
    assert nothing.original == nothing.extra == nothing.suppressed == 0
    assert nothing.error < 0.02  # half a kilogram
    everything = loss_of(people, algorithm, 300, extra=True)
    # All ZIP codes of the list begin with the same digit: OLA stops at it, the fourth of five levels above them.
    assert everything.original == pytest.approx((0.8 + 1 + 1) / 3 if algorithm == "OLA" else 1)
    assert everything.extra == pytest.approx(1)
    between = loss_of(people, algorithm, 5, extra=False)
    assert 0 < between.original <= loss_of(people, algorithm, 5, extra=True).original < 1
    assert np.isnan(between.extra)


def test_shares_below_a_limit() -> None:
    assert [share_below(np.array([0.1, 0.2, 0.4]), limit) for limit in (0.05, 0.2, 1.0)] == pytest.approx([0, 2 / 3, 1])


@pytest.mark.parametrize("method", stream.METHODS)
def test_people_of_a_stream_are_published_once_with_the_error_that_is_told(method: str) -> None:
    people = people_of(3000)
    found, loss = stream.run(people, method, noise(2.0, 10, confident=False), 1)
    assert len(np.unique(found.rows)) == len(found.rows) > 2900
    mean_errors = np.average(found.releases.noise_error[:, 0], weights=found.releases.tuples)
    assert found.errors(people).mean() == pytest.approx(mean_errors)
    assert 0 < loss < 1
    assert 0 < found.linked < 0.5
    near = stream.streamed(people, method, 10, 16.0, number=2)
    far = stream.streamed(people, method, 10, 0.5, number=2)
    assert near.error < far.error
    assert near.linked > far.linked
    assert near.error == pytest.approx(near.expected, rel=0.1)
    assert near.withheld > far.withheld
    assert near.lost < near.withheld <= near.gone + 1e-9
