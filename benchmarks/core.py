"""The core alone: information loss, tuples a second, and what a longer delay costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.adult import REUSE, Stream, stream
from benchmarks.table import Table
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.buffer.delayed_shard import DelayedShard
from crenel.anonymity.buffer.stored_shard import begun
from crenel.anonymity.model.privacy import Privacy

_BLOCK = 2000


@dataclass(frozen=True)
class Run:
    """What one run gave: mean loss, share suppressed, seconds."""

    loss: float
    suppressed: float
    seconds: float


def run(
    tuples: Stream, privacy: Privacy, parameters: Any, seed: int = 0, made: Callable[..., DelayedShard] = Castle
) -> Run:
    """Push a stream through one shard, ``made`` of terms with these parameters, to the end; it remembers nothing."""
    blocks = tuples.blocks(_BLOCK)
    key = bytes([seed]) * 32
    terms = ShardContext(tuples.policy, privacy, parameters, tuples.members.schema)
    shard = made(terms, begun(terms, 0, key), remembers=False)
    start = time.perf_counter()
    for block in blocks:
        shard.push(block)
    shard.finish()
    seconds = time.perf_counter() - start
    counters = shard.counters
    return Run(counters.loss_sum / max(counters.released, 1), sum(counters.suppressed.values()) / len(tuples), seconds)


def loss_table() -> Table:
    """Mean loss of released tuples on Adult; the first row is the setting that others are compared with."""
    adult = stream()
    table = Table(
        "Information loss on Adult (file order, one shard, mean and range of five seeds)",
        ["quasi-identifiers", "k", "l", "delta", "clusters", "loss_window", "mean loss", "range", "suppressed"],
    )
    settings = [
        (10, 10, 1, 1000, 50, 100),
        (10, 10, 2, 1000, 50, 100),
        (10, 5, 1, 1000, 50, 100),
        (10, 50, 1, 1000, 50, 100),
        (10, 100, 1, 10_000, 50, 100),
        (10, 10, 1, 10_000, 50, 100),
        (10, 10, 1, 200, 50, 100),
        (10, 10, 1, 1000, 10, 100),
        (10, 10, 1, 1000, 200, 100),
        (10, 10, 1, 1000, 50, 1),
        (4, 10, 1, 1000, 50, 100),
    ]
    for attributes, k, diversity, delta, clusters, window in settings:
        tuples = adult if attributes == 10 else stream(attributes)
        parameters = CastleParameters(delay_tuples=delta, max_clusters=clusters, loss_window=window, reuse_limit=REUSE)
        runs = [run(tuples, Privacy(k, diversity), parameters, seed) for seed in range(5)]
        losses = [r.loss for r in runs]
        table.add(
            attributes,
            k,
            diversity,
            delta,
            clusters,
            window,
            f"{np.mean(losses):.3f}",
            f"{min(losses):.3f} to {max(losses):.3f}",
            f"{np.mean([r.suppressed for r in runs]):.3%}",
        )
    return table


def speed_table(repeats: int = 7) -> Table:
    """Tuples a second, best of several, and the cost of a tuple at a hundred times the delay."""
    adult = stream()
    large = adult.enlarged(400_000)
    table = Table(
        f"Speed of the core (k = 10, 50 clusters, loss_window 100; best of {repeats})",
        ["stream", "l", "delta", "tuples/s", "microseconds a tuple", "against delta 1,000"],
    )
    for name, tuples, diversity, deltas in (
        ("Adult", adult, 1, (1000,)),
        ("Adult", adult, 2, (1000,)),
        ("synthetic, 400,000", large, 1, (1000, 10_000, 100_000)),
        ("synthetic, 400,000", large, 2, (1000, 10_000, 100_000)),
    ):
        base = 0.0
        for delta in deltas:
            parameters = CastleParameters(delay_tuples=delta, reuse_limit=REUSE)
            best = min(run(tuples, Privacy(10, diversity), parameters).seconds for _ in range(repeats)) / len(tuples)
            base = base or best
            table.add(name, diversity, f"{delta:,}", f"{1 / best:,.0f}", f"{best * 1e6:.2f}", f"{best / base:.2f}")
    return table


def tables() -> list[Table]:
    """All tables of this file."""
    run(stream(), Privacy(10, 2), CastleParameters(delay_tuples=1000))  # compile
    return [loss_table(), speed_table()]
