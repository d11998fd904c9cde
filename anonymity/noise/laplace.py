"""Discrete Laplace noise on the grid of an attribute, within its domain.

Noise is a whole number of grid steps, drawn from the discrete Laplace distribution by an exact method (Canonne, Kamath
and Steinke, "The discrete Gaussian for differential privacy", 2020, Algorithms 1 and 2). Noise from transformed floats
would reveal the value by its low bits (Mironov, "On significance of the least significant bits for differential
privacy", 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, inner, procedure
from crenel.anonymity.compiled.random import RandomStream, next_word, randbelow
from crenel.anonymity.model.attributes import EXACT, LARGEST_POSITION, Number, decimal_fraction

_LARGEST = LARGEST_POSITION
_PRECISION = 2**20


class StepGrids(NamedTuple):
    """Grids of numeric attributes; a position is a whole number of steps from 0.

    Attributes
    ----------
    step : (attributes,) in the column's unit
    numerator, denominator : (attributes,) the step as a decimal fraction. A position times a float step may miss the
        intended decimal and exceed the domain
    lower, upper : (attributes,) the domain; infinite where there is none
    first, last : (attributes,) minimum and maximum position of a value
    """

    step: NDArray[np.float64]
    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def steps_of(attributes: Sequence[Number]) -> StepGrids:
    """Return the grids of attributes, each of which has a step."""
    steps = [attribute.step or 1.0 for attribute in attributes]
    bounds = [attribute.domain or (-np.inf, np.inf) for attribute in attributes]
    ends = [_ends(attribute) for attribute in attributes]
    numerator, denominator = np.array([_decimal(step) for step in steps], np.float64).reshape(-1, 2).T.copy()
    lower, upper = np.array(bounds, np.float64).reshape(-1, 2).T.copy()
    first, last = np.array(ends, np.int64).reshape(-1, 2).T.copy()
    return StepGrids(np.array(steps, np.float64), numerator, denominator, lower, upper, first, last)


def _decimal(step: float) -> tuple[float, float]:
    """Return a step as a decimal fraction, a numerator and a power of ten; (step, 1) where floats cannot hold both."""
    numerator, denominator = decimal_fraction(step)
    return (float(numerator), float(denominator)) if max(numerator, denominator) <= EXACT else (step, 1.0)


def _ends(attribute: Number) -> tuple[int, int]:
    """Return the first and the last grid step in the domain; the extreme ones where it has none."""
    if attribute.domain is None or attribute.step is None:
        return -_LARGEST, _LARGEST
    # Ends such as 0.3 are a little more, or less, than three steps of 0.1.
    return ceil(attribute.domain[0] / attribute.step - 1e-9), floor(attribute.domain[1] / attribute.step + 1e-9)


def scale_in_steps(width: float, step: float, phi: float) -> tuple[int, int]:
    """Return the noise scale ``width / phi / step`` as a fraction, exact or larger by at most a millionth.

    Scales below 2^-32 of a step, at which noise is almost always 0, may grow by more, but not above that value.
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
    """Return a scale as a fraction, as ``scale_in_steps`` does, in compiled code."""
    denominator = np.int64(1)
    if scale <= 0.0:
        return np.int64(0), denominator
    while scale * denominator < _PRECISION and denominator < _LARGEST:
        denominator *= 2
    return np.int64(min(np.ceil(scale * denominator), _LARGEST)), denominator


@inner
def with_noise(
    stream: RandomStream, steps: StepGrids, attribute: Int, value: float, numerator: Int, denominator: Int
) -> float:
    """Return a value with noise of the scale numerator / denominator, in steps, on the grid and within the domain."""
    position = np.rint(min(max(value / steps.step[attribute], -_LARGEST), _LARGEST))
    first, last = steps.first[attribute], steps.last[attribute]
    noised_position = moved(stream, np.int64(position), numerator, denominator, first, last)
    shown = noised_position * steps.numerator[attribute] / steps.denominator[attribute]
    return min(max(shown, steps.lower[attribute]), steps.upper[attribute])


@procedure
def moved(stream: RandomStream, position: Int, numerator: Int, denominator: Int, first: Int, last: Int) -> Int:
    """Return a grid position with noise of the scale numerator / denominator, clamped to ``first`` and ``last``."""
    # Clamped before too: a value may lie beyond the grid's last step, at the end of its domain.
    position = min(max(position, first), last)
    return min(max(position + discrete_laplace(stream, numerator, denominator), first), last)


@procedure
def discrete_laplace(stream: RandomStream, numerator: Int, denominator: Int) -> Int:
    """Draw a whole number x with probability proportional to exp(-|x| * denominator / numerator).

    The method is exact (Canonne, Kamath and Steinke, Algorithm 2). The result is 0 where the numerator is 0; the
    numerator is at most 2**52.
    """
    if numerator == 0:
        return np.int64(0)
    while True:
        remainder = randbelow(stream, numerator)
        if not _exponential(stream, remainder, numerator):
            continue
        wholes = np.int64(0)
        while _exponential(stream, np.int64(1), np.int64(1)):
            wholes += 1
        magnitude = (remainder + numerator * wholes) // denominator
        negative = next_word(stream) & 1
        if negative == 0:
            return magnitude
        if magnitude != 0:  # otherwise 0 would be twice as likely
            return -magnitude


@procedure
def _exponential(stream: RandomStream, numerator: Int, denominator: Int) -> bool:
    # Return True with probability exp(-numerator / denominator), whose exponent is -1 to 0 (Algorithm 1).
    steps = np.int64(1)
    while randbelow(stream, denominator * steps) < numerator:
        steps += 1
    return steps % 2 == 1
