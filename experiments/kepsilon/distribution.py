"""Distribution of errors: noise by class, by the whole population, and uniform (Section III, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness import Drawing, Floats, Table, drawing, legend_below, seeds
from experiments.kepsilon.core import (
    ALGORITHMS,
    Algorithm,
    by_population,
    choice,
    noise,
    one_class,
    panels_of,
    run,
    title,
)
from experiments.kepsilon.populations import POPULATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K = 10
EPSILONS = (1.0, 8.0)
WAYS = ("the whole", "classes", "uniform")
WITHIN = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Limits of the error in the table."""

_SEEDS = {"adult": 30, "a": 10, "b": 30}


@cache
def errors(population: str, algorithm: Algorithm, epsilon: float) -> dict[str, Floats]:
    """Return the relative errors of all runs, sorted, by ``WAYS``.

    Uniform noise moves each value by at most the same share of it, twice the mean error. Its mean error here is that of
    noise by class.
    """
    people, privacy = POPULATIONS[population](), noise(epsilon, K, confident=False)
    chosen = choice(people, algorithm, K)
    classes = np.concatenate(
        [run(people, algorithm, privacy, chosen, seed).errors(people) for seed in seeds(_SEEDS[population])]
    )
    uniform = np.random.default_rng(0).uniform(0, 2 * classes.mean(), len(classes))
    return {"the whole": _of_the_whole(population, epsilon), "classes": np.sort(classes), "uniform": np.sort(uniform)}


@cache
def _of_the_whole(population: str, epsilon: float) -> Floats:
    people, privacy = POPULATIONS[population](), noise(epsilon, K, confident=False)
    found = [run(people, "OLA", privacy, one_class(people), seed).errors(people) for seed in seeds(_SEEDS[population])]
    return np.sort(np.concatenate(found))


def share_below(sorted_errors: Floats, limit: float) -> float:
    """Return the share of errors up to a limit."""
    return float(np.searchsorted(sorted_errors, limit, side="right") / len(sorted_errors))


def distribution_table(population: str) -> Table:
    """Tabulate Figure 2, for one population."""
    people = POPULATIONS[population]()
    table = Table(
        f"{people.name}: share of persons whose {people.noised.name} has an error of at most (k = {K}, "
        f"{len(seeds(_SEEDS[population]))} runs)",
        ["algorithm", "epsilon", "noise by", *(f"{limit:.1%}" for limit in WITHIN), "mean error"],
    )
    for algorithm in ALGORITHMS:
        for epsilon in EPSILONS:
            found = errors(population, algorithm, epsilon)
            for way in WAYS:
                shares = (f"{share_below(found[way], limit):.3f}" for limit in WITHIN)
                table.add(algorithm, f"{epsilon:g}", way, *shares, f"{found[way].mean() * 100:.2f} %")
    return table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    for population in POPULATIONS:
        yield distribution_table(population)
    yield drawing("kepsilon-distribution", _figure)


def _figure() -> Figure:
    figure, grid = by_population()
    styles = {"the whole": "--", "classes": "-", "uniform": ":"}
    for (population, algorithm), panel in panels_of(grid):
        for epsilon, color in zip(EPSILONS, ("C0", "C1"), strict=True):
            found = errors(population, algorithm, epsilon)
            limits = np.geomspace(0.001, 1, 120)
            for way in WAYS:
                shares = [share_below(found[way], limit) for limit in limits]
                label = f"{way}, epsilon {epsilon:g}"
                panel.semilogx(limits * 100, shares, linestyle=styles[way], color=color, label=label)
        title(panel, population, algorithm, "relative error, %", "share of people")
    return legend_below(figure, grid[0, 0], 3)
