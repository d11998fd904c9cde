"""Sensitive arrays in a whole job on the mini-cluster: what is published, rejected and verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.launch import Host

pytestmark = pytest.mark.cluster("mini")

ROWS, MANY, EQUAL = 200, 100, 101
ILLNESSES = ("flu", "asthma", "gout", "angina", "eczema", "migraine")

TEXT = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 110]}
  sensitive: [visit.illnesses, codes]
  arrays: {visit.illnesses: 3, codes: 2}
  passthrough: [number]
privacy: {k: 4, l: 2, alpha: 0.8}
algorithm: nearest
nearest: {delay: {tuples: 60}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      number INT, person STRING, age INT, visit ROW<illnesses ARRAY<STRING>>, codes ARRAY<SMALLINT>
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'json')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: json}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: json}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: json}
  audit: {connector: filesystem, path: FOLDER/audit, format: json}
"""


def record(number: int) -> dict[str, Any]:
    illnesses: list[Any] | None = [ILLNESSES[number * step % 6] for step in range(1, number % 3 + 1)]
    if number in (MANY, EQUAL):
        illnesses = [str(value) if number == MANY else "flu" for value in range(1_000_000)]
    elif number % 20 == 3:
        illnesses = None
    elif number % 20 == 5:
        illnesses = ["flu", None]
    codes = [0, 1, 0] if number % 2 else [number % 5, -number % 7]
    return {
        "number": number,
        "person": f"p{number}",
        "age": 20 + number * 7 % 60,
        "visit": {"illnesses": illnesses},
        "codes": codes,
    }


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.rglob("part-*")) for line in path.read_text("utf-8").splitlines()
    ]


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_arrays_are_published_whole_and_counted_by_value(mini: Host, tmp_path: Path, shape: str) -> None:
    records = [record(number) for number in range(ROWS)]
    (tmp_path / "in.json").write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    (tmp_path / "job.yaml").write_text(TEXT.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    done = mini.crenel("run", tmp_path / "job.yaml", "--set", f"shape={shape}")
    assert done.returncode == 0, done.stderr
    rejected = lines(tmp_path / "rejected")
    assert sorted((row["column"], row["reason"]) for row in rejected) == (
        [("visit.illnesses", "missing")] * 20 + [("visit.illnesses", "too_many_values")]
    )
    classes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    released = lines(tmp_path / "released")
    for row in released:
        of = records[row["number"]]
        if shape == "nested":
            ends, illnesses = (row["age"]["min"], row["age"]["max"]), row["visit"]["illnesses"]
        else:
            ends, illnesses = (row["age_min"], row["age_max"]), row["visit.illnesses"]
        assert ends[0] <= of["age"] <= ends[1]
        assert (illnesses, row["codes"]) == (of["visit"]["illnesses"], of["codes"])
        classes.setdefault(ends, []).append(of)
    assert len(released) > ROWS / 2
    assert len(released) + len(lines(tmp_path / "suppressed")) + len(rejected) == ROWS
    for members in classes.values():
        for sets in ([set(of["visit"]["illnesses"]) for of in members], [set(of["codes"]) for of in members]):
            most = max(sum(value in values for values in sets) for value in set().union(*sets))
            assert most <= 0.8 * len(members)
    checked = mini.crenel("verify", tmp_path / "job.yaml", "--set", f"shape={shape}")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "l of visit.illnesses" in checked.stdout
    if shape == "flat":
        shown = mini.crenel("attack", tmp_path / "job.yaml", "--seeds", "1", "--json")
        assert shown.returncode == 0, shown.stderr
        found = json.loads(shown.stdout)
        assert all("disclosure of visit.illnesses" in json.dumps(found[of]) for of in ("outputs", "replays"))
    # One row with the value of another class's row leaves its own class less diverse than the audit log states.
    files = [path for path in sorted((tmp_path / "released").rglob("part-*")) if path.stat().st_size]
    content = [json.loads(line) for line in files[0].read_text("utf-8").splitlines()]
    for row in content:
        if shape == "nested":
            row["visit"]["illnesses"] = ["flu"]
        else:
            row["visit.illnesses"] = ["flu"]
    files[0].write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
    checked = mini.crenel("verify", tmp_path / "job.yaml", "--set", f"shape={shape}")
    assert checked.returncode != 0
