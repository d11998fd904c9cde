"""Error, linking risk and suppression of noise within classes by k and epsilon (Figures 3 to 6, Table IV)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from experiments.harness import Drawing, Table, drawing, in_processes, kept, legend_below, mean_interval, percent, seeds
from experiments.kepsilon.core import (
    ALGORITHMS,
    EPSILONS,
    KS,
    Algorithm,
    by_population,
    choice,
    expected_error,
    noise,
    panels_of,
    run,
    title,
)
from experiments.kepsilon.populations import POPULATIONS, Population, adult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS = {"adult": 30, "a": 10, "b": 30}
"""Seeds of each cell. List A is four times as large as Adult, and its figures vary less between seeds."""

TABLE_IV = {
    "adult": (1.67, 2.42, 3.71, 1.47, 1.76, 4.80),
    "a": (4.77, 3.91, 4.15, 4.18, 3.47, 3.48),
    "b": (4.83, 1.88, 3.73, 3.96, 1.53, 1.34),
}
"""Suppression by the paper's OLA, in percent by k; its limit is 5 %. List A stands for Florida, list B for Michigan."""

CONFIDENCES = (0.7, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
"""Confidences of the paper, 70 to 99.999 %."""

_K, _CONFIDENT_RUNS = 10, 3
_SHOWN_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_AIM = {"color": "black", "linewidth": 0.8, "linestyle": ":"}
"""Style of the line of the paper's claim."""


@dataclass(frozen=True)
class Cell:
    """Results of all runs with one k, by epsilon and seed.

    Attributes
    ----------
    classes : number of equivalence classes of the algorithm
    suppressed : share of the people that the algorithm itself suppressed
    expected : (epsilons,) error by equation (8)
    error : (epsilons, seeds) mean relative error of the published values
    linked : (epsilons, seeds) share of the published that are linked
    withheld : (epsilons, seeds) share of the people suppressed for confidence, in runs of their own
    """

    classes: int
    suppressed: float
    expected: list[float]
    error: list[list[float]]
    linked: list[list[float]]
    withheld: list[list[float]]


def cell(people: Population, algorithm: Algorithm, k: int, seeds: int) -> Cell:
    """Run one k with every epsilon and seed."""
    chosen = choice(people, algorithm, k)
    error, linked, withheld = [], [], []
    for epsilon in EPSILONS:
        plain = [run(people, algorithm, noise(epsilon, k, confident=False), chosen, seed) for seed in range(seeds)]
        error.append([float(found.errors(people).mean()) for found in plain])
        linked.append([found.linked for found in plain])
        confident = noise(epsilon, k, confident=True)
        withheld.append([run(people, algorithm, confident, chosen, seed).withheld for seed in range(seeds)])
    return Cell(
        classes=len(chosen.groups),
        suppressed=len(chosen.suppressed) / len(people),
        expected=[expected_error(people, chosen, epsilon) for epsilon in EPSILONS],
        error=error,
        linked=linked,
        withheld=withheld,
    )


class Measured:
    """Finished cells; a file keeps them for later runs.

    Parameters
    ----------
    kept : a file of JSON, which need not exist; None: no file
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._kept = kept
        found = json.loads(kept.read_text("utf-8")) if kept is not None and kept.exists() else {}
        self._cells = {name: Cell(**fields) for name, fields in found.items()}

    def of(self, population: str, algorithm: Algorithm, k: int) -> Cell:
        """Return a finished cell; see ``run``."""
        return self._cells[_name(population, algorithm, k)]

    def run(self, populations: Sequence[str] = tuple(POPULATIONS)) -> None:
        """Run all missing cells of some populations, in processes."""
        wanted = [(p, algorithm, k) for p in populations for algorithm in ALGORITHMS for k in KS]
        missing = [of for of in wanted if _name(*of) not in self._cells]
        if not missing:
            return
        for of, made in zip(missing, in_processes(_run, missing), strict=True):
            self._cells[_name(*of)] = made
            self._keep()

    def _keep(self) -> None:
        if self._kept is not None:
            self._kept.write_text(json.dumps({name: asdict(made) for name, made in self._cells.items()}), "utf-8")


def _name(population: str, algorithm: Algorithm, k: int) -> str:
    return f"{population} {algorithm} {k}, {len(seeds(RUNS[population]))} seeds"


def _run(of: tuple[str, Algorithm, int]) -> Cell:
    population, algorithm, k = of
    return cell(POPULATIONS[population](), algorithm, k, len(seeds(RUNS[population])))


def error_table(measured: Measured, population: str, algorithm: Algorithm) -> Table:
    """Tabulate Figures 3 and 4: error by k and epsilon, and by equation (8)."""

    def shown(made: Cell, e: int) -> str:
        return f"{percent(np.mean(made.error[e]))} ({percent(made.expected[e])})"

    return _by_k_and_epsilon(measured, population, algorithm, "mean relative error, and by equation (8)", shown)


def linking_table(measured: Measured, population: str, algorithm: Algorithm) -> Table:
    """Tabulate Figure 5: linking risk by epsilon and k."""
    return _by_k_and_epsilon(
        measured, population, algorithm, "linked records", lambda made, e: percent(np.mean(made.linked[e]))
    )


def suppression_table(measured: Measured, population: str, algorithm: Algorithm) -> Table:
    """Tabulate Figure 6: suppression for confidence by k and epsilon, beside that by the algorithm."""
    what = "suppressed at 99 % confidence, and by the algorithm"
    return _by_k_and_epsilon(
        measured,
        population,
        algorithm,
        what,
        lambda made, e: percent(np.mean(made.withheld[e])),
        ("algorithm", lambda made: percent(made.suppressed)),
    )


def claims_table(measured: Measured) -> Table:
    """Tabulate the paper's statements on Figures 3 to 6, in one row per population and algorithm.

    Errors are below 5 % from epsilon 8 on; linking risk is below 5 % at moderate k and epsilon; for small epsilon fewer
    than 2 % are suppressed, whatever k.
    """
    table = Table(
        "The least and the largest of all k; linked records at a moderate k and epsilon, and at the largest",
        [
            "population",
            "algorithm",
            "error at epsilon 8",
            "at 16",
            "linked at k = 20, epsilon 1",
            "at 4",
            "at k = 100, epsilon 16",
            "suppressed at epsilon 1",
            "at 2",
            "at 4",
            "at 16",
        ],
    )
    for population in POPULATIONS:
        for algorithm in ALGORITHMS:
            cells = {k: measured.of(population, algorithm, k) for k in KS}

            def between(figure: str, epsilon: float, cells: dict[int, Cell] = cells) -> str:
                means = [np.mean(getattr(made, figure)[EPSILONS.index(epsilon)]) for made in cells.values()]
                return f"{min(means) * 100:.1f} to {max(means) * 100:.1f} %"

            linked = (np.mean(cells[k].linked[EPSILONS.index(e)]) for k, e in ((20, 1.0), (20, 4.0), (100, 16.0)))
            table.add(
                POPULATIONS[population]().name,
                algorithm,
                *(between("error", epsilon) for epsilon in (8.0, 16.0)),
                *map(percent, linked),
                *(between("withheld", epsilon) for epsilon in (1.0, 2.0, 4.0, 16.0)),
            )
    return table


def table_iv(measured: Measured) -> Table:
    """Tabulate Table IV: suppression by OLA itself, here and in the paper."""
    table = Table(
        "Table IV: suppressed by OLA, 5 % at most (in brackets: the paper, on its own Adult and voter lists)",
        ["population", *(f"k = {k}" for k in KS)],
    )
    for population, paper in TABLE_IV.items():
        ours = [measured.of(population, "OLA", k).suppressed for k in KS]
        table.add(
            POPULATIONS[population]().name,
            *(f"{percent(own)} ({paper_value:.2f} %)" for own, paper_value in zip(ours, paper, strict=True)),
        )
    return table


def spread_table(measured: Measured) -> Table:
    """Tabulate the largest standard deviation between seeds of any cell."""
    table = Table(
        "Largest standard deviation between seeds of any cell, in percentage points",
        ["population", "algorithm", "runs", "error at epsilon of 1 and more", "linked", "suppressed"],
    )
    first = EPSILONS.index(1.0)
    for population in RUNS:
        for algorithm in ALGORITHMS:
            cells = [measured.of(population, algorithm, k) for k in KS]
            most = (
                _widest([made.error[first:] for made in cells]),
                _widest([made.linked for made in cells]),
                _widest([made.withheld for made in cells]),
            )
            runs = len(seeds(RUNS[population]))
            table.add(POPULATIONS[population]().name, algorithm, runs, *(f"{each * 100:.3f}" for each in most))
    return table


def confidences() -> Iterator[Table]:
    """Tabulate suppression on Adult by the confidence c (Section VII-C)."""
    people, epsilons = adult(), (1.0, 2.0, 4.0, 8.0)
    table = Table(
        f"{people.name}, k = {_K}: suppressed by confidence (mean and 95 % confidence interval of "
        f"{len(seeds(_CONFIDENT_RUNS))} runs)",
        ["algorithm", "confidence", *(f"epsilon {epsilon:g}" for epsilon in epsilons)],
    )
    for algorithm in ALGORITHMS:
        chosen = choice(people, algorithm, _K)
        for c in CONFIDENCES:
            cells = []
            for epsilon in epsilons:
                privacy = Privacy(_K, noise_within_release=NoiseWithinRelease(epsilon, confidence=Confidence(c, _K)))
                found = [
                    100 * run(people, algorithm, privacy, chosen, seed).withheld for seed in seeds(_CONFIDENT_RUNS)
                ]
                cells.append(f"{mean_interval(found, '.2f')} %")
            table.add(algorithm, f"{100 * c:g} %", *cells)
    yield table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    measured = Measured(kept("kepsilon-noise.json"))
    measured.run()
    yield claims_table(measured)
    for make in (error_table, linking_table, suppression_table):
        for population in POPULATIONS:
            for algorithm in ALGORITHMS:
                yield make(measured, population, algorithm)
    yield table_iv(measured)
    yield spread_table(measured)
    yield drawing("kepsilon-error-by-k", _error_by_k, measured)
    yield drawing("kepsilon-error-by-epsilon", _error_by_epsilon, measured)
    yield drawing("kepsilon-linking", _linking, measured)
    yield drawing("kepsilon-suppression", _suppression, measured)


def _by_k_and_epsilon(
    measured: Measured,
    population: str,
    algorithm: Algorithm,
    what: str,
    shown: Callable[[Cell, int], str],
    beside: tuple[str, Callable[[Cell], str]] = ("classes", lambda made: f"{made.classes:,}"),
) -> Table:
    people, runs = POPULATIONS[population](), len(seeds(RUNS[population]))
    table = Table(
        f"{people.name}, {algorithm}: {what} ({people.noised.name}, {runs} runs)",
        ["k \\ epsilon", *(f"{epsilon:g}" for epsilon in EPSILONS), beside[0]],
    )
    for k in KS:
        made = measured.of(population, algorithm, k)
        table.add(k, *(shown(made, e) for e in range(len(EPSILONS))), beside[1](made))
    return table


def _widest(cells: list[list[list[float]]]) -> float:
    return max(float(np.std(seeds, ddof=1)) for by_epsilon in cells for seeds in by_epsilon)


def _error_by_k(measured: Measured) -> Figure:
    figure, grid = by_population()
    for (population, algorithm), panel in panels_of(grid):
        for epsilon in _SHOWN_EPSILONS:
            e = EPSILONS.index(epsilon)
            means = [_mean(measured, population, algorithm, k, lambda made, e=e: made.error[e]) for k in KS]  # type: ignore[misc]
            panel.loglog(KS, means, marker="o", markersize=3, label=f"epsilon {epsilon:g}")
        panel.axhline(5, **_AIM)
        title(panel, population, algorithm, "k", "error, %")
    return legend_below(figure, grid[0, 0])


def _error_by_epsilon(measured: Measured) -> Figure:
    figure, grid = by_population()
    for (population, algorithm), panel in panels_of(grid):
        for k, color in zip(KS, (f"C{i}" for i in range(len(KS))), strict=True):
            made = measured.of(population, algorithm, k)
            panel.loglog(
                EPSILONS, 100 * np.mean(made.error, axis=1), marker="o", markersize=3, color=color, label=f"k = {k}"
            )
            panel.loglog(EPSILONS, 100 * np.array(made.expected), color=color, linewidth=0.7, linestyle=":")
        panel.axhline(5, **_AIM)
        title(panel, population, algorithm, "epsilon (dotted: equation (8))", "error, %")
    return legend_below(figure, grid[0, 0])


def _linking(measured: Measured) -> Figure:
    figure, grid = by_population()
    for (population, algorithm), panel in panels_of(grid):
        for k in KS:
            linked = np.mean(measured.of(population, algorithm, k).linked, axis=1)
            panel.loglog(EPSILONS, 100 * linked, marker="o", markersize=3, label=f"k = {k}")
        panel.axhline(5, **_AIM)
        title(panel, population, algorithm, "epsilon", "linked records, %")
    return legend_below(figure, grid[0, 0])


def _suppression(measured: Measured) -> Figure:
    figure, grid = by_population()
    for (population, algorithm), panel in panels_of(grid):
        for epsilon in _SHOWN_EPSILONS:
            e = EPSILONS.index(epsilon)
            means = [_mean(measured, population, algorithm, k, lambda made, e=e: made.withheld[e]) for k in KS]  # type: ignore[misc]
            panel.semilogx(KS, means, marker="o", markersize=3, label=f"epsilon {epsilon:g}")
        own = [measured.of(population, algorithm, k).suppressed * 100 for k in KS]
        panel.semilogx(KS, own, color="gray", linewidth=2, label="by the algorithm")
        panel.axhline(2, **_AIM)
        panel.set_yscale("symlog", linthresh=1)
        title(panel, population, algorithm, "k", "suppressed, %")
    return legend_below(figure, grid[0, 0])


def _mean(
    measured: Measured, population: str, algorithm: Algorithm, k: int, of: Callable[[Cell], list[float]]
) -> float:
    return 100 * float(np.mean(of(measured.of(population, algorithm, k))))
