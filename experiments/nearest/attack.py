"""An attacker who guesses the release of a person: whether the price of lonely members tells more than the plain rule.

The attacker knows a person's quasi-identifiers and the arrival of its tuple, all releases with their boxes and moments,
and how often tuples of the same kind were released at each age. The strongest attacker also knows the radius, as if
it knew all other tuples. A correct guess finds the release, and not the row among its k or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Table, in_processes
from experiments.nearest.prototype import Rule, prepare, process
from experiments.nearest.streams import Setting, settings

_PRICE: dict[str, Any] = {"price": 0.65, "age_weight": 1.0}
_RULES: tuple[tuple[str, dict[str, Any]], ...] = (("default", {}), ("price of 0.65", _PRICE))
_TARGETS = 2000
"""Maximum number of persons whose releases are guessed; as many others are learned from."""

_AGES, _LOSSES, _RADII = 10, 5, 5
"""Numbers of classes of age, of loss, and of radius that the attacker tells apart."""


@dataclass(frozen=True)
class Guesses:
    """Results of one run.

    Attributes
    ----------
    chance : expected share of right guesses at random among the releases that fit
    by_age, by_radius : share of right guesses with age and loss of each release; with the radius as well
    """

    chance: float
    by_age: float
    by_radius: float


@dataclass(frozen=True)
class Candidates:
    """Releases that fit each target, flattened.

    Attributes
    ----------
    target : (candidates,) index of the target
    kind : (candidates, 3) class of age, loss and radius
    right : (candidates,) whether it is the release of the target
    """

    target: NDArray[np.int64]
    kind: NDArray[np.int64]
    right: NDArray[np.bool_]


def results() -> Iterator[Table]:
    """Tabulate right guesses by rule and stream."""
    table = Table(
        "Right guesses of a person's release, by knowledge of the attacker (no reuse; a release has k persons or more)",
        ["stream", "k", "rule", "at random among those that fit", "by age and loss", "by radius as well"],
    )
    streams = settings()
    given = [
        (setting, changed, seed)
        for setting in streams
        for _, changed in _RULES
        for seed in (setting.seeds if setting.shuffled else range(1))
    ]
    found = in_processes(_guesses, given)
    for setting in streams:
        for name, _ in _RULES:
            runs = [next(found) for _ in (setting.seeds if setting.shuffled else range(1))]
            shares = ([getattr(run, figure) for run in runs] for figure in ("chance", "by_age", "by_radius"))
            table.add(setting.name, setting.k, name, *(f"{fmean(each):.1%}" for each in shares))
    yield table


def _guesses(given: tuple[Setting, dict[str, Any], int]) -> Guesses:
    setting, changed, seed = given
    tuples = setting.of(seed)
    base: dict[str, Any] = {"k": setting.k, "l": setting.l, "delay": setting.delay, "reuse_limit": 0}
    priced = prepare(tuples, Rule(**base, **_PRICE), seed)
    process(priced)  # the plain rule measures no radius
    search = priced if changed else prepare(tuples, Rule(**base, **changed), seed)
    if not changed:
        process(search)
    return guess(search, priced.radius, setting.delay, seed)


def guess(search: Any, radius: NDArray[np.float64], delay: int, seed: int) -> Guesses:
    """Guess the releases of persons, with frequencies of other persons.

    Parameters
    ----------
    search : state after the last tuple
    radius : (tuples,) that the attacker knows
    """
    released = np.flatnonzero(search.release >= 0)
    drawn = np.random.default_rng(seed).permutation(released)[: 2 * _TARGETS]
    middle = len(drawn) // 2
    learned = fitting(search, radius, delay, drawn[:middle])
    attacked = fitting(search, radius, delay, drawn[middle:])
    fits = np.bincount(attacked.target)[attacked.target]
    return Guesses(
        chance=float((attacked.right / fits).sum() / (attacked.target.max() + 1)),
        by_age=_right(learned, attacked, 2),
        by_radius=_right(learned, attacked, 3),
    )


def fitting(search: Any, radius: NDArray[np.float64], delay: int, targets: NDArray[np.int64]) -> Candidates:
    """Return all releases within the delay of each target whose boxes contain it."""
    lower, upper, first, last, moment, loss = _releases(search)
    by_moment = np.argsort(moment, kind="stable")
    moments = moment[by_moment]
    losses = np.quantile(loss, np.linspace(0, 1, _LOSSES + 1)[1:-1])
    radii = np.quantile(radius, np.linspace(0, 1, _RADII + 1)[1:-1])
    flat: tuple[list[Any], ...] = ([], [], [])
    for i, t in enumerate(targets.tolist()):
        near = by_moment[slice(*np.searchsorted(moments, (t, t + delay + 1)))]
        number, node = search.points.lower[t], search.points.node[t]
        inside = ((lower[near] <= number) & (number <= upper[near])).all(axis=1)
        near = near[inside & ((first[near] <= node) & (node <= last[near])).all(axis=1)]
        age = np.minimum((moment[near].astype(np.int64) - t) * _AGES // delay, _AGES - 1)
        own = np.full(len(near), np.searchsorted(radii, radius[t]))
        flat[0].append(np.full(len(near), i))
        flat[1].append(np.column_stack([age, np.searchsorted(losses, loss[near]), own]))
        flat[2].append(near == search.release[t])
    return Candidates(*map(np.concatenate, flat))


def _releases(search: Any) -> tuple[NDArray[Any], ...]:
    """Return bounds, moment and loss of each release; bounds of categories are leaf nodes."""
    domain, count = search.domain, search.now.releases
    numeric, categorical = search.points.lower.shape[1], search.points.node.shape[1]
    made = np.empty((2, count, numeric)), np.empty((2, count, categorical), np.int64), np.empty((2, count))
    members = np.argsort(search.release, kind="stable")
    edges = np.searchsorted(search.release[members], np.arange(count + 1))
    for r in range(count):
        own = members[edges[r] : edges[r + 1]]
        made[0][:, r] = search.points.lower[own].min(axis=0), search.points.lower[own].max(axis=0)
        width = (made[0][1, r] - made[0][0, r]) * domain.scale
        total = float(width.sum())
        for a in range(categorical):
            nodes = search.points.node[own, a]
            node = int(nodes[0])
            while domain.first[node] > nodes.min() or domain.last[node] < nodes.max():
                node = int(domain.parent[node])
            made[1][:, r, a] = domain.first[node], domain.last[node]
            total += float(domain.loss[node])
        made[2][:, r] = own[0] + search.waited[own[0]], total
    return *made[0], *made[1], *made[2]


def _right(learned: Candidates, attacked: Candidates, known: int) -> float:
    """Return the share of right guesses by the first columns of ``kind``; equal candidates share a guess."""
    shape = (_AGES, _LOSSES, _RADII)[:known]
    right, seen = np.zeros(shape), np.zeros(shape)
    np.add.at(seen, tuple(learned.kind[:, :known].T), 1)
    np.add.at(right, tuple(learned.kind[learned.right, :known].T), 1)
    rate = ((right + right.sum() / seen.sum()) / (seen + 1))[tuple(attacked.kind[:, :known].T)]
    count = int(attacked.target.max()) + 1
    best = np.zeros(count)
    np.maximum.at(best, attacked.target, rate)
    chosen = rate == best[attacked.target]
    return float((np.bincount(attacked.target, chosen & attacked.right) / np.bincount(attacked.target, chosen)).mean())
