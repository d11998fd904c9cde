"""Built hierarchies in whole jobs on the mini-cluster: typed columns in, labels out."""

from __future__ import annotations

import csv
import random
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.labels import in_interval, in_network, in_period, is_masked
from tests.support.launch import Host, rows_of
from tests.support.visits import SUPPRESSED

pytestmark = pytest.mark.flink

K, ROWS = 4, 600
COLUMNS = ("age", "speed", "zip", "birth", "seen", "address", "id")
JOB = """
policy:
  quasi_identifiers:
    age: {type: categorical, hierarchy: {numbers: {domain: [0, 90], levels: [1, 5, 20], open: true}}}
    speed: {type: categorical, hierarchy: {numbers: {domain: [0, 1], levels: [0.1, 0.5], whole: false}}}
    zip: {type: categorical, hierarchy: {mask: {length: 5, keep: [5, 3, 0]}}}
    birth: {type: categorical, hierarchy: {dates: {domain: [1930-01-01, 2020-12-31]}}}
    seen: {type: categorical, hierarchy: {dates: {domain: [2024-01-01, 2024-12-31], levels: [month, year]}}}
    address: {type: categorical, hierarchy: {ip: {networks: [10.0.0.0/16, 192.168.0.0/24]}}}
  passthrough: [id]
  reference: line
privacy: {k: 4}
castle: {delay: {tuples: 100}}
seed: 7
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      age INT, speed FLOAT, zip STRING, birth DATE, seen TIMESTAMP(3), address STRING, id BIGINT
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = 'csv', 'csv.null-literal' = '')
  query: SELECT *, id AS line FROM source
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: csv}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: csv}
"""
WRONG = {
    11: ("age", "-1", "unknown_category"),
    23: ("zip", "1234", "unknown_category"),
    37: ("birth", "1929-12-31", "unknown_category"),
    41: ("seen", "2025-01-01 00:00:00", "unknown_category"),
    53: ("address", "10.1.0.0", "unknown_category"),
    59: ("speed", "1.5", "unknown_category"),
    71: ("birth", "", "missing"),
    83: ("speed", "NaN", "missing"),
}
WITHIN = {
    "age": lambda value, label: in_interval(float(value), label),
    "speed": lambda value, label: in_interval(float(value), label),
    "zip": is_masked,
    "birth": in_period,
    "seen": lambda value, label: in_period(value[:10], label),
    "address": in_network,
}


def stream() -> list[dict[str, str]]:
    draw = random.Random(5)
    rows = []
    for number in range(ROWS):
        row = {
            "age": str(draw.choice([*range(18, 95), 130])),
            "speed": str(draw.choice(range(11)) / 10),
            "zip": f"{draw.choice(['237', '006'])}{draw.randrange(100):02d}",
            "birth": (date(1930, 1, 1) + timedelta(days=draw.randrange(33_000))).isoformat(),
            "seen": f"2024-{draw.randrange(1, 13):02d}-{draw.randrange(1, 29):02d} 23:59:59.999",
            "address": draw.choice(
                [f"10.0.{draw.randrange(4)}.{draw.randrange(256)}", f"192.168.0.{draw.randrange(9)}"]
            ),
            "id": str(number),
        }
        column, value, _ = WRONG.get(number % 100, ("id", row["id"], ""))
        rows.append(row | {column: value})
    return rows


@pytest.mark.parametrize(
    "algorithm",
    [
        [],
        ["--set", "castle=null", "--set", "algorithm=ola", "--set", "ola={}"],
    ],
)
def test_typed_columns_leave_under_labels_that_hold_them(mini: Host, tmp_path: Path, algorithm: list[str]) -> None:
    rows = stream()
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([row[name] for name in COLUMNS] for row in rows)
    (tmp_path / "job.yaml").write_text(JOB.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    ended = mini.crenel("run", tmp_path / "job.yaml", *algorithm)
    assert ended.returncode == 0, ended.stderr

    released = rows_of(tmp_path / "released", COLUMNS)
    for row in released:
        came = rows[int(row["id"])]
        assert all(within(came[name], row[name]) for name, within in WITHIN.items()), row
    sizes = Counter(tuple(row[name] for name in WITHIN) for row in released)
    assert min(sizes.values()) >= K
    # Something is told of each column, and not only that it is anything; OLA has one level for all of a column.
    has_detail = [any(row[name] != "*" for row in released) for name in WITHIN]
    assert any(has_detail) if "algorithm=ola" in algorithm else all(has_detail)

    rejected = rows_of(tmp_path / "rejected", ("column", "reason", "event_time", "reference"))
    assert sorted((int(row["reference"]), row["column"], row["reason"]) for row in rejected) == [
        (number, WRONG[number % 100][0], WRONG[number % 100][2]) for number in range(ROWS) if number % 100 in WRONG
    ]
    suppressed = rows_of(tmp_path / "suppressed", SUPPRESSED)
    assert len(released) + len(rejected) + len(suppressed) == ROWS
    assert len(released) > ROWS / 2
