"""From a topic to topics: through kills, a stop and another parallelism each record leaves once, in each format."""

from __future__ import annotations

import csv
import json
import random
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from crenel.jobs.cli import synthetic
from tests.support import broker as brokers
from tests.support.behind import behind
from tests.support.broker import Broker
from tests.support.cluster import Cluster, job_id, restored, with_settings
from tests.support.launch import ROOT, Host
from tests.support.protobuf import classes_jar, descriptor_set, field, message_class
from tests.support.protobuf import format_jar as protobuf_jar
from tests.support.queries import OF_KAFKA
from tests.support.registry import Registry, encode, format_jar
from tests.support.tutorials import run

pytestmark = pytest.mark.cluster

SINKS = ("audit", "released", "suppressed", "rejected")


class Stream:
    """A topic of records, each with a clinic of its own, and a job from it to topics.

    Attributes
    ----------
    topics : partitions of the source, with those to which nothing comes
    partitions : those that are written to
    records, clinics : all records in order, and the clinic of each; None where nothing can read it
    persons : by clinic
    generalized : columns under which a release is published
    """

    source: str
    prefix = ""
    topics: int
    partitions: int
    records: list[bytes | None]
    clinics: list[str | None]
    persons: dict[str, str]
    generalized: tuple[str, ...]
    k: int
    configuration: Path
    arguments: tuple[str, ...] = ()

    def __init__(self, broker: Broker) -> None:
        self.broker, self.sent = broker, 0
        self.flink, self.variables = dict[str, str](), dict[str, str]()
        broker.create({self.source: self.topics, **{f"{self.prefix}{name}": 2 for name in SINKS}})

    def send(self, until: float) -> None:
        """Write the records up to a share of all."""
        end = int(len(self.records) * until)
        placed = [(number % self.partitions, self.records[number]) for number in range(self.sent, end)]
        self.broker.write(self.source, placed)
        self.sent = end

    def read(self, sink: str) -> list[Any]:
        """Return the records of a sink so far."""
        return self.broker.read(f"{self.prefix}{sink}")

    def mix(self, broken: Iterable[bytes | None], most: int) -> None:
        """Put records that nothing can read among the first ones."""
        chance = random.Random(3)
        for record in broken:
            at = chance.randrange(most)
            self.records.insert(at, record)
            self.clinics.insert(at, None)

    def place(self, number: int) -> str:
        return f"{number % self.partitions}:{number // self.partitions}"

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        """Do more than kill a process, while a job restarts."""
        yield

    def require(self, outputs: dict[str, list[Any]], mini: Host) -> None:
        """Require what else holds of the outputs."""

    def submit(self, cluster: Cluster, folder: Path, settings: Mapping[str, Any] | None = None, *more: str) -> str:
        """Start the job; its id."""
        flink = {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            **self.flink,
            **(settings or {}),
        }
        given = ("--config", self.configuration, *with_settings(self.configuration, flink), *self.arguments, *more)
        done = cluster.ask("anonymize", *given, **self.variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return job_id(done)


IDLE = 10
"""Seconds after which a partition is idle, as ``conf/kafka.yaml`` has it."""

CANNOT_BE_READ = (
    b'{"person": "p000001", "age": ',
    b"",
    b"   ",
    None,
    b"null",
    b"[1, 2]",
    b'"text"',
    b"\xff\xfe\x00",
    b'\xef\xbb\xbf{"person": "p000001", "age": 33}',
    b'{"person": "p000001", "age": 1e99999999999999999999}',
    b'{"person": "p000001", "age": %b}' % (b"1" * 5000),
    b'{"person": "\\ud800", "age": 33.5, "deep": %b}' % (b"[" * 600 + b"]" * 600),
    b'{"person": {"first": 1}, "age": [33]}',
    b'{"person": "p000001", "age": 33, "area": 7, "education": "master", "salary": "n/a", "visited_ms": "soon"}',
)


class Json(Stream):
    """``conf/kafka.yaml`` with records of JSON; one partition stays idle."""

    source, topics, partitions, k = "visits", 4, 3, 10
    generalized = ("age_min", "age_max", "area", "education", "salary_min", "salary_max")
    configuration = ROOT / "conf" / "kafka.yaml"
    # By event time alone, so nothing would leave if the idle partition held the watermark back.
    arguments = ("--set", "nearest.delay={event_time: 6 h}")

    def __init__(self, broker: Broker, request: pytest.FixtureRequest, folder: Path) -> None:
        super().__init__(broker)
        self.variables = {"KAFKA_BOOTSTRAP_SERVERS": broker.address, "CRENEL_SUBJECT_KEY": "a key of the tests"}
        patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        for name, value in self.variables.items():
            patch.setenv(name, value)
        synthetic.write(folder / "visits.csv", 6000)
        with (folder / "visits.csv").open(encoding="utf-8", newline="") as file:
            visits = [dict(zip(synthetic.COLUMNS, row, strict=True)) for row in csv.reader(file)]
        self.persons = {f"clinic {number}": visit["person"] for number, visit in enumerate(visits)}
        self.clinics = [*self.persons]
        self.records = [
            json.dumps(of | {"clinic": clinic}).encode() for of, clinic in zip(visits, self.persons, strict=True)
        ]
        self.mix(CANNOT_BE_READ, len(self.records))
        self.flink = {"pipeline.jars": f"file://{brokers.connector()}"}

    def require(self, outputs: dict[str, list[Any]], mini: Host) -> None:
        result = mini.crenel("verify", self.configuration, "--json", *self.connected())
        assert result.stdout, result.stderr
        checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
        assert [check for check in checks.values() if check["findings"]] == [], result.stderr
        assert {checks[name]["outcome"] for name in ("k", "cover", "release ids", "in force")} == {"holds"}

    def connected(self) -> tuple[str, str]:
        """Return the argument with which a local run finds the connector."""
        return "--set", f"flink.pipeline.jars=file://{brokers.connector()}"


class Backlog(Json):
    """Records of JSON in a topic of its own, under a delay that is longer than their event times are apart."""

    source, prefix = "backlog", "backlog_"
    arguments = ("--set", "nearest.delay={event_time: 200 h}")

    def __init__(self, broker: Broker, request: pytest.FixtureRequest, folder: Path) -> None:
        super().__init__(broker, request, folder)
        text = Json.configuration.read_text(encoding="utf-8")
        text = text.replace("'topic' = 'visits'", "'topic' = 'backlog'").replace("topic: ", "topic: backlog_")
        text = text.replace("crenel-", "backlog-").replace("hierarchies/", f"{ROOT}/conf/hierarchies/")
        self.configuration = folder / "backlog.yaml"
        self.configuration.write_text(text, encoding="utf-8")


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


class Avro(Stream):
    """Records of Avro with a schema registry; two of the sinks write Protobuf by Flink's format."""

    source, prefix, topics, partitions, k = "avro_visits", "avro_", 2, 2, 5
    generalized = ENDS

    def __init__(self, broker: Broker, request: pytest.FixtureRequest, folder: Path) -> None:
        super().__init__(broker)
        self.registry: Registry = request.getfixturevalue("registry")
        self.configuration = configuration(folder, broker.address, self.registry.url)
        first, wider = schema_of(FIELDS), schema_of({**FIELDS, "phone": ["null", "string"]})
        another = schema_of({**FIELDS, "age": "string"})
        numbers = [self.registry.register(f"avro_visits-{n}", of) for n, of in enumerate((first, wider, another))]
        self.visits = {f"clinic {number}": visit(number) for number in range(ROWS)}
        self.persons = {clinic: of["person"] for clinic, of in self.visits.items()}
        # Those of a newer producer come after the kill.
        self.records = [
            encode(numbers[1], wider, visit(number, phone="555 0100"))
            if ROWS // 4 <= number < ROWS // 2
            else encode(numbers[0], first, visit(number))
            for number in range(ROWS)
        ]
        cut = encode(numbers[0], first, visit(0))
        broken = [None, b"", b"\0", cut[:-1], cut + b"\0", cut[5:], b'{"person": "p1"}']
        broken += [b"\0\xff\xff\xff\xff" + cut[5:], encode(numbers[2], another, visit(1, age="33"))]
        self.clinics = [*self.persons]
        self.mix(broken, ROWS // 4)

    def read(self, sink: str) -> list[Any]:
        if sink.capitalize() not in MESSAGES:
            return self.broker.read(f"avro_{sink}", self.registry.decode)
        of = message_class(descriptor_set(PROTO), f"clinic.{sink.capitalize()}")
        found = self.broker.read(f"avro_{sink}", of.FromString)
        return [{field.name: value for field, value in each.ListFields()} for each in found]

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        # A worker that has started anew knows no schema, so that it waits for the registry.
        self.registry.pause()
        yield
        time.sleep(8)
        self.registry.resume()

    def require(self, outputs: dict[str, list[Any]], mini: Host) -> None:
        assert {(row["column"], row["reason"]) for row in outputs["rejected"]} == {("age", "missing")}
        assert len(outputs["rejected"]) == self.clinics.count(None)
        assert "555 0100" not in str(outputs)
        classes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in outputs["released"]:
            of = self.visits[row["clinic"]]
            times = [time and milliseconds(time) for time in row["seen"]]
            assert (row["symptoms"], times) == (of["symptoms"], of["seen"])
            classes.setdefault(tuple(row[name] for name in ENDS), []).append(of)
        for ends, members in classes.items():
            assert not set.intersection(*(set(each["symptoms"]) for each in members))  # l = 2
            days, times = ([each[name] for each in members] for name in ("born", "entered"))
            assert ends[2:4] == tuple(date(1970, 1, 1) + timedelta(days=end) for end in (min(days), max(days)))
            assert tuple(map(milliseconds, ends[4:])) == (min(times), max(times))
        assert outputs["audit"]


def killed_whole(cluster: Cluster) -> bool:
    """Kill the TaskManager with all processes that it started, and start another."""
    cluster.kill_taskmanager()
    cluster.start_taskmanager()
    return True


STREAMS: dict[str, tuple[type[Json] | type[Avro], Callable[[Cluster], bool]]] = {
    "json": (Json, killed_whole),
    "avro and protobuf": (Avro, lambda cluster: cluster.kill_worker()),
}
"""Streams, with what is killed."""


@pytest.mark.parametrize("name", STREAMS)
def test_each_record_leaves_once_through_a_kill_a_stop_and_a_move(
    name: str, cluster: Cluster, mini: Host, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    of, kill = STREAMS[name]
    stream = of(broker, request, tmp_path)
    stream.send(0.25)
    job = stream.submit(cluster, tmp_path)
    cluster.wait(lambda: bool(stream.read("released")), "release")
    before = cluster.restored(job)
    cluster.wait(lambda: kill(cluster), "kill")
    with stream.disturbed():
        stream.send(0.5)
        cluster.wait(lambda: cluster.restored(job) > before, "restart")
    cluster.wait(lambda: OF_KAFKA <= exposed(cluster, job), "metrics that the alerts read")
    if isinstance(stream, Avro):
        cluster.wait(lambda: "unknown_field_phone" in unknown(cluster, job), "metric")
    done = cluster.checkpoints(job)
    cluster.wait(lambda: cluster.checkpoints(job) > done, "checkpoint")
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    assert len(stream.read("released")) < len(stream.records)

    job = stream.submit(cluster, tmp_path, restored(savepoint) | {"parallelism.default": 2})
    cluster.wait(lambda: cluster.state(job) == "RUNNING", "restored job")
    stream.send(1)
    cluster.wait(lambda: cluster.rows_read(job) >= len(stream.records) // 2, "rows")
    if isinstance(stream, Json):
        time.sleep(IDLE + 2)  # now no partition has brought anything of late
    drained = cluster.stop_job(job, tmp_path / "savepoints", drain=True)

    # A broker says that a transaction is committed before its readers see it.
    cluster.wait(lambda: sum(len(stream.read(name)) for name in SINKS[1:]) >= len(stream.records), "transactions")
    outputs = {name: stream.read(name) for name in SINKS}
    require_once(stream, outputs)
    persons = behind(outputs["released"], stream.generalized, lambda row: stream.persons[row["clinic"]])
    assert min(map(len, persons.values())) >= stream.k
    stream.require(outputs, mini)
    if isinstance(stream, Json):
        continue_under_another_policy(stream, cluster, mini, drained, tmp_path)


def test_records_without_a_readable_time_end_the_wait_of_no_others(
    cluster: Cluster, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stream = Backlog(broker, request, tmp_path)
    stream.send(1)
    job = stream.submit(cluster, tmp_path)
    cluster.wait(lambda: cluster.rows_read(job) == len(stream.records), "rows")
    time.sleep(IDLE + 2)  # the partition to which nothing comes holds nothing back
    cluster.wait_for_checkpoint(job, cluster.checkpoints(job) + 1)
    rejected, released = stream.read("rejected"), stream.read("released")
    cluster.cancel(job)
    assert len(rejected) >= len(CANNOT_BE_READ)
    assert released == []


def exposed(cluster: Cluster, job: str) -> set[str]:
    """Return the names of the metrics of a job, as Prometheus gets them."""
    found = set()
    for port in cluster.reporters:
        with suppress(OSError), urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
            found |= {line.partition("{")[0] for line in lines if f'job_id="{job}"' in line and 'job_name="' in line}
    return found


def unknown(cluster: Cluster, job: str) -> str:
    """Return the names of the metrics of unknown fields."""
    paths = [f"/jobs/{job}/vertices/{vertex['id']}/metrics" for vertex in cluster.get(f"/jobs/{job}")["vertices"]]
    return " ".join(each["id"] for path in paths for each in cluster.get(path))


def require_once(stream: Stream, outputs: dict[str, list[Any]]) -> None:
    """Require that each record was released, suppressed or rejected once, and that unreadable ones were rejected."""
    released = Counter(row["clinic"] for row in outputs["released"])
    rejected = Counter(row["reference"] for row in outputs["rejected"])
    assert max((released + rejected).values()) == 1
    assert len(released) + len(rejected) + len(outputs["suppressed"]) == len(stream.records)
    positions = {clinic: stream.place(number) for number, clinic in enumerate(stream.clinics)}
    assert {stream.place(number) for number, clinic in enumerate(stream.clinics) if clinic is None} <= rejected.keys()
    assert {positions[clinic] for clinic in released}.isdisjoint(rejected)
    assert len(released) > 0.9 * len(stream.records)


def continue_under_another_policy(stream: Json, cluster: Cluster, mini: Host, drained: Path, folder: Path) -> None:
    """Require that a drained job goes on where it was, with shards that begin anew, by another epoch."""
    before = len(stream.read("released"))
    changed = ("--set", "policy.quasi_identifiers.age.domain=[18, 110]", "--set", "shards.count=2")
    result = mini.crenel("check", stream.configuration, "--against", drained, *changed, *stream.connected())
    assert (result.returncode, result.stderr.count("go on from here with another epoch")) == (2, 2), result.stderr
    changed += ("--set", "epoch=2")
    result = mini.crenel("check", stream.configuration, "--against", drained, *changed, *stream.connected())
    assert f"It can go on from {drained}: with -n; the 4 stored shards buffer no tuples" in result.stdout, result.stderr
    one = json.loads(stream.records[0] or b"")
    more = [f"more {number}" for number in range(200)]
    stream.records += [json.dumps(one | {"clinic": clinic}).encode() for clinic in more]
    stream.clinics += more
    stream.send(1)
    settings = restored(drained) | {"execution.state-recovery.ignore-unclaimed-state": "true"}
    job = stream.submit(cluster, folder, settings, *changed, "--set", "privacy.k=1", "--set", "privacy.l=1")
    cluster.wait(lambda: cluster.rows_read(job) == 200, "rows")
    cluster.stop_job(job, folder / "savepoints", drain=True)
    cluster.wait(lambda: len(stream.read("released")) >= before + 200, "end of transactions")
    require_once(stream, {name: stream.read(name) for name in SINKS})


TOOL = f"""#!{sys.executable}
import sys
from tests.support.broker import tool
tool(sys.argv)
"""
"""Program in the place of one of Kafka's tools, which Maven does not hold."""


def test_the_tutorial_runs_and_prints_what_it_shows(
    mini: Host, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.address)
    monkeypatch.setenv("CONNECTOR", str(brokers.connector()))
    tools = ("kafka-topics.sh", "kafka-console-producer.sh", "kafka-console-consumer.sh")
    run(ROOT / "docs" / "tutorials" / "kafka.md", tmp_path, mini, dict.fromkeys(tools, TOOL))
