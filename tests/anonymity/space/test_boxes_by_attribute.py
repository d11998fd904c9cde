"""One box beside many that lie by attribute: what is said of several at once is what is true of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anonymity.attributes import Categorical, Numeric
from anonymity.compiled.jit import entry
from anonymity.hierarchy import from_paths
from anonymity.policy import Policy
from anonymity.space.boxes_by_attribute import (
    BoxesByAttribute,
    boxes_by_attribute,
    containing,
    enlargements_by,
    lay_rows,
)
from anonymity.space.domain import Boxes, Domain, domain
from anonymity.space.lanes import least

TREE = from_paths([(f"leaf {i}", f"twig {i // 2}", f"branch {i // 6}", "*") for i in range(12)])
POLICY = Policy((Numeric("x", (0, 8)), Categorical("place", TREE)))
DOMAIN = domain(POLICY)


@entry
def enlarged(of: Domain, laid: BoxesByAttribute, points: Boxes, count: int) -> float:
    enlargements_by(of, laid, points, 0, count)
    return least(laid.growth, count)


@entry
def contained(of: Domain, laid: BoxesByAttribute, points: Boxes, start: int, stop: int, found: int) -> Any:
    return containing(of, laid, points, 0, start, stop, found)


def laid_out(count: int, seed: int) -> tuple[Boxes, BoxesByAttribute, Boxes]:
    """Boxes, the same by attribute, and a point."""
    chance = np.random.default_rng(seed)
    ends = np.sort(chance.integers(0, 9, (count, 2)), axis=1).astype(float)
    nodes = chance.integers(0, len(TREE.labels), (count, 1)).astype(np.int32)
    boxes, laid = Boxes(ends[:, :1].copy(), ends[:, 1:].copy(), nodes), boxes_by_attribute(count, POLICY)
    lay_rows(DOMAIN, laid, boxes, np.arange(count))
    value = chance.integers(0, 9, (1, 1)).astype(float)
    return boxes, laid, Boxes(value, value, chance.integers(0, TREE.leaves, (1, 1)).astype(np.int32))


def within(boxes: Boxes, point: Boxes) -> NDArray[np.bool_]:
    node, leaf, value = boxes.node[:, 0], point.node[0, 0], point.lower[0, 0]
    in_interval = (boxes.lower[:, 0] <= value) & (value <= boxes.upper[:, 0])
    return np.asarray(in_interval & (TREE.first[node] <= leaf) & (leaf <= TREE.last[node]))


@given(st.integers(1, 100), st.integers(0, 2**32), st.data())
@settings(max_examples=100)
def test_boxes_that_contain_one_are_found_in_order(count: int, seed: int, data: st.DataObject) -> None:
    boxes, laid, point = laid_out(count, seed)
    start = data.draw(st.integers(0, count))
    stop, before = data.draw(st.integers(start, count)), data.draw(st.integers(0, 3))
    expected = start + np.flatnonzero(within(boxes, point)[start:stop])
    before = min(before, count - len(expected))
    laid.matches[:before] = 77
    found = contained(DOMAIN, laid, point, start, stop, before)
    assert laid.matches[:found].tolist() == [77] * before + expected.tolist()


@given(st.integers(0, 100), st.integers(0, 2**32))
@settings(max_examples=100)
def test_the_least_enlargement_is_that_of_one_of_the_boxes_that_count(count: int, seed: int) -> None:
    boxes, laid, point = laid_out(100, seed)
    value, leaf, growth = point.lower[0, 0], int(point.node[0, 0]), []
    for row in range(count):
        node = int(boxes.node[row, 0])
        above = TREE.lowest_common_ancestor(min(TREE.first[node], leaf), max(TREE.last[node], leaf))
        beyond = max(boxes.lower[row, 0] - value, 0.0) + max(value - boxes.upper[row, 0], 0.0)
        growth.append((beyond / 8 + TREE.loss[above] - TREE.loss[node]) / 2)
    assert enlarged(DOMAIN, laid, point, count) == pytest.approx(min(growth, default=np.inf))
    assert laid.growth[:count] == pytest.approx(growth)
