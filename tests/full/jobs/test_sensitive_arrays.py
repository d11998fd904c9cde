"""Sensitive arrays in a whole job on the mini-cluster: what is published, rejected and verified."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.support.launch import Host
from tests.support.memory_registry import serving
from tests.support.protobuf import descriptor_set, field, message_class

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

MESSAGES = RECORDS | {
    "source.ddl": "CREATE TEMPORARY TABLE source (line STRING, record AS UNHEX(line)) WITH "
    "('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'raw')",
    "source.from_protobuf": {
        "column": "record",
        "descriptor_file": "FOLDER/visits.desc",
        "message": "Record",
        "registry": "REGISTRY",
        "fields": {name: of if isinstance(of, str) else of["type"] for name, of in TYPES.items()}
        | {"codes": "ARRAY<INT>"},
    },
    "policy.drop": ["line"],
}
"""Settings of a job that reads the same records as framed messages of Protobuf."""

del MESSAGES["source.from_json"]
FIELDS = {
    "Room": [field("bed", 1, "int32"), field("wing", 2, "int32")],
    "Stay": [
        field("note", 1, "string"),
        field("diagnosis", 2, "string", proto3_optional=True, oneof_index=0),
        field("ward", 3, "string", proto3_optional=True, oneof_index=1),
        field("room", 4, ".Room"),
    ],
    "Visit": [field("illnesses", 1, ".Illness", many=True, type="TYPE_ENUM")],
    "Record": [
        field("number", 1, "int32"),
        field("person", 2, "string"),
        field("age", 3, "int32"),
        field("visit", 4, ".Visit"),
        field("codes", 5, "sint32", many=True),
        field("stays", 6, ".Stay", many=True),
    ],
}
SCHEMA = """
syntax = "proto3";
message Other {}
message Record {
  int32 number = 1;  // the other fields are of no interest to the reader of the schema
  repeated Stay stays = 6;
  string phone = 7;
}
"""
SCHEMA_NUMBER = 258


def messages() -> bytes:
    """Return the descriptor set of the records."""
    made = [{"name": name, "field": fields} for name, fields in FIELDS.items()]
    made[1]["oneof_decl"] = [{"name": "_diagnosis"}, {"name": "_ward"}]  # type: ignore[list-item]
    values = [{"name": name, "number": number} for number, name in enumerate(ILLNESSES)]
    illness = {"name": "Illness", "value": values}
    return descriptor_set({"name": "r.proto", "syntax": "proto3", "message_type": made, "enum_type": [illness]})


def message(of: dict[str, Any], kind: Any) -> bytes:
    """Return a record as a framed message; an unknown value of an enum and an empty item have nothing to read."""
    illnesses = of["visit"]["illnesses"]
    if of["number"] == MANY:
        illnesses = ILLNESSES * 10_000
    numbers = {name: number for number, name in enumerate(ILLNESSES)}
    visit = None if illnesses is None else {"illnesses": [numbers.get(name, 99) for name in illnesses]}
    stays = [each or {} for each in ([None] if of["stays"] is None else of["stays"])]
    given = {name: of[name] for name in ("number", "person", "age", "codes")}
    content = kind(**given, visit=visit, stays=stays).SerializeToString()
    return b"\0" + SCHEMA_NUMBER.to_bytes(4, "big") + b"\2\2" + content


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


@pytest.mark.parametrize(
    ("shape", "changes"), [("flat", {}), ("nested", {}), ("nested", RECORDS), ("nested", MESSAGES)]
)
def test_arrays_are_published_whole_and_counted_by_value(
    mini: Host, tmp_path: Path, shape: str, changes: dict[str, Any]
) -> None:
    changes = {"shape": shape} | changes
    records = [record(number) for number in range(ROWS)]
    content = [json.dumps(each) for each in records]
    if "source.from_protobuf" in changes:
        (tmp_path / "visits.desc").write_bytes(messages())
        kind = message_class(messages(), "Record")
        content = [message(each, kind).hex() for each in records]
        # Neither is readable: the number of no schema, and the indexes of another message.
        content += [f"{content[0][:8]}07{content[0][10:]}", f"{content[0][:10]}00{content[0][14:]}"]
    (tmp_path / "in.json").write_text("".join(f"{each}\n" for each in content), encoding="utf-8")
    (tmp_path / "job.yaml").write_text((TEXT + SINKS).replace("FOLDER", str(tmp_path)), encoding="utf-8")
    with serving({SCHEMA_NUMBER: SCHEMA}) as address:
        settings = {name: json.dumps(value).replace("FOLDER", str(tmp_path)) for name, value in changes.items()}
        given = [f"--set={name}={text.replace('REGISTRY', address)}" for name, text in settings.items()]
        done = mini.crenel("run", tmp_path / "job.yaml", *given)
    assert done.returncode == 0, done.stderr
    rejected = lines(tmp_path / "rejected")
    assert sorted((row["column"], row["reason"]) for row in rejected) == (
        [("age", "missing")] * (len(content) - ROWS)
        + [("stays[*].diagnosis", "missing")] * 30
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
            assert list(row) == names[: 5 if changes.keys() & RECORDS else 6]
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
        if not changes.keys() & RECORDS.keys():
            assert moves == published((of["moves"] or {"past": None})["past"], "moved", "tests")
        classes.setdefault(ends, []).append(of)
    assert len(released) > ROWS / 2
    assert len(released) + len(lines(tmp_path / "suppressed")) + len(rejected) == len(content)
    for members in classes.values():
        for sets in (
            [set(of["visit"]["illnesses"]) for of in members],
            [set(of["codes"]) for of in members],
            [{item["diagnosis"] for item in of["stays"]} for of in members],
        ):
            most = max(sum(value in values for values in sets) for value in set().union(*sets))
            assert most <= 0.8 * len(members)
    checked = mini.crenel("verify", tmp_path / "job.yaml", *given)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert all(f"l of {name}" in checked.stdout for name in ("visit.illnesses", "stays[*].diagnosis"))
    if shape == "flat":
        shown = mini.crenel("attack", tmp_path / "job.yaml", "--seeds", "1", "--json")
        assert shown.returncode == 0, shown.stderr
        found = json.loads(shown.stdout)
        for name in ("visit.illnesses", "stays[*].diagnosis"):
            assert all(f"disclosure of {name}" in json.dumps(found[of]) for of in ("outputs", "replays"))
    # One row with the value of another class's row leaves its own class less diverse than the audit log states.
    files = [path for path in sorted((tmp_path / "released").rglob("part-*")) if path.stat().st_size]
    content = [json.loads(line) for line in files[0].read_text("utf-8").splitlines()]
    for row in content:
        if shape == "nested":
            row["stays"] = [{"diagnosis": "flu", "ward": None, "room": {"wing": None}}]
        else:
            row["stays[*].diagnosis"] = ["flu"]
    files[0].write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
    checked = mini.crenel("verify", tmp_path / "job.yaml", *given)
    assert checked.returncode != 0
    assert "l of stays[*].diagnosis" in checked.stdout


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
LINES = {
    "source.ddl": """CREATE TEMPORARY TABLE source (
      number INT, person STRING, age INT, days ARRAY<DATE>, fees ARRAY<DECIMAL(20, 9)>, moments ARRAY<TIMESTAMP(6)>,
      instants ARRAY<TIMESTAMP_LTZ(3)>, clocks ARRAY<TIME(0)>, moved ARRAY<TIMESTAMP(3)>
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'csv', 'csv.field-delimiter' = ',')""",
    "source.query": "SELECT number, person, age, days AS `past.days`, fees, moments, instants, clocks, "
    "moved AS `stays[*].moved` FROM source",
}


_ARRAYS = {
    name: {"type": "array", "items": of}
    for name, of in {
        "days": {"type": "int", "logicalType": "date"},
        "fees": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 9},
        "moments": {"type": "long", "logicalType": "local-timestamp-micros"},
        "instants": {"type": "long", "logicalType": "timestamp-millis"},
        "clocks": {"type": "int", "logicalType": "time-millis"},
        "moved": {"type": "long", "logicalType": "local-timestamp-millis"},
    }.items()
}
LOGICAL = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "number", "type": "int"},
        {"name": "person", "type": "string"},
        {"name": "age", "type": "int"},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "woken", "type": {"type": "int", "logicalType": "time-millis"}},
        *({"name": name, "type": of} for name, of in _ARRAYS.items()),
    ],
}
"""Schema of Avro with each logical type as a field and in an array."""

VISITS = {
    "source.ddl": MESSAGES["source.ddl"],
    "source.from_avro": {
        "column": "record",
        "schema_file": "FOLDER/visits.avsc",
        "fields": {
            "number": "INT",
            "person": "STRING",
            "age": "INT",
            "seen": "TIMESTAMP_LTZ(3)",
            "woken": "TIME(3)",
            "past.days": {"type": "ARRAY<DATE>", "path": "days"},
            "fees": "ARRAY<DECIMAL(20, 9)>",
            "moments": "ARRAY<TIMESTAMP(6)>",
            "instants": "ARRAY<TIMESTAMP_LTZ(3)>",
            "clocks": "ARRAY<TIME(3)>",
            "stays[*].moved": {"type": "ARRAY<TIMESTAMP(3)>", "path": "moved"},
        },
    },
    "policy.passthrough": ["number", "seen", "woken"],
    "policy.drop": ["line"],
}


def avro(number: int, person: str, age: int, of: dict[str, list[str]]) -> bytes:
    """Return a record of Avro."""
    times = {name: [datetime.fromisoformat(text) for text in of[name]] for name in ("moments", "instants", "moved")}
    times["instants"] = [each.replace(tzinfo=timezone.utc) for each in times["instants"]]
    record = {"number": number, "person": person, "age": age, **times, "seen": times["instants"][0]}
    record |= {"days": list(map(date.fromisoformat, of["days"])), "fees": list(map(Decimal, of["fees"]))}
    record |= {"clocks": list(map(time.fromisoformat, of["clocks"])), "woken": time(8, 0, 0, 500_000)}
    content = io.BytesIO()
    fastavro.schemaless_writer(content, LOGICAL, record)
    return content.getvalue()


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


@pytest.mark.parametrize("changes", [{}, TYPED_RECORDS, LINES, VISITS], ids=["ddl", "records", "lines", "avro"])
def test_elements_of_days_times_and_decimals_are_published_whole_and_counted_by_value(
    mini: Host, tmp_path: Path, changes: dict[str, Any]
) -> None:
    values = [typed(number) for number in range(ROWS)]
    people = [(number, f"p{number}", 20 + number * 7 % 60) for number in range(ROWS)]
    content = []
    for (number, person, age), of in zip(people, values, strict=True):
        if changes is VISITS:
            content.append(avro(number, person, age, of).hex())
            continue
        if changes is LINES:
            of["instants"] = [f"{each}Z" for each in of["instants"]]
            content.append(",".join(map(str, (number, person, age, *map(";".join, of.values())))))
            of["instants"] = [each.removesuffix("Z") for each in of["instants"]]
            continue
        record: dict[str, Any] = {"number": number, "person": person, "age": age, "past": {"days": of["days"]}}
        record |= {name: of[name] for name in ("fees", "moments", "clocks")}
        zone = "" if changes else "Z"
        record["instants"] = [f"{each}{zone}" for each in of["instants"]]
        record["stays"] = [{"moved": each} for each in of["moved"]]
        content.append(json.dumps(record))
    (tmp_path / "in.json").write_text("".join(f"{each}\n" for each in content), encoding="utf-8")
    (tmp_path / "visits.avsc").write_text(json.dumps(LOGICAL), encoding="utf-8")
    (tmp_path / "job.yaml").write_text((TYPED + SINKS).replace("FOLDER", str(tmp_path)), encoding="utf-8")
    given = [f"--set={name}={json.dumps(value)}".replace("FOLDER", str(tmp_path)) for name, value in changes.items()]
    done = mini.crenel("run", tmp_path / "job.yaml", *given)
    assert done.returncode == 0, done.stderr
    released = lines(tmp_path / "released")
    assert len(released) > ROWS / 2
    assert len(released) + len(lines(tmp_path / "suppressed")) == ROWS
    classes: dict[tuple[int, int], list[dict[str, list[str]]]] = {}
    for row in released:
        of = values[row["number"]]
        classes.setdefault((row["age"]["min"], row["age"]["max"]), []).append(of)
        if changes is VISITS:
            seen = row["seen"].removesuffix("Z").replace("T", " ")
            assert (f"{seen}.000"[:21], row["woken"]) == (of["instants"][0][:21], "08:00:00.5")
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
            sets = [set(of[name]) for of in members]
            assert max(sum(value in each for each in sets) for value in set().union(*sets)) <= 0.8 * len(members)
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
