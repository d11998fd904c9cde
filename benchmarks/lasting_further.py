"""A lasting promise by k, by stream and by horizon, with the observer of ``benchmarks.lasting``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from benchmarks.adult import Stream, stream
from benchmarks.castleguard.streams import TAXI, taxi
from benchmarks.castleguard.streams import stream as stream_of
from benchmarks.lasting import SIX, Run, observed, returning
from benchmarks.nearest import of_attributes
from benchmarks.table import Table
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.model.privacy import Lasting, Privacy

_PROMISES = {
    "each_release": None,
    "widen": Lasting(),
    "suppress": Lasting(None, "suppress"),
    "count": Lasting(None, "count"),
}
_HEADER = ["loss", "suppressed", "widened", "persons below k"]


def tables() -> Iterator[Table]:
    """By k and stream, and by horizon."""
    adult = of_attributes(stream(), SIX)
    yield _by_stream(adult)
    yield _by_horizon(adult)


def _by_stream(adult: Stream) -> Table:
    table = Table(
        "Lasting promise by k and stream (rows by chance; values move as above where nothing else is said)",
        ["stream", "k", "delay", "promise", *_HEADER],
    )
    ten = returning(adult, 2000, 10, in_rounds=False, moves=True)
    trips = _numbered(stream_of(taxi(), TAXI, "FareAmount", "pid"))
    for name, tuples, k, delay in (
        ("2,000 persons, 10 rows each", ten, 5, 1000),
        ("2,000 persons, 10 rows each", ten, 20, 1000),
        ("2,000 persons, 10 rows each", ten, 50, 1000),
        ("2,000 persons, 10 rows each", ten, 10, 1000),
        ("500 persons, 100 rows each", returning(adult, 500, 100, in_rounds=False, moves=True), 10, 1000),
        ("6,000 persons, 5 rows each", returning(adult, 6000, 5, in_rounds=False, moves=True), 10, 1000),
        (
            "2,000 persons, 10 rows each, 10 attributes",
            returning(stream(), 2000, 10, in_rounds=False, moves=True),
            10,
            1000,
        ),
        ("taxi, 2 attributes, 100 persons", trips, 10, 200),
    ):
        for promise, lasting in _PROMISES.items():
            run = observed(tuples, _terms(tuples, k, NearestParameters(delay), lasting))
            table.add(name, k, f"{delay:,}", promise, *_told(run))
    return table


def _by_horizon(adult: Stream) -> Table:
    table = Table(
        "Lasting promise by horizon (2,000 persons, 10 rows each by chance, one a second; the observer puts together "
        "all rows, also those that the horizon does not)",
        ["horizon", "groups of companions at the end", *_HEADER],
    )
    tuples = returning(adult, 2000, 10, in_rounds=False, moves=True)
    for seconds in (1000, 2000, 5000, 10_000, None):
        horizon = None if seconds is None else 1000 * seconds
        parameters = NearestParameters(1000, 1_000_000)
        run = observed(tuples, _terms(tuples, 10, parameters, Lasting(horizon)))
        table.add("none" if seconds is None else f"{seconds:,} s", run.groups, *_told(run))
    return table


def _terms(tuples: Stream, k: int, parameters: NearestParameters, promise: Lasting | None) -> ShardContext:
    return ShardContext(tuples.policy, Privacy(k, lasting=promise), parameters, tuples.members.schema)


def _told(run: Run) -> list[str]:
    return [f"{run.loss:.3f}", f"{run.suppressed:.2%}", f"{run.widened:.0%}", f"{run.below:.1%}"]


def _numbered(tuples: Stream) -> Stream:
    """The same with the row's number beside it, and persons numbered from 1 as the observer has them."""
    assert tuples.subject is not None
    _, person = np.unique(tuples.subject, return_inverse=True)
    members = pa.record_batch(
        [*tuples.members.columns, pa.array(np.arange(len(tuples)))], names=[*tuples.members.schema.names, "row"]
    )
    policy = replace(tuples.policy, passthrough=("row",), event_time="at")
    return replace(tuples, policy=policy, members=members, subject=person.astype(np.uint64) + np.uint64(1))
