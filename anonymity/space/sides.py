"""Sides of an attribute within a part of a region tree: intervals of numbers, and ranges of leaves."""

from __future__ import annotations

from math import ceil
from typing import TypeAlias

from crenel.anonymity.model.attributes import Categorical, Numeric, QuasiIdentifier

Side: TypeAlias = tuple[float, float]
"""First and last value, both included: of a number, or the positions of a category's leaves."""


def full_side(attribute: QuasiIdentifier) -> Side:
    """Return the side of an attribute without a cut; a number needs a domain."""
    if isinstance(attribute, Numeric):
        assert attribute.domain is not None
        return attribute.domain
    return 0, attribute.hierarchy.leaves - 1


def divided(attribute: QuasiIdentifier, side: Side, cut: float) -> tuple[Side, Side]:
    """Return the sides left and right of a cut.

    Both sides of a number end at the cut. With a step, which integer columns have, they end at the integers around it.
    """
    last, first = cut, cut
    if isinstance(attribute, Categorical) or attribute.step is not None:
        last, first = ceil(cut) - 1, ceil(cut)
    return (side[0], last), (first, side[1])


def node_of(attribute: Categorical, side: Side) -> int:
    """Return the lowest node above all leaves of a side."""
    return attribute.hierarchy.lowest_common_ancestor(int(side[0]), int(side[1]))
