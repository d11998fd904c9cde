"""Membership inference against ``cells``: a lower bound of the epsilon of a run, below the guaranteed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult import stream
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.regions.loss import EncodedSample
from crenel.anonymity.regions.private import learn_privately
from experiments.cells.comparison import DELTA, EPSILON, SAMPLE_RATE, k_of, numbered
from experiments.harness import Stream, Table, in_processes

_ROWS = 4_000
_RUNS = 2_000
_LEVEL = 0.95
_SIZES = (0.5, 1.0, 1.5)
"""Persons of the target's cell, in multiples of k / sample_rate, at which the sample holds k of them on average."""


def results() -> Iterator[Table]:
    """Tabulate the lower bound of epsilon by the size of the target's cell; the attacker knows all other records."""
    table = Table(
        f"Membership inference: epsilon {EPSILON:g}, delta {DELTA:g}, {_RUNS:,} runs with and without the target "
        f"(Adult, {_ROWS:,} records)",
        ["persons of the cell", "published with the target, %", "without, %", "lower bound of epsilon (95 %)"],
    )
    for size in _SIZES:
        persons = round(size * k_of(EPSILON) / SAMPLE_RATE)
        present, absent = in_processes(_counts, [(persons, True), (persons, False)])
        table.add(
            f"{persons:,}",
            f"{100 * np.mean(present > 0):.1f}",
            f"{100 * np.mean(absent > 0):.1f}",
            f"{lower_bound(present, absent, DELTA):.2f}",
        )
    yield table


def _partition(tuples: Stream) -> tuple[RegionTree, NDArray[np.int64]]:
    """Return a partition as if it were declared, and the cell of each tuple."""
    sample = EncodedSample(tuples.numeric, tuples.categorical)
    tree = learn_privately(tuples.policy, sample, 32, 1.5 * k_of(EPSILON) / SAMPLE_RATE, 1e6, np.random.default_rng(1))
    return tree, tree.regions(tuples.numeric, tuples.categorical)


def _counts(given: tuple[int, bool]) -> NDArray[np.int64]:
    """Return (runs,) the published records of the target's cell, which is all that depends on the target.

    The cell is the largest one, with as many of its persons as given; the target is one of them, or is missing.
    """
    persons, is_present = given
    tuples = numbered(stream(), sensitive=False).rows(np.arange(_ROWS))
    tree, cells = _partition(tuples)
    rows = np.flatnonzero(cells == np.argmax(np.bincount(cells, minlength=len(tree))))[:persons]
    tuples = tuples.rows(rows if is_present else rows[1:])
    parameters = Cells(tree, EPSILON, DELTA, sample_rate=SAMPLE_RATE)
    context = ShardContext(tuples.policy, Privacy(k_of(EPSILON)), parameters, tuples.members.schema, remembers=False)
    found = []
    for run in range(_RUNS):
        shard = Cells.new(context, 0, run.to_bytes(16, "little") + bytes([is_present]) * 16)
        for block in tuples.blocks(len(tuples)):
            shard.push(block)
        found.append(int(shard.finish().releases.tuples.sum()))
    return np.array(found)


def lower_bound(present: NDArray[np.int64], absent: NDArray[np.int64], delta: float) -> float:
    """Return the largest epsilon that the outcomes refute, at least 0, with a confidence of 95 %.

    The events are that at least, or at most, some number of records is published. Each has a Clopper-Pearson bound of
    its probability in both worlds; all of them hold together (Bonferroni).

    Parameters
    ----------
    present, absent : (runs,) published records with and without the target
    """
    thresholds = range(1, int(max(present.max(initial=0), absent.max(initial=0))) + 1)
    events = [
        tuple(int(np.count_nonzero((runs >= number) == above)) for runs in pair)
        for pair in ((present, absent), (absent, present))
        for number in thresholds
        for above in (True, False)
    ]
    error = (1 - _LEVEL) / (2 * max(len(events), 1))
    best = 0.0
    for successes, others in events:
        low, high = bounds(successes, len(present), error)[0], bounds(others, len(absent), error)[1]
        if low > delta:
            best = max(best, log(low - delta) - log(high))
    return best


def bounds(successes: int, tries: int, error: float) -> tuple[float, float]:
    """Return the Clopper-Pearson bounds of a probability, each wrong with a probability of ``error`` at most."""
    low = 0.0 if successes == 0 else _root(lambda p: 1 - _at_most(successes - 1, tries, p) - error)
    high = 1.0 if successes == tries else _root(lambda p: error - _at_most(successes, tries, p))
    return low, high


def _root(of: Callable[[float], float]) -> float:
    """Return the root of a function that rises from below 0 to above 0 on (0, 1)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < 0 else (low, middle)
    return (low + high) / 2


def _at_most(successes: int, tries: int, probability: float) -> float:
    """Return P[Binomial(tries, probability) <= successes]."""
    odds = log(probability) - log1p(-probability)
    ways = (lgamma(tries + 1) - lgamma(i + 1) - lgamma(tries - i + 1) for i in range(successes + 1))
    return min(sum(exp(way + i * odds + tries * log1p(-probability)) for i, way in enumerate(ways)), 1.0)
