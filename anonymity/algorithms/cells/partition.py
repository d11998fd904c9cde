"""Cells of the quasi-identifiers, with the generalization under which each one is published."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from crenel.anonymity.model.attributes import Categorical, Numeric, QuasiIdentifier
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import NO_CUT, RegionTree
from crenel.anonymity.space.domain import Boxes, node_offsets

_Side = tuple[float, float]


def boxes_of_cells(tree: RegionTree, policy: Policy) -> Boxes:
    """Return the declared box of each cell, which depends on the tree and the policy alone.

    The interval of a number ends at the cuts around the cell; of an integer column, at the last integer before a cut.
    The node of a category is the lowest one above all leaves of the cell.

    Parameters
    ----------
    tree : of cuts, one cell per region
    policy : with a domain for each numeric quasi-identifier
    """
    coded = policy.coded
    sides: list[_Side] = [_whole(attribute) for attribute in coded]
    found: list[list[_Side]] = [sides] * len(tree)

    def walk(node: int, sides: list[_Side]) -> None:
        attribute = int(tree.attribute[node])
        left, right = tree.below[node].tolist()
        if attribute == NO_CUT:
            found[left] = sides
            return
        lower, upper = sides[attribute]
        last, first = _around(coded[attribute], float(tree.cut[node]))
        walk(left, _with(sides, attribute, (lower, last)))
        walk(right, _with(sides, attribute, (first, upper)))

    walk(0, sides)
    numbers, offsets = len(policy.numeric), node_offsets(policy)
    ends = np.array([cell[:numbers] for cell in found], np.float64).reshape(len(tree), numbers, 2)
    nodes = [
        [_node(attribute, side) for attribute, side in zip(policy.categorical, cell[numbers:], strict=True)]
        for cell in found
    ]
    return Boxes(
        ends[:, :, 0].copy(),
        ends[:, :, 1].copy(),
        (np.array(nodes, np.int32).reshape(len(tree), len(policy.categorical)) + offsets).astype(np.int32),
    )


def _whole(attribute: QuasiIdentifier) -> _Side:
    if isinstance(attribute, Numeric):
        assert attribute.domain is not None
        return attribute.domain
    return 0, attribute.hierarchy.leaves - 1


def _around(attribute: QuasiIdentifier, cut: float) -> _Side:
    """Return the last value that goes left of a cut, and the first that goes right."""
    if isinstance(attribute, Categorical):
        return cut - 1, cut
    return (ceil(cut) - 1, ceil(cut)) if attribute.step is not None else (cut, cut)


def _with(sides: Sequence[_Side], attribute: int, side: _Side) -> list[_Side]:
    return [*sides[:attribute], side, *sides[attribute + 1 :]]


def _node(attribute: Categorical, side: _Side) -> int:
    return attribute.hierarchy.lowest_common_ancestor(int(side[0]), int(side[1]))
