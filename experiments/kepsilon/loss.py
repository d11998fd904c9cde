"""Information loss with and without one more attribute to generalize (Section III-A, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import Drawing, Floats, Table, drawing, legend_below
from experiments.kepsilon.core import (
    ALGORITHMS,
    KS,
    Algorithm,
    Metric,
    by_population,
    noise,
    panels_of,
    shard,
    terms,
    title,
)
from experiments.kepsilon.populations import POPULATIONS, Population

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Loss:
    """Cost of generalization, as means over released persons.

    Attributes
    ----------
    original : loss of the k-quasis, mean over attributes
    extra : loss of the one attribute more; NaN where it is not generalized
    error : relative error of the middle of its published intervals; NaN where it is not generalized
    suppressed : share of the people
    """

    original: float
    extra: float
    error: float
    suppressed: float


@cache
def loss(population: str, algorithm: Algorithm, k: int, *, extra: bool) -> Loss:
    """Generalize a population, with the noised attribute as one more quasi-identifier (``extra``), or without it."""
    return loss_of(POPULATIONS[population](), algorithm, k, extra=extra)


def loss_of(people: Population, algorithm: Algorithm, k: int, *, extra: bool, metric: Metric = "entropy") -> Loss:
    """Do the same for any population, and with any metric of OLA."""
    of = terms(people, algorithm, Privacy(k) if extra else noise(1.0, k, confident=False), metric)
    working = shard(of, algorithm)
    working.push(people.block(of.policy))
    found = working.finish().releases
    losses, middle = {}, np.full(len(found), np.nan)
    numeric, categorical = iter(range(len(of.policy.numeric))), iter(range(len(of.policy.categorical)))
    for attribute in of.policy.attributes:
        if isinstance(attribute, Categorical):
            node = found.node[:, next(categorical)]
            losses[attribute.name] = (
                precision(attribute, node) if algorithm == "OLA" else attribute.hierarchy.loss[node]
            )
            if attribute.name == people.noised.name:
                lowest = (people.noised.domain or (0.0,))[0]
                middle = lowest + (attribute.hierarchy.first[node] + attribute.hierarchy.last[node] + 1) / 2
        else:
            a = next(numeric)
            low, high = attribute.domain or (0.0, 0.0)
            losses[attribute.name] = (found.upper[:, a] - found.lower[:, a]) / (high - low)
            if attribute.name == people.noised.name:
                middle = (found.upper[:, a] + found.lower[:, a]) / 2
    original = people.values[np.array(found.members[-1], np.int64)]
    each = np.abs(np.repeat(middle, found.tuples) - original) / original
    return Loss(
        original=float(np.mean([np.average(losses[name], weights=found.tuples) for name in people.k_quasis])),
        extra=float(np.average(losses[people.noised.name], weights=found.tuples)) if extra else np.nan,
        error=float(each.mean()),
        suppressed=1 - len(original) / len(people),
    )


def precision(attribute: Categorical, node: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Floats:
    """Return level / (levels - 1) of each node, (nodes,): categorical precision (Section III-A)."""
    level, levels = attribute.hierarchy.level, len(attribute.hierarchy.level_nodes())
    assert level is not None  # or there were no ``level_nodes``
    found: Floats = level[node] / (levels - 1)
    return found


def loss_table(population: str, algorithm: Algorithm) -> Table:
    """Tabulate Figure 1, for one population and algorithm."""
    people = POPULATIONS[population]()
    name = people.noised.name
    measure = "categorical precision" if algorithm == "OLA" else "share of the range; of categories, of the leaves"
    table = Table(
        f"{people.name}, {algorithm}: loss without and with the {name} as a quasi-identifier ({measure})",
        [
            "k",
            "k-quasis, without",
            "k-quasis, with",
            f"{name}, with",
            f"relative error of the {name}'s interval",
            "suppressed, without and with",
        ],
    )
    for k in KS:
        without, added = (loss(population, algorithm, k, extra=extra) for extra in (False, True))
        table.add(
            k,
            f"{without.original:.3f}",
            f"{added.original:.3f}",
            f"{added.extra:.3f}",
            f"{added.error * 100:.2f} %",
            f"{without.suppressed * 100:.2f} % and {added.suppressed * 100:.2f} %",
        )
    return table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    for population in POPULATIONS:
        for algorithm in ALGORITHMS:
            yield loss_table(population, algorithm)
    yield drawing("kepsilon-loss", _figure)


def _figure() -> Figure:
    figure, grid = by_population()
    for (population, algorithm), panel in panels_of(grid):
        for extra, label, style in ((False, "k-quasis, without", "--"), (True, "k-quasis, with", "-")):
            means = [loss(population, algorithm, k, extra=extra).original for k in KS]
            panel.semilogx(KS, means, marker="o", markersize=3, linestyle=style, label=label)
        extras = [loss(population, algorithm, k, extra=True).extra for k in KS]
        panel.semilogx(KS, extras, marker="s", markersize=3, label="height or weight, with")
        title(panel, population, algorithm, "k", "loss")
        panel.set_ylim(0, 1)
    return legend_below(figure, grid[0, 0])
