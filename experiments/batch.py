"""Mondrian and OLA on Adult as one window: loss, suppression and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from benchmarks.adult import MEMBERS, frame, stream
from benchmarks.measure import BLOCK
from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.algorithms.mondrian.algorithm import MondrianParameters
from crenel.anonymity.algorithms.ola.algorithm import OlaParameters
from crenel.anonymity.builtin import MONDRIAN, OLA
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import Replay, Stream, Table, replay
from experiments.kepsilon.populations import adult

_RUNS = 3


def _fastest(tuples: Stream, algorithm: Algorithm, privacy: Privacy, parameters: Any) -> Replay:
    return min((replay(tuples, algorithm, privacy, parameters) for _ in range(_RUNS)), key=lambda run: run.seconds)


def mondrian() -> Iterator[Table]:
    """Tabulate loss and time of Mondrian by cut, k, l and window; and of long windows."""
    table = Table(
        f"Mondrian on Adult, 30,162 rows, ten quasi-identifiers (best of {_RUNS})",
        ["window", "cut", "k", "l", "subjects", "mean loss", "releases", "seconds"],
    )
    plain = stream()
    people = plain.of_people(5)
    cuts: tuple[Literal["loss", "widest"], ...] = ("loss", "widest")
    for tuples, k, diversity, by in (
        (None, 10, 1, plain),
        (None, 10, 2, plain),
        (None, 10, 1, people),
        (None, 10, 2, people),
        (None, 5, 1, plain),
        (None, 50, 1, plain),
        (10_000, 10, 1, plain),
        (1_000, 10, 1, plain),
    ):
        for cut in cuts:
            run = _fastest(by, MONDRIAN, Privacy(k, diversity), MondrianParameters(ClosedBy(tuples), cut))
            subjects = "a tuple each" if by is plain else "5 tuples each"
            releases = run.counters.releases["cluster"]
            table.add(tuples or "all", cut, k, diversity, subjects, f"{run.loss:.4f}", releases, f"{run.seconds:.3f}")
    yield table
    yield _long_windows(plain)


def _long_windows(adult: Stream) -> Table:
    table = Table(
        f"Long windows: Adult enlarged, k = 10, all of it one window in blocks of {BLOCK:,} (one run)",
        [
            "tuples",
            "microseconds a tuple to collect",
            "stored, bytes a tuple",
            "seconds to cut and release",
            "mean loss",
        ],
    )
    for tuples in (100_000, 1_000_000):
        stream = adult.enlarged(tuples)
        context = ShardContext(stream.policy, Privacy(10), MondrianParameters(), MEMBERS)
        shard, written = MONDRIAN.new(context, 0, bytes(32)), 0
        start = time.perf_counter()
        for block in stream.blocks(BLOCK):
            changes = shard.push(block).changes
            assert changes is not None
            written += sum(len(blob or b"") for blob in changes.entries["blocks"].values())
        collected = time.perf_counter()
        shard.finish()
        cut = time.perf_counter() - collected
        loss = shard.counters.loss_sum / shard.counters.released
        each = f"{(collected - start) / tuples * 1e6:.2f}"
        table.add(f"{tuples:,}", each, f"{written / tuples:.1f}", f"{cut:.1f}", f"{loss:.4f}")
    return table


def ola() -> Iterator[Table]:
    """Tabulate loss, suppression and time of OLA by k and metric, with the hierarchies of (k, epsilon)-anonymity."""
    people = adult()
    policy = people.policy(by_levels=True, noised=True)
    block = people.block(policy)
    income = frame()["income"].to_numpy(object)
    tuples = Stream(
        Policy(policy.quasi_identifiers, sensitive=("income",)),
        block.numeric,
        block.categorical,
        pd.util.hash_array(income).reshape(-1, 1),
        pa.record_batch([pa.array(income, pa.string())], schema=MEMBERS),
    )
    table = Table(
        f"OLA on Adult, {len(people):,} rows, four quasi-identifiers, 5 % suppressed at most (best of {_RUNS})",
        ["k", "metric", "mean loss", "releases", "suppressed", "seconds"],
    )
    metrics: tuple[Literal["precision", "discernibility", "entropy"], ...] = ("precision", "discernibility", "entropy")
    for k in (2, 5, 10, 20, 50, 100):
        for metric in metrics:
            run = _fastest(tuples, OLA, Privacy(k), OlaParameters(metric=metric))
            releases = run.counters.releases["cluster"]
            table.add(k, metric, f"{run.loss:.4f}", releases, f"{run.suppressed:.2%}", f"{run.seconds:.3f}")
    yield table
