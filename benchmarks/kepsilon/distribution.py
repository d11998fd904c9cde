"""How errors are distributed: noise by class, by the whole, and uniform (Sections III-B and III-C, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from benchmarks.kepsilon.core import ALGORITHMS, Algorithm, Floats, choice, noise, run, together
from benchmarks.kepsilon.populations import POPULATIONS
from benchmarks.table import Table

K = 10
EPSILONS = (1.0, 8.0)
WAYS = ("the whole", "classes", "uniform")
WITHIN = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Errors of which the table tells how many are smaller."""

_SEEDS = {"adult": 30, "a": 10, "b": 30}


@cache
def errors(population: str, algorithm: Algorithm, epsilon: float) -> dict[str, Floats]:
    """Relative errors of all runs, sorted, by ``WAYS``.

    Uniform noise is plus or minus the same share of each value, of which the mean error is half: it is drawn here, with
    the mean error that noise by class had.
    """
    people, privacy = POPULATIONS[population](), noise(epsilon, K, confident=False)
    chosen, seeds = choice(people, algorithm, K), range(_SEEDS[population])
    classes = np.concatenate([run(people, algorithm, privacy, chosen, seed).errors(people) for seed in seeds])
    uniform = np.random.default_rng(0).uniform(0, 2 * classes.mean(), len(classes))
    return {"the whole": _of_the_whole(population, epsilon), "classes": np.sort(classes), "uniform": np.sort(uniform)}


@cache
def _of_the_whole(population: str, epsilon: float) -> Floats:
    people, privacy = POPULATIONS[population](), noise(epsilon, K, confident=False)
    found = [run(people, "OLA", privacy, together(people), seed).errors(people) for seed in range(_SEEDS[population])]
    return np.sort(np.concatenate(found))


def below(sorted_errors: Floats, limit: float) -> float:
    """The share of errors that are no larger than a limit."""
    return float(np.searchsorted(sorted_errors, limit, side="right") / len(sorted_errors))


def distribution_table(population: str) -> Table:
    """Figure 2, of one population."""
    people = POPULATIONS[population]()
    table = Table(
        f"{people.name}: share of people whose {people.noised.name} has an error of at most (k = {K}, "
        f"{_SEEDS[population]} runs)",
        ["algorithm", "epsilon", "noise by", *(f"{limit:.1%}" for limit in WITHIN), "mean error"],
    )
    for algorithm in ALGORITHMS:
        for epsilon in EPSILONS:
            found = errors(population, algorithm, epsilon)
            for way in WAYS:
                shares = (f"{below(found[way], limit):.3f}" for limit in WITHIN)
                table.add(algorithm, f"{epsilon:g}", way, *shares, f"{found[way].mean() * 100:.2f} %")
    return table


def tables() -> Iterator[Table]:
    """All tables of this file."""
    for population in POPULATIONS:
        yield distribution_table(population)
