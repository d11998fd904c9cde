"""Attribute disclosure of Table 12: readings of the attacker, and a guess of how the paper's figures came about.

The guess: five of k equal rows of the right class include the person's by 5 / k. So the attacker found the class in
(re-identification at 5) x k / 5 of the tries, and disclosure is that share times a prior, the share of the commonest
income (l = 2) or of one of three (l = 3). The paper states neither.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measure import BLOCK
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.attack.replays import MOMENT_KNOWN, RELEASE_KNOWN, attack_replays
from crenel.evidence.attack.result import ALL, Effort
from crenel.evidence.sample import ReplaySetting, Sample
from experiments.harness import Table, seeds
from experiments.suhdsa.tables import BRACKETS, plain

_EFFORT = Effort(targets=300, within_rows=(), within_time=(), known=(), draws=0, queries=1)
_NAMES = (
    *("re-identification at 1", "re-identification at 5", "class recall at 1", "class recall at 5"),
    *("disclosure of income", "disclosure of income, class found"),
)


@dataclass(frozen=True)
class Reported:
    """A row of Table 12, as shares; ``prior`` is the share in the guess: of the commonest value, or of one of three."""

    k: int
    l: int  # noqa: E741 - the paper's name
    first: float
    five: float
    disclosure: float
    prior: float

    @property
    def class_found(self) -> float:
        """Share of tries that found the class, as far as re-identification at 5 implies."""
        return self.five * self.k / 5


REPORTED = (Reported(10, 2, 0.079, 0.25, 0.38, 0.76), Reported(20, 3, 0.05, 0.18, 0.24, 1 / 3))


def results() -> Iterator[Table]:
    """Yield the arithmetic of the guess, and the readings."""
    yield _arithmetic()
    yield _readings()


def _arithmetic() -> Table:
    """Tabulate the guess beside the paper's figures."""
    header = [
        "k, l",
        "paper: at 1",
        "at 5",
        "disclosure",
        "class found, by at 5",
        "by at 1",
        "prior",
        "product by at 5",
    ]
    table = Table("Table 12: a guess of the paper's attribute disclosure, %", header)
    for of in REPORTED:
        shares = (
            of.first,
            of.five,
            of.disclosure,
            of.class_found,
            of.first * of.k,
            of.prior,
            of.class_found * of.prior,
        )
        table.add(f"{of.k}, {of.l}", *(f"{100 * share:.1f}" for share in shares))
    return table


def _readings() -> Table:
    """Tabulate the readings on Adult, by knowledge."""
    header = ["k, l", "the attacker knows", "at 1", "at 5", "class at 1", "class at 5"]
    header += [
        "disclosed",
        "own class found and right",
        "commonest",
        "class at 1 x commonest",
        "class at 5 x commonest",
    ]
    table = Table("Readings of Table 12 on Adult, window 50, % (95 % confidence interval)", header)
    for of in REPORTED:
        stream = plain(0, of.l)
        sample = Sample.of_blocks(stream.policy, stream.blocks(BLOCK))
        commonest = np.bincount(stream.income, minlength=len(BRACKETS[of.l])).max() / len(stream.income)
        print(f"k {of.k}, l {of.l}", file=sys.stderr, flush=True)
        setting = ReplaySetting(Suhdsa(tuples=50, delay=Delay(100)), Privacy(of.k, of.l), seed=1)
        found = {
            (attack.name, attack.knows): attack
            for attack in attack_replays(sample, setting, replace(_EFFORT, seeds=len(seeds(5)))).attacks
        }
        for knows, words in ((ALL, "quasi-identifiers"), (MOMENT_KNOWN, "the window"), (RELEASE_KNOWN, "the class")):
            shares = [found.get((name, knows)) for name in _NAMES]
            cells = [
                "-" if a is None else f"{100 * a.success:.1f} ({100 * a.low:.1f} to {100 * a.high:.1f})" for a in shares
            ]
            products = ["-" if a is None else f"{100 * a.success * commonest:.1f}" for a in shares[2:4]]
            table.add(f"{of.k}, {of.l}", words, *cells, f"{100 * commonest:.1f}", *products)
    return table
