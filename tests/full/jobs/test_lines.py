"""Lines of CSV and messages of Protobuf: each leaves once or is rejected with a reason, and the job goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.launch import Host, rows_of
from tests.support.protobuf import descriptor_set, field, message_class

pytestmark = pytest.mark.flink

TEXT = """
policy:
  event_time: ms
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    area: {type: categorical, hierarchy: areas.csv}
    paid: {type: numeric}
  subject: person
  passthrough: [number, note, seen, real]
  drop: [unused, ts]
privacy: {k: 5}
castle: {delay: {tuples: 100, event_time: 1 min}}
seed: 1
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      line STRING,
      ts AS COALESCE(TO_TIMESTAMP_LTZ(TRY_CAST(SPLIT_INDEX(line, ';', 0) AS BIGINT), 3), TO_TIMESTAMP_LTZ(0, 3)),
      WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in', 'format' = 'raw')
  from_csv:
    column: line
    delimiter: ';'
    fields: {ms: BIGINT, number: INT, person: BIGINT, age: SMALLINT, area: STRING, unused: DATE, paid: 'DECIMAL(8, 2)',
             note: STRING, seen: 'TIMESTAMP(3)', real: DOUBLE}
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: csv}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: csv}
"""
RELEASED = ("age_min", "age_max", "area", "paid_min", "paid_max", "number", "note", "seen", "real")
ROWS = 3000
WRONG = {
    b"ms;number;person;age;area;unused;paid;note;seen;real\n": ("age", "missing"),
    b"\n": ("age", "missing"),
    b'1;2;3;4;East;;1;"quote that does not end;;\n': ("age", "missing"),
    b"1;2;3\n": ("age", "missing"),
    b"1;2;3;4;East;;1;;;;\n": ("age", "missing"),
    b"1767225600000;2;3;four;East;;1;;;\n": ("age", "missing"),
    b"1767225600000;2;3;444;East;;1;;;\n": ("age", "outside_domain"),
    b"1767225600000;2;3;4;Nowhere;;1;;;\n": ("area", "unknown_category"),
    b"1767225600000;2;3;4;East\xff;;1;;;\n": ("area", "unknown_category"),
    b"1767225600000;2;3;4;East;;1234567.00;;;\n": ("paid", "missing"),
    b"1767225600000;2;;4;East;;1;;;\n": ("person", "missing"),
    b"yesterday;2;3;4;East;;1;;;\n": ("ms", "missing"),
    b'\xef\xbb\xbf"1767225600000;2;3;4;East;;1;;;\n': ("age", "missing"),
    b"1767225600000;2;3;%b;East;;1;;;\n" % (b"1" * 5000): ("age", "missing"),
    b"1767225600000;2;3;4;East;;%b;;;\n" % (b"1" * 5000): ("paid", "missing"),
}


def lines() -> list[bytes]:
    found = []
    for number in range(ROWS):
        area = ("East", "West")[number % 2]
        note = ('"a; ""b"""', "", "é", '" "')[number % 4]
        seen = f"2026-01-01T00:00:{number % 60:02}"
        who = f"{number};{number % 700};{number % 90};{area}"
        text = f"{1767225600000 + number * 1000};{who};;1.5;{note};{seen};1e{number % 9}"
        # A mark of byte order makes nobody another person.
        mark = b"\xef\xbb\xbf" if number % 7 == 0 else b""
        found.append(mark + text.encode() + (b"\r\n" if number % 2 else b"\n"))
        if number % 100 == 50:
            found.extend(WRONG)
    return found


def test_each_line_leaves_once_or_is_rejected_with_a_reason(mini: Host, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"".join(lines()))
    (tmp_path / "areas.csv").write_text("East;any\nWest;any\n", encoding="utf-8")
    configuration = tmp_path / "lines.yaml"
    configuration.write_text(TEXT.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    done = mini.crenel("run", configuration, "--json", "--set", "flink.python.fn-execution.arrow.batch.size=500")
    assert done.returncode == 0, done.stderr
    released = rows_of(tmp_path / "released", RELEASED)
    suppressed = rows_of(tmp_path / "suppressed", ("reason", "shard", "position", "event_time"))
    assert len(released) + len(suppressed) == ROWS
    assert len({row["number"] for row in released}) == len(released)
    for row in released:
        number = int(row["number"])
        assert int(row["age_min"]) <= number % 90 <= int(row["age_max"])
        assert row["area"] in (("East", "West")[number % 2], "any")
        assert row["paid_min"] == row["paid_max"] == "1.5"
        assert row["note"] == ('a; "b"', "", "é", " ")[number % 4]
        assert row["seen"] == f"2026-01-01 00:00:{number % 60:02}"
        assert float(row["real"]) == 10.0 ** (number % 9)
    rejected = Counter(
        (row["column"], row["reason"]) for row in rows_of(tmp_path / "rejected", ("column", "reason", "event_time"))
    )
    assert rejected == Counter({reason: ROWS // 100 * count for reason, count in Counter(WRONG.values()).items()})


HOME = {"name": "Home", "field": [field("area", 1, "string")]}
VISIT = [
    *(field("person", 1, "string"), field("age", 2, "int32", proto3_optional=True, oneof_index=0)),
    *(field("home", 3, ".clinic.Home"), field("number", 4, "sint64"), field("past", 5, ".clinic.Home", many=True)),
]
DECLARED = {
    "name": "visits.proto",
    "package": "clinic",
    "syntax": "proto3",
    "message_type": [HOME, {"name": "Visit", "field": VISIT, "oneof_decl": [{"name": "_age"}]}],
}
MESSAGES = """
policy:
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    area: {type: categorical, hierarchy: areas.csv}
  subject: person
  passthrough: [number]
  drop: [line]
  reference: place
privacy: {k: 5}
castle: {delay: {tuples: 100}}
seed: 1
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      line STRING, record AS UNHEX(SPLIT_INDEX(line, ';', 1)), place AS SPLIT_INDEX(line, ';', 0)
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in', 'format' = 'raw')
  from_protobuf:
    column: record
    descriptor_file: visits.desc
    message: Visit
    fields: {person: STRING, age: INT, number: BIGINT, area: {type: STRING, path: home.area}}
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: csv}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: csv}
"""


def test_each_message_leaves_once_or_is_rejected_with_its_place(mini: Host, tmp_path: Path) -> None:
    content = descriptor_set(DECLARED)
    visit = message_class(content, "clinic.Visit")
    good = {"person": "p1", "age": 5, "home": {"area": "East"}, "number": -1}
    wrong = {
        b"\xff\xff": ("age", "missing"),
        visit(**good).SerializeToString()[:-1]: ("age", "missing"),
        b'{"person": "p1"}': ("age", "missing"),
        b"": ("age", "missing"),
        visit(**{**good, "age": None}).SerializeToString(): ("age", "missing"),
        visit(**{**good, "home": None}).SerializeToString(): ("area", "missing"),
        visit(**{**good, "age": 100}).SerializeToString(): ("age", "outside_domain"),
        visit(**{**good, "home": {}}).SerializeToString(): ("area", "unknown_category"),
        b"\x10\x05\x0d\x00\x00\x00\x00": ("age", "missing"),  # the person in the form of a number
    }
    records: list[bytes] = []
    for number in range(600):
        home, past = {"area": ("East", "West")[number % 2]}, [{"area": "North"}] * (number % 3)
        made = visit(person=f"p{number % 200}", age=number % 90, home=home, number=number, past=past)
        records.append(made.SerializeToString())
        records += wrong if number == 300 else ()
    text = "".join(f"{place};{record.hex()}\n" for place, record in enumerate(records))
    (tmp_path / "in").write_text(text, encoding="utf-8")
    (tmp_path / "areas.csv").write_text("East;any\nWest;any\n", encoding="utf-8")
    (tmp_path / "visits.desc").write_bytes(content)
    configuration = tmp_path / "messages.yaml"
    configuration.write_text(MESSAGES.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    done = mini.crenel("run", configuration, "--json", "--set", "flink.python.fn-execution.arrow.batch.size=100")
    assert done.returncode == 0, done.stderr
    released = rows_of(tmp_path / "released", ("age_min", "age_max", "area", "number"))
    suppressed = rows_of(tmp_path / "suppressed", ("reference", "reason", "shard", "position"))
    assert len(released) + len(suppressed) == 600
    assert len({row["number"] for row in released}) == len(released) > 500
    for row in released:
        number = int(row["number"])
        assert int(row["age_min"]) <= number % 90 <= int(row["age_max"])
        assert row["area"] in (("East", "West")[number % 2], "any")
    rejected = rows_of(tmp_path / "rejected", ("column", "reason", "event_time", "reference"))
    found = {records[int(row["reference"])]: (row["column"], row["reason"]) for row in rejected}
    assert found == wrong
    assert len(rejected) == len(wrong)
