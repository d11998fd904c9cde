"""Fields of Avro records: another library's records are read as it reads them, and no bytes do harm."""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
import threading
from collections.abc import Iterator
from datetime import date, datetime, time, timezone
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, cast

import fastavro
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.operators.encode import schema_registry
from crenel.operators.encode.avro.fields import AvroFields, fitting_types
from crenel.operators.encode.avro.program import compile_program
from crenel.operators.encode.avro.schema import SchemaError, parse
from crenel.operators.encode.cells import ArrayCells, CellType
from crenel.operators.encode.containment import ContainedEncoder
from crenel.operators.encode.function import register_unknown
from crenel.operators.encode.records import RecordArguments, UnknownFields
from crenel.operators.encode.schema_registry import SchemaRegistry, UnavailableError
from crenel.operators.encode.slots import SlotLayout
from crenel.operators.metrics import Metrics
from tests.support.fakes import FakeMetrics
from tests.support.layouts import layout_of
from tests.support.memory_registry import MemoryRegistry as Registry

VISIT: dict[str, Any] = {
    "type": "record",
    "name": "Visit",
    "namespace": "clinic",
    "fields": [
        {"name": "person", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "notes", "type": {"type": "array", "items": ["null", "string", "double"]}},
        {
            "name": "home",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [
                    {"name": "zip", "type": ["string", "null"]},
                    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["FLAT", "HOUSE"]}},
                    {"name": "pets", "type": {"type": "map", "values": {"type": "array", "items": "float"}}},
                ],
            },
        },
        {"name": "second", "type": ["null", "Address"]},
        {"name": "codes", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": ["x", "y"]},
        {
            "name": "stays",
            "type": {
                "type": "array",
                "items": [
                    "null",
                    {
                        "type": "record",
                        "name": "Stay",
                        "fields": [
                            {"name": "ward", "type": ["null", "string"], "default": None},
                            {"name": "notes", "type": {"type": "array", "items": "Address"}},
                            {"name": "home", "type": ["null", "Address"]},
                            {"name": "bed", "type": "long", "default": 7},
                        ],
                    },
                ],
            },
            "default": [{"ward": "A", "notes": [], "home": None, "bed": 1}, None],
        },
        {"name": "weight", "type": ["null", "double"]},
        {"name": "ratio", "type": "float"},
        {"name": "smokes", "type": "boolean"},
        {"name": "raw", "type": {"type": "fixed", "name": "Six", "size": 6}},
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
        {"name": "fee", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
FIELDS = {
    ("person",): CellType("STRING"),
    ("age",): CellType("INT"),
    ("seen",): CellType("BIGINT"),
    ("home", "zip"): CellType("STRING"),
    ("home", "kind"): CellType("STRING"),
    ("second", "zip"): CellType("STRING"),
    ("weight",): CellType("DOUBLE"),
    ("ratio",): CellType("DOUBLE"),
    ("smokes",): CellType("BOOLEAN"),
    ("codes[*]",): CellType("INT"),
    ("tags[*]",): CellType("STRING"),
    ("stays[*]", "ward"): CellType("STRING"),
    ("stays[*]", "home", "kind"): CellType("STRING"),
    ("stays[*]", "bed"): CellType("BIGINT"),
    ("fee",): CellType("DECIMAL", 9, 2),
}


def address(draw: random.Random) -> dict[str, Any]:
    pets = {f"p{number}": [1.5] * draw.randrange(3) for number in range(draw.randrange(3))}
    return {"zip": draw.choice([None, "", "é12"]), "kind": draw.choice(["FLAT", "HOUSE"]), "pets": pets}


def stay(draw: random.Random) -> dict[str, Any]:
    notes = [address(draw) for _ in range(draw.randrange(3))]
    home = draw.choice([None, address(draw)])
    return {"ward": draw.choice([None, "", "é12"]), "notes": notes, "home": home, "bed": draw.choice([0, -(2**62)])}


def visit(draw: random.Random) -> dict[str, Any]:
    return {
        "person": draw.choice(["", "ann", "Zoë 😀", "x" * 300]),
        "age": draw.choice([None, 0, -1, 33, 2**31 - 1, -(2**31)]),
        "seen": draw.choice([0, -1, 1_700_000_000_123, -62_135_596_800_000]),
        "notes": [draw.choice([None, "n", 2.5]) for _ in range(draw.randrange(4))],
        "home": address(draw),
        "second": draw.choice([None, address(draw)]),
        "codes": [draw.choice([0, -1, 2**31 - 1]) for _ in range(draw.choice([0, 1, 3, 70]))],
        "tags": draw.choice([None, [], ["a"], [None, "", "x" * 300]]),
        "stays": [draw.choice([None, stay(draw), stay(draw)]) for _ in range(draw.randrange(4))],
        "weight": draw.choice([None, 0.1, -1e300, 5e-324, float("inf")]),
        "ratio": draw.choice([0.0, -1.5, 0.1, 1e-45, 1e-40, 3.4028234663852886e38, float("-inf")]),
        "smokes": draw.choice([True, False]),
        "raw": b"123456",
        "born": draw.choice([0, -719_162, 20_000]),
        "fee": draw.choice([Decimal("0.00"), Decimal("-1.25"), Decimal("1234567.89")]),
    }


def plain(schema: Any) -> Any:
    """Return a schema without logical types, but for decimals."""
    if isinstance(schema, dict):
        kept = {name: plain(value) for name, value in schema.items()}
        return {name: value for name, value in kept.items() if name != "logicalType" or value == "decimal"}
    return list(map(plain, schema)) if isinstance(schema, list) else schema


def write(schema: Any, record: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(plain(schema)), record)
    return file.getvalue()


def oracle(record: bytes, writer: Any, reader: Any = None) -> Any:
    """Return a record as fastavro reads it; None where it does not read it to the last byte."""
    file = io.BytesIO(record)
    schemas = [None if schema is None else fastavro.parse_schema(plain(schema)) for schema in (writer, reader)]
    try:
        found = fastavro.schemaless_reader(file, *schemas, handle_unicode_errors="replace")
    except Exception:
        return None
    return None if file.read(1) else found


def fields(schema: Any = VISIT, registry: Any = None, only: Any = None) -> AvroFields:
    wanted = {path: kind for path, kind in FIELDS.items() if only is None or path in only}
    return AvroFields(parse(json.dumps(schema)), tuple(wanted.items()), registry)


def read(made: AvroFields, records: list[bytes | None]) -> list[list[Any]]:
    """Return the values of each record."""
    columns = [column._cells.to_pylist() for column in made.columns(pa.array(records, pa.binary()))]
    return [list(row) for row in zip(*columns, strict=True)]


def at(found: Any, path: tuple[str, ...]) -> Any:
    for number, step in enumerate(path, 1):
        found = None if found is None else found[step.removesuffix("[*]")]
        if step.endswith("[*]"):
            return found and [at(each, path[number:]) for each in found]
    return found


def test_records_are_read_as_another_library_reads_them() -> None:
    draw = random.Random(1)
    visits = [visit(draw) for _ in range(300)]
    records = [write(VISIT, each) for each in visits]
    expected = [[at(oracle(record, VISIT), path) for path in FIELDS] for record in records]
    assert read(pickle.loads(pickle.dumps(fields())), [*records, None]) == [*expected, [None] * len(FIELDS)]


@given(st.integers(0, 2**32))
def test_no_bytes_do_harm_and_each_record_is_read_as_if_it_were_alone(seed: int) -> None:
    draw = random.Random(seed)
    records: list[bytes | None] = [None]
    for _ in range(6):
        record = bytearray(write(VISIT, visit(draw)))
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(record) + 1)
            change = draw.choice(["cut", "flip", "insert", "append"])
            if change == "cut":
                del record[place:]
            elif change == "flip" and place < len(record):
                record[place] ^= 1 << draw.randrange(8)
            else:
                record[place:place] = draw.randbytes(draw.randrange(1, 12))
        records.append(bytes(record))
    made = fields()
    rows = read(made, records)
    assert str(rows) == str([row for record in records for row in read(made, [record])])
    for record, row in zip(records, rows, strict=True):
        if record is not None and any(value is not None for value in row):
            found = oracle(record, VISIT)
            assert found is not None
            if row[-1] is None:  # a decimal of more digits than its type has
                found["fee"] = None
            assert "\ufffd" in str(found) or str([at(found, path) for path in FIELDS]) == str(row)


@pytest.mark.parametrize("count", [2, 10**9, 2**62])
def test_an_array_of_items_without_bytes_costs_no_time(count: int) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "x", "type": {"type": "array", "items": "null"}}, {"name": "person", "type": "string"}],
    }
    long = io.BytesIO()
    fastavro.schemaless_writer(long, "long", count)
    made = fields(schema, only=[("person",)])
    assert read(made, [long.getvalue() + b"\x00\x06ann"]) == [["ann"]]


@pytest.mark.parametrize("count", [3, 10**9, 2**62])
def test_a_count_of_items_that_are_not_there_makes_a_record_unreadable(count: int) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "codes", "type": {"type": "array", "items": "int"}}]}
    long = io.BytesIO()
    fastavro.schemaless_writer(long, "long", count)
    made = fields(schema, only=[("codes[*]",)])
    good = write(schema, {"codes": [4, 5]})
    assert read(made, [good, long.getvalue() + b"\x08\x0a", good]) == [[[4, 5]], [None], [[4, 5]]]
    assert read(made, [write(schema, {"codes": range(1_000_000)})])[0][0][-3:] == [999_997, 999_998, 999_999]
    blocks = b"\x03\x04\x02\x04\x02\x06\x00"  # two blocks, of which the first tells its bytes
    assert read(made, [blocks, good]) == [[[1, 2, 3]], [[4, 5]]]


def test_arrays_have_the_defaults_of_the_fields_that_their_writer_lacks() -> None:
    record = visit(random.Random(9))
    row = dict(zip(FIELDS, resolved(changed(tags=None, stays=None), record)[0], strict=True))
    assert row["codes[*]",] == record["codes"]
    assert row["tags[*]",] == ["x", "y"]
    assert (row["stays[*]", "ward"], row["stays[*]", "bed"]) == (["A", None], [1, None])
    writer = copy.deepcopy(VISIT)
    (stays,) = (each["type"]["items"][1] for each in writer["fields"] if each["name"] == "stays")
    stays["fields"] = [*stays["fields"][1:3], {"name": "more", "type": "int"}]
    record |= {"stays": [None, {"notes": [], "home": None, "more": 5}] * 2}
    row, unknown = resolved(writer, record)
    assert row == [at(oracle(write(writer, record), writer, VISIT), path) for path in FIELDS]
    assert dict(zip(FIELDS, row, strict=True))["stays[*]", "bed"] == [None, 7, None, 7]
    assert unknown == {"stays[*].more": 1}
    # Each of two schemas in one batch has defaults of its own.
    made = fields(VISIT, Registry(schemas={1: json.dumps(VISIT), 2: json.dumps(writer)}), [("stays[*]", "bed")])
    whole = write(VISIT, record | {"stays": [{"ward": None, "notes": [], "home": None, "bed": 1}]})
    both = [b"\0\0\0\0\2" + write(writer, record), b"\0\0\0\0\1" + whole]
    assert read(made, [*both, None, *both]) == [[[None, 7, None, 7]], [[1]], [None], [[None, 7, None, 7]], [[1]]]


LOGICAL: dict[str, tuple[Any, CellType, list[Any]]] = {
    "days": (
        {"type": "int", "logicalType": "date"},
        CellType("DATE"),
        [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)],
    ),
    "times": (
        {"type": "int", "logicalType": "time-millis"},
        CellType("TIME", 3),
        [time(0), time(8, 0, 0, 1000), time(23, 59, 59, 999000)],
    ),
    "fees": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        CellType("DECIMAL", 9, 2),
        [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99"), Decimal("-9999999.99")],
    ),
    "totals": (
        {"type": "fixed", "name": "F", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 9},
        CellType("DECIMAL", 38, 9),
        [Decimal("0E-9"), Decimal(f"{'9' * 29}.999999999"), Decimal(f"-{'9' * 29}.999999999")],
    ),
    "millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        CellType("TIMESTAMP", 3),
        [datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(1969, 12, 31, 23, 59, 59, 999000, timezone.utc)],
    ),
    "micros": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        CellType("TIMESTAMP", 6),
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 23, 59, 59, 1)],
    ),
}
"""Type in a schema, type as which it is read, and values of arrays of logical types."""


@pytest.mark.parametrize("name", LOGICAL)
@given(seed=st.integers(0, 2**32))
def test_elements_of_logical_types_are_read_as_another_library_reads_them(name: str, seed: int) -> None:
    of, kind, values = LOGICAL[name]
    draw = random.Random(seed)
    items = {"type": "array", "items": ["null", of]}
    row = {"type": "record", "name": "Row", "fields": [{"name": name, "type": ["null", "F" if "name" in of else of]}]}
    rows = {"name": "rows", "type": ["null", {"type": "array", "items": ["null", row]}], "default": None}
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": name, "type": items}, rows]})
    content: list[Any] = []
    for _ in range(4):
        drawn = [draw.choice([None, *values]) for _ in range(draw.choice([0, 1, 3, 40]))]
        content.append({name: drawn, "rows": draw.choice([None, [None, *({name: each} for each in drawn)]])})
    records = []
    for each in content:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, schema, each)
        records.append(file.getvalue())
        assert fastavro.schemaless_reader(io.BytesIO(file.getvalue()), schema, None) == each
    paths: list[tuple[str, ...]] = [(f"{name}[*]",), ("rows[*]", name)]
    made = AvroFields(parse(json.dumps(schema)), tuple((path, kind) for path in paths))
    expected = [
        [at(record, path) for path in paths] if record is not None else [None, None] for record in [*content, None]
    ]
    columns = made.columns(pa.array([*records, None], pa.binary()))
    found = [list(row) for row in zip(*(column._cells.to_pylist() for column in columns), strict=True)]
    assert found == without_zones(expected)
    for column in columns:
        assert isinstance(column, ArrayCells)
        assert [each is None for each in column.packed.to_pylist()] == [
            each is None for each in column._cells.to_pylist()
        ]


def without_zones(values: Any) -> Any:
    """Return values whose times have no zone, as the cells have them."""
    if isinstance(values, list):
        return list(map(without_zones, values))
    return values.replace(tzinfo=None) if isinstance(values, datetime) else values


def test_elements_beyond_their_logical_type_are_missing() -> None:
    types = {name: LOGICAL[name] for name in ("days", "fees", "millis", "times")}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": {"type": "array", "items": of}} for name, (of, _, _) in types.items()],
    }
    made = AvroFields(parse(json.dumps(schema)), tuple(((f"{name}[*]",), kind) for name, (_, kind, _) in types.items()))
    raw = copy.deepcopy(schema)
    for each in cast(Any, raw["fields"]):
        del each["type"]["items"]["logicalType"]
    ten = (10**9).to_bytes(5, "big", signed=True)
    record = write(
        raw,
        {
            "days": [2_932_896, 2_932_897],
            "fees": [b"", b"\1", ten],
            "millis": [-(2**63), 0],
            "times": [86_399_999, 86_400_000, -1],
        },
    )
    (row,) = read(made, [record])
    assert [[each is None for each in values] for values in row] == [
        [False, True],
        [False, False, True],
        [True, False],
        [False, True, True],
    ]


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}])
def test_items_without_bytes_are_no_items_of_a_wanted_array(items: Any) -> None:
    inner = [{"name": "x", "type": "int", "default": 3}]
    reader, writer = (
        {"type": "record", "name": "R", "fields": [{"name": "rows", "type": {"type": "array", "items": of}}]}
        for of in ({"type": "record", "name": "E", "fields": inner}, items)
    )
    with pytest.raises(SchemaError, match=r"has at 'rows\[\*\]' an? (null|record)"):
        compile_program(parse(json.dumps(writer)), parse(json.dumps(reader)), SlotLayout((("rows[*]", "x"),)))


def test_a_field_may_be_two_columns() -> None:
    kinds = (("seen",), CellType("BIGINT")), (("seen",), CellType("TIMESTAMP", 3)), (("tags[*]",), CellType("STRING"))
    made = AvroFields(parse(json.dumps(VISIT)), (*kinds, kinds[2]))
    record = visit(random.Random(1)) | {"seen": 1_700_000_000_123, "tags": ["a"]}
    number, time, *tags = (column._cells.to_pylist() for column in made.columns(pa.array([write(VISIT, record)])))
    assert (number, str(time[0]), tags) == ([1_700_000_000_123], "2023-11-14 22:13:20.123000", [[["a"]]] * 2)


def test_an_int_has_at_most_32_bits() -> None:
    reader, writer = (
        {"type": "record", "name": "R", "fields": [{"name": "age", "type": kind}]} for kind in ("int", "long")
    )
    made = fields(reader, only=[("age",)])
    assert read(made, [write(writer, {"age": age}) for age in (2**31 - 1, 2**31)]) == [[2**31 - 1], [None]]


def changed(**types: Any) -> dict[str, Any]:
    """Return the schema of a newer writer: fields with other types, without those whose type is None."""
    found = copy.deepcopy(VISIT)
    found["fields"] = [each for each in found["fields"] if types.get(each["name"], 0) is not None]
    for each in found["fields"]:
        if each["name"] in types:
            each["type"] = types.pop(each["name"])
            each.pop("default", None)
    found["fields"] += [{"name": name, "type": kind} for name, kind in types.items() if kind is not None]
    return found


def resolved(writer: Any, record: dict[str, Any], only: Any = None, reader: Any = VISIT) -> Any:
    """Return the fields of a newer writer's record, and its unknown fields."""
    made = fields(reader, Registry(schemas={7: json.dumps(writer)}), only)
    return read(made, [b"\0\0\0\0\7" + write(writer, record)])[0], made.unknown.by_field


def test_a_new_field_is_counted_and_not_read() -> None:
    record = visit(random.Random(3))
    phone = {"type": "record", "name": "Phone", "fields": [{"name": "number", "type": "string"}]}
    writer = changed(phone=["null", phone], score="double")
    row, unknown = resolved(writer, record | {"phone": {"number": "555"}, "score": 1.0})
    assert row == [at(oracle(write(VISIT, record), VISIT), path) for path in FIELDS]
    assert unknown == {"phone": 1, "score": 1}


def test_a_field_that_goes_has_its_default_or_none() -> None:
    record = visit(random.Random(4))
    reader = copy.deepcopy(VISIT)
    reader["fields"][0]["default"] = "nobody"
    row, _ = resolved(changed(person=None, age=None), record, reader=reader)
    assert row[:2] == ["nobody", None]
    assert row[2] == record["seen"]
    assert resolved(changed(person=None), record)[0] == [None] * len(FIELDS)
    # A record that is not there has no fields, and none with a default.
    reader["fields"][4]["type"]["fields"][0]["default"] = "none"
    writer = changed()
    del writer["fields"][4]["type"]["fields"][0]
    for second, zip_code in ((None, None), (record["home"], "none")):
        row = dict(zip(FIELDS, resolved(writer, record | {"second": second}, reader=reader)[0], strict=True))
        assert (row["home", "zip"], row["second", "zip"]) == ("none", zip_code)


@pytest.mark.parametrize(
    ("path", "kind", "value"),
    [
        ("age", "int", 5),
        ("weight", "int", 5),
        ("weight", ["null", "float"], 0.5),
        ("ratio", ["null", "long"], 7),
        ("weight", ["null", "long", "string"], "heavy"),
        ("weight", ["null", "long", "string"], 2**40),
        ("person", "bytes", b"bob"),
        ("person", ["null", "string"], "bob"),
        ("age", "string", "5"),
        ("age", "long", 5),
        ("seen", {"type": "long", "logicalType": "timestamp-micros"}, 5),
        ("fee", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, Decimal("1.000")),
        ("smokes", {"type": "array", "items": "boolean"}, [True]),
    ],
)
def test_a_type_that_changes_is_promoted_or_makes_the_record_unreadable(path: str, kind: Any, value: Any) -> None:
    record = visit(random.Random(5)) | {path: value}
    writer = changed(**{path: kind})
    logical = path in ("seen", "fee")
    expected = None if logical else oracle(write(writer, record), writer, VISIT)
    row, _ = resolved(writer, record)
    assert row == [at(expected, each) for each in FIELDS]


def test_symbols_follow_their_names() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B"}
    newer = {"type": "enum", "name": "E", "symbols": ["NEW", "B", "A"]}
    reader, writer = ({"type": "record", "name": "R", "fields": [{"name": "person", "type": t}]} for t in (enum, newer))
    found = [resolved(writer, {"person": symbol}, [("person",)], reader)[0][0] for symbol in ("A", "B", "NEW")]
    assert found == ["A", "B", "B"]


def test_records_that_name_no_schema_of_the_registry_are_unreadable(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry(schemas={1: json.dumps(VISIT), 2: "no schema", 3: json.dumps(changed(age="string"))})
    record = visit(random.Random(6)) | {"person": "ann"}
    good = write(VISIT, record)
    made = fields(registry=registry)
    records = [b"\0\0\0\0" + bytes([number]) + good for number in (1, 2, 3, 9)] * 2
    rows = read(made, [*records, b"", b"\0", good, b"\1\0\0\0\1" + good, None])
    assert [row[0] for row in rows] == [record["person"], None, None, None] * 2 + [None] * 5
    assert registry.requests == [1, 2, 3, 9]
    assert "the schema 2 of the registry is no JSON" in caplog.text
    assert "the schema 3 of the registry has at 'age' a string, and the configured schema an int" in caplog.text
    assert "has no schema of the number that records name" in caplog.text


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "is no JSON"),
        ('{"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A"]}]}', "inside itself"),
        ('{"type": "record", "name": "A", "fields": [{"name": "x", "type": "B"}]}', "'B', which is not declared"),
        ('["null", ["int"]]', "union of no types"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size"),
        ('{"type": "array"}', "no type of Avro"),
        ("[" * 100_000, "is no JSON"),
        ('{"type": "array", "items":' * 100 + '"int"' + "}" * 100, "levels deep"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        parse(schema)


def test_a_schema_that_grows_without_end_is_refused() -> None:
    kind: Any = "int"
    for number in range(20):
        pair = [{"name": "a", "type": kind}, {"name": "b", "type": kind if number == 0 else f"R{number - 1}"}]
        kind = {"type": "record", "name": f"R{number}", "fields": pair}
    found = parse(json.dumps(kind))
    with pytest.raises(SchemaError, match="too many"):
        compile_program(found, found, SlotLayout(()))


def test_each_value_has_the_types_that_flink_gives_it() -> None:
    schema = parse(json.dumps(VISIT))
    assert fitting_types(schema.find(("seen",))) == ("TIMESTAMP(3)", "BIGINT", "TIMESTAMP_LTZ(3)")
    assert fitting_types(schema.find(("fee",))) == ("DECIMAL(9, 2)",)
    assert fitting_types(schema.find(("raw",))) == ()
    made: Any = AvroFields(schema, ((("seen",), CellType("TIMESTAMP", 3)), (("born",), CellType("DATE"))))
    record = visit(random.Random(1)) | {"seen": 1_700_000_000_123, "born": 20_000}
    late = record | {"seen": 2**62, "born": 2**31 - 1}
    seen, born = made.columns(pa.array([write(VISIT, record), write(VISIT, late)]))
    assert seen.text.to_pylist() == ["2023-11-14 22:13:20.123", None]
    assert born.day.to_pylist() == ["2024-10-04", None]


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """Return an address, and a list of answers to give: status and content."""
    answers: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = answers.pop(0)
            answers.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", content.decode())
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}", answers
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_a_registry_that_fails_is_asked_again_and_refuses_in_the_end(
    server: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = server
    monkeypatch.setattr(schema_registry, "_PAUSES", (0.01,))
    answers += [(500, b""), (200, b"[]"), (200, b'{"schema": "\\"int\\""}')]
    assert SchemaRegistry(url + "/", "me").schema(5) == '"int"'
    assert answers == [("/schemas/ids/5", "Basic bWU6")] * 3
    answers[:] = [(404, b"")]
    assert SchemaRegistry(url).schema(6) is None
    answers[:] = [(403, b"")]
    with pytest.raises(UnavailableError, match="HTTP 403"):
        SchemaRegistry(url).schema(6)
    monkeypatch.setattr(schema_registry, "_PATIENCE", 0.05)
    with pytest.raises(UnavailableError, match="gives no answer"):
        SchemaRegistry("http://127.0.0.1:1").schema(6)


def test_a_redirect_does_not_take_the_password_to_another_address(server: tuple[str, list[Any]]) -> None:
    url, answers = server
    answers += [(302, b"/elsewhere"), (200, b'{"schema": "\\"int\\""}')]
    assert SchemaRegistry(url, "me").schema(5) == '"int"'
    assert answers == [("/schemas/ids/5", "Basic bWU6"), ("/elsewhere", None)]


def test_metrics_count_unknown_fields_by_name() -> None:
    metrics, unknown = FakeMetrics(), UnknownFields()
    count = register_unknown(Metrics(cast(Any, metrics)), unknown)
    count()
    assert set(metrics.known) == {"crenel.unknown_fields"}
    for _ in range(2):
        unknown.add(["phone", "home.floor"], 3)
        count()
    unknown.add(["phone"], 1)
    count()
    shown = {name.removeprefix("crenel."): known for name, known in metrics.known.items()}
    assert shown.pop("unknown_fields")() == 2
    assert {name: counter.count for name, counter in shown.items()} == {
        "records_with_unknown_fields": 7,
        "records_with_unknown_field_phone": 7,
        "records_with_unknown_field_home.floor": 6,
    }


def test_no_record_is_rejected_because_the_registry_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_PATIENCE", 0.0)
    found = layout_of(Policy({"age": Numeric((0, 99))}, subject="person"), {"person": "STRING", "age": "INT"})
    made = fields(registry=SchemaRegistry("http://127.0.0.1:1"), only=[("person",)])
    encoder = ContainedEncoder(found.plan, RecordArguments(made, ((0, "text"), (0, "text"))))
    with pytest.raises(UnavailableError, match="gives no answer"):
        encoder.encode(pd.Series([b"\0\0\0\0\1" + write(VISIT, visit(random.Random(1)))] * 4))


def test_floats_are_those_of_numpy() -> None:
    values = np.random.default_rng(1).integers(0, 2**32, 2000, np.uint32).view(np.float32)
    values = values[~np.isnan(values)]
    schema = {"type": "record", "name": "R", "fields": [{"name": "ratio", "type": "float"}]}
    found = read(fields(schema, only=[("ratio",)]), [value.tobytes() for value in values])
    np.testing.assert_array_equal([row[0] for row in found], values.astype(np.float64))
