"""Privacy figures of sampling and noise, and the displacement of values by noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import NoiseWithinRelease, SamplingAndNoise
from crenel.anonymity.noise.budget import (
    GeometricNoise,
    delta,
    largest_sample_rate,
    log_delta,
    share_within,
    smallest_epsilon,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""Epsilons of a budget by default, as far as a sample rate can reach them."""

SHARES = (0.5, 0.95, 0.99)
"""Shares of tuples for which the maximum displacement by noise is computed."""

_WIDTHS = {"a tenth": 0.1, "a half": 0.5, "whole": 1.0}
"""Widths of equivalence classes as parts of the domain, by their names."""


@dataclass(frozen=True)
class Reach:
    """Displacement of one attribute by noise.

    Attributes
    ----------
    name, kind : of the attribute
    unit : of range, step, scale and distances: ``own``, ``leaves`` of the hierarchy, or ``% of range`` for the observed
        range
    range : from the lowest to the highest value; None: observed
    step : of the grid; None: not known yet
    scale : of the Laplace distribution, range / phi
    within : for each of ``SHARES``, the maximum distance by which this share of tuples is moved
    """

    name: str
    kind: str
    unit: str
    range: float | None
    step: float | None
    scale: float
    within: tuple[float, ...]


@dataclass(frozen=True)
class Budget:
    """Privacy figures of sampling and noise.

    Attributes
    ----------
    deltas : (epsilon, ln delta); None: there is no delta for it, because it is below ``smallest``
    smallest : epsilon; infinite without sampling
    assumed_step : whether a step of 1 was assumed for an attribute without one
    wanted : (epsilon, delta, the largest sample rate for it or None), if requested
    """

    k: int
    sample_rate: float
    phi: float
    observed_range: bool
    smallest: float
    deltas: tuple[tuple[float, float | None], ...]
    reaches: tuple[Reach, ...]
    assumed_step: bool
    wanted: tuple[float, float, float | None] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values; infinity becomes None, and a delta is never 0."""
        return {
            "k": self.k,
            "sample_rate": self.sample_rate,
            "phi": self.phi,
            "range": "observed" if self.observed_range else "declared",
            "smallest_epsilon": self.smallest if isfinite(self.smallest) else None,
            "deltas": [
                {"epsilon": epsilon, "delta": None if value is None else delta(self.k, self.sample_rate, epsilon)}
                for epsilon, value in self.deltas
            ],
            "noise": [
                {
                    "attribute": reach.name,
                    "type": reach.kind,
                    "unit": reach.unit,
                    "range": reach.range,
                    "step": reach.step,
                    "scale": reach.scale,
                    "within": {f"{share:g}": amount for share, amount in zip(SHARES, reach.within, strict=True)},
                }
                for reach in self.reaches
            ],
            "wanted": None
            if self.wanted is None
            else dict(zip(("epsilon", "delta", "sample_rate"), self.wanted, strict=True)),
        }

    def to_arrow(self) -> pa.Table:
        """Return one row per epsilon, with its delta; null: there is none, because the epsilon is too small."""
        deltas = self.to_dict()["deltas"]
        return pa.table({name: pa.array([row[name] for row in deltas], pa.float64()) for name in ("epsilon", "delta")})

    def figure(self) -> Figure:
        """Return delta over epsilon as a picture.

        Raises
        ------
        PolicyError
            The sample rate is 1, which has no epsilon.
        ModuleNotFoundError
            matplotlib is not installed.
        """
        from crenel.evidence.figures import budget_figure

        return budget_figure(self.k, self.sample_rate)


def account(
    policy: Policy,
    k: int,
    chosen: SamplingAndNoise,
    epsilons: Sequence[float] | None = None,
    wanted: tuple[float, float] | None = None,
) -> Budget:
    """Return the figures of sampling and noise.

    Parameters
    ----------
    epsilons : epsilons to compute delta for; None: the smallest, and those of ``EPSILONS`` above it
    wanted : (epsilon, delta) to compute the largest sample rate for
    """
    rate = chosen.sample_rate
    smallest = smallest_epsilon(rate)
    if epsilons is None:
        epsilons = [epsilon for epsilon in (smallest, *EPSILONS) if smallest <= epsilon < inf]
    return Budget(
        k=k,
        sample_rate=rate,
        phi=chosen.inverse_scale,
        observed_range=chosen.has_observed_range,
        smallest=smallest,
        deltas=tuple((e, log_delta(k, rate, e) if e >= smallest else None) for e in epsilons),
        reaches=tuple(_reaches(policy, chosen)),
        assumed_step=any(attribute.step is None for attribute in policy.numeric),
        wanted=None if wanted is None else (*wanted, largest_sample_rate(k, *wanted)),
    )


def _reaches(policy: Policy, chosen: SamplingAndNoise) -> Iterator[Reach]:
    phi = chosen.inverse_scale
    for attribute in policy.attributes:
        if not isinstance(attribute, Numeric):
            span = float(attribute.hierarchy.leaves - 1)
            noise = GeometricNoise(span, phi)
            within = tuple(map(noise.reach, SHARES))
            yield Reach(attribute.name, "categorical", "leaves", span, 1.0, noise.scale, within)
        elif chosen.has_observed_range or attribute.domain is None:
            within = tuple(round(100 * share_within(phi, share), 3) for share in SHARES)
            yield Reach(attribute.name, "numeric", "% of range", None, attribute.step, 100 / phi, within)
        else:
            span = attribute.domain[1] - attribute.domain[0]
            noise = GeometricNoise(span, phi, 1.0 if attribute.step is None else attribute.step)
            within = tuple(map(noise.reach, SHARES))
            yield Reach(attribute.name, "numeric", "own", span, attribute.step, noise.scale, within)


@dataclass(frozen=True)
class ReachWithin:
    """Displacement of one attribute by noise, in an equivalence class of one width.

    Attributes
    ----------
    name : of the attribute
    width_name : the width as a part of the domain, in words
    width, scale : of the class, and of the Laplace distribution, in the attribute's unit
    linking_range : distance within which other persons must lie ((k, epsilon)-anonymity, Section V-C); None without
        confidence
    within : for each of ``SHARES``, the maximum distance by which this share of values is moved
    """

    name: str
    width_name: str
    width: float
    scale: float
    linking_range: float | None
    within: tuple[float, ...]


def reaches_within(policy: Policy, noise: NoiseWithinRelease) -> Iterator[ReachWithin]:
    """Yield the displacement of each noised attribute, for classes from the minimum width to the whole domain.

    An integer column with an unknown step has steps of 1.
    """
    widths = {"least": noise.least, **_WIDTHS}
    if noise.scale == "domain":
        widths = {"whole": 1.0}
    count = len(policy.noised)
    for attribute, epsilon in zip(policy.noised.values(), noise.of([*policy.noised]), strict=True):
        lowest, highest = attribute.domain or (0.0, 0.0)
        for width_name, share in widths.items():
            drawn = GeometricNoise(share * (highest - lowest), epsilon, attribute.step or 1.0)
            near = None if noise.confidence is None else drawn.reach(noise.confidence.c ** (1 / count))
            yield ReachWithin(
                attribute.name, width_name, drawn.range, drawn.scale, near, tuple(map(drawn.reach, SHARES))
            )
