"""What each promise on sensitive values costs: loss and suppression on Adult, occupation sensitive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks.adult import REUSE, Stream, frame, stream
from benchmarks.nearest import of_attributes
from benchmarks.table import Table
from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.algorithms.builtin import CASTLE, NEAREST, WINDOW
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.algorithms.suhdsa.parameters import WindowParameters
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import Asked, Sensitive
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.privacy_models.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T

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
    ("t: 0.5", 1, ((T, 0.5),)),
    ("t: 0.3", 1, ((T, 0.3),)),
    ("t: 0.2", 1, ((T, 0.2),)),
    ("t: 0.1", 1, ((T, 0.1),)),
    ("beta: 4", 1, ((BETA, 4.0),)),
    ("beta: 2", 1, ((BETA, 2.0),)),
)
_LONG = {("occupation", "t: 0.1", "windows")}
"""Left out, as windows come to it in thousands of small repairs: about 25 s for each window."""

_SKEWED: tuple[tuple[str, int, Asked], ...] = (
    ("k alone", 1, ()),
    ("l: 2", 2, ()),
    ("alpha: 0.9", 1, ((ALPHA, 0.9),)),
    ("alpha: 0.8", 1, ((ALPHA, 0.8),)),
    ("alpha: 0.7", 1, ((ALPHA, 0.7),)),
    ("entropy_l: 1.5", 1, ((ENTROPY_L, 1.5),)),
    ("recursive: {c: 3, l: 2}", 1, ((RECURSIVE, (3.0, 2.0)),)),
    ("t: 0.2", 1, ((T, 0.2),)),
    ("t: 0.1", 1, ((T, 0.1),)),
    ("beta: 1", 1, ((BETA, 1.0),)),
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
    yield "nearest", NEAREST, NearestParameters(TUPLES, reuse_limit=REUSE)
    yield "windows", WINDOW, WindowParameters(TUPLES)


def run(tuples: Stream, algorithm: Algorithm, parameters: Any, privacy: Privacy) -> tuple[float, float]:
    """Mean loss of what was released, and the share that was suppressed."""
    terms = ShardContext(tuples.policy, privacy, parameters, tuples.members.schema)
    shard = algorithm.new(terms, 0, bytes(32))
    for block in tuples.blocks(_BLOCK):
        shard.push(block)
    shard.finish()
    counters = shard.counters
    return counters.loss_sum / max(counters.released, 1), sum(counters.suppressed.values()) / counters.tuples_in


def asking(tuples: Stream, l: int, further: Asked) -> Privacy:  # noqa: E741 - the field's own name for it
    """Promises of the sensitive column; what compares does so with the column's values in the whole stream."""
    reference = reference_of(tuples) if any(promise.compares for promise, _ in further) else None
    column = () if reference is None else (Sensitive(tuples.policy.sensitive[0], None, (), reference),)
    return Privacy(K, l, further, sensitive=column)


def reference_of(tuples: Stream) -> Reference:
    """How common each value of the sensitive column is in the stream."""
    values = tuples.members.column(0).to_pylist()
    codes = dict(zip(values, tuples.sensitive[:, 0].tolist(), strict=True))
    counts = Counter(values)
    shares = tuple(count / len(values) for count in counts.values())
    return Reference(tuple(map(str, counts)), shares, tuple(codes[value] for value in counts))


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
            for name, algorithm, parameters in settings():
                if (column, promise, name) not in _LONG:
                    cells.append(run(tuples, algorithm, parameters, asking(tuples, l, further)))
            for _, algorithm, parameters in list(settings())[:2]:
                if not further:  # with a promise beside l nothing is reused
                    cells.append(run(tuples, algorithm, replace(parameters, reuse_limit=0), Privacy(K, l)))
            told = [f"{loss:.3f} ({suppressed:.2%})" for loss, suppressed in cells]
            told += ["-"] * (len(names) - len(told))
            table.add(promise, *told, *("as before" for _ in range(5 - len(told))))
        yield table
