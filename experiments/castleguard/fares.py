"""Noise on the sensitive number beside sampling and noise, which CASTLEGUARD names as an extension (Section VII-A)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Noised
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import NoiseWithinRelease, Privacy, SamplingAndNoise
from crenel.anonymity.noise.budget import delta
from experiments.castleguard.loss import SEEDS, run
from experiments.harness import TAXI, Floats, Stream, Table, mean_interval, numeric_stream, seeds, taxi

_FARE = {"FareAmount": Noised((0, 100), 0.01)}
_K, _DELAY, _RATE, _PHI = 10, 200, 0.5, 100.0
_OF_SAMPLING = 1.0  # epsilon of sampling, above its least of ln 2
_EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


def noised(rows: pd.DataFrame) -> Stream:
    """Return taxi trips with the fare as a noised attribute, and the row as a published column."""
    tuples, fares = numeric_stream(rows, TAXI, "FareAmount", "pid"), rows["FareAmount"].to_numpy(np.float64)
    columns = [pa.array(np.clip(fares, 0, 100)), pa.array(np.arange(len(fares)))]
    policy = replace(tuples.policy, sensitive=(), noised=_FARE, passthrough=("row",))
    return replace(
        tuples,
        policy=policy,
        sensitive=np.zeros((len(fares), 0), np.uint64),
        members=pa.record_batch(columns, names=[*policy.members]),
    )


def published(tuples: Stream, epsilon: float, seed: int) -> tuple[float, Floats, Floats]:
    """Return the mean loss, the published fares, and the original ones of the same trips; epsilon is the fare's."""
    privacy = Privacy(_K, noise_within_release=NoiseWithinRelease(epsilon, scale="domain"))
    parameters = Castle(Delay(_DELAY), max_clusters=25)
    made = run(tuples, privacy, parameters, SamplingAndNoise(_RATE, _PHI), seed)
    shown = np.concatenate([np.array(some.members[0], np.float64) for some in made.releases])
    rows = np.concatenate([np.array(some.members[1], np.int64) for some in made.releases])
    return made.released, shown, tuples.members["FareAmount"].to_numpy()[rows]


def results() -> Iterator[Table]:
    """Tabulate the errors of fares by their epsilon, and the budget of sampling and fare together."""
    tuples = noised(taxi())
    table = Table(
        f"Noise on the fare beside sampling (sample_rate {_RATE}, phi {_PHI:g}, k = {_K}, delta = {_DELAY}; "
        "0 to 100 dollars)",
        ["epsilon of the fare", "in all", "delta", "loss", "mean error of a fare, $", "error of the mean fare, $"],
    )
    for epsilon in _EPSILONS:
        found = [published(tuples, epsilon, seed) for seed in seeds(SEEDS)]
        table.add(
            *(f"{epsilon:g}", f"{_OF_SAMPLING + epsilon:g}", f"{delta(_K, _RATE, _OF_SAMPLING):.3f}"),
            mean_interval([loss for loss, _, _ in found]),
            mean_interval([float(np.abs(shown - fares).mean()) for _, shown, fares in found], ".1f"),
            mean_interval([float(shown.mean() - fares.mean()) for _, shown, fares in found], ".1f"),
        )
    yield table
