"""Noise of an equivalence class: scales and published values ((k, epsilon)-anonymity, Section IV)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.noise.laplace import fraction, with_noise
from crenel.anonymity.noise.linking import linking_range
from crenel.anonymity.noise.release_noise import NoiseArrays
from crenel.anonymity.privacy_models.tally import Slots


@leaf
def span(noise: NoiseArrays, members: Slots) -> None:
    """Set ``NoiseArrays.span`` to that of the given tuples."""
    for a in range(noise.value.shape[1]):
        noise.span[0, a], noise.span[1, a] = np.inf, -np.inf
        for member in members:
            noise.span[0, a] = min(noise.span[0, a], noise.value[member, a])
            noise.span[1, a] = max(noise.span[1, a], noise.value[member, a])


@leaf
def widen(noise: NoiseArrays, known: NDArray[np.float64], member: Int) -> None:
    """Set ``NoiseArrays.span`` to that of a class, ``known`` (2, noised), extended by one tuple."""
    for a in range(noise.value.shape[1]):
        noise.span[0, a] = min(known[0, a], noise.value[member, a])
        noise.span[1, a] = max(known[1, a], noise.value[member, a])


@leaf
def span_domain(noise: NoiseArrays) -> None:
    """Set ``NoiseArrays.span`` to the declared domains, for a tuple published without a class."""
    for a in range(noise.value.shape[1]):
        noise.span[0, a], noise.span[1, a] = noise.steps.lower[a], noise.steps.upper[a]


@leaf
def note_scale(noise: NoiseArrays, release: Int) -> None:
    """Compute the noise scales of the class with ``NoiseArrays.span``, and write them to its release of this step."""
    for a in range(noise.scale.shape[1]):
        width = noise.domain[a]
        if noise.config.by_domain == 0:
            width = max(noise.span[1, a] - noise.span[0, a], noise.least[a])
        noise.scale[release, a] = width / noise.epsilon[a]
        in_steps = noise.scale[release, a] / noise.steps.step[a]
        noise.numerator[a], noise.denominator[a] = fraction(in_steps)
        if noise.config.subjects > 0:
            noise.reach[a] = (linking_range(in_steps, noise.config.beyond) + 1e-6) * noise.steps.step[a]


@procedure
def add_noise(noise: NoiseArrays, stream: Any, members: Slots) -> None:
    """Draw the published values of tuples once, with the scales computed for their class."""
    for member in members:
        for a in range(noise.value.shape[1]):
            numerator, denominator = noise.numerator[a], noise.denominator[a]
            value = noise.value[member, a]
            noise.shown[member, a] = with_noise(stream, noise.steps, np.int64(a), value, numerator, denominator)
