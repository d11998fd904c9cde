"""Parts of the ratio of Figures 7 and 8: what of OLA's speed-up is its search, and what the program around it.

The paper reports that OLA with noise on an attribute is 14 to 32 times as fast as with the attribute generalized, and
describes neither its search nor its program. A run is a search and a release. The search evaluates nodes of the lattice
by predictive tagging, or all of them. A node puts records into classes by sorting codes (argsort), or by hashing each
record's labels in a loop of Python. The release draws exact noise (``crenel.anonymity.noise``), or floating-point
Laplace noise of the same scale.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.stored import initial_snapshot
from crenel.anonymity.algorithms.ola.lattice import Node, minimal_nodes
from crenel.anonymity.algorithms.ola.shard import OlaShard
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from experiments.harness import Floats, Table
from experiments.kepsilon.core import Chosen, key, noise, terms
from experiments.kepsilon.populations import POPULATIONS, Population

_KS = (2, 10, 100)
_RELEASES = 5
_LOOPED = 3  # nodes for the time of a node by hashing, which is the same for all nodes
SEARCHES = ("tagging", "full walk")
CLASSES = ("argsort", "hash per record")
NOISES = ("exact", "floating-point")


class Search(OlaShard):
    """OLA with the parts of its search on their own."""

    def levels(self) -> Node:
        """Return the number of levels of each attribute."""
        return tuple(len(nodes) for nodes in self._levels)

    def satisfies(self, node: Node) -> bool:
        """Return whether a node is eligible, by argsort."""
        most = floor(self.context.algorithm.max_suppression * len(self.waiting))
        return bool(self._classes(node).suppressed <= most)

    def hashed(self, node: Node) -> int:
        """Return the number of records in classes of fewer than k, by a hash of each record's labels."""
        columns = [of[level] for of, level in zip(self._levels, node, strict=True)]
        sizes: dict[tuple[int, ...], int] = {}
        for record in self.waiting.categorical.tolist():
            label = tuple(int(column[leaf]) for column, leaf in zip(columns, record, strict=True))
            sizes[label] = sizes.get(label, 0) + 1
        return sum(size for size in sizes.values() if size < self.context.privacy.k)


@dataclass(frozen=True)
class Parts:
    """Processor seconds of one run's parts.

    Attributes
    ----------
    nodes : number of nodes that each search evaluates
    node : seconds per node of each way to form classes
    release : seconds of the release without noise, or with exact noise
    noise : seconds of floating-point noise on all records; 0 where the attribute is generalized
    """

    nodes: dict[str, int]
    node: dict[str, float]
    release: float
    noise: float

    def seconds(self, search: str, classes: str) -> float:
        """Return the seconds of a search."""
        return self.nodes[search] * self.node[classes]


def _clocked(made: Any, *given: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = made(*given)
    return time.process_time() - start, found


@cache
def parts(population: str, k: int, *, noised: bool) -> Parts:
    """Measure the parts of one kind of run."""
    people = POPULATIONS[population]()
    of = terms(people, "OLA", noise(1.0, k, confident=False) if noised else Privacy(k))
    block = people.block(of.policy)
    working = Search(of, initial_snapshot(of, 0, key(0)))
    working.push(block)
    evaluated: list[Node] = []

    def satisfies(node: Node) -> bool:
        evaluated.append(node)
        return working.satisfies(node)

    tagging, _ = _clocked(minimal_nodes, working.levels(), satisfies)
    every = list(product(*map(range, working.levels())))
    chosen = np.linspace(0, len(every) - 1, _LOOPED).astype(int)
    hashing, _ = _clocked(lambda: [working.hashed(every[i]) for i in chosen])
    choice = working.choose(NO_TIME, ended=True)
    release = _release(people, of, choice)
    drawn = _clocked(_laplace, people, choice.groups)[0] if noised else 0.0
    return Parts(
        {"tagging": len(evaluated), "full walk": len(every)},
        {"argsort": tagging / len(evaluated), "hash per record": hashing / _LOOPED},
        release,
        drawn,
    )


def _release(people: Population, of: ShardContext, choice: Choice) -> float:
    """Return the median seconds of some releases of the same classes."""
    spent = []
    for _ in range(_RELEASES):
        releasing = Chosen(of, initial_snapshot(of, 0, key(0)), choice)
        releasing.push(people.block(of.policy))
        spent.append(_clocked(releasing.finish)[0])
    return float(np.median(spent))


def _laplace(people: Population, groups: Sequence[NDArray[np.int64]]) -> Floats:
    """Return noised values of all members, with the diameter of the class as the scale."""
    members, sizes = np.concatenate(groups), np.array([len(group) for group in groups])
    values, starts = people.values[members], np.cumsum(sizes) - sizes
    diameter = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    noised: Floats = values + np.random.default_rng(0).laplace(0, np.repeat(diameter, sizes))
    return noised


@cache
def plain_release(population: str, k: int) -> float:
    """Return the seconds of the noised run's release without its noise: the same classes, the attribute left out."""
    people = POPULATIONS[population]()
    noised = terms(people, "OLA", noise(1.0, k, confident=False))
    working = Search(noised, initial_snapshot(noised, 0, key(0)))
    working.push(people.block(noised.policy))
    choice = working.choose(NO_TIME, ended=True)
    of = terms(people, "OLA", Privacy(k))
    return _release(people, of, Choice(choice.groups, choice.suppressed))


def parts_table(population: str) -> Table:
    """Tabulate the seconds of each part."""
    people = POPULATIONS[population]()
    name = people.noised.name
    table = Table(
        f"{people.name}, OLA: parts of a run with the {name} generalized, and with noise on it (processor time)",
        [
            *("k", "nodes, tagging", "nodes, full walk", "ms a node, argsort", "ms a node, hash per record"),
            *("s, release", "s, release with floating-point noise"),
        ],
    )
    for k in _KS:
        both = parts(population, k, noised=False), parts(population, k, noised=True)
        table.add(
            k,
            *(" and ".join(f"{one.nodes[search]:,}" for one in both) for search in SEARCHES),
            *(" and ".join(f"{1000 * one.node[of]:.1f}" for one in both) for of in CLASSES),
            " and ".join(f"{one.release:.2f}" for one in both),
            f"- and {plain_release(population, k) + both[1].noise:.2f}",
        )
    return table


def ratio_table(population: str) -> Table:
    """Tabulate how many times as fast a run with noise is, by its parts."""
    people = POPULATIONS[population]()
    table = Table(
        f"{people.name}, OLA: times as fast with noise, by search, classes and noise (paper: 14 to 32)",
        ["search", "classes", "noise", *(f"k = {k}" for k in _KS)],
    )
    for search, classes, drawn in product(SEARCHES, CLASSES, (*NOISES, "search alone")):
        cells = []
        for k in _KS:
            slow, fast = (parts(population, k, noised=noised) for noised in (False, True))
            releases = {
                "exact": (slow.release, fast.release),
                "floating-point": (slow.release, plain_release(population, k) + fast.noise),
                "search alone": (0.0, 0.0),
            }[drawn]
            ratio = (slow.seconds(search, classes) + releases[0]) / (fast.seconds(search, classes) + releases[1])
            cells.append(f"{ratio:.1f}")
        table.add(search, classes, drawn, *cells)
    return table


def results() -> Iterator[Table]:
    """Yield all tables of this module."""
    for noised in (False, True):
        parts.__wrapped__("b", 100, noised=noised)  # compile
    plain_release.__wrapped__("b", 100)
    yield parts_table("a")
    yield ratio_table("a")
