"""Causes of differences from the paper: the same runs with one change each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from experiments.harness import Floats, Table, percent, seeds
from experiments.kepsilon.body import weights
from experiments.kepsilon.core import (
    ALGORITHMS,
    EPSILONS,
    KS,
    Metric,
    choice,
    diameters,
    expected_error,
    noise,
    one_class,
    run,
)
from experiments.kepsilon.loss import loss_of
from experiments.kepsilon.populations import LISTS_YEAR, POPULATIONS, SEED, Population, adult, list_b

_K = 10
_SEEDS = 30
_FAR = 10_000_000.0  # steps enough for any noise here, and few enough for float64
_TO_REACH = 0.05
_SPREADS: dict[str, Callable[[Floats], Floats]] = {
    "that of the source, 0.18 to 0.31": np.positive,
    "half of it": lambda deviation: deviation / 2,
    "a quarter of it": lambda deviation: deviation / 4,
    "its square: the variance in its place": np.square,
}


def unbounded(people: Population) -> Population:
    """Return the same population with a domain that noise never leaves; the paper has no domain."""
    return replace(people, noised=replace(people.noised, domain=(-_FAR, _FAR)))


def rounded(people: Population, step: float) -> Population:
    """Return the same population with coarser steps of values and noise."""
    rows = people.rows.copy()
    rows[people.noised.name] = np.round(people.values / step) * step
    return replace(people, rows=rows, noised=replace(people.noised, step=step))


def bounds_table() -> Table:
    """Tabulate the error of noise within the domain, and of unbounded noise."""
    people = adult()
    table = Table(
        f"Adult, k = {_K}: mean relative error within the domain [100, 230], without bounds and least width, and by "
        f"equation (8) ({len(seeds(_SEEDS))} runs)",
        ["algorithm", "noise", *(f"{epsilon:g}" for epsilon in EPSILONS)],
    )
    for algorithm in ALGORITHMS:
        chosen = choice(people, algorithm, _K)
        for name, of, least in (("within the domain", people, 0.02), ("without bounds", unbounded(people), 0.0)):
            cells = []
            for epsilon in EPSILONS:
                privacy = noise(epsilon, _K, confident=False, least=least)
                errors = [run(of, algorithm, privacy, chosen, seed).errors(of).mean() for seed in seeds(_SEEDS)]
                cells.append(percent(float(np.mean(errors))))
            table.add(algorithm, name, *cells)
        table.add(
            algorithm, "equation (8)", *(percent(expected_error(people, chosen, epsilon)) for epsilon in EPSILONS)
        )
    return table


def steps_table() -> Table:
    """Tabulate the linking risk where persons share values: each of them counts as linked."""
    table = Table(
        f"Adult, k = {_K}: linked records by the step of heights and noise ({len(seeds(_SEEDS))} runs)",
        ["algorithm", "step", *(f"{epsilon:g}" for epsilon in EPSILONS)],
    )
    for algorithm in ALGORITHMS:
        chosen = choice(adult(), algorithm, _K)
        for step in (0.001, 0.1, 1.0):
            people = rounded(adult(), step)
            cells = []
            for epsilon in EPSILONS:
                privacy = noise(epsilon, _K, confident=False)
                linked = [run(people, algorithm, privacy, chosen, seed).linked for seed in seeds(_SEEDS)]
                cells.append(percent(float(np.mean(linked))))
            table.add(algorithm, f"{step:g} cm", *cells)
    return table


def reach_table() -> Table:
    """Tabulate the epsilon from which equation (8) is below 5 %, and the diameters of classes."""
    table = Table(
        "Minimum epsilon with an error of 5 % by equation (8) (in brackets: mean diameter of classes relative to the "
        "mean value)",
        ["population", "algorithm", *(f"k = {k}" for k in KS), "the whole"],
    )
    for make in POPULATIONS.values():
        people = make()
        for algorithm in ALGORITHMS:
            cells = []
            for chosen in (*(choice(people, algorithm, k) for k in KS), one_class(people)):
                size, diameter, _ = diameters(people, chosen).T
                least = expected_error(people, chosen, 1.0) / _TO_REACH
                cells.append(f"{least:.1f} ({np.average(diameter, weights=size) / people.values.mean():.2f})")
            table.add(people.name, algorithm, *cells)
    return table


def spreads_table(epsilon: float = 8.0) -> Table:
    """Tabulate the error of weights with a smaller spread than real ones."""
    people = list_b()
    age, sex = LISTS_YEAR - people.rows["born"].to_numpy(np.int64), people.rows["sex"].to_numpy(object)
    table = Table(
        f"{people.name}: error at epsilon {epsilon:g} by equation (8), by the spread that weights are drawn with",
        ["standard deviation of the logarithm", "algorithm", *(f"k = {k}" for k in KS)],
    )
    for name, spread in _SPREADS.items():
        drawn = weights(age, sex, np.random.default_rng(SEED), spread)
        narrow = replace(people, rows=people.rows.assign(weight=drawn))
        for algorithm in ALGORITHMS:
            errors = (expected_error(narrow, choice(narrow, algorithm, k), epsilon) for k in KS)
            table.add(name, algorithm, *map(percent, errors))
    return table


def means_table() -> Table:
    """Tabulate the error of publishing the mean of the class for all of its members, without noise."""
    table = Table(
        "Mean relative error where each person is published with the mean of the class",
        ["population", "algorithm", *(f"k = {k}" for k in KS), "the mean of all"],
    )
    for make in POPULATIONS.values():
        people = make()
        for algorithm in ALGORITHMS:
            cells = []
            for chosen in (*(choice(people, algorithm, k) for k in KS), one_class(people)):
                classes = [people.values[group] for group in chosen.groups]
                errors = np.concatenate([np.abs(some - some.mean()) / some for some in classes])
                cells.append(percent(float(errors.mean())))
            table.add(people.name, algorithm, *cells)
    return table


def sizes_table() -> Table:
    """Tabulate the size of classes, which determines linking risk and suppression."""
    table = Table(
        "People in the class of a person: median, and share of people whose class is below 2 k",
        ["population", "algorithm", *(f"k = {k}" for k in KS)],
    )
    for make in POPULATIONS.values():
        people = make()
        for algorithm in ALGORITHMS:
            cells = []
            for k in KS:
                size = diameters(people, choice(people, algorithm, k))[:, 0].astype(np.int64)
                of = np.repeat(size, size)
                cells.append(f"{np.median(of):,.0f} ({np.mean(of < 2 * k) * 100:.0f} %)")
            table.add(people.name, algorithm, *cells)
    return table


def metrics_table() -> Table:
    """Tabulate Figure 1 for OLA by metric, which the paper does not name."""
    table = Table(
        "OLA by metric: loss of the k-quasis without and with the height or weight, and loss of that (categorical "
        "precision)",
        ["population", "metric", *(f"k = {k}" for k in KS)],
    )
    metrics: tuple[Metric, ...] = ("entropy", "precision", "discernibility")
    for make in POPULATIONS.values():
        for metric in metrics:
            cells = []
            for k in KS:
                without, added = (loss_of(make(), "OLA", k, extra=extra, metric=metric) for extra in (False, True))
                cells.append(f"{without.original:.2f}, {added.original:.2f}, {added.extra:.2f}")
            table.add(make().name, metric, *cells)
    return table


def results() -> Iterator[Table]:
    """Yield all tables of this module."""
    yield metrics_table()
    yield bounds_table()
    yield steps_table()
    yield reach_table()
    yield spreads_table()
    yield means_table()
    yield sizes_table()
