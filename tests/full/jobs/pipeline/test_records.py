"""Fields of records: what is selected, what encode reads, what a broken record becomes, and what is refused."""

from __future__ import annotations

import io
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pandas as pd
import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.cli.init_source import describe
from crenel.jobs.config.load import load
from crenel.jobs.config.source import SourceSection
from crenel.jobs.formats.avro_records import AvroRecords
from crenel.jobs.formats.csv_records import CsvRecords
from crenel.jobs.formats.json_records import JsonRecords
from crenel.jobs.formats.protobuf_records import ProtobufRecords
from crenel.jobs.local.flags import prepare_java
from crenel.jobs.pipeline import build
from crenel.jobs.pipeline.java_functions import register
from crenel.jobs.pipeline.json_arrays import json_array_function
from crenel.jobs.pipeline.layout import SourceColumns, layout
from crenel.jobs.pipeline.packing import packing_functions
from crenel.jobs.pipeline.source_table import create_table, source_table
from crenel.jobs.pipeline.sql_expressions import argument, literal
from crenel.operators.column_types import parse
from crenel.operators.encode.arguments import ArgumentCollector
from crenel.operators.encode.avro.fields import AvroFields
from crenel.operators.encode.avro.schema import parse as parse_schema
from crenel.operators.encode.cells import ArrayCells, CellType
from crenel.operators.encode.columns import Argument, Batch
from crenel.operators.encode.csv_fields import CsvFields
from crenel.operators.encode.json_fields import JsonFields
from crenel.operators.encode.protobuf.fields import ProtobufFields
from crenel.operators.encode.protobuf.schema import MessageType
from crenel.operators.encode.records import RecordArguments
from crenel.operators.encode.schema_registry import SchemaRegistry
from tests.support import protobuf
from tests.support.arrays import ELEMENTS, arrays
from tests.support.odd_records import json_record
from tests.support.times import TIMES

pytestmark = pytest.mark.flink

FIELDS = {
    "person": "STRING",
    "age": "INT",
    "city": {"type": "STRING", "path": "$.home.city"},
    "it's": "DECIMAL(5, 2)",
    "smokes": "BOOLEAN",
}
RECORDS = {
    json.dumps({"person": "ann", "age": 33, "home": {"city": "Brackwater"}, "it's": 1.5, "smokes": True}): (
        "ann",
        33,
        "Brackwater",
        "1.50",
        True,
    ),
    '{"person": "bob", "age": "34", "home": []}': ("bob", 34, None, None, None),
    '{"person": {"first": "c"}, "age": [3], "smokes": "perhaps"}': (None,) * 5,
    '{"person": "dan", "age": 3': (None,) * 5,
    "": (None,) * 5,
    "null": (None,) * 5,
}


def test_an_event_time_is_read_from_json_as_flink_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    records = [json_record(chance) for _ in range(2000)]
    usual = [b'{"b": [{"c": "\\n"}, {}, [], -0.5, true, 1e2], "a" : %d}' % 10**digits for digits in range(25)]
    texts = [b'{"a": "%b"}' % text for text in (b"7", b"-7", b" 7", b"7.9", b"007", b"1" * 18, b"1" * 19, b"", b"x")]
    (tmp_path / "records").write_bytes(b"\n".join([*usual, *texts, *filter(None, records)]))
    (tmp_path / "job.yaml").write_text(
        f"""
policy: {{quasi_identifiers: {{size: {{type: numeric, domain: [0, 9]}}}}, event_time: moment, drop: [a, record]}}
privacy: {{k: 2}}
algorithm: castle
castle: {{delay: {{tuples: 9}}}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (record STRING, size AS 1, a AS TRY_CAST(JSON_VALUE(record, '$.a') AS BIGINT),
      moment AS TO_TIMESTAMP_LTZ(0, 3), WATERMARK FOR moment AS moment)
    WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "records"}', 'format' = 'raw')
sinks: {{released: {{connector: blackhole}}}}
"""
    )
    prepare_java()
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    sources: list[SourceColumns] = []
    monkeypatch.setattr(build, "layout", lambda config, source: sources.append(source) or layout(config, source))
    build.read_layout(tables, load(tmp_path / "job.yaml"))
    (source,) = sources
    assert "JSON_VALUE" in source.texts["source.ddl"], "the text, which identifies stored state, has changed"
    assert "JSON_VALUE" not in " ".join(source_table(tables).computed)
    query = "SELECT record, a, TRY_CAST(JSON_VALUE(record, '$.a') AS BIGINT) FROM source"
    with tables.execute_sql(query).collect() as rows:
        read = [tuple(row) for row in rows]
    assert sum(a is not None for _, a, _ in read) > 100
    assert [record for record, ours, flinks in read if ours != flinks] == []


def test_each_field_is_read_and_what_cannot_be_is_missing() -> None:
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate(RECORDS))
    tables.execute_sql(f"CREATE TEMPORARY VIEW source AS SELECT * FROM (VALUES {rows}) AS t (number, record)")
    query = JsonRecords(column="record", fields=FIELDS).query(["number", "record"])
    with tables.execute_sql(query).collect() as found:
        read = {
            row[-1]: tuple(str(value) if i == 3 and value else value for i, value in enumerate(row)) for row in found
        }
    assert [read[number][:-1] for number in range(len(RECORDS))] == list(RECORDS.values())


KINDS = {
    "text": "STRING",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "long": "BIGINT",
    "real": "DOUBLE",
    "exact": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 9)",
    "truth": "BOOLEAN",
}
PATHS = {"": "$['v']", " of home": "$.home['it\\'s']", " of all": "$.all[1]"}
VALUES = r"""null|true|false|0|1|-1|7|-0|-0.0|12.7|-12.9|300|-129|40000|99999999999|9223372036854775807
9223372036854775808|12345678901234567890123|1.10|1e3|1E2|3.9e1|0.1e-7|1.0|31964.275|-31964.275|1.005|123456.7e-2|0.30000000000000004
12345678.99|123456789.123456789012|1.00499999999999999999|1e30|""|" "|"xy"|"true"|"TRUE"|"no"|"yes "|" 12 "|"12.7"
"-12.9"|"+5"|"5."|".5"|"-.5"|"1e2"|"1E+3"|"00012"|"99999999999"|"--5"|"1,5"|"1_0"|"NaN"|"Infinity"|"-Infinity"|"inf"
"\u00a012"|"\t12\n"|"\ud83d\ude00"|"\ud800x"|"é€"|"a\u0000b"|[]|{}|[1,2]|{"a":1}""".replace("\n", "|").split("|")
MALFORMED = [
    b"",
    b"null",
    b"5",
    b"{",
    b'{"v": 1',
    b'{"v": 1,}',
    b'{"v": 01}',
    b"{'v': 1}",
    b'{"v": NaN}',
    b'\xef\xbb\xbf{"v": 1}',
]
MALFORMED += [
    b'{"v": "x\ty"}',
    b'{"v": "x\xff", "home": {"it\'s": 5}}',
    b'  {"v": 3}  ',
    b'{"v": 1} x',
    b'{"v": 1, "v": 2}',
]
# Of these a query reads less than encode does, such as nothing of the first, but neither of the two raises.
ODD = [
    b'{"v": 1, "other": 1e99999999999999999999}',
    b'{"v": "\\ud800", "other": %b}' % (b"[" * 400 + b"]" * 400),
    b'{"v": 1.5, "other": %b}' % (b"[" * 2000 + b"]" * 2000),
    b'{"v": "%b"}' % (b"1" * 5000),
]
MALFORMED += [
    b'{"v": "xy", "home": [1], "all": {"1": 2}}',
    b'{"v": 1, "all": [1]}',
    b'{"home": {"it\'s": 2, "its": 3}}',
]


def _records() -> list[bytes]:
    made = [json.dumps({"v": "V", "home": {"it's": "H"}, "all": [1, "A"]})] * len(VALUES)
    for number, value in enumerate(VALUES):
        others = VALUES[(number * 7 + 3) % len(VALUES)], VALUES[(number * 11 + 5) % len(VALUES)]
        for name, written in zip(("V", "H", "A"), (value, *others), strict=True):
            made[number] = made[number].replace(f'"{name}"', written)
    return [*(text.encode() for text in made), *MALFORMED]


ARRAYS = "STRING BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(10,2) DECIMAL(38,9) DATE TIME".split()
ARRAYS += ["TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"]

SHOWN = (("own", 2), ("x", 3), ("x", 1), ("x", 2), ("x", 4), ("no", 1), ("member", 1))


def test_each_value_of_an_array_is_read_as_a_field_of_its_type() -> None:
    values_of = [*VALUES, *(f'"{text}"' for text in TIMES), '"23:59"', '"23:59:59.5"', "20240229"]
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set_local_timezone("UTC")  # as a job has it
    records = [
        f'{{"v": {value}, "own": [1, {value}], "of": {{"it\'s": [{{}}, 3, {{"x": [{value}]}}, null]}}, "no": {value}}}'
        for value in values_of
    ]
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate([*records, "{", "null", "[]"]))
    tables.execute_sql(f"CREATE TEMPORARY VIEW source AS SELECT * FROM (VALUES {rows}) AS t (number, record)")
    paths = {"own": "$.own", "x": "$.of['it\\'s'][*].x[0]", "no": "$.no[*].x", "member": "$.v.a[*]"}
    fields: dict[str, Any] = {}
    columns = ["number"]
    for place, kind in enumerate(ARRAYS):
        fields[f"v{place}"] = {"type": kind, "path": "$.v"}
        fields |= {f"{name}{place}": {"type": f"ARRAY<{kind}>", "path": path} for name, path in paths.items()}
        shown = (f"v{place}", *(f"{name}{place}[{row}]" for name, row in SHOWN))
        columns += [f"CAST({each} AS STRING)" for each in shown]
        columns += [f"CARDINALITY(own{place})", f"CARDINALITY(x{place})"]
    read = JsonRecords(column="record", fields=fields)
    register(tables, read.functions())
    query = f"SELECT {', '.join(columns)} FROM ({read.query(['number', 'record'])})"
    with tables.execute_sql(query).collect() as found:
        values = {row[0]: tuple(row)[1:] for row in found}
    assert len(values) == len(values_of) + 3
    differing = []
    for place, kind in enumerate(ARRAYS):
        some = set()
        for number, text in enumerate(values_of):
            scalar, own, within, *others = values[number][10 * place : 10 * place + 10]
            differing += [(kind, text, scalar, own, within)] * ((own, within) != (scalar, scalar))
            assert others == [*[None] * 5, 2, 4], (kind, text)
            some.add(scalar)
        assert len(some) > (2 if kind == "BOOLEAN" else 4), (kind, some)
    assert not differing
    for kind, digits in (("DATE", 10), ("TIMESTAMP(3)", 23), ("TIMESTAMP_LTZ(3)", 23)):
        read_times = [values[len(VALUES) + number][10 * ARRAYS.index(kind)] for number in range(len(TIMES))]
        assert [time and time.ljust(19).ljust(23, "0")[:digits] for time in read_times] == [
            time and time.ljust(20, ".").ljust(23, "0")[:digits] for time in TIMES.values()
        ], kind
    assert {value for number in range(len(values_of), len(values_of) + 3) for value in values[number]} == {None}


ENCODED = {
    ("base64", "DECIMAL(10, 2)"): {
        "A+g=": "10.00",
        "/w==": "-0.01",
        "AA==": "0.00",
        "?": None,
        "": None,
        "f////////w==": None,
    },
    ("variable_scale", "DECIMAL(10, 2)"): {
        '{"scale": 0, "value": "A+g="}': "1000.00",
        '{"scale": 3, "value": "A+g="}': "1.00",
        '{"scale": 3, "value": "A+0="}': "1.01",
        '{"value": "++8=", "scale": -2}': "-104100.00",
        '{"scale": 0, "value": ""}': None,
        '{"scale": -7, "value": "A+g="}': None,
        '{"scale": 2147483647, "value": "AQ=="}': None,
        '{"scale": -2147483648, "value": "AQ=="}': None,
        '{"scale": "x", "value": "AQ=="}': None,
        '{"value": "A+g="}': None,
        '{"scale": 2, "value": null}': None,
        "A+g=": None,
        "null": None,
    },
    ("days", "DATE"): {
        "19782": "2024-02-29",
        "-1": "1969-12-31",
        "-719162": "0001-01-01",
        "-719163": None,
        "2932896": "9999-12-31",
        "2932897": None,
        "x": None,
    },
    ("milliseconds", "TIMESTAMP(3)"): {
        "1709164800123": "2024-02-29 00:00:00.123",
        "-1": "1969-12-31 23:59:59.999",
        "253402300799999": "9999-12-31 23:59:59.999",
        "253402300800000": None,
        "-62135596800001": None,
    },
    ("milliseconds", "TIME(3)"): {"28800120": "08:00:00.12", "0": "00:00:00.0"},
    ("microseconds", "TIME(3)"): {
        "28800120999": "08:00:00.12",
        "86399999999": "23:59:59.999",
        "86400000000": None,
        "-1": None,
        "9223372036854775807": None,
        "x": None,
    },
    ("nanoseconds", "TIME(1)"): {"28800190000001": "08:00:00.1"},
    ("nanoseconds", "TIME"): {"28800999999999": "08:00:00"},
    ("microseconds", "TIMESTAMP(6)"): {
        "1709164800123456": "2024-02-29 00:00:00.123456",
        "-1": "1969-12-31 23:59:59.999999",
    },
    ("microseconds", "TIMESTAMP_LTZ(3)"): {
        "1709164800123456": "2024-02-29 00:00:00.123",
        "-1": "1969-12-31 23:59:59.999",
    },
    ("nanoseconds", "TIMESTAMP(9)"): {"1709164800123456789": "2024-02-29 00:00:00.123456789", "1.5": None},
}
"""Values as Debezium writes them, by encoding and type, and as SQL shows them."""


def test_decimals_and_times_of_debezium_are_read() -> None:
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set_local_timezone("UTC")
    for (encoding, kind), values in ENCODED.items():
        read = JsonRecords.model_validate(
            {"column": "record", "fields": {"v": {"type": kind, "path": "$.after.v", "encoding": encoding}}}
        )
        plain = [v if re.fullmatch("-?[0-9]+|null|{.*}", v) else json.dumps(v) for v in values]
        records = [f'{{"after": {{"v": {v}}}}}' for v in plain]
        rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate(records))
        view = f"source AS SELECT * FROM (VALUES {rows}) AS t (number, record)"
        tables.execute_sql(f"CREATE TEMPORARY VIEW {view}")
        register(tables, read.functions())
        query = read.query(["number", "record"])
        with tables.execute_sql(f"SELECT number, CAST(v AS STRING) FROM ({query})").collect() as found:
            assert [row[1] for row in sorted(map(tuple, found))] == [*values.values()], encoding
        tables.execute_sql("DROP TEMPORARY VIEW source")


def test_the_query_of_init_reads_what_init_takes_for_a_type(tmp_path: Path) -> None:
    times = [text for text, time in TIMES.items() if time is not None and text[0] != "0"]
    columns = {
        "person": [f"p{number % 9}" for number in range(len(times))],
        "seen": times,
        "odd": [*times[1:], "2024-02-29T10:00:60Z"],
        "hex": ["0x1F"] * len(times),
        "size": [" 1.5", *["3"] * (len(times) - 1)],
    }
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    (tmp_path / "visits.csv").write_text("\n".join(lines), encoding="utf-8")
    found = describe(tmp_path / "visits.csv", 100, ())
    assert [of.form for of in found.profile.columns] == ["text", "timestamp", "text", "text", "number"]
    prepare_java()
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    tables.get_config().set_local_timezone("UTC")
    source = SourceSection.model_validate({"ddl": found.ddl, "query": found.query}).core(frozenset(), None)
    create_table(tables, "source.ddl", source, "source")
    with tables.execute_sql(f"SELECT person, CAST(seen AS STRING), hex, size FROM ({found.query})").collect() as rows:
        read = [tuple(row) for row in rows]
    assert [row[1:] for row in read] == [
        ((TIMES[text] or "").ljust(20, ".").ljust(23, "0"), "0x1F", float(size))
        for text, size in zip(times, columns["size"], strict=True)
    ]


def test_encode_reads_what_the_query_would(tmp_path: Path) -> None:
    """Require that encode and Flink read each field alike."""
    fields = {
        f"{name}{where}": {"type": kind, "path": path} for name, kind in KINDS.items() for where, path in PATHS.items()
    }
    records = JsonRecords.model_validate({"column": "record", "fields": fields})
    reader = ArgumentCollector({name: parse(field["type"]) for name, field in fields.items()})
    for name, field in fields.items():
        if not field["type"].startswith(("DOUBLE", "STRING")):
            reader.subject(name)  # as text
        if field["type"] != "BOOLEAN" and not name.startswith("wide"):
            reader.quasi_identifier(Numeric((0.0, 1.0)).named(name))
        reader.member("passthrough", name)
    assert not reader.problems
    plan = records.arguments(reader.arguments)
    assert plan is not None
    assert None not in plan.arguments
    assert isinstance(plan.fields, JsonFields)
    assert len(plan.fields.fields) == len(fields)

    written = [*_records(), *ODD]
    (tmp_path / "records").write_bytes(b"\n".join(written))
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("parallelism.default", "1")
    tables.execute_sql(
        "CREATE TEMPORARY TABLE source (record STRING) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path / 'records'}', 'format' = 'raw')"
    )
    types = {name: parse(field["type"]) for name, field in fields.items()}
    expressions = [argument(of, types[of[0]]) for of in reader.arguments]
    selected = ", ".join(f"{sql} AS a{number}" for number, sql in enumerate(expressions))
    with tables.execute_sql(f"SELECT {selected} FROM ({records.query(['record'])})").collect() as rows:
        by_flink = [list(row) for row in rows]
    here = zip(*(column.tolist() for column in plan.read(pd.Series(written, dtype=object))), strict=True)
    assert len(by_flink) == len(written)
    otherwise = [
        (record, sql, one, other)
        for record, wanted, found in zip(written, by_flink, here, strict=True)
        for sql, one, other in zip(expressions, wanted, found, strict=True)
        if not _alike(one, other) and record not in ODD
    ]
    assert not otherwise


def _alike(one: Any, other: Any) -> bool:
    if isinstance(other, float):
        # A column of whole numbers of which some are missing comes as float64.
        return one is None or math.isnan(one) if math.isnan(other) else one is not None and float(one) == other
    return type(one) is type(other) and one == other


def test_what_encode_does_not_read_is_left_to_the_query() -> None:
    fields = {
        "here": "INT",
        "time": "TIMESTAMP(3)",
        "single": "FLOAT",
        "any": {"type": "STRING", "path": "$..a"},
        "two": {"type": "STRING", "path": "$['a','b']"},
        "size": {"type": "INT", "path": "$.a.length()"},
        "escaped": {"type": "STRING", "path": "$['\\u0061']"},
    }
    records = JsonRecords.model_validate({"column": "record", "fields": fields})
    wanted: list[Argument] = [(name, "text") for name in fields] + [("moment", "watermark"), ("other", "text")]
    plan = records.arguments(wanted)
    assert plan == RecordArguments(JsonFields(((("here",), CellType("INT")),)), ((0, "text"), *(None,) * 8))
    assert records.arguments(wanted[1:]) is None


def test_a_column_that_is_not_there_and_one_that_is_there_twice_are_refused() -> None:
    records = JsonRecords(column="text", fields={"person": "STRING", "number": "INT"})
    with pytest.raises(ConfigError) as raised:
        records.query(["number", "record"])
    assert raised.value.problems == (
        "source.from_json.column: the table source has no column 'text'; one of number, record",
        "source.from_json.fields.number: the table source has a column of that name too; rename one of the two",
    )


def test_the_configuration_of_kafka_reads_all_that_its_policy_names() -> None:
    from crenel.jobs.config.load import load

    config = load(Path(__file__).parents[4] / "conf" / "kafka.yaml", ["subject_key=a key of the tests"])
    assert config.source.records is not None
    assert {"person", "age", "diagnosis"} <= config.source.records.fields.keys()


def test_lines_of_csv_are_read_by_encode_alone() -> None:
    fields = {"a": "INT", "it's": "STRING", "real": "DOUBLE", "seen": "TIMESTAMP", "paid": "DECIMAL(5, 2)"}
    records = CsvRecords(column="line", fields=fields, delimiter=";")
    assert records.query(["line", "ts"]) == (
        "SELECT CAST(NULL AS INT) AS `a`, CAST(NULL AS STRING) AS `it's`, CAST(NULL AS DOUBLE) AS `real`, "
        "CAST(NULL AS TIMESTAMP) AS `seen`, CAST(NULL AS DECIMAL(5, 2)) AS `paid`, `ts` FROM source"
    )
    mark: Argument = ("ts", "watermark")
    wanted: list[Argument] = [
        ("paid", "text"),
        mark,
        ("a", "number"),
        ("ts", "time"),
        ("a", "missing"),
        ("seen", "text"),
    ]
    plan = records.arguments(wanted)
    kinds = (4, CellType("DECIMAL", 5, 2)), (0, CellType("INT")), (3, CellType("TIMESTAMP", 6))
    arguments = (0, "text"), None, (1, "number"), None, (1, "missing"), (2, "text")
    assert plan == RecordArguments(CsvFields(5, kinds, ";"), arguments)  # type: ignore[arg-type]
    assert records.arguments([mark, ("ts", "time")]) is None
    with pytest.raises(ConfigError) as raised:
        records.arguments([("real", "integer"), ("it's", "text"), ("paid", "integer")])
    assert raised.value.problems == (
        "source.from_csv.fields.real: DOUBLE is not read as integer; declare it as STRING",
        "source.from_csv.fields.paid: DECIMAL(5, 2) is not read as integer; declare it as STRING",
    )


def test_fields_of_avro_are_read_by_encode_alone_and_fit_their_schema() -> None:
    union = ["null", "string", "int"]
    inner = {"type": "record", "name": "Home", "fields": [{"name": "zip", "type": ["null", "string"]}]}
    types: dict[str, Any] = {"age": "int", "home": inner, "odd": union, "all": {"type": "array", "items": "int"}}
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    schema = parse_schema(json.dumps({"type": "record", "name": "Visit", "fields": fields}))

    def of(types: dict[str, Any]) -> AvroRecords:
        return AvroRecords.model_validate({"column": "record", "schema_file": schema, "fields": types})

    records = of({"age": "INT", "zip": {"type": "STRING", "path": "home.zip"}})
    assert records.query(["record", "ts"], "bytes") == (
        "SELECT CAST(NULL AS INT) AS `age`, CAST(NULL AS STRING) AS `zip`, CAST(`record` AS BYTES) AS `bytes`, `ts` "
        "FROM source"
    )
    plan = records.arguments([("zip", "text"), ("moment", "watermark"), ("age", "number")])
    made = AvroFields(schema, ((("home", "zip"), CellType("STRING")), (("age",), CellType("INT"))))
    assert plan == RecordArguments(made, ((0, "text"), None, (1, "number")))
    assert of({"all": "ARRAY<BIGINT>"}).query(["record"]) == "SELECT CAST(NULL AS ARRAY<BIGINT>) AS `all` FROM source"
    bad = {"age": "STRING", "odd": "STRING", "all": "INT", "home": "STRING", "name": "STRING", "age[*]": "ARRAY<INT>"}
    bad |= {"all[*]": "ARRAY<STRING>"}
    with pytest.raises(ConfigError) as raised:
        of(bad).query(["record"])
    where, inside = "source.from_avro", "which is not one value of one type; give the path of a field inside it, or"
    assert raised.value.problems == (
        f"{where}.fields.age: {where}.schema_file has an int there; declare it as INT or BIGINT",
        f"{where}.fields.odd: {where}.schema_file has a union of null, string, int there, {inside} leave the field out",
        f"{where}.fields.all: {where}.schema_file has an array there; declare it as ARRAY<INT> or ARRAY<BIGINT>",
        f"{where}.fields.home: {where}.schema_file has a record there, {inside} leave the field out",
        f"{where}.fields.name: {where}.schema_file has no field 'name': it has age, home, odd, all; correct the path, "
        "or leave the field out",
        f"{where}.fields.age[*]: {where}.schema_file has at 'age' an int, and no array; correct the path, or leave the "
        "field out",
        f"{where}.fields.all[*]: {where}.schema_file has an int there; declare it as ARRAY<INT> or ARRAY<BIGINT>",
    )


def test_elements_of_arrays_have_the_types_of_their_schema() -> None:
    logical = {
        "day": {"type": "int", "logicalType": "date"},
        "fee": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "time": {"type": "long", "logicalType": "timestamp-micros"},
        "clock": {"type": "int", "logicalType": "time-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    }
    listed = [{"name": name, "type": {"type": "array", "items": of}} for name, of in logical.items()]
    schema = parse_schema(json.dumps({"type": "record", "name": "Visit", "fields": listed}))

    def problems(types: dict[str, str], of: Any = AvroRecords, **known: Any) -> tuple[str, ...]:
        records = of.model_validate({"column": "record", "fields": types, **(known or {"schema_file": schema})})
        try:
            records.query(["record"])
        except ConfigError as error:
            return error.problems
        plan = records.arguments([(name, "packed") for name in types])
        assert plan is not None
        assert all(of.name != "TIMESTAMP_LTZ" for _, of in plan.fields.fields)  # type: ignore[attr-defined]
        return ()

    day, fee = "ARRAY<DATE>", "array<decimal(9,2)>"
    assert not problems({"day": day, "fee": fee, "time": "ARRAY<TIMESTAMP(6)>", "local": "ARRAY<TIMESTAMP(3)>"})
    assert not problems({"time": "ARRAY<TIMESTAMP_LTZ(6)>", "local": "ARRAY<BIGINT>", "clock": "ARRAY<TIME(3)>"})
    bad = {"day": "ARRAY<INT>", "fee": "ARRAY<DECIMAL(9, 3)>", "time": "ARRAY<TIMESTAMP(3)>"}
    found = [each.split(" there; declare it as ") for each in problems(bad | {"local": "ARRAY<TIMESTAMP_LTZ(3)>"})]
    assert {of.partition(":")[0].removeprefix("source.from_avro.fields."): remedy for of, remedy in found} == {
        "day": "ARRAY<DATE>",
        "fee": "ARRAY<DECIMAL(9, 2)>",
        "time": "ARRAY<TIMESTAMP(6)> or ARRAY<BIGINT> or ARRAY<TIMESTAMP_LTZ(6)>",
        "local": "ARRAY<TIMESTAMP(3)> or ARRAY<BIGINT>",
    }
    times = protobuf.field("times", 1, ".google.protobuf.Timestamp", many=True)
    message_type: dict[str, Any] = {"name": "Visit", "field": [times]}
    file = {
        "name": "v.proto",
        "syntax": "proto3",
        "dependency": ["google/protobuf/timestamp.proto"],
        "message_type": [message_type],
    }
    content = protobuf.descriptor_set(file, imports=[timestamp_pb2.DESCRIPTOR])
    for kind in ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "BIGINT"):
        assert not problems({"times": f"ARRAY<{kind}>"}, ProtobufRecords, descriptor_file=content)


def test_instants_and_times_of_day_are_read_as_flink_reads_their_texts() -> None:
    """The arguments of each role of such columns; Avro and Protobuf give the same values of an instant."""
    logical = {
        "seen": ("long", "timestamp-millis"),
        "moment": ("long", "timestamp-micros"),
        "clock": ("int", "time-millis"),
    }
    listed = [{"name": name, "type": {"type": of, "logicalType": kind}} for name, (of, kind) in logical.items()]
    schema = parse_schema(json.dumps({"type": "record", "name": "Visit", "fields": listed}))
    types = {"seen": "TIMESTAMP_LTZ(3)", "moment": "TIMESTAMP_LTZ(6)", "clock": "TIME(3)"}
    avro = AvroRecords.model_validate({"column": "record", "schema_file": schema, "fields": types})
    select = ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in types.items())
    assert avro.query(["record"]) == f"SELECT {select} FROM source"
    times = [protobuf.field(name, n, ".google.protobuf.Timestamp") for n, name in enumerate(("seen", "moment"), 1)]
    file = {"name": "v.proto", "syntax": "proto3", "dependency": ["google/protobuf/timestamp.proto"]}
    set_of = protobuf.descriptor_set(
        file | {"message_type": [{"name": "Visit", "field": times}]}, imports=[timestamp_pb2.DESCRIPTOR]
    )
    of_message = {name: types[name] for name in ("seen", "moment")}
    messages = ProtobufRecords.model_validate({"column": "record", "descriptor_file": set_of, "fields": of_message})
    reader = ArgumentCollector({name: parse(kind) for name, kind in types.items()})
    for name in types:
        reader.member("sensitive", name)
    reader.event_time("seen")
    assert not reader.problems
    assert reader.arguments == [("seen", "text"), ("moment", "text"), ("clock", "text"), ("seen", "time")]
    content = io.BytesIO()
    values = {"seen": -1, "moment": 1_700_000_000_123_456, "clock": 28_800_500}
    fastavro.schemaless_writer(content, {"type": "record", "name": "Visit", "fields": listed}, values)
    visit = protobuf.message_class(set_of, "Visit")
    message = visit(seen={"seconds": -1, "nanos": 999_000_000}, moment={"seconds": 1_700_000_000, "nanos": 123_456_000})
    expected = ["1969-12-31 23:59:59.999", "2023-11-14 22:13:20.123456", "08:00:00.5"]
    for records, record in ((avro, content.getvalue()), (messages, message.SerializeToString())):
        plan = records.arguments([of for of in reader.arguments if of[0] in records.fields])
        assert plan is not None
        *texts, seen = plan.read(pd.Series([record, None]))
        assert [each.to_pylist() for each in texts] == [[text, None] for text in expected[: len(texts)]]
        assert seen.isna().tolist() == [False, True]
        assert seen[0] == pd.Timestamp("1969-12-31 23:59:59.999")
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("table.local-time-zone", "UTC")
    columns = ", ".join(
        f"CAST(CAST({literal(text)} AS {kind}) AS STRING)" for text, kind in zip(expected, types.values(), strict=True)
    )
    with tables.execute_sql(f"SELECT {columns}").collect() as found:
        assert [list(row) for row in found] == [expected]


def test_fields_of_protobuf_are_read_by_encode_alone_and_fit_their_message() -> None:
    home = {"name": "Home", "field": [protobuf.field("zip", 1, "string")]}
    fields = [
        protobuf.field("age", 1, "int32"),
        protobuf.field("home", 2, ".Home"),
        protobuf.field("all", 3, "int32", many=True),
        protobuf.field("map", 4, ".Visit.MapEntry", many=True),
    ]
    entry = {"name": "MapEntry", "field": [protobuf.field("key", 1, "int32"), protobuf.field("value", 2, "int32")]}
    visit = {"name": "Visit", "field": fields, "nested_type": [entry | {"options": {"map_entry": True}}]}
    message = MessageType(
        protobuf.descriptor_set({"name": "v.proto", "message_type": [home, visit]}),
        "Visit",
    )
    section = {"column": "record", "descriptor_file": message.content, "message": "Visit"}
    good = {"age": "INT", "zip": {"type": "STRING", "path": "home.zip"}}
    records = ProtobufRecords.model_validate(section | {"fields": good, "registry": "http://registry"})
    registry = SchemaRegistry("http://registry", field="source.from_protobuf.registry")
    assert records.query(["record", "ts"]) == (
        "SELECT CAST(NULL AS INT) AS `age`, CAST(NULL AS STRING) AS `zip`, `ts` FROM source"
    )
    plan = records.arguments([("zip", "text"), ("moment", "watermark"), ("age", "number")])
    made = ProtobufFields(message, ((("home", "zip"), CellType("STRING")), (("age",), CellType("INT"))), registry)
    assert plan == RecordArguments(made, ((0, "text"), None, (1, "number")))
    bad = {"age": "STRING", "all": "INT", "home": "STRING", "name": "STRING", "home[*].zip": "ARRAY<STRING>"}
    bad |= {"map": "INT"}
    with pytest.raises(ConfigError) as raised:
        ProtobufRecords.model_validate(section | {"fields": bad}).query(["record"])
    where, inside = "source.from_protobuf", "which is not one value of one type; give the path of a field inside it, or"
    assert raised.value.problems == (
        f"{where}.fields.age: {where}.descriptor_file has an int32 there; declare it as INT or BIGINT",
        f"{where}.fields.all: {where}.descriptor_file has a repeated int32 there; declare it as ARRAY<INT> or "
        "ARRAY<BIGINT>",
        f"{where}.fields.home: {where}.descriptor_file has a Home there, {inside} leave the field out",
        f"{where}.fields.name: {where}.descriptor_file has no field 'name': it has age, home, all, map; correct the "
        "path, or leave the field out",
        f"{where}.fields.home[*].zip: {where}.descriptor_file has at 'home' a Home, and no repeated field; correct the "
        "path, or leave the field out",
        f"{where}.fields.map: {where}.descriptor_file has a map there, {inside} leave the field out",
    )


def test_arrays_that_encode_packs_are_those_that_flink_packs() -> None:
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    for kind, element in ELEMENTS.items():
        function, _ = packing_functions([parse(f"ARRAY<{kind}>")])
        register(tables, [function])
        given = [each for each in arrays(kind) if each]
        written = [
            [f"CAST({'NULL' if value is None else literal(str(value))} AS {kind})" for value in each] for each in given
        ]
        columns = ", ".join(f"{function.name}(ARRAY[{', '.join(each)}])" for each in written)
        texts = ", ".join(f"JSON_STRING(CAST(ARRAY[{', '.join(each)}] AS ARRAY<STRING>))" for each in written)
        with tables.execute_sql(f"SELECT {columns}, {texts}").collect() as found:
            (row,) = found
        sql = parse(kind)
        cells = ArrayCells(CellType(sql.name, sql.precision or 0, sql.scale), pa.array(given, pa.list_(element)))
        assert cells.packed.to_pylist() == list(map(bytes, row[: len(given)])), kind
        if kind.partition("(")[0] in ("STRING", "DATE", "TIME", "DECIMAL", "TIMESTAMP"):  # as a sensitive array
            by_sql = pa.array(map(json.loads, row[len(given) :]), pa.list_(pa.string()))
            form = ArgumentCollector({"c": parse(f"ARRAY<{kind}>")}, arrays=["c"]).member("sensitive", "c")
            assert cells.list.to_pylist() == Batch((by_sql,))._lists(replace(form, value=0)).to_pylist(), kind


def test_members_may_have_the_names_of_the_parts_of_a_function() -> None:
    source = json_array_function(parse("INT"), ["ITEMS", "VALUE"], ["ARRAY"]).source
    assert 'at(at(record, "ITEMS"), "VALUE")' in source
    assert 'value(at(item, "ARRAY"))' in source
