"""Steps of a grid as the decimals that were meant."""

from __future__ import annotations

from decimal import Decimal
from math import gcd

EXACT = 2**53
"""Up to here float64 holds every whole number."""


def decimal_fraction(step: float) -> tuple[int, int]:
    """A number above 0 as (parts, whole) of the decimal that is written for it, ``whole`` a power of ten.

    0.1 is (1, 10), so that three steps of it, 3 * 1 / 10, are 0.3, which 3 * 0.1 is not. Either may be larger than
    ``EXACT``, where a step is very long or short.
    """
    fraction = Decimal(repr(float(step))).as_tuple()
    exponent = int(fraction.exponent)
    parts = int("".join(map(str, fraction.digits))) * 10 ** max(exponent, 0)
    return parts, 10 ** max(-exponent, 0)


def in_lowest_terms(parts: int, whole: int) -> tuple[int, int]:
    """The same fraction with the smallest numbers there are: multiples of it stay exact for longest."""
    divisor = gcd(parts, whole)
    return parts // divisor, whole // divisor
