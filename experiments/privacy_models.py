"""Cost of each privacy model for sensitive values: loss and suppression on Adult."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks.adult import frame, stream
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.algorithms.nearest.algorithm import NearestParameters
from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.builtin import ALPHA, BETA, CASTLE, ENTROPY_L, NEAREST, RECURSIVE, SUHDSA, T
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import ConfiguredModels, Sensitive
from crenel.anonymity.model.reference import Reference
from experiments.castle.contenders import shuffled
from experiments.harness import REUSE, Replay, Setting, Stream, Table, mean_interval, replays, seeds

K, TUPLES = 10, 1000
_SEEDS = 5
_MODELS: tuple[tuple[str, int, ConfiguredModels], ...] = (
    ("k alone", 1, ()),
    ("`l: 3`", 3, ()),
    ("`l: 5`", 5, ()),
    ("`alpha: 0.5`", 1, ((ALPHA, 0.5),)),
    ("`alpha: 0.3`", 1, ((ALPHA, 0.3),)),
    ("`entropy_l: 3`", 1, ((ENTROPY_L, 3.0),)),
    ("`entropy_l: 5`", 1, ((ENTROPY_L, 5.0),)),
    ("`recursive: {c: 3, l: 3}`", 1, ((RECURSIVE, (3.0, 3.0)),)),
    ("`recursive: {c: 1, l: 3}`", 1, ((RECURSIVE, (1.0, 3.0)),)),
    ("`t: 0.5`", 1, ((T, 0.5),)),
    ("`t: 0.3`", 1, ((T, 0.3),)),
    ("`t: 0.2`", 1, ((T, 0.2),)),
    ("`t: 0.1`", 1, ((T, 0.1),)),
    ("`beta: 4`", 1, ((BETA, 4.0),)),
    ("`beta: 2`", 1, ((BETA, 2.0),)),
)
_LONG = {("occupation", "`t: 0.1`", "windows")}
"""Omitted: windows need thousands of small repairs, about 25 s for each window."""

_SKEWED: tuple[tuple[str, int, ConfiguredModels], ...] = (
    ("k alone", 1, ()),
    ("`l: 2`", 2, ()),
    ("`alpha: 0.9`", 1, ((ALPHA, 0.9),)),
    ("`alpha: 0.8`", 1, ((ALPHA, 0.8),)),
    ("`alpha: 0.7`", 1, ((ALPHA, 0.7),)),
    ("`entropy_l: 1.5`", 1, ((ENTROPY_L, 1.5),)),
    ("`recursive: {c: 3, l: 2}`", 1, ((RECURSIVE, (3.0, 2.0)),)),
    ("`t: 0.2`", 1, ((T, 0.2),)),
    ("`t: 0.1`", 1, ((T, 0.1),)),
    ("`beta: 1`", 1, ((BETA, 1.0),)),
)


def with_occupation() -> Stream:
    """Return Adult with nine quasi-identifiers and a sensitive occupation, which has 14 values."""
    adult = stream()
    names = [attribute.name for attribute in adult.policy.quasi_identifiers if attribute.name != "occupation"]
    chosen, values = adult.of_attributes(names), frame()["occupation"].to_numpy(object)
    return replace(
        chosen,
        policy=replace(chosen.policy, sensitive=("occupation",)),
        sensitive=pd.util.hash_array(values).reshape(-1, 1),
        members=pa.record_batch([pa.array(values, pa.string())], names=["occupation"]),
    )


def settings() -> Iterator[tuple[str, Algorithm, Any]]:
    """Yield the algorithms, with the same delay."""
    yield "CASTLE", CASTLE, CastleParameters(TUPLES, reuse_limit=REUSE)
    yield "nearest", NEAREST, NearestParameters(TUPLES, reuse_limit=REUSE)
    yield "windows", SUHDSA, SuhdsaParameters(TUPLES)


def asking(tuples: Stream, l: int, further: ConfiguredModels) -> Privacy:  # noqa: E741 - the field's own name for it
    """Return privacy settings for the sensitive column; the reference is its distribution in the whole stream."""
    reference = reference_of(tuples) if any(model.compares for model, _ in further) else None
    column = () if reference is None else (Sensitive(tuples.policy.sensitive[0], None, (), reference),)
    return Privacy(K, l, further, sensitive=column)


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
    names = [name for name, _, _ in settings()]
    table = Table(
        f"Mean loss, and in brackets the suppressed share, by privacy model (Adult, {column} sensitive, k = {K}, "
        f"delay and windows of {TUPLES:,}; mean and 95 % confidence interval over {len(seeds(_SEEDS))} "
        "random orders)",
        ["privacy model", *names],
    )
    chosen: dict[tuple[str, str], Setting] = {}
    for model, l, further in models:  # noqa: E741
        for name, algorithm, parameters in settings():
            if (column, model, name) not in _LONG:
                privacy = asking(tuples, l, further)
                chosen[model, name] = Setting(tuples, algorithm, privacy, parameters)
            if not further and name != "windows":  # other privacy models switch reuse off
                without = replace(parameters, reuse_limit=0)
                chosen[f"{model}, no reuse", name] = Setting(tuples, algorithm, Privacy(K, l), without)
    runs = dict(zip(chosen, replays(list(chosen.values()), _SEEDS, shuffled), strict=True))
    for model in dict.fromkeys(model for model, _ in chosen):
        table.add(model, *("-" if (each := runs.get((model, name))) is None else _cell(each) for name in names))
    yield table


def _cell(runs: list[Replay]) -> str:
    suppressed = mean_interval([100 * run.suppressed for run in runs], ".2f")
    return f"{mean_interval([run.loss for run in runs])} ({suppressed} %)"
