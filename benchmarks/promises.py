"""What each promise on sensitive values costs: loss and suppression on Adult, occupation sensitive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from anonymity.algorithm import Algorithm, Terms
from anonymity.algorithms import CASTLE, NEAREST, WINDOW
from anonymity.castle.parameters import CastleParameters
from anonymity.nearest.parameters import NearestParameters
from anonymity.policy import Privacy
from anonymity.promise.record import Asked
from anonymity.promises import ALPHA, ENTROPY_L, RECURSIVE
from anonymity.window.parameters import WindowParameters
from benchmarks.adult import REUSE, Stream, frame, stream
from benchmarks.nearest import of_attributes
from benchmarks.table import Table

K, TUPLES = 10, 1000
_BLOCK = 2000
_ASKED: tuple[tuple[str, int, Asked], ...] = (
    ("k alone", 1, ()),
    ("l: 3", 3, ()),
    ("l: 5", 5, ()),
    ("alpha: 0.5", 1, ((ALPHA, 0.5),)),
    ("alpha: 0.3", 1, ((ALPHA, 0.3),)),
    ("entropy_l: 3", 1, ((ENTROPY_L, 3.0),)),
    ("entropy_l: 5", 1, ((ENTROPY_L, 5.0),)),
    ("recursive: {c: 3, l: 3}", 1, ((RECURSIVE, (3.0, 3.0)),)),
    ("recursive: {c: 1, l: 3}", 1, ((RECURSIVE, (1.0, 3.0)),)),
)
_SKEWED: tuple[tuple[str, int, Asked], ...] = (
    ("k alone", 1, ()),
    ("l: 2", 2, ()),
    ("alpha: 0.9", 1, ((ALPHA, 0.9),)),
    ("alpha: 0.8", 1, ((ALPHA, 0.8),)),
    ("alpha: 0.7", 1, ((ALPHA, 0.7),)),
    ("entropy_l: 1.5", 1, ((ENTROPY_L, 1.5),)),
    ("recursive: {c: 3, l: 2}", 1, ((RECURSIVE, (3.0, 2.0)),)),
)


def with_occupation() -> Stream:
    """Adult with nine quasi-identifiers, and occupation, of 14 values, sensitive."""
    adult = stream()
    names = [attribute.name for attribute in adult.policy.quasi_identifiers if attribute.name != "occupation"]
    chosen, values = of_attributes(adult, names), frame()["occupation"].to_numpy(object)
    return replace(
        chosen,
        policy=replace(chosen.policy, sensitive=("occupation",)),
        sensitive=pd.util.hash_array(values).reshape(-1, 1),
        members=pa.record_batch([pa.array(values, pa.string())], names=["occupation"]),
    )


def settings() -> Iterator[tuple[str, Algorithm, Any]]:
    """The algorithms, which keep a tuple for as long."""
    yield "CASTLE", CASTLE, CastleParameters(TUPLES, reuse_limit=REUSE)
    yield "nearest", NEAREST, NearestParameters(TUPLES, delay_jitter=0.0)
    yield "windows", WINDOW, WindowParameters(TUPLES)


def run(tuples: Stream, algorithm: Algorithm, parameters: Any, privacy: Privacy) -> tuple[float, float]:
    """Mean loss of what was released, and the share that was suppressed."""
    terms = Terms(tuples.policy, privacy, parameters, tuples.members.schema)
    shard = algorithm.new(terms, 0, bytes(32))
    for block in tuples.blocks(_BLOCK):
        shard.push(block)
    shard.finish()
    counters = shard.counters
    return counters.loss_sum / max(counters.released, 1), sum(counters.suppressed.values()) / counters.tuples_in


def tables() -> Iterator[Table]:
    """One table for occupation, whose commonest value 13 % have, and one for income, where it is 75 %."""
    for column, tuples, asked in (("occupation", with_occupation(), _ASKED), ("income", stream(), _SKEWED)):
        names = [name for name, _, _ in settings()]
        table = Table(
            f"Adult, {column} sensitive, k = {K}, delay and window of {TUPLES:,} tuples: mean loss, and suppressed",
            ["promise", *names, *(f"{name}, no reuse" for name in names[:2])],
        )
        for promise, l, further in asked:  # noqa: E741
            cells = []
            for _, algorithm, parameters in settings():
                cells.append(run(tuples, algorithm, parameters, Privacy(K, l, further)))
            for _, algorithm, parameters in list(settings())[:2]:
                if not further:  # with a promise beside l nothing is reused
                    cells.append(run(tuples, algorithm, replace(parameters, reuse_limit=0), Privacy(K, l)))
            told = [f"{loss:.3f} ({suppressed:.2%})" for loss, suppressed in cells]
            table.add(promise, *told, *("as before" for _ in range(5 - len(told))))
        yield table
