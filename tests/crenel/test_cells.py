"""Cells in a program: several shards publish what one shard would, restored or replayed too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import crenel
from crenel.anonymity.algorithms.cells.sampling import Coins
from crenel.evidence.replay import replay, replay_outputs
from crenel.results import Result
from crenel.stream import read_sample
from tests.support.ages import write_ages

HOUR = 3_600_000
ROWS = 900
BUCKET = 100
"""Rows that a test pushes at once."""


@pytest.fixture(autouse=True)
def coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toss the same coins in each shard: the keys of two shards differ."""

    def sampled(self: Coins, subject: NDArray[np.uint64], window: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (subject % np.uint64(7) + window.astype(np.uint64)) % np.uint64(3) > 0

    monkeypatch.setattr(Coins, "sampled", sampled)


def table() -> pa.Table:
    chance = np.random.default_rng(8)
    return pa.table(
        {
            "person": [f"p{number}" for number in chance.integers(0, 150, ROWS)],
            "age": [None if i == 5 else age for i, age in enumerate(chance.integers(0, 100, ROWS).tolist())],
            "illness": chance.choice(["flu", "cold", "asthma"], ROWS, p=[0.5, 0.4, 0.1]),
            "at": pa.array(np.sort(chance.integers(0, 6 * HOUR, ROWS)), pa.timestamp("ms")),
        }
    )


def settings(folder: Path, shards: int) -> crenel.Settings:
    write_ages(folder / "cells.yaml", 30, 60)
    return crenel.Settings(
        policy=crenel.Policy(
            subject="person",
            event_time="at",
            quasi_identifiers={"age": crenel.Numeric((0, 99))},
            sensitive=["illness"],
        ),
        privacy=crenel.Privacy(k=12),
        algorithm=crenel.Cells(
            sample_rate=0.5,
            partition=folder / "cells.yaml",
            epsilon=20,
            delta=0.01,
            window="1 h",
            windows=4,
        ),
        shards=crenel.Shards(shards),
        seed=3,
    )


def facts(result: Result) -> tuple[Counter[Any], dict[str, Any]]:
    names = ("tuples_in", "sampled_out", "released", "suppressed", "rejected", "read")
    rows = Counter(tuple(row.values()) for row in result.released.to_pylist())
    return rows, {name: getattr(result.summary, name) for name in names if hasattr(result.summary, name)}


@pytest.mark.parametrize("shards", [2, 5])
def test_several_shards_publish_what_one_would_restored_or_not(shards: int, tmp_path: Path) -> None:
    whole = crenel.anonymize(table(), settings(tmp_path, 1))
    assert whole.released.num_rows > 100
    assert sum(whole.summary.suppressed.values()) > 0
    made = settings(tmp_path, shards)
    assert facts(crenel.anonymize(table(), made)) == facts(whole)
    stream, parts = crenel.open_stream(made), []
    for start in range(0, ROWS, BUCKET):
        parts.append(stream.push(table().slice(start, BUCKET)))
        stream = crenel.open_stream(made, snapshot=stream.snapshot())
        assert stream.summary.sampled_out == parts[-1].summary.sampled_out > 0
    parts.append(stream.finish())
    assert facts(Result.joined(parts)) == facts(whole)


def test_a_replay_of_several_shards_publishes_what_one_would(tmp_path: Path) -> None:
    one, several = (replay(*read_sample(table(), settings(tmp_path, shards))) for shards in (1, 5))
    assert one.released > 100
    for name in ("tuples", "sampled_out", "released", "suppressed"):
        assert getattr(several, name) == getattr(one, name)
    outputs = replay_outputs(*read_sample(table(), settings(tmp_path, 5))).outputs
    assert outputs.released is not None
    assert outputs.released.num_rows == one.released


def test_a_person_is_forgotten_in_each_shard(tmp_path: Path) -> None:
    stream = crenel.open_stream(settings(tmp_path, 3), row_numbers=True)
    persons = table()["person"].to_pylist()
    stream.push(table())
    forgotten = stream.forget([persons[0], persons[1]]).summary.forgotten
    assert forgotten > 2
    rows = stream.finish().released["row"].to_pylist()
    assert {persons[row] for row in rows} & {persons[0], persons[1]} == set()
