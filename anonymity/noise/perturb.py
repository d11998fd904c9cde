"""Sampling and perturbation: what CASTLEGUARD does to a tuple before CASTLE sees it (Algorithm 1, lines 3 to 6).

Noise is drawn as a whole number of grid steps, from the discrete Laplace distribution, by an exact method (Canonne,
Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020, Algorithms 1 and 2): noise that is made by
transforming floats tells the value by its low bits (Mironov, "On significance of the least significant bits for
differential privacy", 2012).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, entry, inner, procedure
from anonymity.compiled.random import KEY_BYTES, RandomStream, below, next_word, random_stream
from anonymity.policy import LARGEST_POSITION, DifferentialPrivacy, Numeric, Policy, PolicyError
from state.block import Block

_LARGEST = LARGEST_POSITION
_PRECISION = 2**20


class Grid(NamedTuple):
    """Where the noise of each attribute lives; positions are whole numbers of steps from 0.

    Attributes
    ----------
    step : (numeric,) in the column's own unit
    parts, whole : (numeric,) the step as a decimal fraction, parts / whole: a position times the step, as floats, may
        be next to the decimal that is meant, and beyond the end of the domain
    lower, upper : (numeric,) the domain; infinite where there is none
    first, last : (attributes,) positions that a value may take: numeric ones in the order of the policy, then
        categorical ones, whose positions are those of the leaves
    numerator, denominator : (attributes,) the scale in steps as a fraction, for those whose range is declared
    observed : (numeric,) whether the range is what was seen so far
    phi : scale = range / phi
    """

    step: NDArray[np.float64]
    parts: NDArray[np.float64]
    whole: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]
    observed: NDArray[np.bool_]
    phi: NDArray[np.float64]


class Noise:
    """The sampling and perturbation of one shard.

    Parameters
    ----------
    policy, parameters : what is perturbed, and how much
    key : 32 bytes, the key of the shard's random stream, from which this one's is derived
    used : words of the stream that have been used
    sampled_out : tuples that were not let in so far
    observed : (2, numeric) lowest and highest value seen so far of each numeric attribute, where that is the range

    Raises
    ------
    PolicyError
        A numeric quasi-identifier lacks the domain or the step that its noise needs.
    """

    def __init__(
        self,
        policy: Policy,
        parameters: DifferentialPrivacy,
        key: bytes,
        *,
        used: int = 0,
        sampled_out: int = 0,
        observed: NDArray[np.float64] | None = None,
    ) -> None:
        self._grid = _grid(policy, parameters)
        below = np.uint64(min(floor(Fraction(parameters.sample_rate) * 2**64), 2**64 - 1))
        self._rate = parameters.sample_rate == 1, below
        derived = hashlib.blake2b(key, digest_size=KEY_BYTES, person=b"crenel-noise").digest()
        self.stream = random_stream(derived, used)
        self.sampled_out = sampled_out
        self.observed = np.empty((2, len(policy.numeric)))
        self.observed[0], self.observed[1] = np.inf, -np.inf
        if observed is not None:
            self.observed[:] = observed

    def let_in(self, block: Block) -> Block:
        """The tuples of a block that are let in, perturbed; of the others only their number is kept."""
        numeric, categorical = block.numeric.copy(), block.categorical.copy()
        chosen = np.ones(len(block), np.bool_)
        perturb(self.stream, self._grid, self._rate, self.observed, numeric, categorical, chosen)
        self.sampled_out += len(block) - int(np.count_nonzero(chosen))
        moved = replace(block, numeric=numeric, categorical=categorical)
        return replace(moved, **moved.chosen(chosen))


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


def _grid(policy: Policy, parameters: DifferentialPrivacy) -> Grid:
    steps, ends, scales = [], [], []
    for attribute in policy.numeric:
        steps.append(_step(attribute, parameters))
        ends.append(grid_ends(attribute))
        domain = attribute.domain or (0.0, 0.0)
        scales.append(scale_in_steps(domain[1] - domain[0], steps[-1], parameters.phi))
    for category in policy.categorical:
        ends.append((0, category.hierarchy.leaves - 1))
        scales.append(scale_in_steps(category.hierarchy.leaves - 1, 1, parameters.phi))
    first, last = np.array(ends, np.int64).T
    numerator, denominator = np.array(scales, np.int64).T
    observed = np.full(len(policy.numeric), parameters.observed_range)
    parts, whole = np.array([decimal_step(step) for step in steps], np.float64).reshape(-1, 2).T.copy()
    bounds = [attribute.domain or (-np.inf, np.inf) for attribute in policy.numeric]
    lower, upper = np.array(bounds, np.float64).reshape(-1, 2).T.copy()
    return Grid(
        np.array(steps),
        parts,
        whole,
        lower,
        upper,
        first,
        last,
        numerator,
        denominator,
        observed,
        np.array([parameters.phi]),
    )


def _step(attribute: Numeric, parameters: DifferentialPrivacy) -> float:
    place = f"policy.quasi_identifiers.{attribute.name}"
    if attribute.step is None:
        raise PolicyError(f"{place}.step: is missing; noise is drawn in steps, such as 0.01")
    if attribute.domain is None and not parameters.observed_range:
        raise PolicyError(f"{place}.domain: is missing; noise is drawn relative to [lowest, highest]")
    return attribute.step


def decimal_step(step: float) -> tuple[float, float]:
    """A step as (parts, whole), whole a power of ten; (step, 1) where floats do not hold them exactly."""
    fraction = Decimal(repr(step)).as_tuple()
    exponent = int(fraction.exponent)
    parts = int("".join(map(str, fraction.digits))) * 10 ** max(exponent, 0)
    whole = 10 ** max(-exponent, 0)
    return (float(parts), float(whole)) if max(parts, whole) <= 2**53 else (step, 1.0)


def grid_ends(attribute: Numeric) -> tuple[int, int]:
    """The first and the last step of the grid within the domain; the farthest there are where it has none."""
    if attribute.domain is None or attribute.step is None:
        return -_LARGEST, _LARGEST
    # Ends such as 0.3 are a little more, or less, than three steps of 0.1.
    return ceil(attribute.domain[0] / attribute.step - 1e-9), floor(attribute.domain[1] / attribute.step + 1e-9)


@entry
def perturb(
    stream: RandomStream,
    grid: Grid,
    rate: tuple[bool, np.uint64],
    observed: NDArray[np.float64],
    numeric: NDArray[np.float64],
    categorical: NDArray[np.int32],
    chosen: NDArray[np.bool_],
) -> None:
    """Sample tuples and perturb them in place, one after the other (CASTLEGUARD, Algorithm 1, lines 3 to 6).

    One after the other, so that the same tuples get the same noise however they were cut into blocks.

    Parameters
    ----------
    rate : whether all tuples are let in; else one is where 64 random bits are below the second
    observed : (2, numeric) the range seen so far, widened by each tuple that is let in (Algorithm 2, lines 2 and 3)
    chosen : (tuples,) becomes false where a tuple is not let in; its values stay as they were
    """
    attributes = numeric.shape[1]
    everything, below = rate
    for i in range(len(chosen)):
        if not everything and _bits(stream) >= below:
            chosen[i] = False
            continue
        for a in range(attributes):
            numerator, denominator = grid.numerator[a], grid.denominator[a]
            if grid.observed[a]:
                observed[0, a] = min(observed[0, a], numeric[i, a])
                observed[1, a] = max(observed[1, a], numeric[i, a])
                numerator, denominator = fraction((observed[1, a] - observed[0, a]) / grid.step[a] / grid.phi[0])
            position = np.rint(min(max(numeric[i, a] / grid.step[a], -_LARGEST), _LARGEST))
            found = moved(stream, np.int64(position), numerator, denominator, grid.first[a], grid.last[a])
            numeric[i, a] = min(max(found * grid.parts[a] / grid.whole[a], grid.lower[a]), grid.upper[a])
        for c in range(categorical.shape[1]):
            a = attributes + c
            categorical[i, c] = moved(
                stream, np.int64(categorical[i, c]), grid.numerator[a], grid.denominator[a], grid.first[a], grid.last[a]
            )


@procedure
def moved(stream: RandomStream, position: Int, numerator: Int, denominator: Int, first: Int, last: Int) -> Int:
    """A position of the grid with noise of the scale numerator / denominator, kept from ``first`` to ``last``."""
    # Clamped before too: a value may stand beside the grid's last step, at the end of its domain.
    position = min(max(position, first), last)
    return min(max(position + discrete_laplace(stream, numerator, denominator), first), last)


@inner
def fraction(scale: float) -> tuple[Int, Int]:
    """As ``scale_in_steps``, of a scale that is only known in compiled code."""
    denominator = np.int64(1)
    if scale <= 0.0:
        return np.int64(0), denominator
    while scale * denominator < _PRECISION and denominator < _LARGEST:
        denominator *= 2
    return np.int64(min(np.ceil(scale * denominator), _LARGEST)), denominator


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


@inner
def _bits(stream: RandomStream) -> np.uint64:
    low = np.uint64(next_word(stream))
    return low | (np.uint64(next_word(stream)) << np.uint64(32))
