"""A value has the number, text and time of the table of values in records of each format, in each role."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, time, timezone
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

import crenel
from crenel.anonymity.model import values
from crenel.jobs.formats.avro_records import AvroRecords
from crenel.jobs.formats.csv_records import CsvRecords
from crenel.jobs.formats.json_records import JsonRecords
from crenel.jobs.formats.protobuf_records import ProtobufRecords
from crenel.jobs.formats.record_format import RecordFormat
from crenel.operators.column_types import ColumnType, parse
from crenel.operators.encode import json_fields
from crenel.operators.encode.avro.schema import parse as parse_schema
from tests.crenel.test_values import (
    ROLES,
    TYPES,
    Type,
    by_a_job,
    by_a_program,
    encoded,
    job_layout,
    rows_of,
    settings,
    sql_arguments,
    tried,
)
from tests.support.protobuf import descriptor_set, field, message_class

_NARROW = {"TINYINT": "INT", "SMALLINT": "INT"}
"""Types without one of Avro or Protobuf, and the one that their values are declared as."""

_FRACTIONS = {3: "millis", 6: "micros"}
_STAMP = ".google.protobuf.Timestamp"


class Written(NamedTuple):
    """Records that hold a value as the field ``c``.

    Attributes
    ----------
    records : as a configuration declares them
    contents : record of each value, and at the end one in which it is missing
    """

    records: RecordFormat
    contents: Sequence[bytes]


def as_json(of: Type, sql: ColumnType) -> Iterator[Written]:
    """Yield numbers plain, quoted, and in records that are read one by one; Flink itself reads other types."""
    if sql.name not in json_fields.FORMS:
        return
    quoted = [json.dumps(_written(value)) for value in of.values]
    plain = quoted
    if sql.name == "BOOLEAN":
        plain = [text.strip('"').lower() for text in quoted]
    elif sql.name != "STRING":  # NaN and infinity are no numbers of JSON
        plain = [text if text.strip('"-').isalpha() else text.strip('"') for text in quoted]
    for texts, end in ((plain, ""), (quoted, ""), (plain, " x")):
        contents = [f'{{"c": {text}}}{end}'.encode() for text in (*texts, "null")]
        yield Written(JsonRecords.model_validate({"column": "record", "fields": {"c": sql.text}}), contents)


def as_csv(of: Type, sql: ColumnType) -> Iterator[Written]:
    """Yield texts with and without quotes; numbers with a space are read one by one, and times have three forms."""
    if sql.name == "TIME" or sql.precision == 9:
        return
    plain = [_written(value) for value in of.values]
    forms = [plain]
    if sql.name.startswith("TIMESTAMP"):
        stamps = [text or "" for text in of.texts]
        forms = [stamps, *([text.replace(" ", "T") + zone for text in stamps] for zone in ("Z", "+00:00"))]
    elif sql.name in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE"):
        forms.append([f" {text}" for text in plain])
    for texts in forms:
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
            contents = []
            for text in (*texts, "NULL"):
                line = io.StringIO()
                csv.writer(line, lineterminator="", quoting=quoting).writerow([text, "x"])
                contents.append(line.getvalue().encode())
            section = {"column": "record", "fields": {"c": sql.text, "further": "STRING"}, "null_literal": "NULL"}
            yield Written(CsvRecords.model_validate(section), contents)


def as_avro(of: Type, sql: ColumnType) -> Iterator[Written]:
    decimal = {"logicalType": "decimal", "precision": sql.precision, "scale": sql.scale}
    kinds: dict[str, list[Any]] = {
        **{name: ["int"] for name in ("TINYINT", "SMALLINT", "INT")},
        "BIGINT": ["long"],
        "FLOAT": ["float"],
        "DOUBLE": ["double"],
        "BOOLEAN": ["boolean"],
        "STRING": ["string"],
        "DECIMAL": [{"type": "bytes", **decimal}, {"type": "fixed", "name": "f", "size": 16, **decimal}],
        "DATE": [{"type": "int", "logicalType": "date"}],
        "TIME(3)": [{"type": "int", "logicalType": "time-millis"}],
    }
    for precision, unit in _FRACTIONS.items():
        kinds[f"TIMESTAMP({precision})"] = [{"type": "long", "logicalType": f"local-timestamp-{unit}"}]
        kinds[f"TIMESTAMP_LTZ({precision})"] = [{"type": "long", "logicalType": f"timestamp-{unit}"}]
    if of is TYPES["dictionary"]:
        kinds["STRING"].append({"type": "enum", "name": "e", "symbols": ["a", "b"]})
    for kind in kinds.get("DECIMAL" if sql.name == "DECIMAL" else sql.text, []):
        schema = {"type": "record", "name": "r", "fields": [{"name": "c", "type": ["null", kind]}]}
        contents = []
        for value in (*of.values, None):
            record, exact = io.BytesIO(), Decimal(value) if sql.name == "DECIMAL" and value is not None else value
            fastavro.schemaless_writer(record, schema, {"c": exact})
            contents.append(record.getvalue())
        section = {"column": "record", "fields": {"c": _NARROW.get(sql.text, sql.text)}}
        read_as = parse_schema(json.dumps(schema))
        yield Written(AvroRecords.model_validate(section | {"schema_file": read_as}), contents)


def as_protobuf(of: Type, sql: ColumnType) -> Iterator[Written]:
    kinds = {
        **{name: ["int32", "sint32", "sfixed32"] for name in ("TINYINT", "SMALLINT", "INT")},
        "BIGINT": ["uint32", "fixed32"] if of is TYPES["uint32"] else ["int64", "sint64", "sfixed64"],
        "FLOAT": ["float"],
        "DOUBLE": ["double"],
        "BOOLEAN": ["bool"],
        "STRING": ["string", ".p.Letter"] if of is TYPES["dictionary"] else ["string"],
        **{f"{name}({digits})": [_STAMP] for name in ("TIMESTAMP", "TIMESTAMP_LTZ") for digits in _FRACTIONS},
    }
    for kind in kinds.get(sql.text, []):
        enum = {"type": "TYPE_ENUM"} if kind == ".p.Letter" else {}
        own = field("c", 1, kind, proto3_optional=True, oneof_index=0, **enum)
        file = {
            "name": "p.proto",
            "package": "p",
            "syntax": "proto3",
            "dependency": ["google/protobuf/timestamp.proto"],
            "enum_type": [{"name": "Letter", "value": [{"name": "a", "number": 0}, {"name": "b", "number": 1}]}],
            "message_type": [{"name": "R", "field": [own], "oneof_decl": [{"name": "_c"}]}],
        }
        content = descriptor_set(file, imports=[timestamp_pb2.DESCRIPTOR])
        message, contents = message_class(content, "p.R"), []
        for value in of.values:
            record = message()
            if kind == _STAMP:
                record.c.FromDatetime(value)
            else:
                record.c = "ab".index(value) if enum else value
            contents.append(record.SerializeToString())
        section = {"column": "record", "fields": {"c": _NARROW.get(sql.text, sql.text)}, "descriptor_file": content}
        yield Written(ProtobufRecords.model_validate(section), [*contents, b""])


FORMATS: dict[str, Callable[[Type, ColumnType], Iterator[Written]]] = {
    "JSON": as_json,
    "CSV": as_csv,
    "Avro": as_avro,
    "Protobuf": as_protobuf,
}


def _written(value: Any) -> str:
    """Return a value as text, which needs quotes in JSON where JSON has no such number."""
    return json.dumps(float(value)) if isinstance(value, float | np.floating) else str(value)


def by_a_reader(of: Type, made: crenel.Settings, written: Written) -> tuple[Any, ...]:
    """Return what a job encodes whose records are ``written``; SQL has the arguments that the reader leaves to it."""
    found = job_layout(of, made)
    arguments = sql_arguments(of, found)
    plan = written.records.arguments(found.plan.arguments)
    if plan is not None:
        records = [written.contents[-1 if row is None else row] for row in rows_of(of)]
        others = [argument for argument, field in zip(arguments, plan.arguments, strict=True) if field is None]
        arguments = [*plan.read(pd.Series(records, dtype=object), *others)]
    return encoded(found, made, arguments)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", [name for name, of in TYPES.items() if of.sql is not None])
def test_a_value_is_read_alike_from_records_of_each_format(name: str, form: str) -> None:
    of = TYPES[name]
    records = [*FORMATS[form](of, parse(of.sql or ""))]
    for role in ROLES:
        made = settings(role, of)
        wanted = tried(by_a_job, of, made)
        for written in records:
            assert tried(partial(by_a_reader, written=written), of, made) == wanted, (role, written)


MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
ZONED = MOMENTS.map(lambda moment: moment.replace(tzinfo=timezone.utc))
DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float32": st.floats(width=32),
    "float64": st.floats(),
    "string": st.text().filter(lambda text: text != "NULL") | st.sampled_from(["1e5", "+5", " 7", "1_0", "10.0.3.7"]),
    "decimal": st.decimals(Decimal("-999.99"), Decimal("999.99"), places=2),
    "small decimal": st.decimals(Decimal("-99.9999999999"), Decimal("99.9999999999"), places=10),
    "date32": st.dates(),
    "time32[ms]": st.times().map(lambda of: time(of.hour, of.minute, of.second, of.microsecond // 1000 * 1000)),
    "timestamp[ms]": MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
    "timestamp[us]": MOMENTS,
    "zoned[ms]": ZONED.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
    "zoned[us]": ZONED,
}


@given(st.data(), st.sampled_from(sorted(DRAWN)), st.sampled_from(sorted(ROLES.keys() - {"event time", "passthrough"})))
def test_any_value_is_read_from_records_as_from_data_of_a_program(data: st.DataObject, name: str, role: str) -> None:
    own, drawn = TYPES[name], data.draw(st.lists(DRAWN[name], min_size=1, max_size=4))
    column = pa.array(drawn, own.arrow, from_pandas=pa.types.is_floating(own.arrow))
    numbers = values.numbers(column).tolist() if own.numbers and name != "string" else ()
    of = own._replace(values=drawn, texts=values.texts(column).to_pylist(), numbers=numbers)
    made = settings(role, of)
    wanted = tried(by_a_program, of, made)
    for form in FORMATS.values():
        for written in form(of, parse(of.sql or "")):
            assert tried(partial(by_a_reader, written=written), of, made) == wanted, written
