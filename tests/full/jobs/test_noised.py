"""Noise within releases in whole jobs on the mini-cluster."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.launch import Host, rows_of
from tests.support.visits import SUPPRESSED

pytestmark = pytest.mark.flink

K, ROWS = 4, 600
COLUMNS = ("age", "height", "weight", "dose", "illness", "id")
NOISED = ("height", "weight", "dose")
RELEASED = ("age_min", "age_max", "illness", *NOISED, "id")
AUDIT = (
    *("release_id", "shard", "event_time", "kind", "subjects", "tuples", "diversity_illness", "loss", "linkable"),
    *(f"noise_{what}_{name}" for name in NOISED for what in ("error", "expected")),
    *("k", "l", "epsilon_within", "sample_rate", "phi", "age_min", "age_max"),
)
JOB = """
policy:
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
  noised:
    height: {domain: [100, 220]}
    weight: {type: numeric, domain: [30, 250], step: 0.1}
    dose: {domain: [0, 0.1], step: 0.01}
  sensitive: [illness]
  passthrough: [id]
  reference: line
privacy: {k: 4}
noise_within_release: {epsilon: 3, shares: {weight: 0.2, height: 0.3, dose: 0.5}, confidence: {c: 0.9, k: 3}}
castle: {delay: {tuples: 100}}
seed: 7
source:
  ddl: |
    CREATE TEMPORARY TABLE source (age INT, height INT, weight DOUBLE, dose FLOAT, illness STRING, id BIGINT)
    WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = 'csv', 'csv.null-literal' = '')
  query: SELECT *, id AS line FROM source
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: csv}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: csv}
  audit: {connector: filesystem, path: FOLDER/audit, format: csv}
"""
WRONG = {
    11: ("height", "", "missing"),
    23: ("height", "221", "outside_domain"),
    37: ("weight", "NaN", "bad_type"),
    41: ("dose", "0.2", "outside_domain"),
}


def stream() -> list[dict[str, str]]:
    draw = random.Random(5)
    rows = []
    for number in range(ROWS):
        row = {
            "age": str(draw.randrange(18, 95)),
            "height": str(draw.randrange(150, 200)),
            "weight": str(draw.randrange(400, 1200) / 10),
            "dose": str(draw.choice(range(11)) / 100),  # 0.1 as FLOAT is more than 0.1
            "illness": draw.choice("abc"),
            "id": str(number),
        }
        column, value, _ = WRONG.get(number % 100, ("id", row["id"], ""))
        rows.append(row | {column: value})
    return rows


@pytest.mark.parametrize("algorithm", ["castle", "nearest", "suhdsa", "mondrian"])
def test_numbers_leave_with_noise_and_nothing_else_changes(mini: Host, tmp_path: Path, algorithm: str) -> None:
    rows = stream()
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([row[name] for name in COLUMNS] for row in rows)
    (tmp_path / "job.yaml").write_text(JOB.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    section = {
        "nearest": "nearest={delay: {tuples: 100}}",
        "suhdsa": "suhdsa={tuples: 100}",
        "mondrian": "mondrian={}",
    }.get(algorithm)
    changed = () if section is None else ("--set", "castle=null", "--set", f"algorithm={algorithm}", "--set", section)
    if algorithm == "nearest":  # whose groups have members to spare
        changed += ("--set", "noise_within_release.confidence.k=4", "--set", "noise_within_release.confidence.c=0.6")
    ended = mini.crenel("run", tmp_path / "job.yaml", "--json", *changed)
    assert ended.returncode == 0, ended.stderr

    released, audit = rows_of(tmp_path / "released", RELEASED), rows_of(tmp_path / "audit", AUDIT)
    for row in released:
        came = rows[int(row["id"])]
        assert int(row["age_min"]) <= int(came["age"]) <= int(row["age_max"])
        assert row["illness"] == came["illness"]
        assert 100 <= int(row["height"]) <= 220
        assert 30 <= float(row["weight"]) <= 250
        assert len(row["weight"].partition(".")[2]) == 1
        assert 0 <= float(row["dose"]) <= 0.1
        assert len(row["dose"].partition(".")[2]) <= 2
    moved = [name for row in released for name in NOISED if float(row[name]) != float(rows[int(row["id"])][name])]
    assert min(Counter(moved).values()) > len(released) / 2
    assert sum(int(row["tuples"]) for row in audit) == len(released) > ROWS / 2
    assert min(int(row["subjects"]) for row in audit) >= K
    assert {row["epsilon_within"] for row in audit} == {"3.0"}
    assert all(0 <= int(row["linkable"]) <= int(row["tuples"]) for row in audit)
    assert all(float(row[f"noise_expected_{name}"]) > 0 for row in audit for name in NOISED)

    suppressed = rows_of(tmp_path / "suppressed", SUPPRESSED)
    rejected = rows_of(tmp_path / "rejected", ("column", "reason", "event_time", "reference"))
    assert sorted((int(row["reference"]), row["column"], row["reason"]) for row in rejected) == [
        (number, WRONG[number % 100][0], WRONG[number % 100][2]) for number in range(ROWS) if number % 100 in WRONG
    ]
    assert len(released) + len(rejected) + len(suppressed) == ROWS
    assert Counter(row["reason"] for row in suppressed)["linkable"] > 0
    summary = json.loads(ended.stdout)
    assert summary["linked"] == sum(int(row["linkable"]) for row in audit)


# Type in the source and when it is published, domain and step, beside values that the domain's ends are among.
TYPED: dict[str, tuple[str, tuple[str, str], str, tuple[str, ...]]] = {
    "score": ("TINYINT", ("-128", "127"), "1", ("-128", "0", "127")),
    "height": ("SMALLINT", ("-3", "30000"), "5", ("-3", "12345", "30000")),
    "salary": ("BIGINT", ("0", "1099511627776"), "1", ("0", "549755813888", "1099511627776")),
    "speed": ("FLOAT", ("-1", "1"), "0.25", ("-1", "0.3", "1")),
    "weight": ("DOUBLE", ("-0.25", "0.95"), "0.1", ("-0.25", "0.123", "0.95")),
    "paid": ("DOUBLE", ("0", "99.99"), "0.01", ("0.00", "50.05", "99.99")),
}
OF_TYPES = """
policy:
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
  noised:
NOISED
  passthrough: [id]
privacy: {k: 4}
noise_within_release: {epsilon: 6}
castle: {delay: {tuples: 40}}
seed: 7
source:
  ddl: |
    CREATE TEMPORARY TABLE source (id BIGINT, age INT, score TINYINT, height SMALLINT, salary BIGINT, speed FLOAT,
      weight DOUBLE, paid DECIMAL(4, 2)) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = 'csv')
  query: SELECT id, age, score, height, salary, speed, weight, CAST(paid AS DOUBLE) AS paid FROM source
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
"""


def test_each_type_is_published_as_itself_on_its_grid_and_within_its_domain(mini: Host, tmp_path: Path) -> None:
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [(i, i % 50, *(values[i % 3] for _, _, _, values in TYPED.values())) for i in range(300)]
        csv.writer(file, lineterminator="\n").writerows(rows)
    noised = [
        f"    {name}: {{domain: [{', '.join(ends)}], step: {step}}}" for name, (_, ends, step, _) in TYPED.items()
    ]
    text = OF_TYPES.replace("FOLDER", str(tmp_path)).replace("NOISED", "\n".join(noised))
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")

    result = mini.crenel("check", tmp_path / "job.yaml")
    assert result.returncode == 0, result.stderr
    columns = [line.split() for line in result.stdout.partition("released: ")[2].splitlines()[1:]]
    assert [column for column in columns if column and column[0] in TYPED] == [
        [name, kind] for name, (kind, _, _, _) in TYPED.items()
    ]
    refused = mini.crenel("check", tmp_path / "job.yaml", "--set", "source.query=SELECT * FROM source")
    assert refused.returncode == 2
    assert (
        "policy.noised.paid: has the type DECIMAL(4, 2); a noised one is of whole numbers, FLOAT or" in refused.stderr
    )

    ended = mini.crenel("run", tmp_path / "job.yaml")
    assert ended.returncode == 0, ended.stderr
    released = rows_of(tmp_path / "released", ("age_min", "age_max", *TYPED, "id"))
    assert len(released) > 250
    for name, (kind, ends, step, values) in TYPED.items():
        shown = [Decimal(row[name]) for row in released]
        assert all(Decimal(ends[0]) <= value <= Decimal(ends[1]) for value in shown)
        assert all(value % Decimal(step) == 0 for value in shown)
        assert ("." in "".join(row[name] for row in released)) == (kind in ("FLOAT", "DOUBLE"))
        moved = sum(value != Decimal(values[int(row["id"]) % 3]) for value, row in zip(shown, released, strict=True))
        assert moved > len(released) / 2
