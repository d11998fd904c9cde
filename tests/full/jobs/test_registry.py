"""Avro from a topic to topics with a schema registry: each record leaves once, whatever the registry and writers do.

Two of the sinks write Protobuf by Flink's format.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from crenel.operators.encode.cells import CellType
from crenel.operators.encode.protobuf.fields import ProtobufFields
from crenel.operators.encode.protobuf.schema import MessageType
from crenel.operators.encode.schema_registry import SchemaRegistry
from tests.support import broker as brokers
from tests.support.behind import behind
from tests.support.broker import Broker
from tests.support.cluster import Cluster, job_id
from tests.support.protobuf import classes_jar, descriptor_set, field, message_class
from tests.support.protobuf import format_jar as protobuf_jar
from tests.support.registry import Registry, encode, format_jar

pytestmark = pytest.mark.cluster

FIELDS = {"person": "string", "name": "string", "age": ["null", "int"], "diagnosis": "string", "clinic": "string"}
FIELDS["visited"] = {"type": "long", "logicalType": "timestamp-millis"}  # type: ignore[assignment]
SYMPTOMS = ("fever", "rash", "cough", "pain")
FIELDS["symptoms"] = {"type": "array", "items": "string"}  # type: ignore[assignment]
FIELDS["seen"] = {"type": "array", "items": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}  # type: ignore[assignment]
FIELDS["born"] = {"type": "int", "logicalType": "date"}  # type: ignore[assignment]
FIELDS["entered"] = {"type": "long", "logicalType": "timestamp-millis"}  # type: ignore[assignment]
MESSAGES = {
    "Suppressed": [field("reason", 1, "string"), field("shard", 2, "int32"), field("position", 3, "int64")],
    "Rejected": [field("column", 1, "string"), field("reason", 2, "string"), field("reference", 3, "string")],
}
PROTO = {
    "name": "outputs.proto",
    "package": "clinic",
    "syntax": "proto3",
    "message_type": [
        {"name": name, "field": [*fields, field("event_time", 9, "int64")]} for name, fields in MESSAGES.items()
    ],
    "options": {"java_package": "org.example.clinic", "java_multiple_files": True},
}
ENDS = ("age_min", "age_max", "born_min", "born_max", "entered_min", "entered_max")
PARTITIONS = 2
ROWS = 600
DDL = """
    CREATE TEMPORARY TABLE source (
      record BYTES,
      arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
      `partition` INT METADATA VIRTUAL,
      `offset` BIGINT METADATA VIRTUAL,
      place AS CONCAT_WS(':', CAST(`partition` AS STRING), CAST(`offset` AS STRING)),
      WATERMARK FOR arrived AS arrived
    ) WITH (
      'connector' = 'kafka', 'topic' = 'avro_visits', 'format' = 'raw', 'scan.startup.mode' = 'earliest-offset',
      'properties.bootstrap.servers' = '%s', 'properties.group.id' = 'avro'
    )
"""


def schema_of(fields: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Visit", "fields": listed}


def visit(number: int, **more: Any) -> dict[str, Any]:
    draw = random.Random(number)
    return {
        "person": f"p{draw.randrange(300)}",
        "name": f"name {number}",
        "age": 18 + draw.randrange(80),
        "diagnosis": draw.choice(["flu", "cold", "burn"]),
        "clinic": f"clinic {number}",
        "visited": 1_700_000_000_000 + 1000 * number,
        "symptoms": draw.sample(SYMPTOMS, draw.randrange(1, 3)),
        "seen": [None, 1_700_000_000_000 + number][: draw.randrange(3)],
        "born": number * 13 % 60 - 30,
        "entered": 1_700_000_000_000 + number * 7907 % 86_400_000,
        **more,
    }


def configuration(folder: Path, servers: str, url: str) -> Path:
    (folder / "visits.avsc").write_text(json.dumps(schema_of(FIELDS)), encoding="utf-8")
    types = {"person": "STRING", "age": "INT", "diagnosis": "STRING", "clinic": "STRING", "visited": "BIGINT"}
    types |= {"symptoms": "ARRAY<STRING>", "seen": "ARRAY<TIMESTAMP(3)>", "born": "DATE", "entered": "TIMESTAMP(3)"}
    sinks = {
        name: {
            "connector": "kafka",
            "topic": f"avro_{name}",
            "properties.bootstrap.servers": servers,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": f"avro-{name}",
            "format": "avro-confluent",
            "avro-confluent.url": url,
        }
        for name in ("released", "suppressed", "rejected", "audit")
    }
    for name in ("suppressed", "rejected"):
        del sinks[name]["avro-confluent.url"]
        message = f"org.example.clinic.{name.capitalize()}"
        sinks[name] |= {"format": "protobuf", "protobuf.message-class-name": message}
    jars = (
        brokers.connector(),
        format_jar(),
        protobuf_jar(),
        classes_jar(folder, descriptor_set(PROTO), "outputs.proto"),
    )
    content = {
        "policy": {
            "subject": "person",
            "event_time": "visited",
            "quasi_identifiers": {
                "age": {"type": "numeric", "domain": [18, 100]},
                "born": {"type": "numeric", "domain": ["1969-12-01", "1970-02-01"]},
                "entered": {"type": "numeric"},
            },
            "sensitive": ["diagnosis", "symptoms"],
            "arrays": {"symptoms": 2},
            "passthrough": ["clinic", "seen"],
            "drop": ["arrived", "partition", "offset"],
            "reference": "place",
        },
        "privacy": {"k": 5, "l": 2},
        "algorithm": "nearest",
        "nearest": {"delay": {"tuples": 60}},
        "subject_key": "a key of the tests",
        "source": {
            "ddl": DDL % servers,
            "from_avro": {"column": "record", "schema_file": "visits.avsc", "registry": url, "fields": types},
        },
        "sinks": sinks,
        "flink": {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            "pipeline.jars": ";".join(f"file://{jar}" for jar in jars),
        },
    }
    path = folder / "avro.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def milliseconds(time: datetime) -> int:
    return round(time.replace(tzinfo=timezone.utc).timestamp() * 1000)


def outputs_of(broker: Broker, registry: Registry, sink: str) -> list[Any]:
    """Return the records of a sink so far."""
    if sink.capitalize() not in MESSAGES:
        return broker.read(f"avro_{sink}", registry.decode)
    of = message_class(descriptor_set(PROTO), f"clinic.{sink.capitalize()}")
    return [
        {field.name: value for field, value in each.ListFields()} for each in broker.read(f"avro_{sink}", of.FromString)
    ]


def test_each_record_leaves_once_through_newer_schemas_a_kill_and_a_silent_registry(
    cluster: Cluster, broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    sinks = ("released", "suppressed", "rejected", "audit")
    broker.create({"avro_visits": PARTITIONS, **{f"avro_{name}": 1 for name in sinks}})
    first = schema_of(FIELDS)
    wider = schema_of({**FIELDS, "phone": ["null", "string"]})
    another = schema_of({**FIELDS, "age": "string"})
    numbers = [
        registry.register(f"avro_visits-{place}", schema) for place, schema in enumerate((first, wider, another))
    ]
    written: list[bytes | None] = [encode(numbers[0], first, visit(number)) for number in range(ROWS // 3)]
    cut = encode(numbers[0], first, visit(0))
    unreadable = [
        None,
        b"",
        b"\0",
        cut[:-1],
        cut + b"\0",
        cut[5:],
        b'{"person": "p1"}',
        b"\0\xff\xff\xff\xff" + cut[5:],
        encode(numbers[2], another, visit(1, age="33")),
    ]
    for record in unreadable:
        written.insert(random.Random(len(written)).randrange(len(written)), record)
    job = ""

    def send(records: list[bytes | None]) -> None:
        broker.write("avro_visits", [(number % PARTITIONS, record) for number, record in enumerate(records, sent)])

    sent = 0
    send(written)
    sent = len(written)
    done = cluster.ask("anonymize", "--config", configuration(tmp_path, broker.address, registry.url))
    assert done.returncode == 0, done.stdout + done.stderr
    job = job_id(done)
    cluster.wait(lambda: bool(broker.read("avro_released", registry.decode)), "release")

    restarts = cluster.restarts(job)
    cluster.wait(cluster.kill_worker, "kill")
    more = [encode(numbers[1], wider, visit(number, phone="555 0100")) for number in range(ROWS // 3, 2 * ROWS // 3)]
    # A worker that has started anew knows no schema, so that it waits for the registry.
    registry.pause()
    send(more)  # type: ignore[arg-type]
    written += more
    sent = len(written)
    cluster.wait(lambda: cluster.restarts(job) > restarts, "restart")
    time.sleep(8)
    registry.resume()
    last = [encode(numbers[0], first, visit(number)) for number in range(2 * ROWS // 3, ROWS)]
    send(last)  # type: ignore[arg-type]
    written += last

    def metrics() -> dict[str, str]:
        found = {}
        for vertex in cluster.get(f"/jobs/{job}")["vertices"]:
            path = f"/jobs/{job}/vertices/{vertex['id']}/metrics"
            names = [each["id"] for each in cluster.get(path) if "unknown" in each["id"]]
            if names:
                found |= {each["id"]: each["value"] for each in cluster.get(f"{path}?get={','.join(names)}")}
        return found

    cluster.wait(lambda: any(name.endswith("unknown_field_phone") for name in metrics()), "metric")
    cluster.stop_job(job, tmp_path / "savepoints", drain=True)
    cluster.wait(
        lambda: sum(len(outputs_of(broker, registry, name)) for name in sinks[:3]) >= len(written),
        "end of transactions",
    )
    left = {name: outputs_of(broker, registry, name) for name in sinks}
    released = Counter(row["clinic"] for row in left["released"])
    rejected = Counter(row["reference"] for row in left["rejected"])
    assert max((released + rejected).values()) == 1
    bad = {f"{number % PARTITIONS}:{number // PARTITIONS}" for number, each in enumerate(written) if each in unreadable}
    assert rejected.keys() == bad
    assert {(row["column"], row["reason"]) for row in left["rejected"]} == {("age", "missing")}
    assert len(left["released"]) + len(left["suppressed"]) + len(left["rejected"]) == len(written)
    assert len(released) > 0.9 * ROWS
    assert "555 0100" not in str(left)
    persons = {f"clinic {number}": visit(number)["person"] for number in range(ROWS)}
    found = behind(left["released"], ENDS, lambda row: persons[row["clinic"]])
    assert min(map(len, found.values())) >= 5
    visits = {f"clinic {number}": visit(number) for number in range(ROWS)}
    classes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in left["released"]:
        of = visits[row["clinic"]]
        times = [time and milliseconds(time) for time in row["seen"]]
        assert (row["symptoms"], times) == (of["symptoms"], of["seen"])
        classes.setdefault(tuple(row[name] for name in ENDS), []).append(of)
    for ends, members in classes.items():
        assert not set.intersection(*(set(each["symptoms"]) for each in members))  # l = 2
        days, times = ([each[name] for each in members] for name in ("born", "entered"))
        assert ends[2:4] == tuple(date(1970, 1, 1) + timedelta(days=end) for end in (min(days), max(days)))
        assert tuple(map(milliseconds, ends[4:])) == (min(times), max(times))
    assert left["audit"]


TEXT = """
syntax = "proto3";
package clinic;
message Other { string note = 1; }
message Outer {
  message Visit {
    string person = 1;
    repeated sint32 codes = 2;
    string phone = 7; // of a newer producer
  }
}
"""


def test_framed_messages_of_protobuf_are_read_by_the_schemas_of_a_registry(registry: Registry) -> None:
    of = [field("person", 1, "string"), field("codes", 2, "sint32", many=True)]
    outer = {"name": "Outer", "nested_type": [{"name": "Visit", "field": of}]}
    content = descriptor_set({"name": "v.proto", "package": "clinic", "syntax": "proto3", "message_type": [outer]})
    visit = message_class(content, "clinic.Outer.Visit")(person="ann", codes=[3, -1]).SerializeToString()
    number = registry.register_protobuf("protobuf_visits-value", TEXT)
    another = registry.register_protobuf("protobuf_others-value", 'syntax = "proto3"; message Other { int32 a = 1; }')
    avro = registry.register("protobuf_avro-value", schema_of(FIELDS))

    def framed(of: int, indexes: bytes) -> bytes:
        return b"\0" + of.to_bytes(4, "big") + indexes + visit

    # The indexes are their count and each of them, in zigzag form: the first message inside the second one.
    records = [framed(number, b"\4\2\0"), framed(number, b"\0"), framed(2**31 - 1, b"\4\2\0")]
    records += [framed(another, b"\0"), framed(avro, b"\4\2\0")]
    message = MessageType(content, "clinic.Outer.Visit")
    kinds = ((("person",), CellType("STRING")), (("codes[*]",), CellType("INT")))
    made = ProtobufFields(message, kinds, SchemaRegistry(registry.url))
    columns = [column._cells.to_pylist() for column in made.columns(pa.array(records))]
    assert columns == [["ann", *[None] * 4], [[3, -1], *[None] * 4]]
    assert made.unknown.by_field == {"phone": 1}
