"""Sensitive arrays in a whole job on the mini-cluster: what is published, rejected and verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.launch import Host

pytestmark = pytest.mark.flink

ROWS, MANY, EQUAL, FEW = 200, 100, 101, 102
ILLNESSES = ("flu", "asthma", "gout", "angina", "eczema", "migraine")

SINKS = """\
  rejected: {connector: filesystem, path: FOLDER/rejected, format: json}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: json}
  audit: {connector: filesystem, path: FOLDER/audit, format: json}
"""

TEXT = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 110]}
  sensitive: [visit.illnesses, codes, "stays[*].diagnosis"]
  arrays: {visit.illnesses: 3, codes: 2, "stays[*].diagnosis": 2}
  passthrough: [number, "stays[*].ward", "stays[*].room.wing", "moves.past[*].moved", "moves.past[*].tests"]
  drop: ["stays[*].note", "stays[*].room.bed", moves.nurse]
privacy: {k: 4, l: 2, alpha: 0.8}
algorithm: nearest
nearest: {delay: {tuples: 60}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      number INT, person STRING, age INT, visit ROW<illnesses ARRAY<STRING>>, codes ARRAY<SMALLINT>,
      stays ARRAY<ROW<note STRING, diagnosis VARCHAR(20), ward STRING, room ROW<bed INT, wing INT NOT NULL>>>,
      moves ROW<past ARRAY<ROW<moved DATE, tests ARRAY<ROW<name STRING>>> NOT NULL> NOT NULL, nurse STRING>
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'json')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: json}
"""

TYPES = {
    "number": "INT",
    "person": "STRING",
    "age": "INT",
    "visit.illnesses": {"type": "ARRAY<STRING>", "path": "$.visit.illnesses"},
    "codes": "ARRAY<SMALLINT>",
    "stays[*].diagnosis": {"type": "ARRAY<STRING>", "path": "$.stays[*].diagnosis"},
    "stays[*].ward": {"type": "ARRAY<STRING>", "path": "$.stays[*].ward"},
    "stays[*].room.wing": {"type": "ARRAY<INT>", "path": "$.stays[*].room.wing"},
}
RECORDS = {
    "source.ddl": "CREATE TEMPORARY TABLE source (record STRING) WITH "
    "('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'raw')",
    "source.from_json": {"column": "record", "fields": TYPES},
    "policy.passthrough": ["number", "stays[*].ward", "stays[*].room.wing"],
    "policy.drop": [],
}
"""Settings of a job that reads the same records as text."""


def record(number: int) -> dict[str, Any]:
    illnesses: list[Any] | None = [ILLNESSES[number * step % 6] for step in range(1, number % 3 + 1)]
    if number in (MANY, EQUAL):
        illnesses = [str(value) if number == MANY else "flu" for value in range(50_000)]
    elif number % 20 == 3:
        illnesses = None
    elif number % 20 == 5:
        illnesses = ["flu", None]
    codes = [0, 1, 0] if number % 2 else [number % 5, -number % 7]
    stays: list[Any] | None = [stay(number, place) for place in range(number % 3)]
    if number % 20 == 7:
        stays = [None, stay(number, 1)]
    elif number % 20 == 9:
        stays = [stay(number, 0), stay(number, 1) | {"diagnosis": None}]
    elif number % 20 == 11:
        stays = None
    elif number == FEW:
        stays = [stay(place, 1) for place in range(3)]
    move = {"moved": "2024-02-29", "tests": [{"name": "x"}, {"name": None}]}
    moves: list[Any] = [[], [move], [None, {"moved": None, "tests": None}, move]]
    return {
        "number": number,
        "person": f"p{number}",
        "age": 20 + number * 7 % 60,
        "visit": {"illnesses": illnesses},
        "codes": codes,
        "stays": stays,
        "moves": None if number % 20 == 13 else {"past": moves[number % 3], "nurse": "Ann"},
    }


def stay(number: int, place: int) -> dict[str, Any]:
    room = {"bed": 7, "wing": number % 4} if place else None
    return {
        "note": "Ann",
        "diagnosis": ILLNESSES[number * (place + 1) % 6],
        "ward": None if place else "A",
        "room": room,
    }


def published(items: list[Any] | None, *names: str) -> list[Any] | None:
    """Return some fields of the rows of an array; those of a missing row are missing."""
    return None if items is None else [{name: (item or {}).get(name) for name in names} for item in items]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.rglob("part-*")) for line in path.read_text("utf-8").splitlines()
    ]


@pytest.mark.parametrize(("shape", "changes"), [("flat", {}), ("nested", {}), ("nested", RECORDS)])
def test_arrays_are_published_whole_and_counted_by_value(
    mini: Host, tmp_path: Path, shape: str, changes: dict[str, Any]
) -> None:
    records = [record(number) for number in range(ROWS)]
    given = run(mini, tmp_path, TEXT, {"shape": shape} | changes, records)
    rejected = lines(tmp_path / "rejected")
    assert sorted((row["column"], row["reason"]) for row in rejected) == (
        [("stays[*].diagnosis", "missing")] * 30
        + [("stays[*].diagnosis", "too_many_values")]
        + [("visit.illnesses", "missing")] * 20
        + [("visit.illnesses", "too_many_values")]
    )
    classes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    released = lines(tmp_path / "released")
    for row in released:
        of = records[row["number"]]
        if shape == "nested":
            ends, illnesses = (row["age"]["min"], row["age"]["max"]), row["visit"]["illnesses"]
            stays, moves = row["stays"], row.get("moves", {"past": None})["past"]
            names = ["age", "visit", "codes", "stays", "number", "moves"]
            assert list(row) == names[: 5 if changes else 6]
        else:
            ends, illnesses = (row["age_min"], row["age_max"]), row["visit.illnesses"]
            values = zip(row["stays[*].diagnosis"], row["stays[*].ward"], row["stays[*].room.wing"], strict=True)
            stays = [{"diagnosis": of, "ward": ward, "room": {"wing": wing}} for of, ward, wing in values]
            days, tests = row["moves.past[*].moved"], row["moves.past[*].tests"]
            assert (days is None) == (tests is None)
            moves = days and [{"moved": day, "tests": of} for day, of in zip(days, tests, strict=True)]
        assert ends[0] <= of["age"] <= ends[1]
        assert (illnesses, row["codes"]) == (of["visit"]["illnesses"], of["codes"])
        for item in of["stays"]:
            item["room"] = {"wing": None if item["room"] is None else item["room"]["wing"]}
        assert stays == published(of["stays"], "diagnosis", "ward", "room")
        if not changes:
            assert moves == published((of["moves"] or {"past": None})["past"], "moved", "tests")
        classes.setdefault(ends, []).append(of)
    assert len(released) > ROWS / 2
    assert len(released) + len(lines(tmp_path / "suppressed")) + len(rejected) == ROWS
    for members in classes.values():
        require_shares([set(of["visit"]["illnesses"]) for of in members])
        require_shares([set(of["codes"]) for of in members])
        require_shares([{item["diagnosis"] for item in of["stays"]} for of in members])
    checked = mini.crenel("verify", tmp_path / "job.yaml", *given)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert all(f"l of {name}" in checked.stdout for name in ("visit.illnesses", "stays[*].diagnosis"))


def run(mini: Host, folder: Path, text: str, changes: dict[str, Any], records: list[dict[str, Any]]) -> list[str]:
    """Run a job to its end on records of JSON; return the arguments of its settings."""
    (folder / "in.json").write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    (folder / "job.yaml").write_text((text + SINKS).replace("FOLDER", str(folder)), encoding="utf-8")
    given = [f"--set={name}={json.dumps(value)}".replace("FOLDER", str(folder)) for name, value in changes.items()]
    done = mini.crenel("run", folder / "job.yaml", *given)
    assert done.returncode == 0, done.stderr
    return given


def require_shares(sets: list[set[Any]]) -> None:
    """Require that no value is of more than 0.8 of the persons of a class."""
    assert max(sum(value in each for each in sets) for value in set().union(*sets)) <= 0.8 * len(sets)


TYPED = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 110]}
  sensitive: [past.days, fees, moments, instants, clocks, "stays[*].moved"]
  arrays: {past.days: 3, fees: 3, moments: 3, instants: 3, clocks: 3, "stays[*].moved": 3}
  passthrough: [number]
privacy: {k: 4, l: 2, alpha: 0.8}
algorithm: nearest
nearest: {delay: {tuples: 60}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      number INT, person STRING, age INT, past ROW<days ARRAY<DATE>>, fees ARRAY<DECIMAL(20, 9)>,
      moments ARRAY<TIMESTAMP(6)>, instants ARRAY<TIMESTAMP_LTZ(3)>, clocks ARRAY<TIME(0)>,
      stays ARRAY<ROW<moved TIMESTAMP(3)>>
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'json')
shape: nested
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: json, json.timestamp-format.standard: ISO-8601}
"""
TYPED_RECORDS = {
    "source.ddl": RECORDS["source.ddl"],
    "source.from_json": {
        "column": "record",
        "fields": {
            "number": "INT",
            "person": "STRING",
            "age": "INT",
            "past.days": {"type": "ARRAY<DATE>", "path": "$.past.days"},
            "fees": "ARRAY<DECIMAL(20, 9)>",
            "moments": "ARRAY<TIMESTAMP(6)>",
            "instants": "ARRAY<TIMESTAMP_LTZ(3)>",
            "clocks": "ARRAY<TIME>",
            "stays[*].moved": {"type": "ARRAY<TIMESTAMP(3)>", "path": "$.stays[*].moved"},
        },
    },
}


def typed(number: int) -> dict[str, list[str]]:
    """Return up to three values of each type."""
    draws = [number * step % 6 for step in range(1, number % 3 + 2)]
    return {
        "days": [f"2024-02-{24 + draw}" for draw in draws],
        "fees": [f"{draw}.{draw:03}000000" for draw in draws],
        "moments": [f"2024-02-29 08:00:{draw:02}.{draw}0000{draw}" for draw in draws],
        "instants": [f"2024-02-29 0{draw}:00:00.{draw}00" for draw in draws],
        "clocks": [f"08:0{draw}:00" for draw in draws],
        "moved": [f"2024-0{1 + draw}-01 00:00:00" for draw in draws],
    }


@pytest.mark.parametrize("changes", [{}, TYPED_RECORDS], ids=["ddl", "records"])
def test_elements_of_days_times_and_decimals_are_published_whole_and_counted_by_value(
    mini: Host, tmp_path: Path, changes: dict[str, Any]
) -> None:
    values, zone = [typed(number) for number in range(ROWS)], "" if changes else "Z"
    records: list[dict[str, Any]] = [
        {
            "number": number,
            "person": f"p{number}",
            "age": 20 + number * 7 % 60,
            "past": {"days": of["days"]},
            **{name: of[name] for name in ("fees", "moments", "clocks")},
            "instants": [f"{each}{zone}" for each in of["instants"]],
            "stays": [{"moved": each} for each in of["moved"]],
        }
        for number, of in enumerate(values)
    ]
    given = run(mini, tmp_path, TYPED, changes, records)
    released = lines(tmp_path / "released")
    assert len(released) > ROWS / 2
    assert len(released) + len(lines(tmp_path / "suppressed")) == ROWS
    classes: dict[tuple[int, int], list[dict[str, list[str]]]] = {}
    for row in released:
        of = values[row["number"]]
        classes.setdefault((row["age"]["min"], row["age"]["max"]), []).append(of)
        assert (row["past"]["days"], row["clocks"]) == (of["days"], of["clocks"])
        assert [f"{fee:.9f}" for fee in row["fees"]] == [f"{float(fee):.9f}" for fee in of["fees"]]
        moments = [of["moments"], of["instants"], of["moved"]]
        found = [row["moments"], [each.removesuffix("Z") for each in row["instants"]]]
        found.append([item["moved"] for item in row["stays"]])
        assert [[each.rstrip(".0").replace("T", " ").rstrip(":0") for each in times] for times in found] == [
            [each.rstrip(".0").rstrip(":0") for each in times] for times in moments
        ]
    for members in classes.values():
        for name in members[0]:
            require_shares([set(of[name]) for of in members])
    checked = mini.crenel("verify", tmp_path / "job.yaml", *given)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    shown = mini.crenel("attack", tmp_path / "job.yaml", "--seeds", "1", "--json", *given)
    assert shown.returncode == 0, shown.stderr
    # Sinks write times in another form than SQL: the attacker reads both as the same values.
    success = {
        attack["name"]: attack["success"]
        for attack in json.loads(shown.stdout)["outputs"]["attacks"]
        if attack["name"].startswith("disclosure of ")
    }
    assert len(success) == 6
    assert min(success.values()) == max(success.values()) > 0
