"""Tree of cuts over the quasi-identifiers, whose leaves are regions with one shard each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator

from crenel.anonymity.compiled.jit import Int, entry
from crenel.anonymity.model.fields import require_path

NO_CUT = -1
"""The attribute of a node that is a region."""

_NO_LEAF = np.iinfo(np.int32).max
"""A leaf number above all others."""


@dataclass(frozen=True)
class Region:
    """A leaf of the tree.

    Attributes
    ----------
    share : expected share of the tuples, from 0 to 1
    loss : expected loss, from 0 to 1 (``crenel.anonymity.regions.loss``)
    """

    share: float
    loss: float


@dataclass(frozen=True)
class Cut:
    """A node with two sides.

    Attributes
    ----------
    attribute : index of the attribute: numeric quasi-identifiers in the order of the policy, then categorical ones
    value : the lowest value that goes right; for a categorical attribute, the position of its leaf
    left, right : the branch of lower values, and that of this value and higher ones
    """

    attribute: int
    value: float
    left: Branch
    right: Branch


Branch: TypeAlias = Cut | Region


@dataclass(frozen=True, eq=False)
class RegionTree:
    """Tree of cuts as arrays, with one walk from the root per tuple.

    Nodes are numbered in preorder from the root, 0, the left side before the right. Regions are numbered in the same
    order, so that neighbors have neighboring numbers.

    Attributes
    ----------
    attribute : (nodes,) as for ``Cut``; -1 at a region
    cut : (nodes,) as ``Cut.value``; 0 at a region
    below : (nodes, 2) the left and right child; at a region, its number twice
    share, loss : (regions,) as for ``Region``
    epsilon : differential privacy of the cuts for each person whose records they were learned from; 0: they were
        declared, or learned from other persons; None: they were learned without privacy
    source : path of the file that it was read from; None: it was learned
    """

    attribute: NDArray[np.int32]
    cut: NDArray[np.float64]
    below: NDArray[np.int32]
    share: NDArray[np.float64]
    loss: NDArray[np.float64]
    epsilon: float | None = None
    source: str | None = None

    def __len__(self) -> int:
        """Return the number of regions."""
        return len(self.share)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegionTree):
            return NotImplemented
        return (self.cuts, self.epsilon) == (other.cuts, other.epsilon)

    def __hash__(self) -> int:
        return hash((self.cut.tobytes(), self.epsilon))

    @property
    def cuts(self) -> list[list[float]]:
        """Attribute and cut of each node in preorder, which identify the division."""
        return [[int(column), float(value)] for column, value in zip(self.attribute, self.cut, strict=True)]

    @cached_property
    def depth(self) -> int:
        """Maximum number of cuts above a region."""
        depths = np.zeros(len(self.attribute), np.int64)
        for node in np.flatnonzero(self.attribute != NO_CUT):  # parents come first
            depths[self.below[node]] = depths[node] + 1
        return int(depths.max())

    def regions(self, numeric: NDArray[np.float64], categorical: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return (rows,) the region of each tuple.

        Parameters
        ----------
        numeric : (rows, numeric) of a block; NaN goes left
        categorical : (rows, categorical) of a block: leaves
        """
        rows, numbers = numeric.shape
        cut, of_number = self.attribute != NO_CUT, self.attribute < numbers
        columns = (np.where(of_number & cut, self.attribute, 0), np.where(of_number, 0, self.attribute - numbers))
        found = np.empty(rows, np.uint32)
        assign_regions(
            np.stack(columns, axis=1).astype(np.uint32),
            np.where(of_number & cut, self.cut, np.inf),
            np.where(of_number, _NO_LEAF, self.cut).astype(np.int32),
            np.where(cut[:, None], self.below, np.arange(len(cut))[:, None]).astype(np.uint32),
            self.depth,
            numeric if numbers else np.zeros((rows, 1)),
            categorical if categorical.shape[1] else np.zeros((rows, 1), np.int32),
            found,
        )
        return self.below[found, 0].astype(np.int64)

    @classmethod
    def of(cls, root: Branch, epsilon: float | None = None) -> RegionTree:
        """Return the arrays of a tree of cuts; ``epsilon`` is that of the tree."""
        nodes: list[tuple[int, float, int, int]] = []
        regions: list[Region] = []
        _lay_out(root, nodes, regions)
        return cls(
            attribute=np.array([node[0] for node in nodes], np.int32),
            cut=np.array([node[1] for node in nodes], np.float64),
            below=np.array([node[2:] for node in nodes], np.int32),
            share=np.array([region.share for region in regions], np.float64),
            loss=np.array([region.loss for region in regions], np.float64),
            epsilon=epsilon,
        )

    @property
    def root(self) -> Branch:
        """The tree of cuts from which ``of`` makes these arrays."""
        return self._branch(0)

    def _branch(self, node: int) -> Branch:
        left, right = self.below[node].tolist()
        if self.attribute[node] == NO_CUT:
            return Region(float(self.share[left]), float(self.loss[left]))
        return Cut(int(self.attribute[node]), float(self.cut[node]), self._branch(left), self._branch(right))


def _lay_out(branch: Branch, nodes: list[tuple[int, float, int, int]], regions: list[Region]) -> int:
    """Append a branch, and return the number of its node."""
    number = len(nodes)
    if isinstance(branch, Region):
        nodes.append((NO_CUT, 0.0, len(regions), len(regions)))
        regions.append(branch)
        return number
    nodes.append((branch.attribute, branch.value, 0, 0))
    left = _lay_out(branch.left, nodes, regions)
    nodes[number] = (branch.attribute, branch.value, left, _lay_out(branch.right, nodes, regions))
    return number


_CHUNK = 1024
"""Number of tuples processed at once, so that their values stay in the processor's cache."""


@entry
def assign_regions(
    column: NDArray[np.uint32],
    number_cut: NDArray[np.float64],
    leaf_cut: NDArray[np.int32],
    below: NDArray[np.uint32],
    depth: Int,
    numeric: NDArray[np.float64],
    categorical: NDArray[np.int32],
    found: NDArray[np.uint32],
) -> None:
    """Move all tuples down a tree side by side, as many steps as the deepest region lies.

    The loop has no branches and no dependent steps: mispredicted branches would cost more than the additional steps.
    Therefore each node compares both a number and a leaf, one of them with a cut that no value reaches.

    Parameters
    ----------
    column : (nodes, 2) columns of the number and of the leaf that a node compares
    number_cut, leaf_cut : (nodes,) the lowest number and leaf that go right
    below : (nodes, 2) the left and right child; at a region, its own node twice
    numeric, categorical : (rows, numeric) and (rows, categorical), at least one column each
    found : (rows,) receives the node of each tuple's region
    """
    rows = len(found)
    for start in range(0, rows, _CHUNK):
        stop = min(start + _CHUNK, rows)
        for row in range(start, stop):
            found[row] = 0
        for _ in range(depth):
            for row in range(start, stop):
                node = found[row]  # unsigned, or compiled code would test each index for a negative value
                right = numeric[np.uint64(row), column[node, 0]] >= number_cut[node]
                right |= categorical[np.uint64(row), column[node, 1]] >= leaf_cut[node]
                found[row] = below[node, np.uint64(right)]


def _regions(value: object) -> object:
    if isinstance(value, RegionTree):
        return value
    return require_path(value)


if TYPE_CHECKING:
    RegionsFile: TypeAlias = Any
else:
    RegionsFile = Annotated[Any, PlainValidator(_regions)]
    """Path of a file of regions, or the tree that it becomes when ``Settings`` reads it."""
