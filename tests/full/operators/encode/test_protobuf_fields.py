"""Fields of Protobuf records: Protobuf's own library reads them alike, and no bytes do harm."""

from __future__ import annotations

import pickle
import random
from datetime import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.message import DecodeError

from crenel.operators.encode.cells import ArrayCells, CellType
from crenel.operators.encode.protobuf.fields import ProtobufFields, fitting_types
from crenel.operators.encode.protobuf.outline import read_outline
from crenel.operators.encode.protobuf.schema import DescriptorError, MessageType
from tests.support.memory_registry import MemoryRegistry
from tests.support.protobuf import descriptor_set, field, message_class

WHOLE = "int32 int64 sint32 sint64 uint32 uint64 fixed32 fixed64 sfixed32 sfixed64".split()
KINDS = [*WHOLE, "bool", "float", "double", "string"]
HOME = [field("zip", 1, "string"), field("floor", 2, "sint32", proto3_optional=True, oneof_index=0)]
HOME.append(field("kind", 3, ".clinic.Ward", type="TYPE_ENUM"))
HOME.append(field("tags", 4, "string", many=True))
VISIT = [field(kind, number, kind) for number, kind in enumerate(KINDS, 1)]
VISIT += [
    field("home", 20, ".clinic.Home"),
    field("tests", 21, "string", many=True),
    field("numbers", 22, "int32", many=True),
    field("past", 23, ".clinic.Home", many=True),
    field("phone", 24, "string", oneof_index=0),
    field("office", 25, ".clinic.Home", oneof_index=0),
    field("secret", 26, "int32", oneof_index=0),
    field("before", 27, ".clinic.Visit"),
    field("visited", 28, ".google.protobuf.Timestamp"),
    field("age", 4000, "int32", proto3_optional=True, oneof_index=1),
    field("photo", 30, "bytes"),
    field("wards", 31, ".clinic.Ward", many=True, type="TYPE_ENUM"),
    field("times", 32, ".google.protobuf.Timestamp", many=True),
]
LISTS = [(f"some_{kind}", number, kind) for number, kind in enumerate(KINDS, 40)]
UNPACKED = [field(name, number, kind, many=True) for name, number, kind in LISTS]
VISIT += [field(name, number, kind, many=True) for name, number, kind in LISTS]
FILE: dict[str, Any] = {
    "name": "visits.proto",
    "package": "clinic",
    "syntax": "proto3",
    "dependency": ["google/protobuf/timestamp.proto"],
    "enum_type": [{"name": "Ward", "value": [{"name": "WARD_NONE", "number": 0}, {"name": "WARD_A", "number": 1}]}],
    "message_type": [
        {"name": "Home", "field": HOME, "oneof_decl": [{"name": "_floor"}]},
        {"name": "Visit", "field": VISIT, "oneof_decl": [{"name": "contact"}, {"name": "_age"}]},
        {"name": "Unpacked", "field": [each | {"options": {"packed": False}} for each in UNPACKED[:-1]]},
        # The message of a newer producer.
        {
            "name": "Newer",
            "field": [*VISIT, field("more", 101, "fixed64")],
            "oneof_decl": [{"name": "contact"}, {"name": "_age"}],
        },
    ],
}
CONTENT = descriptor_set(FILE, imports=[timestamp_pb2.DESCRIPTOR])
MESSAGE = MessageType(CONTENT, "clinic.Visit")
Visit, Newer, Unpacked = (message_class(CONTENT, f"clinic.{name}") for name in ("Visit", "Newer", "Unpacked"))
TYPES = dict.fromkeys(WHOLE, "BIGINT") | {"bool": "BOOLEAN", "float": "DOUBLE", "double": "DOUBLE", "string": "STRING"}
FIELDS: dict[tuple[str, ...], CellType] = {
    **{(name,): CellType(kind) for name, kind in TYPES.items()},
    ("home", "zip"): CellType("STRING"),
    ("home", "floor"): CellType("INT"),
    ("home", "kind"): CellType("STRING"),
    ("phone",): CellType("STRING"),
    ("office", "zip"): CellType("STRING"),
    ("office", "floor"): CellType("INT"),
    ("before", "before", "age"): CellType("INT"),
    ("age",): CellType("INT"),
    ("tests[*]",): CellType("STRING"),
    ("numbers[*]",): CellType("INT"),
    ("wards[*]",): CellType("STRING"),
    ("past[*]", "zip"): CellType("STRING"),
    ("past[*]", "floor"): CellType("INT"),
    ("past[*]", "kind"): CellType("STRING"),
    ("home", "tags[*]"): CellType("STRING"),
    ("office", "tags[*]"): CellType("STRING"),
    **{(f"some_{kind}[*]",): CellType(of) for kind, of in TYPES.items()},
}


def read(records: list[bytes | None], wanted: Any = FIELDS) -> list[list[Any]]:
    """Return the values of each record."""
    made = pickle.loads(pickle.dumps(ProtobufFields(MESSAGE, tuple(wanted.items()))))
    columns = [column._cells.to_pylist() for column in made.columns(pa.array(records, pa.binary()))]
    return [list(row) for row in zip(*columns, strict=True)]


def oracle(record: bytes) -> list[Any]:
    """Return the values of a record as Protobuf's own library has them; all None where it does not read it."""
    try:
        return [at(Visit.FromString(record), path) for path in FIELDS]
    except DecodeError:
        return [None] * len(FIELDS)


def at(message: Any, path: tuple[str, ...]) -> Any:
    of = message.DESCRIPTOR.fields_by_name[path[0].removesuffix("[*]")]
    if path[0].endswith("[*]"):
        items = getattr(message, of.name)
        return [at(each, path[1:]) if path[1:] else value_of(of, each) for each in items]
    if of.has_presence and not message.HasField(path[0]):
        return None
    found = getattr(message, path[0])
    if len(path) > 1:
        return at(found, path[1:])
    return value_of(of, found)


def value_of(of: Any, found: Any) -> Any:
    if of.enum_type is not None:
        value = of.enum_type.values_by_number.get(found)
        return None if value is None else value.name
    return None if of.name.endswith(("uint64", "fixed64")) and "s" not in of.name[-8:-7] and found >= 1 << 63 else found


def home(draw: random.Random) -> dict[str, Any]:
    given = {"zip": draw.choice(["", "é12"]), "floor": draw.choice([0, -7, 2**31 - 1]), "kind": draw.choice([0, 1, 9])}
    given["tags"] = draw.choice([[], ["a"], ["", "b"]])
    return {name: value for name, value in given.items() if draw.random() < 0.7}


def visit(draw: random.Random, depth: int = 0) -> Any:
    """Return a record with fields of any value, many of them absent."""
    found = Newer() if depth == 0 and draw.random() < 0.2 else Visit()
    ends = {32: (2**31 - 1, -(2**31), 2**32 - 1), 64: (2**63 - 1, -(2**63), 2**64 - 1)}
    for kind in WHOLE:
        largest, least, unsigned = ends[int(kind[-2:])]
        choices = (0, 1, 300, largest, unsigned) if kind[0] in "uf" else (0, 1, -1, 300, largest, least)
        setattr(found, kind, draw.choice(choices))
        getattr(found, f"some_{kind}").extend(draw.choices(choices, k=draw.choice([0, 0, 1, 3])))
    found.bool = draw.random() < 0.5
    found.float = draw.choice([0.0, -1.5, 0.1, 1e-45, float("inf")])
    found.double = draw.choice([0.0, 0.1, -1e300, 5e-324])
    found.string = draw.choice(["", "Zoë 😀", "x" * 300])
    for name, _ in found.ListFields():
        if draw.random() < 0.3:
            found.ClearField(name.name)
    others: dict[str, list[Any]] = {"bool": [True, False], "float": [-1.5, 1e-45], "double": [0.1], "string": ["", "é"]}
    for name, values in others.items():
        getattr(found, f"some_{name}").extend(draw.choices(values, k=draw.randrange(3)))
    found.wards.extend(draw.choices([0, 1, 9], k=draw.randrange(3)))
    found.tests.extend(["a", "b"][: draw.randrange(3)])
    found.numbers.extend(range(draw.randrange(3)))
    if draw.random() < 0.6:
        found.home.SetInParent()
        found.home.MergeFrom(type(found.home)(**home(draw)))
    for _ in range(draw.choice([0, 0, 1, 3])):
        found.past.add(**home(draw))
    which = draw.randrange(4)
    if which == 0:
        found.phone = draw.choice(["", "555"])
    elif which == 1:
        found.office.MergeFrom(type(found.office)(**home(draw)))
    elif which == 2:
        found.secret = 5
    if draw.random() < 0.5:
        found.age = draw.choice([0, 33, -1])
    if depth < 2 and draw.random() < 0.4:
        found.before.ParseFromString(visit(draw, depth + 1).SerializeToString())
    if isinstance(found, Newer):
        found.more = 77
    return found


def test_records_are_read_as_protobufs_own_library_reads_them() -> None:
    draw = random.Random(1)
    records = [visit(draw).SerializeToString() for _ in range(400)]
    assert read([*records]) == [oracle(record) for record in records]
    # Two records one after the other are one record, of which the last values count and messages are merged.
    joined = [one + other for one, other in pairwise(records)]
    assert read(joined) == [oracle(record) for record in joined]
    assert read([None, b"", records[0]])[:2] == [[None] * len(FIELDS), oracle(b"")]


def test_arrays_are_read_packed_and_unpacked_and_in_parts() -> None:
    values = {f"some_{kind}": [True, False] if kind == "bool" else [1, 0, 5] for kind in KINDS[:-1]}
    packed, unpacked = Visit(**values).SerializeToString(), Unpacked(**values).SerializeToString()
    assert packed != unpacked
    records = [packed, unpacked, packed + unpacked, unpacked + packed, packed[:-1], unpacked[:-1]]
    assert read([*records]) == [oracle(record) for record in records]
    assert read([b"\xc2\x02\x03\x01\x80\x01"])[0] == oracle(b"\xc2\x02\x03\x01\x80\x01")
    # The last number of an array does not end within it, and no number is as short as its form.
    for broken in (b"\xc2\x02\x01\x80\x01", b"\xf2\x02\x03\1\2\3"):
        assert read([packed, broken]) == [oracle(packed), [None] * len(FIELDS)]
    many = Visit(numbers=range(1_000_000), past=[{"zip": str(number)} for number in range(1000)])
    found = dict(zip(FIELDS, read([b"", many.SerializeToString()])[1], strict=True))
    assert found["numbers[*]",][-2:] == [999_998, 999_999]
    assert found["past[*]", "zip"][-1] == "999"


def test_a_time_of_an_array_counts_milliseconds() -> None:
    made = ProtobufFields(MESSAGE, ((("times[*]",), CellType("BIGINT")), (("visited",), CellType("BIGINT"))))
    record = Visit(times=[{"seconds": 1}, {"nanos": 5_000_000}, {"nanos": -1}], visited={"seconds": 2})
    times, visited = made.columns(pa.array([record.SerializeToString(), b""]))
    assert (times._cells.to_pylist(), visited._cells.to_pylist()) == ([[1000, 5, None], []], [2000, None])


@pytest.mark.parametrize("precision", [3, 6])
def test_times_of_an_array_are_those_of_protobufs_own_library(precision: int) -> None:
    draw = random.Random(precision)
    seconds, nanos = (-62_135_596_800, -1, 0, 1_700_000_000, 253_402_300_799), (0, 999, 123_456_789, 999_999_999)
    records = [
        Visit(
            times=[{"seconds": draw.choice(seconds), "nanos": draw.choice(nanos)} for _ in range(draw.choice([0, 3]))]
        )
        for _ in range(60)
    ]
    made = ProtobufFields(MESSAGE, ((("times[*]",), CellType("TIMESTAMP", precision)),))
    (times,) = made.columns(pa.array([each.SerializeToString() for each in records], pa.binary()))
    step = 10 ** (6 - precision)
    expected = [[time.ToDatetime() for time in each.times] for each in records]
    assert times._cells.to_pylist() == [
        [time.replace(microsecond=time.microsecond // step * step) for time in each] for each in expected
    ]
    assert isinstance(times, ArrayCells)
    assert len(times.packed) == len(records)
    outside = Visit(times=[{"seconds": 253_402_300_800}, {"nanos": -1}, {}]).SerializeToString()
    (times,) = made.columns(pa.array([outside]))
    assert times._cells.to_pylist() == [[None, None, datetime(1970, 1, 1)]]


def test_bytes_that_are_no_message_are_missing_and_do_no_harm() -> None:
    draw = random.Random(2)
    good = visit(random.Random(7)).SerializeToString()
    broken = []
    for _ in range(3000):
        record = bytearray(visit(draw).SerializeToString())
        for _ in range(draw.randrange(1, 4)):
            if record and draw.random() < 0.5:
                record[draw.randrange(len(record))] = draw.randrange(256)
            else:
                del record[draw.randrange(len(record) + 1) :]
        broken.append(bytes(record))
    broken += [bytes(draw.randrange(256) for _ in range(draw.randrange(12))) for _ in range(3000)]
    broken += [b"\x9b\x06\x08\x01\x9c\x06", b"\x9b\x06\x9b\x06\x9c\x06", b"\x9b\x06\xa4\x06", b"\x9c\x06", b"\x00\x01"]
    found = read([each for record in broken for each in (record, good)])
    assert all(row == oracle(good) for row in found[1::2])
    nothing, read_too = str([None] * len(FIELDS)), 0  # as text, in which a NaN is equal to another
    for record, row in zip(broken, map(str, found[::2]), strict=True):
        expected = str(oracle(record))
        read_too += row != nothing and row == expected
        # Less is read: a known field in the form of another type is no field to Protobuf, and would be its default.
        # More is read: texts and messages that are not read here are not checked either.
        assert row in (nothing, expected) or expected == nothing, record
    assert read_too > 500


@pytest.mark.parametrize("record", [b"\x0d\x01\x00\x00\x00", b"\x70\x01", b"\xa0\x01\x01", b"\x80\xfa\x01"])
def test_a_known_field_in_the_form_of_another_type_makes_a_record_unreadable(record: bytes) -> None:
    assert read([record]) == [[None] * len(FIELDS)]


def test_a_time_is_read_in_each_of_its_types() -> None:
    kinds = CellType("TIMESTAMP", 6), CellType("TIMESTAMP", 3), CellType("BIGINT")
    made = [ProtobufFields(MESSAGE, ((("visited",), kind),)) for kind in kinds]
    given = [
        (0, 0),
        (1_700_000_000, 123_456_789),
        (-1, 999_999_999),
        (-62_135_596_800, 0),
        (1, -1),
        (253_402_300_800, 0),
    ]
    records = [Visit(visited={"seconds": s, "nanos": n}).SerializeToString() for s, n in given] + [b""]
    columns = [fields.columns(pa.array(records, pa.binary()))[0]._cells for fields in made]
    assert columns[0][1].as_py() == datetime(2023, 11, 14, 22, 13, 20, 123456)
    assert columns[0][2].as_py() == datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert columns[1][3].as_py() == datetime(1, 1, 1)
    assert columns[2].to_pylist() == [0, 1_700_000_000_123, -1, -62_135_596_800_000, None, None, None]
    assert all(column.null_count == 3 for column in columns)


def test_fields_of_a_group_are_refused() -> None:
    group = {"name": "old", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_GROUP", "type_name": ".A.Old"}
    of = {"name": "A", "field": [group], "nested_type": [{"name": "Old", "field": [field("a", 1, "int32")]}]}
    found = MessageType(descriptor_set({"name": "a.proto", "message_type": [of]}), "A")
    with pytest.raises(DescriptorError, match="has at 'old' a group, whose fields are not read"):
        found.find(("old", "a"))


def test_each_field_has_the_types_that_hold_its_values() -> None:
    found = {each.name: fitting_types(each) for each in MESSAGE.descriptor.fields}
    assert found["int32"] == ("INT", "BIGINT")
    assert found["uint32"] == ("BIGINT",)
    assert found["float"] == ("FLOAT", "DOUBLE")
    assert found["visited"] == ("TIMESTAMP(6)", "TIMESTAMP(3)", "BIGINT", "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(3)")
    assert [name for name, types in found.items() if not types] == ["home", "past", "office", "before", "photo"]


TEXT = """
// Messages of a newer producer: their order and some of their fields differ.
syntax = "proto3"; /* package other; */
package clinic;
import "google/protobuf/timestamp.proto";
option (about) = { text: "message Home {" list: [1, 2] };
message Before { message Inner { string x = 1; } }
enum Ward { WARD_NONE = 0; WARD_A = 1; }
message Home { string zip = 1 [deprecated = true, (about) = {text: "}"}]; sint32 floor = 2; string street = 9; }
service Visits { rpc Get (Home) returns (Home) { option (x) = 1; } }
message Visit {
  reserved 5, 6 to 8; reserved "foo";
  message Part { string package = 1; }
  int32 int32 = 1;
  oneof contact { string phone = 24; Home office = 25; string mail = 0x1f4; }
  map<string, Part> parts = 501;
  repeated int32 numbers = 22 [packed = false];
  string string = 14;
}
message Last { string string = 14; }
"""


def framed(number: int, indexes: bytes, record: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + indexes + record


def test_framed_records_are_read_as_their_message_has_them(caplog: pytest.LogCaptureFixture) -> None:
    texts = {1: TEXT, 2: TEXT.replace("message Visit", "message Other"), 3: "{]"}
    registry = MemoryRegistry(field="source.from_protobuf.registry", schemas=texts)
    wanted = {path: FIELDS[path] for path in (("string",), ("numbers[*]",))}
    made = pickle.loads(pickle.dumps(ProtobufFields(MESSAGE, tuple(wanted.items()), registry)))
    record = Visit(string="ann", numbers=[7, 8]).SerializeToString()
    good = framed(1, b"\2\4", record)  # one index, which is 2
    absent = (b"\0", b"\2\2", b"\4\4\0", b"\2\6", b"\1", b"\xff\xff\xff\xff\x0f", b"\2", b"")
    bad = [framed(1, each, b"" if each in (b"", b"\2") else record) for each in absent]
    bad += [framed(number, b"\2\4", record) for number in (2, 3, 9)] + [record, b"", b"\0", b"\1" + good[1:]]
    bad += [good[:-1], None]  # type: ignore[list-item]
    batch = pa.array([row for each in bad for row in (each, good)], pa.binary())
    for _ in range(2):
        columns = [column._cells.to_pylist() for column in made.columns(batch)]
        assert columns[0] == [None, "ann"] * len(bad)
        assert columns[1] == [None, [7, 8]] * len(bad)
    assert sorted(made.registry.requests) == [1, 2, 3, 9]
    assert made.unknown.by_field == dict.fromkeys(("Home.street", "mail", "parts"), 2 * len(bad))
    assert "the schema 2 of the registry has no message clinic.Visit" in caplog.text
    assert "the schema 3 of the registry is no schema of Protobuf" in caplog.text
    assert "source.from_protobuf.registry: the registry has no schema of the number that records name" in caplog.text
    assert (
        "the schema 1 of the registry has the field 'Home.street', which descriptor_file does not have" in caplog.text
    )
    # A single zero stands for the first message, and is as good as its index.
    first = MemoryRegistry(schemas={1: "package clinic; message Visit {}"})
    short = ProtobufFields(MESSAGE, tuple(wanted.items()), first)
    batch = pa.array([framed(1, indexes, record) for indexes in (b"\0", b"\2\0", b"\x80\0")])
    assert short.columns(batch)[0]._cells.to_pylist() == ["ann"] * 3


@pytest.mark.parametrize(
    "text", ["", "message A {", "message A { string b = c; }", "a [", "message A {} }", "\x01", "x = {;", '"x']
)
def test_texts_that_are_no_schema_of_protobuf_are_refused(text: str) -> None:
    with pytest.raises(DescriptorError):
        read_outline(text)
    with pytest.raises(DescriptorError, match="levels deep"):
        read_outline("message A {" * 100 + "}" * 100)
