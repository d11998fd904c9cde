"""Generalized sensitive columns in a whole job on the mini-cluster: what is published, rejected and verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.ages import write_ages
from tests.support.launch import Host

pytestmark = pytest.mark.flink

ROWS = 3000
PARTS = {"flu": "lungs", "asthma": "lungs", "angina": "heart", "gout": "joints"}

TEXT = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
  sensitive: [visit.illness, pay, born]
  generalized:
    visit.illness: {hierarchy: FOLDER/illness.csv, level: 1}
    pay: {hierarchy: {numbers: {domain: [0, 3000], levels: [250, 1000], whole: false, open: true}}, level: 1}
    born: {hierarchy: {dates: {domain: [2024-01-01, 2025-12-31], levels: [month, year]}}, level: 1}
  drop: [number]
privacy: {k: 10, l: 2}
algorithm: cells
cells: {sample_rate: 0.5, partition: cells.yaml, epsilon: 20, delta: 0.01}
subject_key: a key of sixteen bytes or more
audit_chain: {key: another key of sixteen bytes}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      number INT, person STRING, age INT, visit ROW<illness STRING>, pay DECIMAL(9, 2), born DATE
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'json')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: json}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: json}
  audit: {connector: filesystem, path: FOLDER/audit, format: json}
"""


def record(number: int) -> dict[str, Any]:
    illness: str | None = [*PARTS][number % 4]
    if number % 50 == 7:
        illness = [None, "lungs", "cold"][number // 50 % 3]
    pay = -0.5 if number % 50 == 8 else number * 7.5 % 5000
    day = f"{2023 if number % 50 == 9 else 2024 + number % 2}-02-01"
    return {"number": number, "person": f"p{number}", "age": number % 100, "visit": {"illness": illness}} | {
        "pay": pay,
        "born": day,
    }


def lines(folder: Path) -> list[str]:
    return [line for path in sorted(folder.rglob("part-*")) for line in path.read_text("utf-8").splitlines()]


def test_a_job_publishes_declared_labels_and_rejects_other_values(mini: Host, tmp_path: Path) -> None:
    write_ages(tmp_path / "cells.yaml", 50)
    (tmp_path / "illness.csv").write_text("".join(f"{of};{part};*\n" for of, part in PARTS.items()), encoding="utf-8")
    records = "".join(f"{json.dumps(record(number))}\n" for number in range(ROWS))
    (tmp_path / "in.json").write_text(records, encoding="utf-8")
    job = tmp_path / "job.yaml"
    job.write_text(TEXT.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    checked = mini.crenel("check", job)
    assert checked.returncode == 0, checked.stderr
    assert "visit.illness (one of 3 labels at level 1)" in " ".join(checked.stdout.split())
    assert "pay (one of 4 labels at level 1)" in " ".join(checked.stdout.split())
    done = mini.crenel("run", job)
    assert done.returncode == 0, done.stderr
    rejected = [json.loads(line) for line in lines(tmp_path / "rejected")]
    assert {(row["column"], row["reason"]) for row in rejected} == {
        ("visit.illness", "missing"),
        *((column, "unknown_category") for column in ("visit.illness", "pay", "born")),
    }
    assert len(rejected) == 3 * ROWS / 50
    released = [line.split(",") for line in lines(tmp_path / "released")]
    assert len(released) > ROWS / 4
    text = "\n".join(lines(tmp_path / "released"))
    for label in (*PARTS.values(), "[0, 1000)", "[1000, 2000)", ">= 3000", "2024", "2025"):
        assert label in text
    assert "-02" not in text
    assert not any(value in text for value in PARTS)
    verified = mini.crenel("verify", job)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    reported = mini.crenel("report", job, "--output", tmp_path / "report.html")
    assert reported.returncode == 0, reported.stderr
    assert "declared labels" in (tmp_path / "report.html").read_text("utf-8")
    explained = mini.crenel("why", job)
    assert explained.returncode == 0, explained.stderr
    attacked = mini.crenel("attack", job, "--seeds", "1", "--json")
    assert attacked.returncode == 0, attacked.stderr
    assert "disclosure of visit.illness" in attacked.stdout
    # A raw value in the place of a label.
    [*_, changed] = [path for path in sorted((tmp_path / "released").rglob("part-*")) if path.stat().st_size]
    changed.write_text(changed.read_text("utf-8").replace("lungs", "asthma", 1), encoding="utf-8")
    broken = mini.crenel("verify", job)
    assert broken.returncode != 0
    assert "holds no label of its hierarchy at level 1" in " ".join(broken.stdout.split())
