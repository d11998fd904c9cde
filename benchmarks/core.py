"""Speed of the core alone: tuples per second of CASTLE and nearest, and the cost of a longer delay."""

from __future__ import annotations

from statistics import median

from benchmarks.adult import REUSE, stream
from benchmarks.measure import Table, replay
from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.algorithms.nearest.algorithm import NearestParameters
from crenel.anonymity.builtin import CASTLE, NEAREST
from crenel.anonymity.model.privacy import Privacy


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
            parameters = CastleParameters(delay_tuples=delta, reuse_limit=REUSE)
            runs = [replay(tuples, CASTLE, Privacy(10, diversity), parameters) for _ in range(repeats)]
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
            castle.append(replay(tuples, CASTLE, Privacy(10), CastleParameters(delay, reuse_limit=REUSE)).seconds)
            nearest.append(replay(tuples, NEAREST, Privacy(10), NearestParameters(delay)).seconds)
        each = [median(seconds) / len(tuples) * 1e6 for seconds in (castle, nearest)]
        table.add(f"{delay:,}", f"{len(tuples):,}", *(f"{one:.2f}" for one in each), f"{1e6 / each[1]:,.0f}")
    return table


def tables() -> list[Table]:
    """Return all tables of this module."""
    replay(stream(), CASTLE, Privacy(10, 2), CastleParameters(delay_tuples=1000))  # compile
    replay(stream(), NEAREST, Privacy(10), NearestParameters(delay_tuples=1000))
    return [castle_table(), nearest_table()]
