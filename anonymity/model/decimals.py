"""Grid steps as exact decimal fractions."""

from __future__ import annotations

from decimal import Decimal
from math import gcd

EXACT = 2**53
"""Limit up to which float64 represents every whole number."""


def decimal_fraction(step: float) -> tuple[int, int]:
    """Return a positive number's shortest decimal as a fraction (parts, whole), ``whole`` a power of ten.

    0.1 is (1, 10), so that three steps of it, 3 * 1 / 10, are 0.3; 3 * 0.1 is not. Either number may exceed ``EXACT``,
    where a step is very large or small.
    """
    fraction = Decimal(repr(float(step))).as_tuple()
    exponent = int(fraction.exponent)
    parts = int("".join(map(str, fraction.digits))) * 10 ** max(exponent, 0)
    return parts, 10 ** max(-exponent, 0)


def in_lowest_terms(parts: int, whole: int) -> tuple[int, int]:
    """Return the fraction in lowest terms, whose multiples stay exact for longest."""
    divisor = gcd(parts, whole)
    return parts // divisor, whole // divisor
