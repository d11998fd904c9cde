"""Assignment of cluster members that no part has taken (CASTLE, function split, step 23)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.space.boxes import enclose, enlargement
from crenel.anonymity.space.domain import Boxes, Domain
from crenel.anonymity.space.lanes import least, whole
from crenel.anonymity.space.regions_by_attribute import empty_regions, lay_region, measure_growth

_MANY = 32
"""Number of parts from which the vectorized search is worth its setup."""


@procedure
def assign_remaining(
    domain: Domain, parts: Boxes, count: Int, box: Boxes, part: NDArray[np.int64], joining: NDArray[np.int64]
) -> None:
    """Assign each remaining member to the part that it enlarges least, one after the other.

    Parameters
    ----------
    parts, count : boxes of the parts; the first ``count`` are in use and grow
    box, part : (members,) box of each member, and number of its part
    joining : members without a part, in the order of assignment
    """
    if count < _MANY:
        for member in joining:
            part[member] = _nearest_part(domain, parts, count, box, member)
            enclose(domain, parts, part[member], box, member)
        return
    laid = empty_regions(np.int64(whole(count)), parts)
    for p in range(len(laid.gap)):  # behind the last part, copies of it fill the vector lanes
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
