"""Domain generalization hierarchies of categorical attributes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MISSING = "(missing)"
"""Leaf under the root that stands for a missing value where a policy keeps them."""


class HierarchyError(ValueError):
    """A hierarchy that is not one tree of values; the message names the place."""


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree over the values of one attribute, as arrays indexed by node.

    Nodes 0 to ``leaves - 1`` are the leaves in the order of a leftmost traversal (CASTLE, Definition 3.1), so
    the leaves below any node are neighbours; inner nodes follow, the root last.

    Attributes
    ----------
    labels : (nodes,) the published name of each node
    leaves : number of leaves
    parent : (nodes,) the node above; the root is its own parent
    first, last : (nodes,) leftmost and rightmost leaf below the node, both included
    loss : (nodes,) VInfoLoss in [0, 1]: (leaves below - 1) / (leaves - 1) (CASTLE, Section 2.2); 0 for one leaf
    """

    labels: tuple[str, ...]
    leaves: int
    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]

    @property
    def root(self) -> int:
        return len(self.labels) - 1

    def lowest_common_ancestor(self, left: int, right: int) -> int:
        """The lowest node above both leaves (CASTLE, Definition 3.2)."""
        node = left
        while not self.first[node] <= right <= self.last[node]:
            node = int(self.parent[node])
        return node

    def with_missing(self) -> Hierarchy:
        """The same tree with one more leaf, ``MISSING``, right under the root."""
        if self.root == 0:
            raise HierarchyError(f"has no root above its value; write '{self.labels[0]};*'")
        if MISSING in self.labels:
            raise HierarchyError(f"the label {MISSING!r} is kept for missing values; rename it")
        return from_paths([*_paths(self), (MISSING, self.labels[self.root])])


def load(path: Path | str) -> Hierarchy:
    """Read a hierarchy file: one line a leaf, ``;`` between levels, leaf first, root last (UTF-8).

    A value that holds ``;``, a quote or a line break stands in double quotes, as in any CSV.

    Raises
    ------
    HierarchyError
        No leaf, two roots, a leaf given twice, or a label with two parents; it names file and label.
    """
    path = Path(path)
    try:
        # Bytes, because a text file would lose the CR of a line break within quotes, and with it the rows that have it.
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise HierarchyError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise HierarchyError(f"{path}: not UTF-8 text at byte {error.start}") from None
    try:
        # Strict: else a quote that is never closed would swallow the lines after it.
        return from_paths([row for row in csv.reader(io.StringIO(text, newline=""), delimiter=";", strict=True) if row])
    except csv.Error as error:
        raise HierarchyError(f"{path}: not CSV with ';' between levels: {error}") from None
    except HierarchyError as error:
        raise HierarchyError(f"{path}: {error}") from None


def from_paths(paths: Sequence[Sequence[str]]) -> Hierarchy:
    """Build a hierarchy from one path a leaf, each from the leaf to the root.

    Levels may be missing or repeated: ``(a, a, *)`` is ``(a, *)``. A path of one label is a tree of one node.

    Raises
    ------
    HierarchyError
        As ``load``, without the file.
    """
    if not paths:
        raise HierarchyError("holds no value; each line is a leaf and the labels above it, such as 'a;group;*'")
    root = paths[0][-1]
    above: dict[str, str] = {}
    children: dict[str, dict[str, None]] = {root: {}}  # dicts for sets that keep their order
    values: set[str] = set()
    for number, path in enumerate(paths, 1):
        if path[-1] != root:
            raise HierarchyError(f"line {number}: two roots, {root!r} and {path[-1]!r}; every line must end alike")
        if path[0] in values:
            raise HierarchyError(f"line {number}: the value {path[0]!r} is given twice")
        values.add(path[0])
        for child, parent in pairwise(path):
            if child == parent:
                continue
            if child == root:
                raise HierarchyError(f"line {number}: the root {root!r} stands below {parent!r}")
            if above.setdefault(child, parent) != parent:
                raise HierarchyError(
                    f"line {number}: {child!r} has two parents, {above[child]!r} and {parent!r}; labels are unique"
                )
            children.setdefault(parent, {})[child] = None
    if len(above) > 0 and (groups := values & {label for label, below in children.items() if below}):
        raise HierarchyError(f"{min(groups)!r} is a value and a group of values; give one of them another name")
    return _number(root, children, above)


def _number(root: str, children: dict[str, dict[str, None]], above: dict[str, str]) -> Hierarchy:
    leaves: list[str] = []
    inner: list[str] = []  # children before parents, so the root comes last
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    stack = [(root, False)]
    while stack:
        label, seen = stack.pop()
        below = children.get(label)
        if not below:
            first[label] = last[label] = len(leaves)
            leaves.append(label)
        elif seen:
            last[label] = len(leaves) - 1
            inner.append(label)
        else:
            first[label] = len(leaves)
            stack.append((label, True))
            stack.extend((child, False) for child in reversed(below))
    labels = leaves + inner
    node = {label: number for number, label in enumerate(labels)}
    low = np.array([first[label] for label in labels], np.int32)
    high = np.array([last[label] for label in labels], np.int32)
    return Hierarchy(
        labels=tuple(labels),
        leaves=len(leaves),
        parent=np.array([node[above.get(label, root)] for label in labels], np.int32),
        first=low,
        last=high,
        loss=(high - low) / max(len(leaves) - 1, 1),
    )


def _paths(tree: Hierarchy) -> list[tuple[str, ...]]:
    paths = []
    for leaf in range(tree.leaves):
        path = [leaf]
        while path[-1] != tree.root:
            path.append(int(tree.parent[path[-1]]))
        paths.append(tuple(tree.labels[node] for node in path))
    return paths
