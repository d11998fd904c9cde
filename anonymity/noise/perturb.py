"""Sampling and perturbation of CASTLEGUARD, applied to a tuple before CASTLE (Algorithm 1, lines 3 to 6)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import entry, inner
from crenel.anonymity.compiled.random import KEY_BYTES, RandomStream, next_word, random_stream
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.anonymity.noise.laplace import StepGrids, fraction, moved, scale_in_steps, steps_of, with_noise
from crenel.state.block import Block


class NoiseGrid(NamedTuple):
    """Grids and scales of the noise: numeric attributes in the order of the policy, then categorical ones.

    Attributes
    ----------
    steps : of the numeric attributes
    last : (categorical,) the last leaf of each
    numerator, denominator : (attributes,) the scale in steps as a fraction, where the range is declared
    observed : (numeric,) whether the range is the one observed so far
    phi : (1,) scale = range / phi
    """

    steps: StepGrids
    last: NDArray[np.int64]
    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]
    observed: NDArray[np.bool_]
    phi: NDArray[np.float64]


class Noise:
    """Sampling and perturbation of one shard.

    Parameters
    ----------
    policy, parameters : attributes to perturb, and the amount of noise
    key : 32 bytes, the key of the shard's random stream, from which the noise stream is derived
    used : number of words used from the noise stream
    sampled_out : number of tuples not admitted so far
    observed : (2, numeric) minimum and maximum so far of each numeric attribute, where the range is observed

    Raises
    ------
    PolicyError
        A numeric quasi-identifier lacks the domain or the step that its noise needs.
    """

    def __init__(
        self,
        policy: Policy,
        parameters: SamplingAndNoise,
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

    def admit(self, block: Block) -> Block:
        """Return the admitted tuples of a block, perturbed; of the others only the number is kept."""
        numeric, categorical = block.numeric.copy(), block.categorical.copy()
        chosen = np.ones(len(block), np.bool_)
        perturb(self.stream, self._grid, self._rate, self.observed, numeric, categorical, chosen)
        self.sampled_out += len(block) - int(np.count_nonzero(chosen))
        watermark = None if block.watermark is None else block.watermark[chosen]
        moved = replace(block, numeric=numeric, categorical=categorical)
        return replace(moved, **moved.chosen(chosen), watermark=watermark)


def _grid(policy: Policy, parameters: SamplingAndNoise) -> NoiseGrid:
    scales = []
    for attribute in policy.numeric:
        domain = attribute.domain or (0.0, 0.0)
        scales.append(scale_in_steps(domain[1] - domain[0], _step(attribute, parameters), parameters.inverse_scale))
    last = [category.hierarchy.leaves - 1 for category in policy.categorical]
    scales.extend(scale_in_steps(leaf, 1, parameters.inverse_scale) for leaf in last)
    numerator, denominator = np.array(scales, np.int64).T
    return NoiseGrid(
        steps=steps_of(policy.numeric),
        last=np.array(last, np.int64),
        numerator=numerator,
        denominator=denominator,
        observed=np.full(len(policy.numeric), parameters.has_observed_range),
        phi=np.array([parameters.inverse_scale]),
    )


def _step(attribute: Numeric, parameters: SamplingAndNoise) -> float:
    place = f"policy.quasi_identifiers.{attribute.name}"
    if attribute.step is None:
        raise PolicyError(f"{place}.step: is missing; noise is drawn in steps, such as 0.01")
    if attribute.domain is None and not parameters.has_observed_range:
        raise PolicyError(f"{place}.domain: is missing; noise is drawn relative to [lowest, highest]")
    return attribute.step


@entry
def perturb(
    stream: RandomStream,
    grid: NoiseGrid,
    rate: tuple[bool, np.uint64],
    observed: NDArray[np.float64],
    numeric: NDArray[np.float64],
    categorical: NDArray[np.int32],
    chosen: NDArray[np.bool_],
) -> None:
    """Sample tuples and perturb them in place, one after the other (CASTLEGUARD, Algorithm 1, lines 3 to 6).

    The sequential order gives a tuple the same noise, whatever its block boundaries.

    Parameters
    ----------
    rate : whether all tuples are admitted; otherwise a tuple is admitted if 64 random bits are below the second number
    observed : (2, numeric) the range so far, widened by each admitted tuple (Algorithm 2, lines 2 and 3)
    chosen : (tuples,) becomes false for tuples that are not admitted; their values stay unchanged
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
                numerator, denominator = fraction((observed[1, a] - observed[0, a]) / grid.steps.step[a] / grid.phi[0])
            numeric[i, a] = with_noise(stream, grid.steps, np.int64(a), numeric[i, a], numerator, denominator)
        for c in range(categorical.shape[1]):
            a = attributes + c
            leaf, first = np.int64(categorical[i, c]), np.int64(0)
            categorical[i, c] = moved(stream, leaf, grid.numerator[a], grid.denominator[a], first, grid.last[c])


@inner
def _bits(stream: RandomStream) -> np.uint64:
    low = np.uint64(next_word(stream))
    return low | (np.uint64(next_word(stream)) << np.uint64(32))
