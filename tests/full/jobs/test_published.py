"""Columns that are published as they are, in whole jobs on the mini-cluster: however many, and of whatever type."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.support.launch import Host, rows_of

pytestmark = pytest.mark.flink

ROWS = 300
VALUES: dict[str, tuple[str, list[str]]] = {
    "text": ("STRING", ["flu", 'a "bad" back', "two\nlines", "東京", ""]),
    "short": ("VARCHAR(3)", ["abc", "é", ""]),
    "whole": ("BIGINT", ["-9223372036854775808", "0", "9007199254740993", ""]),
    "small": ("TINYINT", ["-128", "127", ""]),
    "real": ("DOUBLE", ["0.1", "-1.0E300", ""]),
    "truth": ("BOOLEAN", ["true", "false", ""]),
    "exact": ("DECIMAL(30, 20)", ["1234567890.01234567890123456789", "-0.00001", ""]),
    "day": ("DATE", ["0001-01-01", "2024-02-29", "9999-12-31", ""]),
    "seconds": ("TIMESTAMP(0)", ["0001-01-01 00:00:00", "1969-12-31 23:59:59", ""]),
    "stamp": ("TIMESTAMP(3)", ["1969-12-31 23:59:59.999", "9999-12-31 23:59:59.999", "2026-03-29 02:30:00", ""]),
    "fine": ("TIMESTAMP(9)", ["2026-03-29 02:30:00.123456789", ""]),
}
"""Type of each column, and texts that CSV writes as it reads them; the last one of most is a missing value."""

TEXT = """
policy:
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    seen: {type: numeric, domain: [2026-10-25, 2026-10-26]}
  sensitive: [SENSITIVE]
  passthrough: [PASSTHROUGH]
  drop: [DROPPED]
  missing: value
privacy: {k: 3}
castle: {delay: {tuples: 50}, suppression: generalize}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (age INT, seen TIMESTAMP(3), COLUMNS, number INT)
    WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = 'csv', 'csv.null-literal' = '')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv, csv.null-literal: ''}
"""


@pytest.mark.parametrize(
    ("sensitive", "passthrough", "zone"),
    [
        (["stamp", "text"], [*(name for name in VALUES if name not in ("stamp", "text")), "number"], "Europe/Berlin"),
        ([], [*VALUES, "number"], "America/New_York"),
    ],
    ids=["sensitive", "all"],
)
def test_what_is_published_comes_out_as_it_came(
    mini: Host, tmp_path: Path, sensitive: list[str], passthrough: list[str], zone: str
) -> None:
    rows = [
        [
            str(20 + number % 60),
            _seen(number),
            *(texts[number % len(texts)] for _, texts in VALUES.values()),
            str(number),
        ]
        for number in range(ROWS)
    ]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    text = TEXT.replace("FOLDER", str(tmp_path))
    published = [*sensitive, *passthrough]
    text = text.replace("SENSITIVE", ", ".join(sensitive)).replace("PASSTHROUGH", ", ".join(passthrough))
    text = text.replace("DROPPED", ", ".join(name for name in [*VALUES, "number"] if name not in published))
    text = text.replace("COLUMNS", ", ".join(f"`{name}` {kind}" for name, (kind, _) in VALUES.items()))
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    ended = mini.crenel("run", tmp_path / "job.yaml", "--set", f"flink={{table.local-time-zone: {zone}}}")
    assert ended.returncode == 0, ended.stderr

    columns = ["age", "seen", *VALUES, "number"]
    released = rows_of(tmp_path / "released", ("age_min", "age_max", "seen_min", "seen_max", *published))
    ends = {row[f"seen_{end}"] for row in released for end in ("min", "max")}
    assert ends <= {_seen(number) for number in range(ROWS)} | {"2026-10-25 00:00:00", "2026-10-26 00:00:00"}
    assert sorted(int(row["number"]) for row in released) == list(range(ROWS))
    for row in released:
        came = dict(zip(columns, rows[int(row["number"])], strict=True))
        assert int(row["age_min"]) <= int(came["age"]) <= int(row["age_max"])
        assert row["seen_min"] <= came["seen"] <= row["seen_max"]
        assert {name: row[name] for name in published} == {name: came[name] for name in published}


def _seen(number: int) -> str:
    """Return the time of a row, in a night whose hours repeat in Europe, as CSV writes it."""
    return f"2026-10-25 0{number % 5}:{number % 60:02}:07.5"
