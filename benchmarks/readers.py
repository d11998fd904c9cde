"""Processor time of encode's readers for a record: nine fields, and the same with arrays beside them."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.measure import Table
from crenel.operators.encode.avro.fields import AvroFields
from crenel.operators.encode.avro.schema import parse
from crenel.operators.encode.cells import ArrayCells, CellType
from crenel.operators.encode.protobuf.fields import ProtobufFields
from crenel.operators.encode.protobuf.schema import MessageType
from tests.support.protobuf import descriptor_set, field, message_class

_RECORDS, _REPEATS = 20_000, 15
_TITLE = f"Core time of a record in encode's readers (batches of {_RECORDS:,} records, least of {_REPEATS + 1})"
_FLAT = [(f"text{number}", "string", "STRING") for number in range(4)]
_FLAT += [(f"whole{number}", "int64", "BIGINT") for number in range(4)] + [("real", "double", "DOUBLE")]
_ITEMS = {("codes[*]",): "BIGINT", ("visits[*]", "ward"): "STRING", ("visits[*]", "bed"): "BIGINT"}


def _content(number: int) -> dict[str, Any]:
    """Return a record with three codes and two visits."""
    flat = {name: f"text {number}" if kind == "STRING" else number for name, _, kind in _FLAT}
    visits = [{"ward": f"ward {place}", "bed": number} for place in range(2)]
    return flat | {"codes": [number, 7, number % 9], "visits": visits}


def _avro(*, arrays: bool) -> tuple[AvroFields, list[bytes]]:
    names = {"int64": "long"}
    fields: list[Any] = [{"name": name, "type": names.get(kind, kind)} for name, kind, _ in _FLAT]
    if arrays:
        inner = [{"name": "ward", "type": "string"}, {"name": "bed", "type": "long"}]
        visit = {"type": "record", "name": "Visit", "fields": inner}
        fields += [{"name": "codes", "type": {"type": "array", "items": "long"}}]
        fields += [{"name": "visits", "type": {"type": "array", "items": visit}}]
    schema = {"type": "record", "name": "Record", "fields": fields}
    records = []
    for number in range(_RECORDS):
        file = io.BytesIO()
        fastavro.schemaless_writer(file, schema, _content(number))
        records.append(file.getvalue())
    return AvroFields(parse(json.dumps(schema)), _wanted(arrays=arrays)), records


def _protobuf(*, arrays: bool) -> tuple[ProtobufFields, list[bytes]]:
    fields = [field(name, number, kind) for number, (name, kind, _) in enumerate(_FLAT, 1)]
    fields += [field("codes", 10, "int64", many=True), field("visits", 11, ".Visit", many=True)]
    visit = {"name": "Visit", "field": [field("ward", 1, "string"), field("bed", 2, "int64")]}
    content = descriptor_set(
        {"name": "r.proto", "syntax": "proto3", "message_type": [visit, {"name": "Record", "field": fields}]}
    )
    made = message_class(content, "Record")
    known = {name for name, _, _ in _FLAT} | ({"codes", "visits"} if arrays else set())
    records = [
        made(**{name: value for name, value in _content(number).items() if name in known}).SerializeToString()
        for number in range(_RECORDS)
    ]
    return ProtobufFields(MessageType(content, "Record"), _wanted(arrays=arrays)), records


def _wanted(*, arrays: bool) -> tuple[tuple[tuple[str, ...], CellType], ...]:
    flat = {(name,): kind for name, _, kind in _FLAT}
    return tuple((path, CellType(kind)) for path, kind in (flat | (_ITEMS if arrays else {})).items())


def _least(fields: AvroFields | ProtobufFields, records: pa.BinaryArray) -> tuple[float, float]:
    """Return microseconds of a record to read it, and to pack its arrays, each the least of all repeats."""
    read, packed = [], []
    for _ in range(_REPEATS + 1):  # the first one compiles
        start = time.process_time()
        columns = fields.columns(records)
        middle = time.process_time()
        for column in columns:
            if isinstance(column, ArrayCells):
                assert len(column.packed) == _RECORDS
        read.append(middle - start)
        packed.append(time.process_time() - middle)
    return min(read) / _RECORDS * 1e6, min(packed) / _RECORDS * 1e6


def tables() -> Iterator[Table]:
    """Yield microseconds of a record by format, without and with arrays."""
    table = Table(_TITLE, ["format", "record", "microseconds to read", "to pack arrays"])
    for name, of in (("Avro", _avro), ("Protobuf", _protobuf)):
        for arrays in (False, True):
            fields, records = of(arrays=arrays)
            read, packed = _least(fields, pa.array(records, pa.binary()))
            what = ("nine fields and arrays", f"{packed:.2f}") if arrays else ("nine fields", "-")
            table.add(name, what[0], f"{read:.2f}", what[1])
    yield table
