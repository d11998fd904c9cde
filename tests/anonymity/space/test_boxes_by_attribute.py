"""One box beside many that lie by attribute: what is said of several at once is what is true of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import least
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import Hierarchy, from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.boxes_by_attribute import (
    BoxesByAttribute,
    boxes_by_attribute,
    containing,
    enlargements_by,
    lay,
    lay_rows,
)
from crenel.anonymity.space.domain import NONE, Boxes, Domain, domain
from tests.support.example_counts import examples


def policy_of(leaves: int) -> Policy:
    """Return one number, and one hierarchy with so many leaves."""
    tree = from_paths([(f"leaf {i}", f"twig {i // 2}", f"branch {i // 6}", "*") for i in range(leaves)])
    return Policy({"x": Numeric((0, 8)), "place": Categorical(tree)})


FEW, MANY = policy_of(12), policy_of(300)


@entry
def enlarged(of: Domain, laid: BoxesByAttribute, before: Boxes, boxes: Boxes, point: Boxes, count: int) -> float:
    """Return the least growth of one of the first boxes that encloses a point; other boxes had their rows before."""
    for row in range(len(boxes.node)):
        lay(of, laid, row, before, row)
        lay(of, laid, row, boxes, row)
    enlargements_by(of, laid, point, 0, count)
    return least(laid.growth, count)


@entry
def contained(of: Domain, laid: BoxesByAttribute, points: Boxes, start: int, stop: int, found: int) -> Any:
    return containing(of, laid, points, 0, start, stop, found)


def some_boxes(policy: Policy, count: int, chance: np.random.Generator) -> Boxes:
    ends = np.sort(chance.integers(0, 9, (count, 2)), axis=1).astype(float)
    nodes = chance.integers(0, len(tree_of(policy).labels), (count, 1)).astype(np.int32)
    return Boxes(ends[:, :1].copy(), ends[:, 1:].copy(), nodes)


def some_point(policy: Policy, chance: np.random.Generator) -> Boxes:
    value = chance.integers(0, 9, (1, 1)).astype(float)
    return Boxes(value, value, chance.integers(0, tree_of(policy).leaves, (1, 1)).astype(np.int32))


def tree_of(policy: Policy) -> Hierarchy:
    return policy.categorical[0].hierarchy


def within(tree: Hierarchy, boxes: Boxes, point: Boxes) -> NDArray[np.bool_]:
    node, leaf, value = boxes.node[:, 0], point.node[0, 0], point.lower[0, 0]
    in_interval = (boxes.lower[:, 0] <= value) & (value <= boxes.upper[:, 0])
    return np.asarray(in_interval & (tree.first[node] <= leaf) & (leaf <= tree.last[node]))


@given(st.integers(1, 100), st.integers(0, 2**32), st.data())
@settings(max_examples=examples(100))
def test_boxes_that_contain_one_are_found_in_order(count: int, seed: int, data: st.DataObject) -> None:
    chance, laid = np.random.default_rng(seed), boxes_by_attribute(count, FEW)
    boxes, point = some_boxes(FEW, count, chance), some_point(FEW, chance)
    lay_rows(domain(FEW), laid, boxes, np.arange(count))
    start = data.draw(st.integers(0, count))
    stop, before = data.draw(st.integers(start, count)), data.draw(st.integers(0, 3))
    expected = start + np.flatnonzero(within(tree_of(FEW), boxes, point)[start:stop])
    before = min(before, count - len(expected))
    laid.matches[:before] = 77
    found = contained(domain(FEW), laid, point, start, stop, before)
    assert laid.matches[:found].tolist() == [77] * before + expected.tolist()


@pytest.mark.parametrize("policy", [FEW, MANY], ids=["few leaves", "many leaves"])
@given(st.integers(0, 100), st.integers(0, 2**32))
@settings(max_examples=examples(100))
def test_the_least_enlargement_is_that_of_one_of_the_boxes_that_count(policy: Policy, count: int, seed: int) -> None:
    chance, tree, laid = np.random.default_rng(seed), tree_of(policy), boxes_by_attribute(100, policy, rises=True)
    assert (laid.begin[0] == NONE) == (policy is MANY)
    before, boxes, point = some_boxes(policy, 100, chance), some_boxes(policy, 100, chance), some_point(policy, chance)
    value, leaf, growth = point.lower[0, 0], int(point.node[0, 0]), []
    for row in range(count):
        node = int(boxes.node[row, 0])
        above = tree.lowest_common_ancestor(min(tree.first[node], leaf), max(tree.last[node], leaf))
        beyond = max(boxes.lower[row, 0] - value, 0.0) + max(value - boxes.upper[row, 0], 0.0)
        growth.append((beyond / 8 + tree.loss[above] - tree.loss[node]) / 2)
    assert enlarged(domain(policy), laid, before, boxes, point, count) == pytest.approx(min(growth, default=np.inf))
    assert laid.growth[:count] == pytest.approx(growth)
