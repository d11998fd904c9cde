"""Discrete Laplace noise on the grid of an attribute, within its domain.

Noise is drawn as a whole number of grid steps, from the discrete Laplace distribution, by an exact method (Canonne,
Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020, Algorithms 1 and 2): noise that is made by
transforming floats tells the value by its low bits (Mironov, "On significance of the least significant bits for
differential privacy", 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, inner, procedure
from crenel.anonymity.compiled.random import RandomStream, below, next_word
from crenel.anonymity.model.attributes import LARGEST_POSITION, Numeric
from crenel.anonymity.model.decimals import EXACT, decimal_fraction

_LARGEST = LARGEST_POSITION
_PRECISION = 2**20


class Steps(NamedTuple):
    """The grids of some numbers; positions are whole numbers of steps from 0.

    Attributes
    ----------
    step : (attributes,) in the column's own unit
    parts, whole : (attributes,) the step as a decimal fraction, parts / whole: a position times the step, as floats,
        may be next to the decimal that is meant, and beyond the end of the domain
    lower, upper : (attributes,) the domain; infinite where there is none
    first, last : (attributes,) positions that a value may take
    """

    step: NDArray[np.float64]
    parts: NDArray[np.float64]
    whole: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def steps_of(attributes: Sequence[Numeric]) -> Steps:
    """The grids of some attributes, each of which has a step."""
    steps = [attribute.step or 1.0 for attribute in attributes]
    bounds = [attribute.domain or (-np.inf, np.inf) for attribute in attributes]
    ends = [_ends(attribute) for attribute in attributes]
    parts, whole = np.array([_decimal(step) for step in steps], np.float64).reshape(-1, 2).T.copy()
    lower, upper = np.array(bounds, np.float64).reshape(-1, 2).T.copy()
    first, last = np.array(ends, np.int64).reshape(-1, 2).T.copy()
    return Steps(np.array(steps, np.float64), parts, whole, lower, upper, first, last)


def _decimal(step: float) -> tuple[float, float]:
    """A step as (parts, whole), whole a power of ten; (step, 1) where floats do not hold them exactly."""
    parts, whole = decimal_fraction(step)
    return (float(parts), float(whole)) if max(parts, whole) <= EXACT else (step, 1.0)


def _ends(attribute: Numeric) -> tuple[int, int]:
    """The first and the last step of the grid within the domain; the farthest there are where it has none."""
    if attribute.domain is None or attribute.step is None:
        return -_LARGEST, _LARGEST
    # Ends such as 0.3 are a little more, or less, than three steps of 0.1.
    return ceil(attribute.domain[0] / attribute.step - 1e-9), floor(attribute.domain[1] / attribute.step + 1e-9)


def scale_in_steps(width: float, step: float, phi: float) -> tuple[int, int]:
    """The scale of the noise, ``width / phi / step``, as a fraction: exact, or a little larger, by a millionth at most.

    Scales below 2^-32 of a step, which hardly ever move anything, may become larger by more, but not above that.
    """
    scale = Fraction(width) / Fraction(step) / Fraction(phi)
    if scale == 0:
        return 0, 1
    denominator = 1
    while scale * denominator < _PRECISION and denominator < _LARGEST:
        denominator *= 2
    return ceil(scale * denominator), denominator


@inner
def fraction(scale: float) -> tuple[Int, Int]:
    """As ``scale_in_steps``, of a scale that is only known in compiled code."""
    denominator = np.int64(1)
    if scale <= 0.0:
        return np.int64(0), denominator
    while scale * denominator < _PRECISION and denominator < _LARGEST:
        denominator *= 2
    return np.int64(min(np.ceil(scale * denominator), _LARGEST)), denominator


@inner
def with_noise(
    stream: RandomStream, steps: Steps, attribute: Int, value: float, numerator: Int, denominator: Int
) -> float:
    """A value with noise of the scale numerator / denominator, in steps, on the grid and within the domain."""
    position = np.rint(min(max(value / steps.step[attribute], -_LARGEST), _LARGEST))
    first, last = steps.first[attribute], steps.last[attribute]
    found = moved(stream, np.int64(position), numerator, denominator, first, last)
    shown = found * steps.parts[attribute] / steps.whole[attribute]
    return min(max(shown, steps.lower[attribute]), steps.upper[attribute])


@procedure
def moved(stream: RandomStream, position: Int, numerator: Int, denominator: Int, first: Int, last: Int) -> Int:
    """A position of the grid with noise of the scale numerator / denominator, kept from ``first`` to ``last``."""
    # Clamped before too: a value may stand beside the grid's last step, at the end of its domain.
    position = min(max(position, first), last)
    return min(max(position + discrete_laplace(stream, numerator, denominator), first), last)


@procedure
def discrete_laplace(stream: RandomStream, numerator: Int, denominator: Int) -> Int:
    """A whole number x with a probability proportional to exp(-|x| * denominator / numerator).

    Exact (Canonne, Kamath and Steinke, Algorithm 2). 0 where the numerator is; it is at most 2**52.
    """
    if numerator == 0:
        return np.int64(0)
    while True:
        remainder = below(stream, numerator)
        if not _exponential(stream, remainder, numerator):
            continue
        wholes = np.int64(0)
        while _exponential(stream, np.int64(1), np.int64(1)):
            wholes += 1
        found = (remainder + numerator * wholes) // denominator
        negative = next_word(stream) & 1
        if negative == 0:
            return found
        if found != 0:  # or 0 would be twice as likely
            return -found


@procedure
def _exponential(stream: RandomStream, numerator: Int, denominator: Int) -> bool:
    # True with probability exp(-numerator / denominator), which is 1 at most (Algorithm 1).
    steps = np.int64(1)
    while below(stream, denominator * steps) < numerator:
        steps += 1
    return steps % 2 == 1
