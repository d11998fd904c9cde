"""Noise within releases in whole jobs on the mini-cluster."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.launch import Host, rows_of

pytestmark = pytest.mark.flink

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
privacy: {k: 4, noise_within_release: {epsilon: 6}}
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
