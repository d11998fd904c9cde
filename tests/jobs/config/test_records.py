"""Columns that are read from text: what of ``from_csv`` and ``from_json`` is taken, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.load import load
from crenel.jobs.formats.avro_records import AvroRecords
from crenel.jobs.formats.csv_records import CsvRecords
from crenel.jobs.formats.protobuf_records import ProtobufRecords
from crenel.jobs.formats.record_format import RecordFormat
from tests.support.protobuf import descriptor_set

TEXT = """
policy: {quasi_identifiers: {age: {type: numeric}}}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""
CSV = "source.from_csv={column: line, fields: {age: int, 'on': 'DECIMAL(5, 2)', t: TIMESTAMP(3)}%s}"


def read(folder: Path, *overrides: str) -> RecordFormat | None:
    path = folder / "job.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return load(path, overrides).source.records


def test_lines_are_read_in_the_order_of_their_fields(tmp_path: Path) -> None:
    found = read(tmp_path, CSV % ", delimiter: '\t', quote: null, null_literal: '\\N'")
    assert isinstance(found, CsvRecords)
    assert found.types == {"age": "int", "on": "DECIMAL(5, 2)", "t": "TIMESTAMP(3)"}
    assert (found.column, found.delimiter, found.quote, found.null_literal) == ("line", "\t", None, "\\N")
    assert list(found.fields) == ["age", "on", "t"]
    plain = read(tmp_path, CSV % "")
    assert isinstance(plain, CsvRecords)
    assert (plain.delimiter, plain.quote, plain.null_literal) == (",", '"', "")
    assert plain.parsing_options != found.parsing_options


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((CSV % ", delimiter: ';;'",), "source.from_csv.delimiter: is not one character of ASCII"),
        ((CSV % ", delimiter: é",), "source.from_csv.delimiter: is not one character of ASCII"),
        ((CSV % ", quote: ''",), "source.from_csv.quote: is not one character of ASCII"),
        ((CSV % ", quote: ','",), "source.from_csv: has one character as 'delimiter' and as 'quote'; give two, or"),
        ((CSV % ", header: true",), "source.from_csv.header: is unknown; known here: column"),
        (("source.from_csv={column: line, fields: {}}",), "source.from_csv.fields: "),
        (
            ("source.from_csv={column: line, fields: {t: ARRAY<STRING>}}",),
            "source.from_csv.fields.t: is an array, and a field of a line of CSV is one value; read records of JSON",
        ),
        (
            ("source.from_json={column: line, fields: {t: ARRAY<BYTES>}}",),
            "source.from_json.fields.t.type: is not a type that JSON text is read as; ",
        ),
        (
            ("source.from_json={column: line, fields: {t: {type: DOUBLE, encoding: base64}}}",),
            "source.from_json.fields.t: has the encoding base64 and the type DOUBLE; give DECIMAL",
        ),
        (
            ("source.from_json={column: line, fields: {t: {type: STRING, encoding: variable_scale}}}",),
            "source.from_json.fields.t: has the encoding variable_scale and the type STRING; give DECIMAL",
        ),
        (
            ("source.from_json={column: line, fields: {t: {type: DATE, encoding: nanoseconds}}}",),
            "source.from_json.fields.t: has the encoding nanoseconds and the type DATE; give TIMESTAMP, ",
        ),
        *(
            (
                (f"source.from_json={{column: line, fields: {{t: {{type: ARRAY<INT>, path: '{path}'}}}}}}",),
                "source.from_json.fields.t: has a path that no ARRAY is read by; give names, positions and at most one",
            )
            for path in ("$.a[*].b[*]", "$..a", "$.a[*]b")
        ),
        (
            ("source.from_csv={column: line, fields: {t: TIMESTAMP(9)}}",),
            "source.from_csv.fields.t: is not a type that a field of CSV is read as; ",
        ),
        (
            (CSV % "", "source.query=SELECT * FROM source"),
            "source: has 'query' and 'from_csv', of which one stands in the other's place; keep one",
        ),
        (
            (CSV % "", "source.from_json={column: record, fields: {age: INT}}"),
            "source: has 'from_json' and 'from_csv', of which one stands in the other's place; keep one",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(
    tmp_path: Path, overrides: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, *overrides)
    (problem,) = error.value.problems
    assert problem.startswith(expected)


AVRO = (
    "source.from_avro={column: record, schema_file: visits.avsc, fields: {age: int, zip: {type: STRING, path: a.b}}%s}"
)


def test_fields_of_avro_have_the_paths_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "visits.avsc").write_text('"int"', encoding="utf-8")
    found = read(tmp_path, AVRO % ", registry: {url: 'https://registry:8081/x', user: me, password: secret}")
    assert isinstance(found, AvroRecords)
    assert (found.types, found.steps) == ({"age": "int", "zip": "STRING"}, {"age": ("age",), "zip": ("a", "b")})
    registry = found.schema_registry
    assert registry is not None
    assert registry.password is not None
    assert (registry.url, registry.password.read()) == ("https://registry:8081/x", b"secret")
    assert registry.password.name == "source.from_avro.registry.password"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("schema", "more", "expected"),
    [
        (None, "", "source.from_avro.schema_file: {}/visits.avsc: cannot be read: No such file or directory"),
        ("{", "", "source.from_avro.schema_file: {}/visits.avsc: is no JSON"),
        ('"int"', ", registry: registry:8081", "source.from_avro.registry.url: is no address that begins with http://"),
        ('"int"', ", registry: 'http://me:key@registry'", "source.from_avro.registry.url: holds a user or a password"),
        (
            '"int"',
            ", fields: {t: ARRAY<TIME>}",
            "source.from_avro.fields.t.type: is not a type that a field of Avro is read as",
        ),
        (
            '"int"',
            ", fields: {t: TIME}",
            "source.from_avro.fields.t.type: is not a type that a field of Avro is read as",
        ),
    ],
)
def test_avro_that_cannot_be_read_is_refused_with_its_field(
    tmp_path: Path, schema: str | None, more: str, expected: str
) -> None:
    if schema is not None:
        (tmp_path / "visits.avsc").write_text(schema, encoding="utf-8")
    given = (AVRO % more) if "fields" not in more else (AVRO % "").replace("fields: {age: int", more[2:-1])
    with pytest.raises(ConfigError) as error:
        read(tmp_path, given)
    (problem,) = error.value.problems
    assert problem.startswith(expected.format(tmp_path)), problem
    assert "key" not in problem


def test_instants_of_avro_are_read_in_utc_alone(tmp_path: Path) -> None:
    (tmp_path / "visits.avsc").write_text('"int"', encoding="utf-8")
    given = (AVRO % "").replace(
        "fields: {age: int", "fields: {age: INT, t: TIMESTAMP_LTZ(3), of: ARRAY<TIMESTAMP_LTZ(3)>"
    )
    assert read(tmp_path, given, "flink={table.local-time-zone: UTC}") is not None
    with pytest.raises(ConfigError) as error:
        read(tmp_path, given, "flink={table.local-time-zone: Europe/Oslo}")
    assert error.value.problems == (
        "source.from_avro.fields.t: TIMESTAMP_LTZ(3) is read in UTC, and flink.table.local-time-zone is not UTC; set "
        "it to UTC, or declare the field as BIGINT",
    )


def test_paths_of_arrays_of_avro_go_to_their_items(tmp_path: Path) -> None:
    (tmp_path / "visits.avsc").write_text('"int"', encoding="utf-8")
    fields = (
        "{codes: ARRAY<INT>, 'rows[*].ward': ARRAY<STRING>, tags: {type: array<string>, path: home.tags}, age: INT}"
    )
    found = read(tmp_path, f"source.from_avro={{column: record, schema_file: visits.avsc, fields: {fields}}}")
    assert isinstance(found, AvroRecords)
    assert [*found.steps.values()] == [
        ("codes[*]",),
        ("rows[*]", "ward"),
        ("home", "tags[*]"),
        ("age",),
    ]


PROTOBUF = AVRO.replace("from_avro", "from_protobuf").replace(
    "schema_file: visits.avsc", "descriptor_file: visits.desc"
)


def test_fields_of_protobuf_have_the_paths_of_their_names(tmp_path: Path) -> None:
    files = {"name": "a.proto", "message_type": [{"name": "A"}, {"name": "B", "nested_type": [{"name": "C"}]}]}
    (tmp_path / "visits.desc").write_bytes(descriptor_set(files))
    given = PROTOBUF % ", message: C, registry: {url: 'http://registry', user: me, password: hidden}"
    found = read(tmp_path, given)
    assert isinstance(found, ProtobufRecords)
    assert (found.types, found.steps) == ({"age": "int", "zip": "STRING"}, {"age": ("age",), "zip": ("a", "b")})
    assert found.message_type().descriptor.full_name == "B.C"
    registry = found.schema_registry
    assert registry is not None
    assert (registry.url, registry.field) == ("http://registry", "source.from_protobuf.registry")
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("content", "more", "expected"),
    [
        (None, "", ".descriptor_file: {}/visits.desc: cannot be read: No such file or directory"),
        (b'syntax = "proto3";', "", ".descriptor_file: {}/visits.desc: is text; write a descriptor set by protoc"),
        (b"\0", "", ": descriptor_file is no descriptor set; write one by protoc --include_imports"),
        ("AB", "", ": descriptor_file has 2 messages (A, B); name one by 'message'"),
        ("A", ", message: B", ": descriptor_file has no message of the name that 'message' gives; choose one of A"),
        *(
            (
                "A",
                f", fields: {{t: {{type: ARRAY<INT>, path: '{path}'}}}}",
                ".fields.t: has a path that no ARRAY is read",
            )
            for path in ("a[0]", "a[*].b[*]", "a[*]b", "[*].a[*]")
        ),
        (
            "A",
            ", fields: {t: {type: INT, path: 'a[*].b'}}",
            ".fields.t: has a path through an array, and the type INT; declare it as ARRAY<INT>",
        ),
        ("A", ", registry: registry:8081", ".registry.url: is no address that begins with http:// or https://"),
        *(
            ("A", f", fields: {{t: {kind}}}", ".fields.t.type: is not a type that a field of Protobuf is read as")
            for kind in ("DATE", "ARRAY<DATE>", "'ARRAY<DECIMAL(9, 2)>'", "TIMESTAMP_LTZ(9)")
        ),
    ],
)
def test_protobuf_that_cannot_be_read_is_refused_with_its_field(
    tmp_path: Path, content: bytes | str | None, more: str, expected: str
) -> None:
    if isinstance(content, str):
        content = descriptor_set({"name": "a.proto", "message_type": [{"name": name} for name in content]})
    if content is not None:
        (tmp_path / "visits.desc").write_bytes(content)
    given = (PROTOBUF % more) if "fields" not in more else (PROTOBUF % "").replace("fields: {age: int", more[2:-1])
    with pytest.raises(ConfigError) as error:
        read(tmp_path, given)
    (problem,) = error.value.problems
    assert problem.startswith("source.from_protobuf" + expected.format(tmp_path)), problem
