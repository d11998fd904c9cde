"""Cells of the quasi-identifiers, with the generalization under which each one is published."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import NO_CUT, RegionTree
from crenel.anonymity.space.domain import Boxes, node_offsets
from crenel.anonymity.space.sides import Side, divided, full_side, node_of


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
    sides = [full_side(attribute) for attribute in coded]
    cells: list[list[Side]] = [sides] * len(tree)

    def walk(node: int, sides: list[Side]) -> None:
        attribute = int(tree.attribute[node])
        left, right = tree.below[node].tolist()
        if attribute == NO_CUT:
            cells[left] = sides
            return
        both = divided(coded[attribute], sides[attribute], float(tree.cut[node]))
        for branch, side in zip((left, right), both, strict=True):
            walk(branch, [*sides[:attribute], side, *sides[attribute + 1 :]])

    walk(0, sides)
    numbers, offsets = len(policy.numeric), node_offsets(policy)
    ends = np.array([cell[:numbers] for cell in cells], np.float64).reshape(len(tree), numbers, 2)
    nodes = [
        [node_of(attribute, side) for attribute, side in zip(policy.categorical, cell[numbers:], strict=True)]
        for cell in cells
    ]
    return Boxes(
        ends[:, :, 0].copy(),
        ends[:, :, 1].copy(),
        (np.array(nodes, np.int32).reshape(len(tree), len(policy.categorical)) + offsets).astype(np.int32),
    )
