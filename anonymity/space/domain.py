"""The space of quasi-identifiers as arrays: its domain, and boxes in it."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import zeros
from crenel.anonymity.model.attributes import decimal_fraction, in_lowest_terms
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.anonymity.model.policy import Policy

NONE = -1
"""Marks the absence of a slot, row or node."""


class Domain(NamedTuple):
    """Ranges and hierarchies that normalize losses; losses are already divided by the number of quasi-identifiers.

    Attributes
    ----------
    lower, upper : (numeric,) declared bounds, or the range observed so far (lower > upper: nothing yet)
    declared : (numeric,) whether the bounds are declared
    scale : (numeric,) 1 / (upper - lower) / quasi-identifiers, 0 where this is not finite: an observed range of width
        0, or one too wide or too narrow to guide choices; losses are still correct
    parent, first, last : (nodes of all hierarchies,) parent node; leftmost and rightmost leaf, as nodes
    loss : (nodes of all hierarchies,) VInfoLoss / quasi-identifiers
    root : (categorical,) the root of each hierarchy
    end_numerator, end_denominator : (numeric,) ``Numeric.ends`` as a fraction in lowest terms, of numerator 0 where an
        attribute has none; empty where no attribute has any
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    declared: NDArray[np.bool_]
    scale: NDArray[np.float64]
    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    root: NDArray[np.int32]
    end_numerator: NDArray[np.float64]
    end_denominator: NDArray[np.float64]


class Boxes(NamedTuple):
    """Boxes in the space of quasi-identifiers, one per row.

    Attributes
    ----------
    lower, upper : (rows, numeric) interval of each numeric attribute
    node : (rows, categorical) lowest node above all values of each categorical attribute
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]


def node_offsets(policy: Policy) -> NDArray[np.int32]:
    """Return (categorical,) the first node of each hierarchy in the concatenation of all."""
    sizes = [len(attribute.hierarchy.labels) for attribute in policy.categorical]
    return np.cumsum([0, *sizes[:-1]], dtype=np.int32)[: len(sizes)]


def domain(policy: Policy) -> Domain:
    """Return the domain before the first tuple."""
    n = len(policy.attributes)
    declared = np.array([a.domain is not None for a in policy.numeric], np.bool_)
    bounds = np.array([a.domain or (np.inf, -np.inf) for a in policy.numeric], np.float64).reshape(-1, 2)
    nodes = _nodes(tuple(attribute.hierarchy for attribute in policy.categorical), n)
    ends = [(0, 1) if a.ends is None else in_lowest_terms(*decimal_fraction(a.ends)) for a in policy.numeric]
    grid = np.array(ends if any(a.ends is not None for a in policy.numeric) else [], np.float64).reshape(-1, 2)
    return Domain(
        lower=bounds[:, 0].copy(),
        upper=bounds[:, 1].copy(),
        declared=declared,
        scale=scales(bounds[:, 0], bounds[:, 1], n),
        parent=nodes.parent,
        first=nodes.first,
        last=nodes.last,
        loss=nodes.loss,
        root=nodes.root,
        end_numerator=grid[:, 0].copy(),
        end_denominator=grid[:, 1].copy(),
    )


class _Nodes(NamedTuple):
    """Fields of ``Domain`` that do not change."""

    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    loss: NDArray[np.float64]
    root: NDArray[np.int32]


@lru_cache(maxsize=8)
def _nodes(trees: tuple[Hierarchy, ...], attributes: int) -> _Nodes:
    """Return the nodes of all hierarchies, one array for all shards of a process: a large one takes much memory."""
    starts = np.cumsum([0, *(len(tree.labels) for tree in trees)]).tolist()
    root = np.array([start + tree.root for start, tree in zip(starts, trees, strict=False)], np.int32)
    parent, first, last = (np.empty(starts[-1], np.int32) for _ in range(3))
    nodes = _Nodes(parent, first, last, np.zeros(starts[-1]), root)
    for tree, (start, stop) in zip(trees, pairwise(starts), strict=True):
        for field in ("parent", "first", "last"):
            np.add(getattr(tree, field), start, out=getattr(nodes, field)[start:stop])
        # Leaves lose nothing, and the zeros of an array that nobody has written take no memory.
        nodes.loss[start + tree.leaves : stop] = tree.loss[tree.leaves :] / attributes
    return nodes


def scales(lower: NDArray[np.float64], upper: NDArray[np.float64], attributes: int) -> NDArray[np.float64]:
    """Return ``Domain.scale`` of ranges; an empty range has its lower bound above the upper."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = 1.0 / (upper - lower) / attributes
    return np.where(np.isfinite(inverse) & (upper > lower), inverse, 0.0)


def boxes(rows: int, policy: Policy) -> Boxes:
    """Return room for ``rows`` boxes."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    return Boxes(zeros((rows, numeric)), zeros((rows, numeric)), zeros((rows, categorical), np.int32))
