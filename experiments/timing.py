"""Attackers with timing knowledge: re-identification of singleton releases by jitter of the delay.

Reuse publishes a due tuple as a singleton release. The attacker knows the quasi-identifiers of all persons, and the
arrival of each row to within ``KNOWN`` rows. For a singleton release, the attacker lists the rows in its box whose
arrival fits. A single such row is re-identified, with its sensitive value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult import FOUR, stream
from benchmarks.measure import BLOCK
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.compiled.random import CounterRandom, uniform_at
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.privacy import Privacy
from experiments.castle.contenders import shuffled
from experiments.harness import Stream, Table, mean_interval, seeds

KNOWN = 50
"""Uncertainty of the attacker about the arrival of a row, in rows."""

_JITTER = (0.0, 0.1, 0.25, 0.5, 1.0)
_SEEDS = 5
_REUSED = KINDS.index("reused")


@dataclass(frozen=True)
class Attacked:
    """Results of one run.

    Attributes
    ----------
    loss, suppressed : mean loss of released tuples; share of suppressed tuples
    reused : share of all tuples in singleton releases before the end of the stream
    named : share of these with a single possible row
    guessed : expected share of correct guesses among the possible rows
    """

    loss: float
    suppressed: float
    reused: float
    named: float
    guessed: float


def results() -> Iterator[Table]:
    """Tabulate re-identification by setting."""
    adult = stream()
    table = Table(
        f"Singleton releases of Adult, and their re-identification with arrivals known to within {KNOWN} rows "
        f"(mean and 95 % confidence interval over {len(seeds(_SEEDS))} random orders)",
        [
            "setting",
            "algorithm",
            "reuse_limit",
            "jitter",
            "loss",
            "suppressed, %",
            "reused, %",
            "singled out, %",
            "guessed, %",
            "singled out, % of all",
        ],
    )
    settings = (
        ("10 QIs, k 10, delay 1,000", adult, Privacy(10), 1000),
        ("10 QIs, k 100, delay 10,000", adult, Privacy(100), 10_000),
        ("4 QIs, k 50, delay 1,000", adult.of_attributes(FOUR), Privacy(50), 1000),
    )
    for name, tuples, privacy, delay in settings:
        for algorithm in (Castle, Nearest):
            for limit, jitter in (*((1000, jitter) for jitter in _JITTER), (0, 0.0)):
                chosen = algorithm(Delay(delay, jitter=jitter), reuse_limit=limit)
                runs = [attacked(shuffled(tuples, seed), privacy, chosen, seed) for seed in seeds(_SEEDS)]
                singletons: list[tuple[list[float], str]] = [
                    ([run.named for run in runs], ".0f"),
                    ([run.guessed for run in runs], ".0f"),
                    ([run.named * run.reused for run in runs], ".2f"),
                ]
                table.add(
                    *(name, algorithm.name, limit, jitter, mean_interval([run.loss for run in runs])),
                    _percent([run.suppressed for run in runs], ".2f"),
                    _percent([run.reused for run in runs], ".1f"),
                    *(_percent(shares, form) if limit else "-" for shares, form in singletons),
                )
    yield table


def _percent(shares: list[float], form: str) -> str:
    return mean_interval([100 * share for share in shares], form)


def attacked(tuples: Stream, privacy: Privacy, algorithm: Castle | Nearest, seed: int, block: int = BLOCK) -> Attacked:
    """Run a stream in blocks of ``block`` tuples, and attack it.

    The attacker knows the arrival on which each release comes. For a singleton release it is the deadline of its tuple.
    """
    numbered, delay = tuples.numbered(), algorithm.delay.tuples
    assert delay is not None
    context = ShardContext(numbered.policy, privacy, algorithm, numbered.members.schema, remembers=False)
    shard: Any = algorithm.new(context, 0, bytes([seed]) * 32)
    early = int(algorithm.delay.jitter * delay)
    due = _deadlines(shard.arrays.deadline_random, len(tuples), delay, early)
    found: list[int] = []
    for some in numbered.blocks(block):
        releases = shard.push(some).releases
        for release in np.flatnonzero(releases.kind == _REUSED).tolist():
            row = releases.members[-1][releases.offsets[release]]
            found.append(_possible_rows(tuples, releases, release, due[row], delay, early))
    shard.finish()
    counters = shard.counters
    possible = np.array(found)
    return Attacked(
        counters.loss_sum / counters.released,
        sum(counters.suppressed.values()) / len(tuples),
        len(possible) / len(tuples),
        float((possible == 1).mean()) if len(possible) else 0.0,
        float((1 / possible).mean()) if len(possible) else 0.0,
    )


@entry
def _deadlines(random: CounterRandom, tuples: int, delay: int, early: int) -> NDArray[np.int64]:
    """Return the position of the arrival on which each tuple is due (``crenel.anonymity.buffer.expiry``)."""
    due = np.arange(tuples) + delay
    if early > 0:
        for row in range(tuples):
            due[row] -= np.int64(uniform_at(random, row) * (early + 1))
    return due


def _possible_rows(tuples: Stream, releases: Releases, release: int, due: int, delay: int, early: int) -> int:
    """Return the number of possible rows of a singleton release on the arrival at position ``due``."""
    rows = slice(max(due - delay - KNOWN, 0), min(due - delay + early + KNOWN, due) + 1)
    return int(inside(tuples, releases, release, tuples.numeric[rows], tuples.categorical[rows]).sum())


def inside(
    tuples: Stream, releases: Releases, release: int, numeric: NDArray[np.float64], leaf: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return whether each row of values lies in the generalization of a release, (rows,)."""
    found = ((numeric >= releases.lower[release]) & (numeric <= releases.upper[release])).all(axis=1)
    for i, attribute in enumerate(tuples.policy.categorical):
        tree, node = attribute.hierarchy, releases.node[release, i]
        found &= (leaf[:, i] >= tree.first[node]) & (leaf[:, i] <= tree.last[node])
    contained: NDArray[np.bool_] = found
    return contained
