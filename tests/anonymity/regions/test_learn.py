"""Regions are a division of the space, as even as values allow, and the same for the same sample."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.regions.learn import TOLERANCE, RegionsError, learn
from crenel.anonymity.regions.loss import EncodedSample, ExpectedLoss
from tests.support.example_counts import LAWS
from tests.support.regions import Case, cases, distinct, learned, leaves, walk
from tests.support.space import Tree


@given(learned(), st.integers(0, 2**32))
@LAWS
def test_each_tuple_lies_in_the_one_region_that_a_walk_down_the_tree_finds(
    found: tuple[Policy, EncodedSample, RegionTree], seed: int
) -> None:
    _, sample, tree = found
    random = np.random.default_rng(seed)
    odd = np.array([np.nan, 1e308, -1e308, 0.0, 3.5, *tree.cut])
    others = EncodedSample(
        random.choice(odd, (20, sample.numeric.shape[1])),
        random.integers(-1, 12, (20, sample.categorical.shape[1])).astype(np.int32),
    )
    regions = leaves(tree.root)
    for seen in (sample, others):
        numbers = tree.regions(seen.numeric, seen.categorical).tolist()
        assert [regions[number] for number in numbers] == [walk(tree.root, row) for row in seen.values.tolist()]


@given(learned())
@LAWS
def test_each_region_has_the_share_of_the_sample_that_it_states(
    found: tuple[Policy, EncodedSample, RegionTree],
) -> None:
    _, sample, tree = found
    shares = np.bincount(tree.regions(sample.numeric, sample.categorical), minlength=len(tree)) / len(sample)
    assert tree.share.tolist() == shares.tolist()
    assert sum(tree.share) == pytest.approx(1)
    assert (shares > 0).all()
    assert RegionTree.of(tree.root).cuts == tree.cuts


@given(learned(), st.randoms(use_true_random=False))
@LAWS
def test_the_order_of_the_sample_changes_nothing(
    found: tuple[Policy, EncodedSample, RegionTree], random: object
) -> None:
    policy, sample, tree = found
    order = list(range(len(sample)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = EncodedSample(sample.numeric[order], sample.categorical[order])
    members = 2
    one, other = (learn(policy, seen, len(tree), members) for seen in (sample, shuffled))
    assert (one.cuts, one.share.tolist(), one.loss.tolist()) == (other.cuts, other.share.tolist(), other.loss.tolist())


@given(cases(rows=6), st.integers(2, 3))
@LAWS
def test_the_expected_loss_is_the_mean_over_all_that_may_be_drawn(case: Case, members: int) -> None:
    policy, sample = case
    expected = ExpectedLoss(policy, sample, members)
    n, values = len(policy.attributes), sample.values
    for number, attribute in enumerate([*policy.numeric, *policy.categorical]):
        column = sorted(values[:, number].tolist())
        draws = list(product(column, repeat=members))
        if isinstance(attribute, Numeric):
            least, most = attribute.domain or (column[0], column[-1])
            if not np.isfinite(most - least) or most - least < 1e-290:
                continue  # measured as nothing: it tells nothing in choices
            losses = [(max(drawn) - min(drawn)) / (most - least) for drawn in draws]
        else:
            tree = Tree(attribute.hierarchy)
            losses = [tree.loss(tree.ancestor(map(int, drawn))) for drawn in draws]
        assert expected.of(number, np.array(column)) == pytest.approx(sum(losses) / len(draws) / n, abs=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 64])
def test_regions_are_even_where_values_allow_it(count: int) -> None:
    random = np.random.default_rng(count)
    policy = Policy({"x": Numeric((0, 1)), "y": Numeric((0, 9)), "z": Categorical(TREE)})
    sample = EncodedSample(
        np.stack((random.random(6400), random.normal(0, 1, 6400)), axis=1),
        random.integers(0, TREE.leaves, (6400, 1)).astype(np.int32),
    )
    tree = learn(policy, sample, count, 10)
    assert len(tree) == count
    whole = 0.01  # tuples are not divided
    assert (tree.share * count).max() <= 1 + TOLERANCE + whole
    assert (tree.share * count).min() >= 1 / (1 + TOLERANCE) - whole
    assert tree.share @ tree.loss <= learn(policy, sample, 1, 10).loss[0]


@given(cases())
@LAWS
def test_as_many_regions_are_possible_as_there_are_distinct_tuples(case: Case) -> None:
    policy, sample = case
    possible = distinct(sample)
    assert len(learn(policy, sample, possible, 3)) == possible
    with pytest.raises(RegionsError, match=f"no more than {possible} regions are possible"):
        learn(policy, sample, possible + 1, 3)


@pytest.mark.parametrize("rows", [1, 50])
def test_of_one_row_or_of_equal_ones_there_is_one_region(rows: int) -> None:
    policy, sample = Policy({"x": Numeric()}), EncodedSample(np.full((rows, 1), 7.0), np.zeros((rows, 0), np.int32))
    assert learn(policy, sample, 1, 10).share.tolist() == [1]
    with pytest.raises(RegionsError, match=f"^{rows} tuples .* no more than 1 regions"):
        learn(policy, sample, 2, 10)


TREE = from_paths([(f"{group}{i}", group, "*") for group in "abc" for i in range(4)])


def test_a_cut_of_categories_is_at_the_border_of_a_subtree_where_no_value_of_the_sample_lies_between() -> None:
    policy = Policy({"z": Categorical(TREE)})
    sample = EncodedSample(np.zeros((40, 0)), np.repeat([1, 5], 20).astype(np.int32).reshape(-1, 1))
    assert learn(policy, sample, 2, 10).cuts[0] == [0, 4]  # between a3 and b0


def test_a_cut_of_numbers_has_as_few_digits_as_parts_them() -> None:
    policy = Policy({"x": Numeric()})
    for below, above, cut in ((178_356, 192_403, 190_000), (36, 37, 37), (0.1, 0.1 + 2**-56, 0.1 + 2**-56), (-3, 8, 2)):
        sample = EncodedSample(
            np.repeat([below, above], 20).astype(np.float64).reshape(-1, 1), np.zeros((40, 0), np.int32)
        )
        assert learn(policy, sample, 2, 10).cuts[0] == [0, cut]


def test_what_makes_tuples_alike_is_cut() -> None:
    # Half of the tuples are near one corner, half near the other; the second attribute says nothing of it.
    random = np.random.default_rng(1)
    corner = np.repeat([0.0, 90.0], 500)
    numeric = np.stack((random.random(1000), corner + random.random(1000), random.random(1000)), axis=1)
    policy = Policy({"x": Numeric((0, 10)), "y": Numeric((0, 100)), "z": Numeric((0, 10))})
    tree = learn(policy, EncodedSample(numeric, np.zeros((1000, 0), np.int32)), 2, 10)
    assert tree.cuts[0][0] == 1
    assert tree.loss.max() < 0.1
