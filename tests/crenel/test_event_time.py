"""Event time of any type: one instant has one result, in every algorithm, however the records are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crenel
from crenel.results import Result
from tests.support.ages import write_ages

ROWS, LAST = 60, 100
DAY = 86_400_000
KINDS = {
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"timestamp[{unit}]": 1 for unit in ("ms", "us", "ns", "ms, tz=Europe/Berlin")},
    **{"timestamp[s]": 1000, "date32[day]": DAY, "date64[ms]": DAY},
}
"""Milliseconds between two values that a type distinguishes here, by type."""

ALGORITHMS = ("castle", "nearest", "lasting", "suhdsa", "mondrian", "ola", "cells")


def of_type(name: str) -> pa.DataType:
    simple = name.partition("[")[0]
    if simple != "timestamp":
        return pa.type_for_alias(simple)
    unit, _, zone = name.removeprefix("timestamp[").removesuffix("]").partition(", tz=")
    return pa.timestamp(unit, zone or None)


@cache
def records(kind: str, unit: int) -> pa.Table:
    """Return records with an event time in steps of some milliseconds, some of them late, and one without."""
    draw = random.Random(5)
    steps = [max(0, round(LAST * i / ROWS) - draw.choice([0, 0, 0, 1, 4])) for i in range(ROWS)]
    times = pa.array([None if i == 30 else step * unit for i, step in enumerate(steps)], pa.int64())
    if not kind.endswith(tuple("8624")):  # whole numbers
        times = times.cast(pa.timestamp("ms"))
        zone = getattr(of_type(kind), "tz", None)
        times = times if zone is None else times.cast(pa.timestamp("ms", zone))
    return pa.table(
        {
            "person": [f"p{draw.randrange(25)}" for _ in range(ROWS)],
            "age": [draw.randrange(20, 60) for _ in range(ROWS)],
            "at": times.cast(of_type(kind)),
        }
    )


@cache
def settings(algorithm: str, unit: int, shards: int) -> crenel.Settings:
    with TemporaryDirectory() as folder:
        return _settings(algorithm, unit, shards, Path(folder))


def _settings(algorithm: str, unit: int, shards: int, folder: Path) -> crenel.Settings:
    delay, window = crenel.Delay(event_time=9 * unit), crenel.Window(event_time=12 * unit)
    persons = None
    age: Any = crenel.Numeric((0, 99))
    chosen: crenel.Algorithm
    if algorithm == "castle":
        chosen = crenel.Castle(delay)
    elif algorithm in ("nearest", "lasting"):
        chosen = crenel.Nearest(delay)
        if algorithm == "lasting":
            persons = crenel.Persons(guarantee="lasting", horizon=16 * unit)
    elif algorithm == "suhdsa":
        chosen = crenel.Suhdsa(event_time=12 * unit)
    elif algorithm == "mondrian":
        chosen = crenel.Mondrian(window)
    elif algorithm == "ola":
        chosen = crenel.Ola(window, max_suppression=0.5)
        age = crenel.Categorical(crenel.Numbers((0, 99), [5, 25]))
    else:
        write_ages(folder / "cells.yaml", 40)
        chosen = crenel.Cells(
            partition=folder / "cells.yaml",
            epsilon=100,
            delta=0.5,
            sample_rate=0.6,
            window=20 * unit,
            windows=2,
            lateness=2 * unit,
        )
    return crenel.Settings(
        policy=crenel.Policy(subject="person", event_time="at", quasi_identifiers={"age": age}),
        privacy=crenel.Privacy(k=3, persons=persons),
        algorithm=chosen,
        shards=crenel.Shards(shards),
        seed=7,
    )


def outcome(result: Result) -> tuple[Any, ...]:
    """Return the rows of each release with its generalization, and the other records with their reasons."""
    rows, sizes = result.released["row"].to_pylist(), result.audit["tuples"].to_pylist()
    names = [name for name in result.audit.column_names if name != "event_time"]
    releases, start = [], 0
    for size, record in zip(sizes, result.audit.select(names).to_pylist(), strict=True):
        releases.append((sorted(rows[start : start + size]), str(record)))
        start += size
    suppressed = sorted(zip(*(result.suppressed[name].to_pylist() for name in ("row", "reason")), strict=True))
    rejected = list(zip(*(result.rejected[name].to_pylist() for name in ("row", "reason")), strict=True))
    return sorted(releases, key=str), suppressed, rejected, str(result.summary)


def cut(kind: str, unit: int, algorithm: str, shards: int, cuts: Iterable[int]) -> tuple[Any, ...]:
    made = settings(algorithm, unit, shards)
    stream = crenel.open_stream(made, lateness=2 * unit, row_numbers=True)
    table = records(kind, unit)
    parts = [stream.push(table.slice(start, end - start)) for start, end in pairwise([0, *cuts, ROWS])]
    return outcome(Result.joined([*parts, stream.finish()]))


@cache
def wanted(algorithm: str, unit: int, shards: int) -> tuple[Any, ...]:
    """Return the outcome of timestamps, record by record."""
    return cut("timestamp[ms]", unit, algorithm, shards, range(1, ROWS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_delay_ends_with_its_record_whatever_the_type_of_event_time(algorithm: str, kind: str) -> None:
    unit = KINDS[kind]
    releases, suppressed, rejected, _ = wanted(algorithm, unit, 1)
    assert len(releases) > 1
    assert suppressed
    assert rejected == [(30, "missing")]
    assert cut(kind, unit, algorithm, 1, ()) == wanted(algorithm, unit, 1)


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    kind=st.sampled_from([kind for kind, unit in KINDS.items() if unit == 1]),
    shards=st.sampled_from((1, 2)),
    cuts=st.lists(st.integers(0, ROWS), max_size=6).map(sorted),
)
def test_batches_of_any_type_of_event_time_give_the_same(
    algorithm: str, kind: str, shards: int, cuts: list[int]
) -> None:
    unit = KINDS[kind]
    assert cut(kind, unit, algorithm, shards, cuts) == wanted(algorithm, unit, shards)


FAR = {
    "uint64": pa.array([0, 1, 2**64 - 1], pa.uint64()),
    "int64": pa.array([0, 1, 2**63 - 1], pa.int64()),
    "past": pa.array([0, 1, -(2**62)], pa.timestamp("s")),
    "seconds": pa.array([0, 1, 2**62], pa.timestamp("s", "UTC")),
    "days": pa.array([0, 1, 2**31 - 1], pa.date32()),
}


@pytest.mark.parametrize("times", FAR.values(), ids=FAR)
def test_a_time_beyond_the_year_9999_is_rejected(times: pa.Array) -> None:
    table = records("int8", 1).slice(0, 3).set_column(2, "at", times)
    result = crenel.anonymize(table, settings("nearest", 1000 * DAY, 1), row_numbers=True)
    assert result.rejected["reason"].to_pylist() == ["outside_domain"]
    assert result.rejected["row"].to_pylist() == [2]


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.decimal128(20), pa.bool_()], ids=str)
def test_other_types_are_refused_with_a_remedy(kind: pa.DataType) -> None:
    table = records("int8", 1).set_column(2, "at", pa.nulls(ROWS, kind))
    with pytest.raises(crenel.ConfigError) as caught:
        crenel.anonymize(table, settings("nearest", 1, 1))
    (problem,) = caught.value.problems
    assert problem.startswith(f"policy.event_time: column 'at' has the type {kind}; it is of timestamps, days")
