"""Domain generalization hierarchies of categorical attributes."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.errors import read_text

MISSING = "(missing)"
"""Leaf under the root that stands for a missing value where a policy keeps them."""

OTHER = "(other)"
"""Leaf that stands for each value that a hierarchy of listed values lacks, where it has this leaf."""


class HierarchyError(ValueError):
    """A hierarchy that is not one tree of values; the message names the location."""


class LazyLabels(Sequence[str], ABC):
    """Labels of a large hierarchy, each of which is built when it is needed."""

    @abstractmethod
    def of(self, nodes: NDArray[Any]) -> list[str]:
        """Return the label of each node."""

    @abstractmethod
    def find(self, labels: Sequence[str | None]) -> NDArray[np.int64]:
        """Return the node of each label, -1 for a text that is none."""

    @abstractmethod
    def with_missing(self) -> LazyLabels:
        """Return the labels of ``Hierarchy.with_missing``."""

    @property
    @abstractmethod
    def stored(self) -> list[object]:
        """The content that represents the hierarchy in a fingerprint."""

    @property
    @abstractmethod
    def source(self) -> tuple[Callable[..., Hierarchy], tuple[object, ...]]:
        """Function and arguments that build the hierarchy in another process."""


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree over the values of one attribute, as arrays indexed by node.

    Nodes 0 to ``leaves - 1`` are the leaves in the order of a leftmost traversal (CASTLE, Definition 3.1), so the
    leaves below any node are neighbors. Inner nodes follow, the root last.

    Attributes
    ----------
    labels : (nodes,) published name of each node; ``LazyLabels`` where there are too many to keep
    leaves : number of leaves
    parent : (nodes,) parent node; the root is its own parent
    first, last : (nodes,) leftmost and rightmost leaf below the node, both included
    loss : (nodes,) VInfoLoss in [0, 1]: (leaves below - 1) / (leaves - 1) (CASTLE, Section 2.2); 0 for one leaf
    level : (nodes,) lowest level of the node, 0 for the leaves; None where levels are undefined (``level_nodes``)
    source : builder or path of a file that it was made from; None: neither
    has_missing : whether a leaf stands for missing values (``with_missing``)
    """

    labels: tuple[str, ...] | LazyLabels
    leaves: int
    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    level: NDArray[np.int32] | None = None
    source: Any = None
    has_missing: bool = False

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Hierarchy):
            return self is other
        mine, others = (getattr(each.labels, "source", each.labels) for each in (self, other))
        same = (self.leaves, self.has_missing) == (other.leaves, other.has_missing) and mine == others
        return same and np.array_equal(self.parent, other.parent)

    def __hash__(self) -> int:
        return hash((self.leaves, len(self.labels)))

    @property
    def root(self) -> int:
        return len(self.labels) - 1

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.labels.source if isinstance(self.labels, LazyLabels) else super().__reduce__()

    def labels_of(self, nodes: NDArray[Any]) -> list[str]:
        """Return the label of each node."""
        if isinstance(self.labels, LazyLabels):
            return self.labels.of(nodes)
        return [self.labels[node] for node in nodes.tolist()]

    def find(self, labels: Sequence[str | None]) -> NDArray[np.int64]:
        """Return the node of each label, -1 for a text that labels no node."""
        if isinstance(self.labels, LazyLabels):
            return self.labels.find(labels)
        known: dict[str | None, int] = {label: node for node, label in enumerate(self.labels)}
        return np.array([known.get(label, -1) for label in labels], np.int64)

    def by_label(self, labels: Iterable[str]) -> dict[str, int]:
        """Return the nodes of those labels that the hierarchy has."""
        known = list(labels)
        return {label: node for label, node in zip(known, self.find(known).tolist(), strict=True) if node >= 0}

    def require_listed(self) -> None:
        """Raise ``HierarchyError`` where a hierarchy is too large for what looks at each leaf."""
        if isinstance(self.labels, LazyLabels):
            raise HierarchyError(
                f"has {self.leaves} leaves, and 2^20 at most are possible here; begin its levels with a coarser one, "
                "or name smaller areas"
            )

    def lowest_common_ancestor(self, left: int, right: int) -> int:
        """Return the lowest node above both leaves (CASTLE, Definition 3.2)."""
        node = left
        while not self.first[node] <= right <= self.last[node]:
            node = int(self.parent[node])
        return node

    def levels(self) -> NDArray[np.int32]:
        """Return the level of each node for full-domain generalization: 0 for the leaves, the maximum for the root.

        Raises
        ------
        HierarchyError
            The leaves differ in their number of levels, a label appears at two levels, or labels are not listed.
        """
        self.require_listed()
        if self.level is None:
            raise HierarchyError(
                "has no levels; give every value as many labels up to the root, each label at one level only, and "
                "repeat a label where a value skips a level: 'a;a;group;*'"
            )
        return self.level

    def level_nodes(self) -> NDArray[np.int32]:
        """Return the node of each leaf at each level, for full-domain generalization.

        Returns
        -------
        (levels, leaves) : the leaves first, the root last; the nodes of one level are disjoint and cover all leaves,
        and each lies inside a node of the level above

        Raises
        ------
        HierarchyError
            As for ``levels``.
        """
        levels = self.levels()
        nodes = np.empty((int(levels[self.root]) + 1, self.leaves), np.int32)
        nodes[0] = np.arange(self.leaves)
        for number in range(1, len(nodes)):
            above = self.parent[nodes[number - 1]]
            nodes[number] = np.where(levels[above] <= number, above, nodes[number - 1])
        return nodes

    def paths(self) -> list[tuple[str, ...]]:
        """Return the labels from each leaf to the root, repeated where levels require it.

        ``from_paths`` takes this form.
        """
        self.require_listed()
        if self.level is not None:
            return [tuple(self.labels[node] for node in way) for way in self.level_nodes().T.tolist()]
        parent, ways = self.parent.tolist(), []
        for leaf in range(self.leaves):
            way = [leaf]
            while way[-1] != self.root:
                way.append(parent[way[-1]])
            ways.append(tuple(self.labels[node] for node in way))
        return ways

    def with_missing(self) -> Hierarchy:
        """Return the tree with a last leaf, ``MISSING``, directly under the root; it is added where it is not there."""
        if self.has_missing:
            return self
        if self.root == 0:
            raise HierarchyError(f"has no root above its value; write '{self.labels[0]};*'")
        if isinstance(self.labels, LazyLabels):
            labels: tuple[str, ...] | LazyLabels = self.labels.with_missing()
        elif MISSING in self.labels:
            raise HierarchyError(f"the label {MISSING!r} is kept for missing values; rename it")
        else:
            labels = (*self.labels[: self.leaves], MISSING, *self.labels[self.leaves :])
        leaves = self.leaves
        first, last = np.insert(self.first, leaves, leaves), np.insert(self.last, leaves, leaves)
        last[-1] = leaves
        loss = np.insert(self.loss, leaves, 0.0)
        loss[leaves:] = (last[leaves:] - first[leaves:]) / leaves
        return Hierarchy(
            labels=labels,
            leaves=leaves + 1,
            parent=np.insert(self.parent, leaves, self.root) + np.int32(1),
            first=first,
            last=last,
            loss=loss,
            level=None if self.level is None else np.insert(self.level, leaves, 0),
            source=self.source,
            has_missing=True,
        )


_NOT_BETWEEN = (",", "\t", "|")
"""Separators between levels that other programs use."""


def load(path: Path | str) -> Hierarchy:
    """Read a hierarchy file: one line per leaf, ``;`` between levels, leaf first, root last (UTF-8).

    A value that contains ``;``, a quote or a line break is enclosed in double quotes, as in any CSV file.

    Raises
    ------
    HierarchyError
        No leaf, two roots, a repeated leaf, or a label with two parents; the message names file and label.
    """
    path = Path(path)
    text = read_text(path, HierarchyError)
    rows: list[list[str]] = []
    lines: list[int] = []
    # Strict: otherwise an unclosed quote would swallow the lines after it.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", strict=True)
    try:
        for row in filter(None, reader):
            rows.append(row)
            lines.append(reader.line_num)
        return from_paths(rows, lines)
    except csv.Error as error:
        raise HierarchyError(
            f"{path}: line {reader.line_num}: not CSV with ';' between levels: {error}; put a label with ';' or a "
            "quote in double quotes, with each quote in it twice"
        ) from None
    except HierarchyError as error:
        meant = next((mark for mark in _NOT_BETWEEN if rows and all(len(r) == 1 and mark in r[0] for r in rows)), None)
        hint = "" if meant is None else f"; between levels stands ';', and here it seems to be {meant!r}"
        raise HierarchyError(f"{path}: {error}{hint}") from None


def csv_text(paths: Sequence[Sequence[str]]) -> str:
    """Return the text of a hierarchy file from which ``load`` reads the same paths."""
    # A reader treats a bare CR as a line end, and drops a byte order mark at the beginning.
    odd = any("\r" in label or "\ufeff" in label for path in paths for label in path)
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";", lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL).writerows(
        paths
    )
    return text.getvalue()


def from_paths(paths: Sequence[Sequence[str]], lines: Sequence[int] | None = None) -> Hierarchy:
    """Build a hierarchy from one path per leaf, each from the leaf to the root.

    Levels may be missing or repeated: ``(a, a, *)`` equals ``(a, *)``. A path of one label is a tree of one node. Paths
    of equal length define the level of each label (``Hierarchy.level_nodes``). An error names the path by its number in
    ``lines``, such as the line of a file; without ``lines``, by its position from 1.

    Raises
    ------
    HierarchyError
        As for ``load``, without the file.
    """
    if not paths:
        raise HierarchyError("holds no value; each line is a leaf and the labels above it, such as 'a;group;*'")
    root = paths[0][-1]
    above: dict[str, str] = {}
    children: dict[str, dict[str, None]] = {root: {}}  # dicts serve as ordered sets
    values: dict[str, int] = {}
    for number, path in zip(range(1, len(paths) + 1) if lines is None else lines, paths, strict=True):
        if path[-1] != root:
            raise HierarchyError(f"line {number}: two roots, {root!r} and {path[-1]!r}; every line must end alike")
        if path[0] in values:
            raise HierarchyError(
                f"line {number}: the value {path[0]!r} is in line {values[path[0]]} already; remove one of the lines"
            )
        values[path[0]] = number
        for child, parent in pairwise(path):
            if child == parent:
                continue
            if child == root:
                raise HierarchyError(
                    f"line {number}: the root {root!r} stands below {parent!r}; a root only ends a line"
                )
            if above.setdefault(child, parent) != parent:
                raise HierarchyError(
                    f"line {number}: {child!r} has two parents, {above[child]!r} and {parent!r}; labels are unique"
                )
            children.setdefault(parent, {})[child] = None
    if len(above) > 0 and (groups := values.keys() & {label for label, below in children.items() if below}):
        group = min(groups, key=lambda label: values[label])
        raise HierarchyError(
            f"line {values[group]}: {group!r} is a value and a group of values; give one of them another name"
        )
    return _number(root, children, above, _levels(paths))


def _levels(paths: Sequence[Sequence[str]]) -> dict[str, int] | None:
    """Return the lowest level of each label; None where paths differ in length or in the level of a label."""
    if len(set(map(len, paths))) > 1:
        return None
    columns = list(zip(*paths, strict=True))
    levels = dict.fromkeys(columns[0], 0)
    for level, (below, column) in enumerate(pairwise(columns), 1):
        new = {label for under, label in zip(below, column, strict=True) if label != under}
        if new & levels.keys():
            return None
        levels.update(dict.fromkeys(new, level))
    return levels


def _number(
    root: str, children: dict[str, dict[str, None]], above: dict[str, str], levels: dict[str, int] | None
) -> Hierarchy:
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
        level=None if levels is None else np.array([levels[label] for label in labels], np.int32),
    )
