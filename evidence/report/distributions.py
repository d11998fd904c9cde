"""Distributions of quasi-identifiers in the input and in the output, in bins of at least k persons.

Bins are chosen from the published output alone, and merged until each holds enough persons. The bins of a category are
labels of its hierarchy above its values, so that no single value is named. Only where all values stand directly below
the root, the bins are values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import ABSENT, NO_NUMBER, Categorical, Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.anonymity.model.policy import Policy
from crenel.evidence.outputs import ends
from crenel.evidence.report.bins import nice, weighted_quantile
from crenel.evidence.report.context import number
from crenel.evidence.report.losses import intervals, known_nodes, sets
from crenel.evidence.report.releases import PublishedReleases
from crenel.state.block import TupleColumns

_MOST = 12
_AT_ONCE = 100_000
_TAIL = 0.05

OTHERS = "(all others)"
"""Label for all categories that are too rare to be named."""


@dataclass(frozen=True)
class Axis:
    """The bins of one quasi-identifier.

    Attributes
    ----------
    name : of the attribute
    edges : (bins - 1,) of a number: bin i holds values from edge i - 1 up to below edge i; None of a category
    are_integers : whether all published values are whole numbers
    labels : (bins,) of a category; none of a number
    bin_of_leaf : (leaves,) of a category; None of a number
    left : (bins,) published tuples; each is spread evenly over its generalization
    """

    name: str
    left: NDArray[np.float64]
    edges: NDArray[np.float64] | None = None
    are_integers: bool = False
    labels: tuple[str, ...] = ()
    bin_of_leaf: NDArray[np.int64] | None = None

    def label(self, start: int, stop: int) -> str:
        """Return the label of the bins from ``start`` up to below ``stop``."""
        if self.edges is None:
            return self.labels[start]
        low = number(float(self.edges[start - 1])) if start else ""
        if stop > len(self.edges):
            return f"{low} and more" if low else "all"
        end = float(self.edges[stop - 1])
        if not low:
            return f"below {number(end)}"
        if not self.are_integers:
            return f"{low} to below {number(end)}"
        return low if end - 1 == float(self.edges[start - 1]) else f"{low} to {number(end - 1)}"


@dataclass(frozen=True)
class Spread:
    """Distribution of one quasi-identifier, as the page shows it.

    Attributes
    ----------
    name : of the attribute
    labels : of the bins
    left : (bins,) published tuples
    came : (bins,) tuples of the input; None where it is unknown
    """

    name: str
    labels: tuple[str, ...]
    left: tuple[float, ...]
    came: tuple[int, ...] | None

    @property
    def moved(self) -> float | None:
        """Minimum share of tuples that changed bins, the total variation distance; None where the input is unknown."""
        if self.came is None:
            return None
        before, after = (np.array(part, np.float64) / sum(part) for part in (self.came, self.left))
        return float(np.abs(before - after).sum() / 2)


def axes(left: PublishedReleases, policy: Policy) -> list[Axis]:
    """Return the bins of each quasi-identifier; omit attributes with a single bin."""
    if not left.tuples.sum():
        return []
    candidates = (_axis(left, attribute) for attribute in policy.attributes)
    return [axis for axis in candidates if axis is not None and len(axis.left) > 1]


def _axis(left: PublishedReleases, attribute: QuasiIdentifier) -> Axis | None:
    if isinstance(attribute, Categorical):
        return _categories(left, attribute)
    is_interval = f"{attribute.name}_min" in left.table.column_names
    low, high = intervals(left, attribute) if is_interval else ends(attribute, left.table)
    tuples = left.tuples
    if attribute.missing == "value":
        some = pc.not_equal(left.table[Presence.of(attribute).name], NO_NUMBER).to_numpy().astype(np.bool_)
        if not is_interval:  # a class of few numbers has no representative
            some &= left.table[attribute.name].is_valid().to_numpy()
        low, high, tuples = low[some], high[some], tuples[some]
    return _numbers(attribute, low, high, tuples) if len(low) else None


def _numbers(
    attribute: Numeric, low: NDArray[np.float64], high: NDArray[np.float64], tuples: NDArray[np.int64]
) -> Axis | None:
    are_integers = bool(np.all(low == np.floor(low)) and np.all(high == np.floor(high)))
    # numpy sorts complex numbers much faster than rows of pairs.
    pairs, which = np.unique(low + 1j * high, return_inverse=True)
    low, high, amounts = pairs.real, pairs.imag, np.bincount(which.reshape(-1), tuples).astype(np.float64)
    weights = amounts.astype(np.int64)
    begin, end = weighted_quantile(low, weights, _TAIL), weighted_quantile(high, weights, 1 - _TAIL)
    if begin == end:
        begin, end = float(low.min()), float(high.max())
    if begin == end:
        return None
    step = max(nice((end - begin) / _MOST), 2.0 if are_integers else 0.0)
    if are_integers:
        step = float(np.ceil(step))
    edges = np.arange(np.ceil(begin / step), np.floor(end / step) + 1) * step
    edges = np.round(edges, 12)
    edges = edges[(edges > low.min()) & (edges <= high.max())]
    counted = np.zeros(len(edges) + 1)
    for start in range(0, len(low), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        counted += _over_bins(low[part], high[part] + (1 if are_integers else 0), amounts[part], edges)
    return Axis(attribute.name, counted, edges, are_integers)


def _over_bins(
    low: NDArray[np.float64], high: NDArray[np.float64], amounts: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Count tuples per bin, each spread evenly from ``low`` up to below ``high``, or at one point if they are equal."""
    width = np.where(high > low, high - low, 1)[:, None]
    shares = np.clip((edges[None, :] - low[:, None]) / width, 0, 1)
    below = np.where((high > low)[:, None], shares, edges[None, :] > low[:, None])
    reached: NDArray[np.float64] = amounts @ below
    return np.diff(np.concatenate(([0.0], reached, [amounts.sum()])))


def _categories(left: PublishedReleases, attribute: Categorical) -> Axis:
    tree = attribute.hierarchy
    if attribute.publish == "set":
        return _bins(attribute, sets(left, attribute).over_leaves(left.tuples.astype(np.float64)))
    node = known_nodes(left, attribute)
    by_node = np.bincount(node, left.tuples, len(tree.labels))
    of_leaf = np.zeros(tree.leaves)
    for at_node in np.flatnonzero(by_node):
        first, last = tree.first[at_node], tree.last[at_node]
        of_leaf[first : last + 1] += by_node[at_node] / (last - first + 1)
    return _bins(attribute, of_leaf)


def _bins(attribute: Categorical, of_leaf: NDArray[np.float64]) -> Axis:
    """Return the bins of a categorical attribute, from (leaves,) the number of tuples of each."""
    tree = attribute.hierarchy
    reached = np.concatenate(([0.0], np.cumsum(of_leaf)))
    shown = _shown_nodes(tree, reached)
    names = tree.labels_of(np.array(shown))
    # The last bin holds all other values.
    bin_of_leaf = np.full(tree.leaves, len(shown), np.int64)
    for place, at_node in enumerate(shown):
        bin_of_leaf[tree.first[at_node] : tree.last[at_node] + 1] = place
    counted = np.bincount(bin_of_leaf, of_leaf, len(shown)).astype(np.float64)
    names += [OTHERS] * (len(counted) - len(names))
    return Axis(attribute.name, counted, labels=tuple(names), bin_of_leaf=bin_of_leaf)


def _shown_nodes(tree: Hierarchy, reached: NDArray[np.float64]) -> list[int]:
    """Choose nodes to show, in the order of their leaves, none above another; expand the fullest while there is room.

    They cover all leaves, except where the root has more children than the page shows.
    """

    def count(node: int) -> float:
        return float(reached[tree.last[node] + 1] - reached[tree.first[node]])

    @cache
    def below(node: int) -> list[int]:
        children: list[int] = np.flatnonzero(tree.parent[: tree.root] == node).tolist()
        return children

    shown = sorted(below(tree.root) or [tree.root], key=count, reverse=True)[:_MOST]
    while True:
        # A node with a value directly below it stays closed; values come before all other nodes.
        open_to = [n for n in shown if n >= tree.leaves and below(n)[0] >= tree.leaves]
        open_to = [n for n in open_to if len(shown) - 1 + len(below(n)) <= _MOST]
        if not open_to:
            return sorted(shown, key=lambda n: int(tree.first[n]))
        fullest = max(open_to, key=count)
        shown.remove(fullest)
        shown += below(fullest)


class Came:
    """Counter of the tuples and persons of the input, by bin.

    Parameters
    ----------
    axes : bins to count by
    policy : of the blocks, for the order of their columns
    """

    def __init__(self, axes: list[Axis], policy: Policy) -> None:
        self.tuples = 0
        self.axes = axes
        self._column = {attribute.name: i for i, attribute in enumerate(policy.numeric)}
        self._column |= {attribute.name: i for i, attribute in enumerate(policy.categorical)}
        self._presence = dict(policy.presence)
        self._rows = [np.zeros(len(axis.left), np.int64) for axis in axes]
        self._pairs = [np.zeros(0, np.uint64) for _ in axes]
        self._own = True

    def add(self, block: TupleColumns) -> None:
        """Count the tuples of a block, or of a sample."""
        self.tuples += len(block)
        if not len(block):
            return
        for i, axis in enumerate(self.axes):
            column = self._column[axis.name]
            subject = block.subject
            if axis.edges is not None:
                values = block.numeric[:, column]
                if column in self._presence:
                    some = block.categorical[:, self._presence[column]] != ABSENT
                    values, subject = values[some], None if subject is None else subject[some]
                place = np.searchsorted(axis.edges, values, side="right")
            elif axis.bin_of_leaf is not None:
                place = axis.bin_of_leaf[block.categorical[:, column]]
            self._rows[i] += np.bincount(place, minlength=len(axis.left))
            if subject is not None:
                # A bin and a truncated hash: persons whose hashes collide count once, which errs on the safe side.
                mark = np.uint64(8)
                pairs = (subject >> mark << mark) | place.astype(np.uint64)
                self._pairs[i] = np.union1d(self._pairs[i], pairs)
                self._own = False

    def rows(self, axis: int) -> NDArray[np.int64]:
        """Return (bins,) the tuples of the input."""
        return self._rows[axis]

    def persons(self, axis: int, bins: list[int]) -> int:
        """Return the number of distinct persons in the union of some bins."""
        if self._own:
            return int(self._rows[axis][bins].sum())
        place = (self._pairs[axis] & np.uint64(255)).astype(np.int64)
        return len(np.unique(self._pairs[axis][np.isin(place, bins)] >> np.uint64(8)))


def spreads(axes: list[Axis], came: Came | None, least: int) -> list[Spread]:
    """Return the distributions to show, in bins of at least ``least`` persons; omit those with fewer than two bins."""
    candidates = (_spread(i, axis, came, least) for i, axis in enumerate(axes))
    return [spread for spread in candidates if len(spread.labels) > 1]


def _spread(i: int, axis: Axis, came: Came | None, least: int) -> Spread:
    def enough(bins: list[int]) -> bool:
        return axis.left[bins].sum() + 1e-6 >= least and (came is None or came.persons(i, bins) >= least)

    groups = _neighbors(axis, enough) if axis.edges is not None else _others(axis, enough)
    return Spread(
        axis.name,
        tuple(label for label, _ in groups),
        tuple(float(axis.left[bins].sum()) for _, bins in groups),
        None if came is None else tuple(int(came.rows(i)[bins].sum()) for _, bins in groups),
    )


def _neighbors(axis: Axis, enough: Callable[[list[int]], bool]) -> list[tuple[str, list[int]]]:
    """Merge each numeric bin with the next until it holds enough persons; the remainder joins the last bin."""
    merged: list[list[int]] = []
    bins: list[int] = []
    for place in range(len(axis.left)):
        bins = [*bins, place]
        if enough(bins):
            merged.append(bins)
            bins = []
    if bins and merged:
        merged[-1] += bins
    return [(axis.label(bins[0], bins[-1] + 1), bins) for bins in merged]


def _others(axis: Axis, enough: Callable[[list[int]], bool]) -> list[tuple[str, list[int]]]:
    """Merge categorical bins with too few persons, and the smallest others where that does not suffice."""
    kept = [place for place in range(len(axis.left)) if axis.labels[place] != OTHERS and enough([place])]
    rest = [place for place in range(len(axis.left)) if place not in kept]
    while rest and kept and not enough(rest):
        least = min(kept, key=lambda place: float(axis.left[place]))
        kept.remove(least)
        rest.append(least)
    merged = [(axis.labels[place], [place]) for place in kept]
    if rest and enough(rest):
        merged.append((OTHERS, rest))
    return merged
