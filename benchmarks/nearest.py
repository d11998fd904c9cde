"""Loss of nearest release beside CASTLE's, and speed on Adult."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from benchmarks.adult import REUSE, Stream, stream
from benchmarks.castleguard.streams import PIMA, TAXI, pima, taxi
from benchmarks.castleguard.streams import stream as stream_of
from benchmarks.core import run
from benchmarks.table import Table
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.algorithms.nearest.shard import Nearest
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.privacy import Privacy

_SEEDS = 5
JITTER = 0.25
"""Share of the delay by which deadlines come earlier, where reuse is measured with a jitter."""
FOUR = ("age", "education-num", "hours-per-week", "occupation")


def tables() -> Iterator[Table]:
    """Loss by setting, and by the grid of published ends, then microseconds a tuple by delay."""
    adult = stream()
    yield _loss(adult)
    yield of_ends(adult)
    yield _speed(adult)


def of_attributes(adult: Stream, names: Sequence[str]) -> Stream:
    """The same rows with some of the quasi-identifiers."""
    numeric = [i for i, attribute in enumerate(adult.policy.numeric) if attribute.name in names]
    categorical = [i for i, attribute in enumerate(adult.policy.categorical) if attribute.name in names]
    chosen = tuple(attribute for attribute in adult.policy.quasi_identifiers if attribute.name in names)
    return replace(
        adult,
        policy=replace(adult.policy, quasi_identifiers=chosen),
        numeric=adult.numeric[:, numeric].copy(),
        categorical=adult.categorical[:, categorical].copy(),
    )


def _loss(adult: Stream) -> Table:
    table = Table(
        f"Loss of nearest release and of CASTLE (file order, one shard, mean of {_SEEDS} seeds; CASTLE with reuse as "
        "its paper has it, with 10 clusters and not 50, and without reuse, its default; nearest with its defaults, "
        f"with reuse, and with reuse and a jitter of {JITTER})",
        [
            "stream",
            "k",
            "l",
            "delay",
            "CASTLE",
            "10 clusters",
            "no reuse",
            "suppressed",
            "nearest",
            "suppressed",
            "with reuse",
            "and jitter",
            "to reach",
        ],
    )
    four, people = of_attributes(adult, FOUR), adult.of_people(5)
    trips = stream_of(taxi(), TAXI, "FareAmount", "pid")
    women = stream_of(pima(), PIMA, "outcome")
    for name, tuples, k, l, delay, aim in (  # noqa: E741
        ("10 quasi-identifiers", adult, 10, 1, 1000, "0.195"),
        ("10 quasi-identifiers", adult, 10, 2, 1000, "-"),
        ("10 quasi-identifiers", adult, 10, 1, 10_000, "0.108"),
        ("10 quasi-identifiers", adult, 100, 1, 10_000, "0.33"),
        ("4 quasi-identifiers", four, 50, 1, 1000, "0.37"),
        ("10, five rows a person", people, 10, 1, 1000, "0.30"),
        ("taxi, 2 quasi-identifiers, 100 persons", trips, 10, 1, 200, "-"),
        ("Pima, 8 quasi-identifiers", women, 5, 1, 200, "-"),
    ):
        privacy = Privacy(k, l)
        castle, _ = _mean(tuples, privacy, CastleParameters(delay, reuse_limit=REUSE))
        few, _ = _mean(tuples, privacy, CastleParameters(delay, max_clusters=10, reuse_limit=REUSE))
        default = _mean(tuples, privacy, CastleParameters(delay))
        nearest = _mean(tuples, privacy, NearestParameters(delay))
        reused, _ = _mean(tuples, privacy, NearestParameters(delay, reuse_limit=REUSE))
        jitter, _ = _mean(tuples, privacy, NearestParameters(delay, delay_jitter=JITTER, reuse_limit=REUSE))
        table.add(
            name,
            k,
            l,
            f"{delay:,}",
            f"{castle:.3f}",
            f"{few:.3f}",
            f"{default[0]:.3f}",
            f"{default[1]:.2%}",
            f"{nearest[0]:.3f}",
            f"{nearest[1]:.2%}",
            f"{reused:.3f}",
            f"{jitter:.3f}",
            aim,
        )
    return table


def of_ends(adult: Stream) -> Table:
    """Loss by the grid of the ends of age and hours-per-week."""
    table = Table(
        f"Loss by the grid on which intervals end (k = 10, a delay of 1,000, file order, mean of {_SEEDS} seeds, each "
        "algorithm with its defaults)",
        ["quasi-identifiers", "ends of age", "ends of hours-per-week", "CASTLE", "nearest"],
    )
    for name, tuples in (("10", adult), ("4", of_attributes(adult, FOUR))):
        for age, hours in ((None, None), (5.0, None), (10.0, None), (None, 5.0), (5.0, 5.0)):
            grid = {"age": age, "hours-per-week": hours}
            chosen = tuple(
                replace(a, ends=grid.get(a.name)) if isinstance(a, Numeric) else a
                for a in tuples.policy.quasi_identifiers
            )
            rounded = replace(tuples, policy=replace(tuples.policy, quasi_identifiers=chosen))
            castle, _ = _mean(rounded, Privacy(10), CastleParameters(1000))
            nearest, _ = _mean(rounded, Privacy(10), NearestParameters(1000))
            ends = ("-" if step is None else f"{step:g}" for step in (age, hours))
            table.add(name, *ends, f"{castle:.4f}", f"{nearest:.4f}")
    return table


def _mean(tuples: Stream, privacy: Privacy, parameters: Any) -> tuple[float, float]:
    made = Nearest if isinstance(parameters, NearestParameters) else Castle
    found = [run(tuples, privacy, parameters, seed, made) for seed in range(_SEEDS)]
    return fmean(one.loss for one in found), fmean(one.suppressed for one in found)


def _speed(adult: Stream) -> Table:
    table = Table(
        "Microseconds a tuple in the core, k = 10, in turn (median of five; of three from a delay of 100,000 on)",
        ["delay", "tuples", "CASTLE", "nearest", "nearest, tuples/s"],
    )
    for delay, tuples in ((1000, adult), (10_000, adult), (100_000, adult.enlarged(300_000))):
        times = 5 if delay < 100_000 else 3
        spent: dict[str, list[float]] = {"castle": [], "nearest": []}
        run(tuples, Privacy(10), NearestParameters(1000), made=Nearest)  # compile
        for _ in range(times):
            spent["castle"].append(run(tuples, Privacy(10), CastleParameters(delay, reuse_limit=REUSE)).seconds)
            spent["nearest"].append(run(tuples, Privacy(10), NearestParameters(delay), made=Nearest).seconds)
        castle, nearest = (median(found) / len(tuples) * 1e6 for found in spent.values())
        table.add(f"{delay:,}", f"{len(tuples):,}", f"{castle:.2f}", f"{nearest:.2f}", f"{1e6 / nearest:,.0f}")
    return table
