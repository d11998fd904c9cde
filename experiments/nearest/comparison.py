"""Loss of nearest beside that of CASTLE: by stream, by the grid of published ends, and with missing numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult import FOUR, stream
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.attributes import ABSENT, Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from experiments.castle.contenders import shuffled
from experiments.harness import (
    REUSE,
    Replay,
    Setting,
    Stream,
    Table,
    in_processes,
    mean_interval,
    pima_stream,
    replay,
    replays,
    seeds,
    taxi_stream,
)

JITTER = 0.25
"""Share of the delay by which deadlines vary, where reuse is measured with a jitter."""

_SEEDS = 5
_CONTENDERS: dict[str, dict[str, Any]] = {
    "CASTLE, reuse": {"reuse_limit": REUSE},
    "CASTLE, reuse, 10 clusters": {"reuse_limit": REUSE, "max_clusters": 10},
    "CASTLE": {},
    "nearest": {},
    "nearest, reuse": {"reuse_limit": REUSE},
    "nearest, reuse, jitter": {"reuse_limit": REUSE},
}
"""Algorithms with settings that differ from their defaults."""


def _setting(name: str, tuples: Stream, privacy: Privacy, delay: int) -> Setting:
    bound = Delay(delay, jitter=JITTER if name.endswith("jitter") else 0.0)
    algorithm = (Castle if name.startswith("CASTLE") else Nearest)(bound, **_CONTENDERS[name])
    return Setting(tuples, algorithm, privacy)


def losses() -> Iterator[Table]:
    """Tabulate the loss of both algorithms by stream."""
    adult = stream()
    streams = (
        ("10 quasi-identifiers", adult, 10, 1, 1000),
        ("10 quasi-identifiers", adult, 10, 2, 1000),
        ("10 quasi-identifiers", adult, 10, 1, 10_000),
        ("10 quasi-identifiers", adult, 100, 1, 10_000),
        ("4 quasi-identifiers", adult.of_attributes(FOUR), 50, 1, 1000),
        ("10, five rows a person", adult.of_people(5), 10, 1, 1000),
        ("taxi, 2 quasi-identifiers, 100 persons", taxi_stream(), 10, 1, 200),
        ("Pima, 8 quasi-identifiers", pima_stream(), 5, 1, 200),
    )
    table = Table(
        "Loss of CASTLE and of nearest (file order, one shard, mean and 95 % confidence interval over seeds; reuse of "
        f"{REUSE:,}, jitter of {JITTER})",
        ["stream", "k", "l", "delay", *_CONTENDERS, "suppressed by CASTLE", "suppressed by nearest"],
    )
    settings = [
        _setting(name, tuples, Privacy(k, diversity), delay)
        for _, tuples, k, diversity, delay in streams
        for name in _CONTENDERS
    ]
    found = iter(replays(settings, _SEEDS))
    for name, _, k, diversity, delay in streams:
        runs = {contender: next(found) for contender in _CONTENDERS}
        table.add(
            *(name, k, diversity, f"{delay:,}"),
            *(mean_interval([run.loss for run in each]) for each in runs.values()),
            *(f"{fmean(run.suppressed for run in runs[of]):.2%}" for of in ("CASTLE", "nearest")),
        )
    yield table


def ends() -> Iterator[Table]:
    """Tabulate the loss by the grid of the published ends of age and hours-per-week."""
    adult = stream()
    grids = ((None, None), (5.0, None), (10.0, None), (None, 5.0), (5.0, 5.0))
    rows = [(tuples, age, hours) for tuples in (adult, adult.of_attributes(FOUR)) for age, hours in grids]
    settings = [
        _setting(name, _on_grid(tuples, {"age": age, "hours-per-week": hours}), Privacy(10), 1000)
        for tuples, age, hours in rows
        for name in ("CASTLE", "nearest")
    ]
    table = Table(
        "Loss by the grid of published ends (k = 10, delay 1,000, file order, mean over seeds, default parameters)",
        ["quasi-identifiers", "ends of age", "ends of hours-per-week", "CASTLE", "nearest"],
    )
    found = iter(replays(settings, _SEEDS))
    for tuples, age, hours in rows:
        steps = ("exact" if step is None else f"{step:g}" for step in (age, hours))
        table.add(len(tuples.policy.attributes), *steps, _mean_loss(next(found)), _mean_loss(next(found)))
    yield table


def _on_grid(tuples: Stream, grid: dict[str, float | None]) -> Stream:
    chosen = tuple(replace(a, ends=grid.get(a.name)) if isinstance(a, Numeric) else a for a in tuples.policy.attributes)
    return replace(tuples, policy=replace(tuples.policy, quasi_identifiers=by_name(chosen)))


def _mean_loss(runs: list[Replay]) -> str:
    return f"{fmean(run.loss for run in runs):.4f}"


_MISSING = "age"
_TREATMENTS = {"value": "kept as a value", "reject": "rejected"}


def missing() -> Iterator[Table]:
    """Tabulate the loss where a number of some records is missing, kept as a value or rejected."""
    table = Table(
        f"Loss where {_MISSING} is missing in some records (Adult, k = 10, delay 1,000; mean and 95 % confidence "
        "interval over five random orders)",
        ["missing, %", "algorithm", "such records are", "loss", "rejected, %", "loss, rejected records as 1"],
    )
    every = seeds(_SEEDS)
    rows = [(share, name, kind) for share in (0.05, 0.2, 0.5) for name in ("CASTLE", "nearest") for kind in _TREATMENTS]
    found = in_processes(_with_missing, [(*row, seed) for row in rows for seed in every])
    for share, name, kind in rows:
        losses, rejected = np.array([next(found) for _ in every]).T
        table.add(
            *(f"{share * 100:.0f}", name, _TREATMENTS[kind], mean_interval(losses.tolist())),
            *(f"{rejected.mean() * 100:.1f}", mean_interval((losses * (1 - rejected) + rejected).tolist())),
        )
    yield table


def _with_missing(given: tuple[float, str, str, int]) -> tuple[float, float]:
    """Return the mean loss of released tuples, as a sum over the ten attributes and presence / 10, and the rejected."""
    share, name, kind, seed = given
    whole = shuffled(stream(), seed)
    lacks = np.random.default_rng(seed).random(len(whole)) < share
    tuples = whole.rows(np.flatnonzero(~lacks)) if kind == "reject" else _lacking(whole, lacks)
    setting = _setting(name, tuples, Privacy(10), 1000)
    made = replay(tuples, setting.algorithm, setting.privacy, seed)
    is_kept = kind == "value"
    losses = np.concatenate([of.published_loss if is_kept else of.loss for of in made.releases])
    sizes = np.concatenate([of.tuples for of in made.releases])
    scale = len(tuples.policy.attributes) / len(whole.policy.attributes)
    return float(np.average(losses, weights=sizes)) * scale, 1 - len(tuples) / len(whole)


def _lacking(tuples: Stream, lacks: NDArray[np.bool_]) -> Stream:
    """Return the tuples without a number where they lack it, which then has the position of encode."""
    attributes = (
        replace(of, missing="value") if isinstance(of, Numeric) and of.name == _MISSING else of
        for of in tuples.policy.attributes
    )
    policy = replace(tuples.policy, quasi_identifiers=by_name(attributes))
    ((number, column),) = policy.presence
    values = tuples.numeric.copy()
    values[lacks, number] = policy.numeric[number].middle
    presence = np.where(lacks, ABSENT, 1 - ABSENT).astype(np.int32)
    return replace(
        tuples, policy=policy, numeric=values, categorical=np.insert(tuples.categorical, column, presence, axis=1)
    )
