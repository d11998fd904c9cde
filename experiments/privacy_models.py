"""Cost of each privacy model for sensitive values: loss and suppression on Adult."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks.adult import frame, stream
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.anonymity.model.reference import Reference
from experiments.castle.contenders import shuffled
from experiments.harness import REUSE, Replay, Setting, Stream, Table, mean_interval, replays, seeds

K, TUPLES = 10, 1000
_SEEDS = 5
_MODELS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("k alone", 1, {}),
    ("`l: 3`", 3, {}),
    ("`l: 5`", 5, {}),
    ("`alpha: 0.5`", 1, {"alpha": 0.5}),
    ("`alpha: 0.3`", 1, {"alpha": 0.3}),
    ("`entropy_l: 3`", 1, {"entropy_l": 3.0}),
    ("`entropy_l: 5`", 1, {"entropy_l": 5.0}),
    ("`recursive: {c: 3, l: 3}`", 1, {"recursive": {"c": 3.0, "l": 3}}),
    ("`recursive: {c: 1, l: 3}`", 1, {"recursive": {"c": 1.0, "l": 3}}),
    ("`t: 0.5`", 1, {"t": 0.5}),
    ("`t: 0.3`", 1, {"t": 0.3}),
    ("`t: 0.2`", 1, {"t": 0.2}),
    ("`t: 0.1`", 1, {"t": 0.1}),
    ("`beta: 4`", 1, {"beta": 4.0}),
    ("`beta: 2`", 1, {"beta": 2.0}),
)
_LONG = {("occupation", "`t: 0.1`", "windows")}
"""Omitted: windows need thousands of small repairs, about 25 s for each window."""

_SKEWED: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("k alone", 1, {}),
    ("`l: 2`", 2, {}),
    ("`alpha: 0.9`", 1, {"alpha": 0.9}),
    ("`alpha: 0.8`", 1, {"alpha": 0.8}),
    ("`alpha: 0.7`", 1, {"alpha": 0.7}),
    ("`entropy_l: 1.5`", 1, {"entropy_l": 1.5}),
    ("`recursive: {c: 3, l: 2}`", 1, {"recursive": {"c": 3.0, "l": 2}}),
    ("`t: 0.2`", 1, {"t": 0.2}),
    ("`t: 0.1`", 1, {"t": 0.1}),
    ("`beta: 1`", 1, {"beta": 1.0}),
)


def with_occupation() -> Stream:
    """Return Adult with nine quasi-identifiers and a sensitive occupation, which has 14 values."""
    adult = stream()
    names = [attribute.name for attribute in adult.policy.attributes if attribute.name != "occupation"]
    chosen, values = adult.of_attributes(names), frame()["occupation"].to_numpy(object)
    return replace(
        chosen,
        policy=replace(chosen.policy, sensitive=("occupation",)),
        sensitive=pd.util.hash_array(values).reshape(-1, 1),
        members=pa.record_batch([pa.array(values, pa.string())], names=["occupation"]),
    )


def settings() -> Iterator[tuple[str, Castle | Nearest | Suhdsa]]:
    """Yield the algorithms, with the same delay."""
    yield "CASTLE", Castle(Delay(TUPLES), reuse_limit=REUSE)
    yield "nearest", Nearest(Delay(TUPLES), reuse_limit=REUSE)
    yield "windows", Suhdsa(TUPLES)


def asking(tuples: Stream, l: int, further: dict[str, Any]) -> Privacy:  # noqa: E741 - the field's own name for it
    """Return privacy settings for the sensitive column; the reference is its distribution in the whole stream."""
    privacy = Privacy(K, l, models=further)
    if not any(model.compares for model, _ in privacy.further):
        return privacy
    return replace(privacy, sensitive={tuples.policy.sensitive[0]: Sensitive(reference=reference_of(tuples))})


def reference_of(tuples: Stream) -> Reference:
    """Return the distribution of the sensitive column in the stream."""
    values = tuples.members.column(0).to_pylist()
    codes = dict(zip(values, tuples.sensitive[:, 0].tolist(), strict=True))
    counts = Counter(values)
    shares = tuple(count / len(values) for count in counts.values())
    return Reference(tuple(map(str, counts)), shares, tuple(codes[value] for value in counts))


def results(column: str) -> Iterator[Table]:
    """Tabulate occupation, whose most common value has 13 %, or income, where it has 75 %."""
    tuples, models = (with_occupation(), _MODELS) if column == "occupation" else (stream(), _SKEWED)
    names = [name for name, _ in settings()]
    table = Table(
        f"Mean loss, and in brackets the suppressed share, by privacy model (Adult, {column} sensitive, k = {K}, "
        f"delay and windows of {TUPLES:,}; mean and 95 % confidence interval over {len(seeds(_SEEDS))} "
        "random orders)",
        ["privacy model", *names],
    )
    chosen: dict[tuple[str, str], Setting] = {}
    for model, l, further in models:  # noqa: E741
        for name, algorithm in settings():
            if (column, model, name) not in _LONG:
                chosen[model, name] = Setting(tuples, algorithm, asking(tuples, l, further))
            if not further and not isinstance(algorithm, Suhdsa):  # other privacy models switch reuse off
                without = replace(algorithm, reuse_limit=0)
                chosen[f"{model}, no reuse", name] = Setting(tuples, without, Privacy(K, l))
    runs = dict(zip(chosen, replays(list(chosen.values()), _SEEDS, shuffled), strict=True))
    for model in dict.fromkeys(model for model, _ in chosen):
        table.add(model, *("-" if (each := runs.get((model, name))) is None else _cell(each) for name in names))
    yield table


def _cell(runs: list[Replay]) -> str:
    suppressed = mean_interval([100 * run.suppressed for run in runs], ".2f")
    return f"{mean_interval([run.loss for run in runs])} ({suppressed} %)"
