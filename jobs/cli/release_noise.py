"""Figures of noise within releases for ``crenel budget``: displacement of values by the width of their class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import NoiseWithin
from crenel.anonymity.noise.budget import Noise
from crenel.jobs.cli.budget import SHARES, figures, indent
from crenel.jobs.config.load import Config

_WIDTHS = {"a tenth": 0.1, "a half": 0.5, "whole": 1.0}


@dataclass(frozen=True)
class ReachWithin:
    """Displacement of one attribute by noise, in an equivalence class of one width.

    Attributes
    ----------
    name : of the attribute
    of : the width as a part of the domain, in words
    width, scale : of the class, and of the Laplace distribution, in the attribute's unit
    linking_range : distance within which other persons must lie ((k, epsilon)-anonymity, Section V-C); None without
        confidence
    within : for each of ``SHARES``, the maximum distance by which this share of values is moved
    """

    name: str
    of: str
    width: float
    scale: float
    linking_range: float | None
    within: tuple[float, ...]


def reaches(policy: Policy, noise: NoiseWithin) -> Iterator[ReachWithin]:
    """Yield the displacement of each noised attribute, for classes from the minimum width to the whole domain.

    An integer column with an unknown step has steps of 1.
    """
    widths = {"least": noise.least, **_WIDTHS}
    if noise.scale == "domain":
        widths = {"whole": 1.0}
    count = len(policy.noised)
    for attribute, epsilon in zip(policy.noised, noise.of(count), strict=True):
        lowest, highest = attribute.domain or (0.0, 0.0)
        for of, share in widths.items():
            drawn = Noise(share * (highest - lowest), epsilon, attribute.step or 1.0)
            near = None if noise.confidence is None else drawn.reach(noise.confidence.c ** (1 / count))
            yield ReachWithin(attribute.name, of, drawn.range, drawn.scale, near, tuple(map(drawn.reach, SHARES)))


def as_json(config: Config) -> list[dict[str, Any]]:
    """Return the displacements for ``--json``."""
    noise = config.privacy.noise_within
    return [
        {
            "attribute": reach.name,
            "class": reach.of,
            "width": reach.width,
            "scale": reach.scale,
            "linking_range": reach.linking_range,
            "within": {f"{share:g}": amount for share, amount in zip(SHARES, reach.within, strict=True)},
        }
        for reach in (() if noise is None else reaches(config.policy, noise))
    ]


def show(console: Console, config: Config) -> None:
    """Print the displacements as a table, if any attribute is noised."""
    noise = config.privacy.noise_within
    if noise is None:
        return
    console.print(f"noise within releases, epsilon {noise.epsilon:g} for a record", style="bold")
    shares = (f"{100 * share:.3g} %" for share in SHARES)
    table = figures("attribute", "of its domain", "width", "scale", "linking range", *shares)
    for reach in reaches(config.policy, noise):
        near = "-" if reach.linking_range is None else f"{reach.linking_range:.6g}"
        moved = (f"{amount:.6g}" for amount in reach.within)
        table.add_row(reach.name, reach.of, f"{reach.width:.6g}", f"{reach.scale:.6g}", near, *moved)
    indent(console, table)
    indent(console, "The scale is width / (epsilon * share). Such a share of values is moved by so much or less.")
    indent(console, "This is not differential privacy: the width is made of values of persons. See docs/privacy.md.")
