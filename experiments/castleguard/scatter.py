"""Sampled and perturbed tuples (CASTLEGUARD, Figure 3), and the probabilities of Section IV-D by simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.anonymity.noise.perturb import Noise
from experiments.castleguard.loss import PHIS, RATES
from experiments.harness import (
    TAXI,
    Drawing,
    Floats,
    Stream,
    Table,
    drawing,
    mean_interval,
    numeric_stream,
    panels,
    seeds,
)
from experiments.harness import taxi as taxi_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = 5
_PHIS = PHIS[:4]
_TRIES = 200_000

# A tuple at ``_AT`` of one attribute from 0 to 1, in steps of 0.001, and generalizations beside and around it.
_AT = 0.5
_INTERVALS = ((0.45, 0.55), (0.48, 0.6), (0.55, 0.6), (0.6, 0.8))


def admitted(tuples: Stream, rate: float, phi: float, seed: int) -> Floats:
    """Return (tuples, numeric) values of the tuples that sampling admits, after perturbation."""
    noise = Noise(tuples.policy, SamplingAndNoise(rate, phi), bytes([seed]) * 32)
    return noise.admit(tuples.blocks(len(tuples))[0]).numeric


def equations(low: float, high: float, at: float, phi: float) -> float:
    """Return the paper's probability that a value is perturbed into an interval, sampling aside (equations 8 and 10).

    The range is 1. Within the interval, the paper uses the largest noise that the value could receive on either side.
    """
    if low <= at <= high:
        return float(1 - np.exp(-min(at - low, high - at) * phi))
    ends = sorted((abs(low - at), abs(high - at)))
    return float(np.exp(-ends[0] * phi) - np.exp(-ends[1] * phi))


def exact(low: float, high: float, at: float, phi: float) -> float:
    """Return the probability by the distribution function of Laplace noise of scale 1 / phi."""

    def below(x: float) -> float:
        return float(np.exp(x * phi) / 2 if x < 0 else 1 - np.exp(-x * phi) / 2)

    return below(high - at) - below(low - at)


def results() -> Iterator[Table | Drawing]:
    """Tabulate how far sampling and noise move the distribution, and the probabilities; draw Figure 3."""
    from scipy.stats import wasserstein_distance

    tuples = numeric_stream(taxi_rows(), TAXI, "FareAmount", "pid")
    width = np.array([one.domain[1] - one.domain[0] for one in TAXI if one.domain])
    table = Table(
        f"Figure 3: admitted trips, and Wasserstein distance from the input (taxi, {len(seeds(SEEDS))} seeds)",
        ["sample_rate", "phi", "admitted", *(f"{one.name}, % of the domain" for one in TAXI)],
    )
    for rate in RATES:
        for phi in _PHIS:
            runs = [admitted(tuples, rate, phi, seed) for seed in seeds(SEEDS)]
            far = [
                [100 * wasserstein_distance(run[:, a], tuples.numeric[:, a]) / width[a] for run in runs] for a in (0, 1)
            ]
            table.add(
                rate,
                f"{phi:g}",
                mean_interval([len(run) for run in runs], ".0f"),
                *(mean_interval(one, ".1f") for one in far),
            )
    yield table
    yield _probabilities()
    yield drawing("castleguard-scatter", _figure, tuples)


def _probabilities() -> Table:
    """Tabulate equations 8 and 10, the exact probability, and the share in simulated perturbations."""
    attribute = Numeric((0, 1), 0.001).named("value")
    table = Table(
        f"Equations 8 and 10: probability that {_AT} is perturbed into an interval (range 1; {_TRIES:,} tries)",
        ["interval", "phi", "paper", "exact", "simulated"],
    )
    rows = pd.DataFrame({"value": np.full(_TRIES, _AT), "sensitive": np.zeros(_TRIES, np.int64)})
    tuples = numeric_stream(rows, [attribute], "sensitive")
    for phi in (5.0, 20.0):
        values = admitted(tuples, 1.0, phi, 0)[:, 0]
        for low, high in _INTERVALS:
            inside = float(((values >= low - 1e-9) & (values <= high + 1e-9)).mean())
            figures = (equations(low, high, _AT, phi), exact(low, high, _AT, phi), inside)
            table.add(f"{low} to {high}", f"{phi:g}", *(f"{figure:.3f}" for figure in figures))
    return table


def _figure(tuples: Stream) -> Figure:
    figure, grid = panels(len(RATES), len(_PHIS), (10, 9), sharex=True, sharey=True)
    fare = taxi_rows()["FareAmount"].to_numpy()
    for row, rate in zip(grid, RATES, strict=True):
        for panel, phi in zip(row, _PHIS, strict=True):
            noise = Noise(tuples.policy, SamplingAndNoise(rate, phi), bytes(32))
            made = noise.admit(tuples.blocks(len(tuples))[0])
            color = np.clip(made.members["FareAmount"].to_numpy(), 0, np.percentile(fare, 95))
            panel.scatter(made.numeric[:, 0], made.numeric[:, 1], c=color, s=4, rasterized=True)
            panel.set_title(f"sample_rate {rate:g}, phi {phi:g}", fontsize=8)
    figure.supxlabel("PickupLocationID")
    figure.supylabel("TripDistance")
    return figure
