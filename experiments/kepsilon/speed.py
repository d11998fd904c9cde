"""Run time with the noised attribute generalized, and with noise on it (Section VII-D, Figures 7 and 8)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from crenel.anonymity.algorithms.batch.stored import initial_snapshot
from crenel.anonymity.algorithms.ola.lattice import Node
from crenel.anonymity.algorithms.ola.shard import OlaShard
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from experiments.harness import Drawing, Table, drawing, legend_below
from experiments.kepsilon.core import (
    ALGORITHMS,
    KS,
    Algorithm,
    by_population,
    key,
    noise,
    panels_of,
    shard,
    terms,
    title,
)
from experiments.kepsilon.populations import POPULATIONS, Population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RUNS = 3


@dataclass(frozen=True)
class Seconds:
    """Seconds of some runs, from a block to its releases; the two kinds take turns.

    Attributes
    ----------
    generalized : (runs,) with the attribute as one more quasi-identifier
    noised : (runs,) with noise on it
    """

    generalized: tuple[float, ...]
    noised: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Return the speed with noise relative to generalization, as the median of pairs."""
        return float(np.median(np.array(self.generalized) / np.array(self.noised)))


@cache
def seconds(population: str, algorithm: Algorithm, k: int) -> Seconds:
    """Time both kinds in turn."""
    people = POPULATIONS[population]()
    spent: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(_RUNS):
        for noised in (False, True):
            spent[noised].append(_once(people, algorithm, k, noised=noised))
    return Seconds(tuple(spent[False]), tuple(spent[True]))


def _once(people: Population, algorithm: Algorithm, k: int, *, noised: bool) -> float:
    of = terms(people, algorithm, noise(1.0, k, confident=False) if noised else Privacy(k))
    block = people.block(of.policy)
    working = shard(of, algorithm)
    start = time.perf_counter()
    working.push(block)
    working.finish()
    return time.perf_counter() - start


class Counting(OlaShard):
    """OLA that counts the evaluated nodes of its lattice."""

    evaluated = 0

    def _classes(self, node: Node) -> Any:
        self.evaluated += 1
        return super()._classes(node)


@cache
def searched(population: str, k: int, *, noised: bool) -> tuple[int, float]:
    """Return the number of nodes that OLA evaluates, and the seconds of this search, without a release."""
    people = POPULATIONS[population]()
    of = terms(people, "OLA", noise(1.0, k, confident=False) if noised else Privacy(k))
    working = Counting(of, initial_snapshot(of, 0, key(0)))
    working.push(people.block(of.policy))
    start = time.perf_counter()
    working.choose(NO_TIME, ended=True)
    return working.evaluated, time.perf_counter() - start


def search_table(population: str) -> Table:
    """Tabulate the time of OLA's search, without the release and its noise."""
    people = POPULATIONS[population]()
    table = Table(
        f"{people.name}, OLA: the search alone, with the {people.noised.name} generalized and with noise on it",
        ["k", "nodes evaluated", "seconds", "times as fast"],
    )
    for k in KS:
        (many, slow), (few, fast) = (searched(population, k, noised=noised) for noised in (False, True))
        table.add(k, f"{many} and {few}", f"{slow:.3f} and {fast:.3f}", f"{slow / fast:.1f}")
    return table


def lattice(population: str, *, noised: bool) -> int:
    """Return the number of nodes of OLA's lattice."""
    policy = POPULATIONS[population]().policy(by_levels=True, noised=noised)
    return prod(len(attribute.hierarchy.level_nodes()) for attribute in policy.categorical)


def speed_table(population: str, algorithm: Algorithm) -> Table:
    """Tabulate Figure 7 or 8, for one population."""
    people = POPULATIONS[population]()
    nodes = ""
    if algorithm == "OLA":
        nodes = f"; lattices of {lattice(population, noised=False)} and {lattice(population, noised=True)} nodes"
    table = Table(
        f"{people.name}, {algorithm}: seconds with the {people.noised.name} generalized and with noise on it "
        f"(medians of {_RUNS}, in turn, on a shared machine{nodes})",
        ["k", "generalized", "noised", "times as fast"],
    )
    for k in KS:
        found = seconds(population, algorithm, k)
        table.add(k, f"{np.median(found.generalized):.3f}", f"{np.median(found.noised):.3f}", f"{found.ratio:.2f}")
    return table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    for algorithm in reversed(ALGORITHMS):
        for population in POPULATIONS:
            for noised in (False, True):
                _once(POPULATIONS[population]().first(2000), algorithm, 10, noised=noised)  # compile
            yield speed_table(population, algorithm)
    for population in POPULATIONS:
        yield search_table(population)
    yield drawing("kepsilon-speed", _figure)


def _figure() -> Figure:
    figure, grid = by_population(sharey=False)
    for (population, algorithm), panel in panels_of(grid):
        found = [seconds(population, algorithm, k) for k in KS]
        panel.semilogx(
            KS, [np.median(each.generalized) for each in found], marker="o", markersize=3, label="generalized"
        )
        panel.semilogx(KS, [np.median(each.noised) for each in found], marker="o", markersize=3, label="noised")
        panel.set_ylim(bottom=0)
        title(panel, population, algorithm, "k", "seconds")
    return legend_below(figure, grid[0, 0])
