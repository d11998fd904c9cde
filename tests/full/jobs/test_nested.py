"""Nested records in a whole job on the mini-cluster."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.launch import Host

pytestmark = pytest.mark.flink

ROWS, MANY = 200, 100
CARRIED: list[dict[str, Any]] = [
    {
        "tests": [
            {"name": 'a, "b"\n東', "value": 0.125, "taken": "0001-01-01"},
            None,
            {"name": None, "value": 0, "taken": None},
        ],
        "extra": {"a": ["2024-02-29 01:02:03.123456789", None], "": [], "n": None},
        "doses": [-128, None, 127],
        "scan": "AP+A",
        "place": {"x": 1e300, "y": None},
    },
    {},
    {"tests": [], "extra": {}, "doses": [], "scan": "", "place": {"x": None, "y": None}},
]
"""Fields of a visit that are passed through, with null rows, empty and missing values."""

TEXT = """
policy:
  subject: patient.id
  event_time: visit.ms
  quasi_identifiers:
    patient.age: {type: numeric, domain: [0, 110]}
    patient.born: {type: numeric}
    visit.entered: {type: numeric, domain: [2026-03-01, 2026-04-01], ends: 15 min}
    visit.ended: {type: numeric}
    patient.home.zip: {type: categorical, hierarchy: {mask: {keep: [2, 1], length: 2}}}
  sensitive: [visit.diagnosis]
  passthrough: [number, visit.tests, visit.extra, visit.doses, visit.scan, visit.place, many]
  drop: [patient.name, started]
privacy: {k: 3, l: 2}
algorithm: nearest
nearest: {delay: {event_time: 1 min}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      number INT,
      patient ROW<id STRING, age INT NOT NULL, home ROW<zip STRING>, name STRING, born DATE>,
      visit ROW<diagnosis STRING, ms BIGINT, entered TIMESTAMP(3), ended TIMESTAMP_LTZ(3),
        tests ARRAY<ROW<name STRING, `value` DECIMAL(3, 3) NOT NULL, taken DATE>>,
        extra MAP<STRING, ARRAY<TIMESTAMP(9)>>, doses ARRAY<TINYINT>, scan BYTES, place ROW<x DOUBLE, y FLOAT>>,
      many ARRAY<INT>,
      started AS TO_TIMESTAMP_LTZ(COALESCE(visit.ms, 0), 3),
      WATERMARK FOR started AS started - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'json')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: json}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: json}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: json}
  audit: {connector: filesystem, path: FOLDER/audit, format: json}
"""


STAMP = "%Y-%m-%d %H:%M:%S.%f"
TIMES = ("patient.born", "visit.entered", "visit.ended")


def record(number: int) -> dict[str, Any]:
    home = None if number % 20 == 5 else {"zip": ("11", "12", "21")[number % 3]}
    patient = {"id": f"p{number}", "age": 20 + number * 7 % 60, "home": home, "name": "Ann"}
    patient["born"] = str(date(1969, 12, 1) + timedelta(days=number * 13 % 60))
    entered = datetime(2026, 3, 28, 23, 0, 0, 125_000) + timedelta(seconds=number * 7907 % 86_400)
    ended = datetime(1969, 12, 31, 12, 0, 0, 250_000) + timedelta(seconds=number * 7907 % 86_400)
    times = {"entered": f"{entered:{STAMP}}", "ended": f"{ended:{STAMP}}Z"}
    visit = times | {
        "diagnosis": ("flu", "asthma", "gout")[number % 3 - number % 2],
        "ms": 1_700_000_000_000 + 1000 * number,
    }
    nested = CARRIED[number % len(CARRIED)]
    many = list(range(1_000_000)) if number == MANY else [number]
    return {
        "number": number,
        "patient": None if number % 20 == 3 else patient,
        "visit": visit | {name: nested.get(name) for name in CARRIED[0]},
        "many": many,
    }


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.rglob("part-*")) for line in path.read_text("utf-8").splitlines()
    ]


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record of ``shape: nested`` as a flat one."""
    assert list(row) == ["patient", "visit", "number", "many"]
    assert list(row["patient"]) == ["age", "born", "home"]
    found = {"number": row["number"], "many": row["many"], "patient.home.zip": row["patient"]["home"]["zip"]}
    intervals = {f"patient.{name}": row["patient"].pop(name) for name in ("age", "born")}
    intervals |= {f"visit.{name}": row["visit"].pop(name) for name in ("entered", "ended")}
    found |= {f"{name}_{end}": value for name, interval in intervals.items() for end, value in interval.items()}
    return found | {f"visit.{name}": value for name, value in row["visit"].items()}


def require_tight_times(released: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    """Require that each interval of times is that of its members; ``visit.entered`` ends on quarters of hours."""
    classes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in released:
        ends = tuple(row[f"{name}_{end}"] for name in TIMES for end in ("min", "max"))
        classes.setdefault(ends, []).append(records[row["number"]])
    quarter, full = np.timedelta64(15, "m"), np.datetime64("1970-01-01T00:00")
    for ends, members in classes.items():
        expected: list[np.datetime64] = []
        for above, name in (name.split(".") for name in TIMES):
            times = [instant(each[above][name]) for each in members]
            low, high = min(times), max(times)
            if name == "entered":
                low, high = low - (low - full) % quarter, high + (full - high) % quarter
            expected += [low, high]
        assert list(map(instant, ends)) == expected


def instant(text: str) -> np.datetime64:
    """Return a day or a time of JSON, in UTC."""
    return np.datetime64(text.removesuffix("Z"), "ms")


def test_fields_of_rows_have_roles(mini: Host, tmp_path: Path) -> None:
    records = [record(number) for number in range(ROWS)]
    (tmp_path / "in.json").write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    (tmp_path / "job.yaml").write_text(TEXT.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    done = mini.crenel("run", tmp_path / "job.yaml", "--set", "shape=nested")
    assert done.returncode == 0, done.stderr
    released = [flat(row) for row in lines(tmp_path / "released")]
    for row in released:
        of = records[row["number"]]
        assert row["patient.age_min"] <= of["patient"]["age"] <= row["patient.age_max"]
        assert row["patient.home.zip"] in (of["patient"]["home"]["zip"], of["patient"]["home"]["zip"][0] + "*", "*")
        assert row["visit.diagnosis"] == of["visit"]["diagnosis"]
        assert row["many"] == of["many"]
        for name in CARRIED[0]:
            assert row[f"visit.{name}"] == of["visit"][name]
        assert "Ann" not in row.values()
    require_tight_times(released, records)
    rejected = lines(tmp_path / "rejected")
    # A missing ROW makes all its fields missing.
    assert sorted((row["column"], row["reason"]) for row in rejected) == (
        [("patient.age", "missing")] * 10 + [("patient.home.zip", "missing")] * 10
    )
    numbers = sorted(row["number"] for row in released)
    valid = [number for number in range(ROWS) if number % 20 not in (3, 5)]
    assert len(numbers) + len(lines(tmp_path / "suppressed")) == len(valid)
    assert set(numbers) <= set(valid)
    assert len(set(numbers)) == len(numbers) > len(valid) / 2
    assert mini.crenel("verify", tmp_path / "job.yaml", "--set", "shape=nested").returncode == 0
