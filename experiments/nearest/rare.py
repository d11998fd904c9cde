"""Loss and suppression of nearest with rare sensitive values, by classes of k and by larger ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from experiments.castle.contenders import shuffled
from experiments.harness import Replay, Setting, Stream, Table, mean_interval, replays
from experiments.suhdsa.tables import of_majority

_SEEDS = 5
_TUPLES = 15_000
_EVERY_CLASS = {"t": 1.0}
"""A condition that every class satisfies. It compares with a reference, so nearest keeps classes of k."""

_Case: TypeAlias = tuple[str, int, dict[str, Any], int, float, int]
"""Privacy model, its l, the model, k, share of the rarer income, and delay."""

_CASES: tuple[_Case, ...] = (
    ("`l: 2`", 2, {}, 3, 0.24, 200),
    ("`l: 2`", 2, {}, 3, 0.24, 2000),
    ("`l: 2`", 2, {}, 5, 0.24, 200),
    ("`l: 2`", 2, {}, 10, 0.24, 200),
    ("`l: 2`", 2, {}, 10, 0.05, 200),
    ("`l: 2`", 2, {}, 10, 0.05, 1000),
    ("`alpha: 0.8`", 1, {"alpha": 0.8}, 3, 0.25, 200),
    ("`alpha: 0.8`", 1, {"alpha": 0.8}, 3, 0.25, 2000),
    ("`alpha: 0.8`", 1, {"alpha": 0.8}, 5, 0.25, 200),
    ("`alpha: 0.8`", 1, {"alpha": 0.8}, 10, 0.25, 200),
    ("`alpha: 0.92`", 1, {"alpha": 0.92}, 5, 0.1, 500),
    ("`alpha: 0.96`", 1, {"alpha": 0.96}, 10, 0.05, 1000),
    ("`entropy_l: 1.5`", 1, {"entropy_l": 1.5}, 3, 0.25, 200),
    ("`entropy_l: 1.5`", 1, {"entropy_l": 1.5}, 5, 0.25, 200),
    ("`recursive: {c: 4, l: 2}`", 1, {"recursive": {"c": 4.0, "l": 2}}, 5, 0.25, 200),
)


def with_rare_income(share: float) -> Stream:
    """Return Adult with three quasi-identifiers, of which a share has the rarer income."""
    found = of_majority(0, 1 - share)
    income = found.income[:_TUPLES]
    return Stream(
        found.policy,
        np.zeros((len(income), 0)),
        found.leaves[:_TUPLES],
        pd.util.hash_array(income).reshape(-1, 1),
        pa.record_batch([pa.array(income)], names=[*found.policy.sensitive]),
    )


def settings(tuples: Stream, diversity: int, models: dict[str, Any], k: int, delay: int) -> list[Setting]:
    """Return nearest with classes of k, nearest, and CASTLE without reuse."""
    nearest = Nearest(Delay(delay))
    return [
        Setting(tuples, nearest, Privacy(k, diversity, models=models | _EVERY_CLASS)),
        Setting(tuples, nearest, Privacy(k, diversity, models=models)),
        Setting(tuples, Castle(Delay(delay)), Privacy(k, diversity, models=models)),
    ]


def results() -> Iterator[Table]:
    """Tabulate loss, suppression and mean class size by privacy model."""
    table = Table(
        "Rare sensitive values: loss, and in brackets the suppressed share (Adult, three quasi-identifiers, "
        f"{_TUPLES:,} records in five random orders; mean and 95 % confidence interval)",
        ["model", "k", "rarer income", "delay", "nearest, classes of k", "nearest", "CASTLE", "class size of nearest"],
    )
    streams = {share: with_rare_income(share) for _, _, _, _, share, _ in _CASES}
    every = [
        setting
        for _, diversity, models, k, share, delay in _CASES
        for setting in settings(streams[share], diversity, models, k, delay)
    ]
    found = iter(replays(every, _SEEDS, shuffled))
    for name, _, _, k, share, delay in _CASES:
        runs = [next(found) for _ in range(3)]
        sizes = [run.counters.released / sum(run.counters.releases.values()) for run in runs[1]]
        table.add(name, k, f"{share:.0%}", f"{delay:,}", *map(_cell, runs), mean_interval(sizes, ".1f"))
    yield table


def _cell(runs: list[Replay]) -> str:
    """Return the loss, for which a suppressed record counts as 1, and the suppressed share in percent."""
    losses = [run.loss * (1 - run.suppressed) + run.suppressed for run in runs]
    return f"{mean_interval(losses)} ({mean_interval([100 * run.suppressed for run in runs], '.1f')} %)"
