"""Rounding of published intervals to a grid (``Numeric.ends``), so that an end reveals a cell and not a value."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.model.attributes import LARGEST_POSITION
from crenel.anonymity.space.boxes import info_loss, interval_loss
from crenel.anonymity.space.domain import Boxes, Domain


@entry
def round_all(domain: Domain, boxes: Boxes) -> None:
    """Round the ends of every box outwards (``round_outwards``)."""
    for row in range(len(boxes.lower)):
        round_outwards(domain, boxes, np.int64(row))


@leaf
def round_outwards(domain: Domain, boxes: Boxes, row: Int) -> None:
    """Move the ends of a box outwards to the nearest grid point, or to an end of a declared domain.

    A rounded box stays unchanged. An end stays as well if it lies at least 2^52 steps from 0, where float64 is no finer
    than the grid, or if float64 cannot represent the multiple.
    """
    for a in range(len(domain.end_numerator)):
        boxes.lower[row, a] = _lower(domain, a, boxes.lower[row, a])
        boxes.upper[row, a] = _upper(domain, a, boxes.upper[row, a])


@leaf
def published_loss(domain: Domain, boxes: Boxes, row: Int) -> float:
    """Return the InfoLoss of a box with rounded ends, in [0, 1], clipped to the range of the domain.

    An observed range ends at values, and a rounded interval may extend beyond it.
    """
    if len(domain.end_numerator) == 0:
        return info_loss(domain, boxes, row)
    loss, attributes = 0.0, boxes.lower.shape[1] + boxes.node.shape[1]
    for a in range(boxes.lower.shape[1]):
        lower = max(_lower(domain, a, boxes.lower[row, a]), domain.lower[a])
        upper = min(_upper(domain, a, boxes.upper[row, a]), domain.upper[a])
        loss += interval_loss(domain, a, lower, upper, attributes)
    for a in range(boxes.node.shape[1]):
        loss += domain.loss[boxes.node[row, a]]
    return loss


@leaf
def _lower(domain: Domain, a: Int, value: float) -> float:
    end = 0.0 - _multiple_above(-value, domain.end_numerator[a], domain.end_denominator[a])  # never -0.0
    return max(end, domain.lower[a]) if domain.declared[a] else end


@leaf
def _upper(domain: Domain, a: Int, value: float) -> float:
    end = 0.0 + _multiple_above(value, domain.end_numerator[a], domain.end_denominator[a])
    return min(end, domain.upper[a]) if domain.declared[a] else end


@leaf
def _multiple_above(value: float, numerator: float, denominator: float) -> float:
    """Return the smallest multiple of numerator / denominator that is not below a value.

    A multiple is the float nearest to the decimal, so 0.3 is a multiple of 0.1. The rounded quotient only approximates
    its number of steps, which the loops correct.
    """
    if numerator == 0.0:
        return value
    steps = np.ceil(value / (numerator / denominator))
    if not abs(steps) < LARGEST_POSITION:
        return value
    while steps * numerator / denominator < value:
        steps += 1.0
    while (steps - 1.0) * numerator / denominator >= value:
        steps -= 1.0
    multiple = steps * numerator / denominator
    return multiple if abs(multiple) < np.inf else value
