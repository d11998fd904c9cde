"""Members of a cluster that are left over once its parts are made (CASTLE, function split, step 23)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.space.boxes import enclose, enlargement
from crenel.anonymity.space.domain import Boxes, Domain
from crenel.anonymity.space.lanes import least, whole
from crenel.anonymity.space.regions_by_attribute import empty_regions, lay_region, measure_growth

_MANY = 32
"""Parts from which looking at several at once is worth laying them out for it."""


@procedure
def assign_remaining(
    domain: Domain, parts: Boxes, count: Int, box: Boxes, part: NDArray[np.int64], joining: NDArray[np.int64]
) -> None:
    """Let members join, one after the other, the part that each enlarges least.

    Parameters
    ----------
    parts, count : the first ``count`` of these boxes, which grow
    box, part : (members,) where each lies, and the part that each has
    joining : members that have none, in the order in which they join
    """
    if count < _MANY:
        for member in joining:
            part[member] = _nearest_part(domain, parts, count, box, member)
            enclose(domain, parts, part[member], box, member)
        return
    laid = empty_regions(np.int64(whole(count)), parts)
    for p in range(len(laid.gap)):  # behind the last part, it once more
        lay_region(domain, laid, np.int64(p), parts, np.int64(min(p, count - 1)))
    for member in joining:
        measure_growth(domain, laid, count, box, member)
        smallest, nearest = least(laid.gap, count), np.int64(0)
        while nearest < count - 1 and laid.gap[nearest] != smallest:
            nearest += 1
        part[member] = nearest
        enclose(domain, parts, nearest, box, member)
        lay_region(domain, laid, nearest, parts, nearest)


@leaf
def _nearest_part(domain: Domain, parts: Boxes, count: Int, box: Boxes, member: Int) -> Int:
    smallest = np.inf
    nearest: Int = np.int64(0)
    for p in range(count):
        growth = enlargement(domain, parts, p, box, member, smallest)
        if growth < smallest:
            smallest, nearest = growth, p
    return nearest
