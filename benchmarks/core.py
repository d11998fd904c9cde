"""Speed of the core alone: tuples per second of CASTLE, nearest and cells, and the cost of a longer delay."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import numpy as np

from benchmarks.adult import REUSE, Stream, stream
from benchmarks.measure import BLOCK, Table, replay
from crenel.anonymity.algorithm import REPAIRS, Algorithm, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.regions.loss import EncodedSample
from crenel.anonymity.regions.private import learn_privately


def castle_table(repeats: int = 7) -> Table:
    """Tabulate the speed of CASTLE, best of some runs, and the cost of a tuple at a hundred times the delay."""
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
            parameters = Castle(Delay(delta), reuse_limit=REUSE)
            runs = [replay(tuples, parameters, Privacy(10, diversity)) for _ in range(repeats)]
            best = min(run.seconds for run in runs) / len(tuples)
            base = base or best
            table.add(name, diversity, f"{delta:,}", f"{1 / best:,.0f}", f"{best * 1e6:.2f}", f"{best / base:.2f}")
    return table


def nearest_table() -> Table:
    """Tabulate the time of a tuple of CASTLE and of nearest by delay; the two take turns."""
    adult = stream()
    table = Table(
        "Microseconds a tuple in the core, k = 10, in turn (median of five; of three from a delay of 100,000 on)",
        ["delay", "tuples", "CASTLE", "nearest", "nearest, tuples/s"],
    )
    for delay, tuples in ((1000, adult), (10_000, adult), (100_000, adult.enlarged(300_000))):
        castle, nearest = [], []
        for _ in range(5 if delay < 100_000 else 3):
            castle.append(replay(tuples, Castle(Delay(delay), reuse_limit=REUSE), Privacy(10)).seconds)
            nearest.append(replay(tuples, Nearest(Delay(delay)), Privacy(10)).seconds)
        each = [median(seconds) / len(tuples) * 1e6 for seconds in (castle, nearest)]
        table.add(f"{delay:,}", f"{len(tuples):,}", *(f"{one:.2f}" for one in each), f"{1e6 / each[1]:,.0f}")
    return table


def cells_table() -> Table:
    """Tabulate the processor time of a tuple of nearest and cells; they take turns, and each tuple has a person."""
    table = Table(
        "Processor time of a tuple in the core, microseconds; delay or window 10,000, in turn (median of three)",
        ["tuples", "nearest, k = 10", "cells, sampled", "cells, noisy"],
    )
    for tuples in (stream().of_people(1), stream().enlarged(300_000).of_people(1)):
        sample = EncodedSample(tuples.numeric[:30_000], tuples.categorical[:30_000])
        tree = learn_privately(tuples.policy, sample, 256, 100, 1e6, np.random.default_rng(0))
        tree = replace(tree, epsilon=0.0)
        sampled = Cells(tree, 1.0, 1e-6, sample_rate=0.2, window=10_000, windows=4, horizon=500_000, lateness=1)
        noisy = replace(sampled, sample_rate=None, release="noisy")
        runs: tuple[tuple[Algorithm, int], ...] = ((Nearest(Delay(10_000)), 10), (sampled, 16), (noisy, 10))
        each = [[_processor_seconds(tuples, *run) for run in runs] for _ in range(3)]
        table.add(f"{len(tuples):,}", *(f"{median(of) / len(tuples) * 1e6:.2f}" for of in zip(*each, strict=True)))
    return table


def _processor_seconds(tuples: Stream, algorithm: Algorithm, k: int) -> float:
    """Return the processor time of one shard; a tuple is a millisecond of event time and of the clock."""
    context = ShardContext(tuples.policy, Privacy(k), algorithm, tuples.members.schema, remembers=False)
    shard, blocks = algorithm.new(context, 0, bytes(32)), tuples.blocks(BLOCK)
    blocks = [replace(of, event_time=np.full(len(of), BLOCK * i)) for i, of in enumerate(blocks)]
    start = time.process_time()
    for i, block in enumerate(blocks):
        shard.observe_clock(BLOCK * i, 0)
        shard.push(block)
    shard.finish()
    return time.process_time() - start


def log_table(repeats: int = 7) -> Table:
    """Tabulate the processor time of the log of repairs: of a shard without and with it, in turn."""
    adult = stream()
    table = Table(
        f"Repair log of the core, k = 10, l = 2, a delay of 1,000: microseconds of processor time a tuple (median of "
        f"{repeats}, in turn)",
        ["algorithm", "without", "with", "rows", "ratio"],
    )
    algorithms: tuple[tuple[str, Algorithm], ...] = (
        ("castle", Castle(Delay(1000))),
        ("nearest", Nearest(Delay(1000))),
        ("suhdsa", Suhdsa(500)),
    )
    for name, algorithm in algorithms:
        _logged(adult, algorithm, logs=True)  # compile
        runs = [[_logged(adult, algorithm, logs=logs) for logs in (False, True)] for _ in range(repeats)]
        without, with_log = (median(run[i][0] for run in runs) / len(adult) * 1e6 for i in (0, 1))
        ratio = median(run[1][0] / run[0][0] for run in runs)
        table.add(name, f"{without:.2f}", f"{with_log:.2f}", f"{runs[0][1][1]:,}", f"{ratio:.2f}")
    return table


def _logged(tuples: Stream, algorithm: Algorithm, *, logs: bool) -> tuple[float, int]:
    """Return processor seconds and rows of the log; a reader takes the rows only if there is a log."""
    read = frozenset({REPAIRS}) if logs else frozenset()
    schema = tuples.members.schema
    context = ShardContext(tuples.policy, Privacy(10, 2), algorithm, schema, remembers=False, logs=read)
    shard, blocks, rows = algorithm.new(context, 0, bytes(32)), tuples.blocks(BLOCK), 0
    start = time.process_time()
    for i in range(len(blocks) + 1):
        step = shard.push(blocks[i]) if i < len(blocks) else shard.finish()
        if logs:
            rows += len(step.further.get(REPAIRS, ()))
    return time.process_time() - start, rows


def tables() -> list[Table]:
    """Return all tables of this module."""
    replay(stream(), Castle(Delay(1000)), Privacy(10, 2))  # compile
    replay(stream(), Nearest(Delay(1000)), Privacy(10))
    return [castle_table(), nearest_table(), cells_table(), log_table()]
