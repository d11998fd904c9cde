"""Each known cause of a job's end, provoked: the message has field, cause and remedy, and no value of a record."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyflink.java_gateway import get_gateway

from crenel.jobs.causes import CAUSES, JobSetup
from crenel.jobs.failure import why_failed
from crenel.jobs.local.flags import prepare_java
from tests.extension_points.broken import SAYS
from tests.support.broker import Broker, connector
from tests.support.cluster import free_port
from tests.support.launch import Host
from tests.support.protobuf import classes_jar, descriptor_set, field
from tests.support.protobuf import format_jar as protobuf_jar
from tests.support.registry import format_jar as avro_jar
from tests.support.visits import visits, write

pytestmark = pytest.mark.flink

SECRET = "4711-secret"
CSV = "'format' = 'csv', 'csv.null-literal' = ''"
OTHERS = {
    "the job was canceled",
    "a Python worker ended",
    "a host cannot be reached",
    "the cluster has too few free slots",
}
"""Causes that tests of their own provoke."""

WAITS = "'properties.default.api.timeout.ms' = '2000', 'properties.request.timeout.ms' = '1000'"


@dataclass(frozen=True)
class Case:
    """A run that fails.

    Attributes
    ----------
    phrase, field : what stands in its message; FOLDER is the folder of the run, PORT that of a silent listener
    line : what is appended to the input
    source : replaces the connector and the format of the source
    arguments : of the command
    """

    phrase: str
    field: str
    line: bytes = b""
    source: str = ""
    arguments: Sequence[str] = ()


INVALID = "a line is not valid CSV"
OF_ANOTHER_TYPE = "a value of the source could not be read as the type of its column"
FULL = "a disk is full"
UNANSWERED = "Kafka did not answer in time"
FILE = "'connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = "
JSON = f"{FILE}'json'"
KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:PORT', 'format' = 'csv', "
TOPIC = (
    "'connector' = 'kafka', 'topic' = 'NAME', 'properties.bootstrap.servers' = 'SERVERS', "
    "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
)
MESSAGE = "'format' = 'protobuf', 'protobuf.message-class-name' = 'org.example.clinic.Visit'"
KINDS = {"wage": "double"} | dict.fromkeys(("line", "id", "ms"), "int64")
COLUMNS = ("line", "id", "person", "name", "age", "town", "wage", "illness", "ms")
VISIT = {
    "name": "visits.proto",
    "package": "clinic",
    "syntax": "proto3",
    "message_type": [
        {"name": "Visit", "field": [field(of, number, KINDS.get(of, "string")) for number, of in enumerate(COLUMNS, 1)]}
    ],
    "options": {"java_package": "org.example.clinic", "java_multiple_files": True},
}
CASES = {
    "fewer": Case(INVALID, "source.ddl", f"1,2,{SECRET}\n".encode()),
    "more": Case(INVALID, "source.ddl", f"1,2,p,n,3,Ash,4,cold,1704067200000,{SECRET}\n".encode()),
    "invalid": Case(INVALID, "source.ddl", f'1,2,"{SECRET}"x,n,3,Ash,4,cold,1704067200000\n'.encode()),
    "type": Case(OF_ANOTHER_TYPE, "source.ddl: column wage", f"1,2,p,n,3,Ash,{SECRET},cold,1\n".encode()),
    "untimed": Case(
        "a record has no event time, which the column of the watermark needs",
        "source.ddl",
        f"1,2,{SECRET},n,3,Ash,4,cold,\n".encode(),
    ),
    "latin": Case("the input is not UTF-8", "source.ddl", f"1,2,{SECRET} Groß,n,3,Ash,4,cold,1\n".encode("latin-1")),
    "json": Case("a record is not valid JSON", "source.ddl", f'{{"line": 1, "{SECRET}\n'.encode(), JSON),
    "envelope": Case(
        "a record is no envelope of changes, such as a null",
        "source.ddl",
        b"null\n",
        f"{FILE}'debezium-json'",
        [
            "source.query=SELECT line, id, person, name, TRY_CAST(age AS INT) AS age, town, wage, illness, ts FROM "
            "TO_CHANGELOG(input => TABLE source, op_mapping => MAP['INSERT, UPDATE_AFTER', 'now'])"
        ],
    ),
    "missing": Case(
        "a file or folder is missing, or must not be used by the user who runs Flink",
        "source.ddl: FOLDER/gone.csv",
        source=f"{FILE}'csv'".replace("in.csv", "gone.csv"),
        # With another file system as the default, nobody looks for the file before the start.
        arguments=["flink={fs.default-scheme: 'file:///'}"],
    ),
    "full_sink": Case("a disk is full", "sinks.released.path", arguments=["sinks.released.path=FOLDER/full"]),
    "full_checkpoints": Case(
        "a checkpoint could not be written",
        "flink.execution.checkpointing.dir: file://FOLDER/full",
        arguments=[
            "flink={execution.checkpointing.dir: 'file://FOLDER/full', execution.checkpointing.interval: 200 ms}",
            "castle.delay={tuples: 3000}",
        ],
    ),
    "slow_checkpoints": Case(
        "a checkpoint took longer",
        "flink.execution.checkpointing.timeout: 10 ms",
        arguments=[
            "flink={execution.checkpointing.interval: 200 ms, execution.checkpointing.timeout: 10 ms}",
            "castle.delay={tuples: 3000}",
        ],
    ),
    **{
        name: Case(phrase, "source.ddl", SECRET.encode(), f"{TOPIC}, {options}", ["flink.pipeline.jars=JARS"])
        for name, phrase, options in (
            ("avro", "a record does not fit its schema of Avro", "'format' = 'avro'"),
            ("protobuf", "a record is no message of Protobuf", MESSAGE),
        )
    },
    "timestamp": Case(
        "the format of a sink has no type of a column, such as TIMESTAMP_LTZ",
        "sinks.audit: ",
        arguments=[
            "sinks.audit={connector: filesystem, path: FOLDER/avro, format: avro}",
            "flink.pipeline.jars=AVRO",
        ],
    ),
    "no_topic": Case(
        "a topic of Kafka is missing",
        "source.ddl: 'topic' = 'no_topic_there'",
        source=f"{TOPIC.replace('NAME', 'NAME_there')}, 'format' = 'csv'",
        arguments=["flink.pipeline.jars=JARS"],
    ),
    "long_transactions": Case(
        "the timeout of transactions is longer than the brokers allow",
        "sinks.released",
        source=f"{TOPIC}, 'format' = 'csv'",
        arguments=[
            "flink={pipeline.jars: JARS, execution.checkpointing.interval: 1 s}",
            "sinks.released={connector: kafka, topic: released, properties.bootstrap.servers: 'SERVERS', format: json, "
            "sink.delivery-guarantee: exactly-once, sink.transactional-id-prefix: long, "
            "properties.transaction.timeout.ms: '3600000'}",
        ],
    ),
    "silent_source": Case(
        UNANSWERED,
        "source.ddl: 'properties.bootstrap.servers' = 'localhost:PORT'",
        source=f"{KAFKA}{WAITS}, 'scan.startup.mode' = 'earliest-offset'",
        arguments=["flink.pipeline.jars=file://JAR"],
    ),
}


def test_each_cause_is_provoked() -> None:
    assert {case.phrase for case in CASES.values()} | OTHERS == {cause.phrase for cause in CAUSES}


@pytest.mark.parametrize("name", CASES)
def test_a_job_that_fails_tells_field_cause_and_remedy_and_no_value(
    mini: Host, listener: int, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    if "SERVERS" in case.source:
        case = of_topic(case, name, tmp_path, request.getfixturevalue("broker"))
    with small_disk(tmp_path / "run" / "full") if name.startswith("full") else nullcontext():
        ended = run(mini, tmp_path / "run", listener, case)
    output = " ".join(ended.split())
    (cause,) = {(cause.phrase, cause.remedy) for cause in CAUSES if cause.phrase == case.phrase}
    field = case.field.replace("FOLDER", str(tmp_path / "run")).replace("PORT", str(listener))
    assert field in output
    assert re.search(re.escape(cause[0]) + r" \(\w+\)\. " + re.escape(cause[1]), output)
    assert SECRET not in output
    assert "withheld" not in output


def test_a_canceled_job_tells_so(mini: Host, tmp_path: Path) -> None:
    port = free_port()
    # It ends by itself after five minutes.
    rows = "'connector' = 'datagen', 'number-of-rows' = '3000', 'rows-per-second' = '10'"
    times = "'fields.ms.min' = '0', 'fields.ms.max' = '9'"
    reached = [f"flink={{rest.port: {port}, rest.bind-port: {port}}}"]
    canceller = threading.Thread(target=cancel, args=(port,))
    canceller.start()
    output = run(mini, tmp_path / "run", 0, Case("", "", source=f"{rows}, {times}", arguments=reached))
    canceller.join()
    assert "the job was canceled (JobCancellationException). Start it again from its last checkpoint" in output


def test_what_our_own_code_raises_in_a_worker_is_told(mini: Host, tmp_path: Path) -> None:
    broken = [
        "castle=null",
        "algorithm=violating",
        "violating={most: 100}",
        "extensions=[tests.extension_points.broken]",
    ]
    output = run(mini, tmp_path / "run", 0, Case("", "", arguments=broken), mode="process")
    assert f"the job failed: {SAYS}\n" in output


def test_classes_are_told_of_java_s_own_exceptions_and_of_those_that_flink_has_wrapped() -> None:
    prepare_java()
    jvm = get_gateway().jvm
    source, sinks = {"source.ddl": {"connector": "jdbc"}}, {"released": {"connector": "filesystem"}}
    setup = JobSetup(source, sinks, {}, databases=["catalogs.clinic"])
    remedy = "Check that it runs, and that its address and port are right"
    output = f"source.ddl or catalogs.clinic: a host cannot be reached ({{}}). {remedy}"
    for host, name in (("localhost", "ConnectException"), ("Eastley.invalid", "UnknownHostException")):
        with pytest.raises(Py4JJavaError) as raised:
            jvm.java.net.Socket(host, free_port())
        assert why_failed(raised.value, setup) == output.format(name)
        wrapped = jvm.org.apache.flink.util.SerializedThrowable(raised.value.java_exception)
        outer = jvm.java.util.concurrent.ExecutionException(wrapped)
        assert why_failed(Py4JJavaError("", outer), setup) == output.format(name)
    # A cluster waits for slots for minutes until it throws this.
    slots = jvm.org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException("Eastley")
    assert why_failed(Py4JJavaError("", slots), setup) == (
        "the cluster has too few free slots (NoResourceAvailableException). Add TaskManagers or slots, end other jobs, "
        "or lower flink.parallelism.default"
    )


def of_topic(case: Case, name: str, folder: Path, broker: Broker) -> Case:
    """Return a case whose line is the record of a topic."""
    broker.create({name: 1})
    broker.write(name, [(0, case.line)])
    jars = [connector(), protobuf_jar(), avro_jar()]
    if "protobuf" in case.source:
        jars.append(classes_jar(folder, descriptor_set(VISIT), "visits.proto"))
    source = case.source.replace("NAME", name).replace("SERVERS", broker.address)
    listed = ";".join(f"file://{jar}" for jar in jars)
    return replace(
        case,
        line=b"",
        source=source,
        arguments=[each.replace("JARS", listed).replace("SERVERS", broker.address) for each in case.arguments],
    )


def run(mini: Host, folder: Path, port: int, case: Case, code: int = 1, mode: str = "loopback") -> str:
    """Run a job that fails; what it prints on stderr."""
    path = write(folder, visits()[:1000], exist_ok=True)
    text = path.read_text(encoding="utf-8")
    if case.line:
        with (folder / "in.csv").open("wb" if case.source else "ab") as file:
            file.write(case.line)
    if case.source:
        text, replaced = re.subn(
            r"'connector' = 'filesystem', 'path' = '\S+', 'format' = 'csv', 'csv.null-literal' = ''",
            filled(case.source, folder, port),
            text,
        )
        assert replaced == 1
    path.write_text(text, encoding="utf-8")
    ended = mini.crenel("run", path, *sets(folder, port, case), mode=mode)
    assert ended.returncode == code, ended.stderr
    kept = re.search(r"Flink's logs are in (\S+?);", ended.stderr)
    if kept:
        shutil.rmtree(kept[1])
    return ended.stderr


def sets(folder: Path, port: int, case: Case) -> list[str]:
    """Return the arguments of a command."""
    found = case.arguments
    return [part for argument in found for part in ("--set", filled(argument, folder, port))]


def filled(text: str, folder: Path, port: int) -> str:
    """Return a text with what stands for the run's own."""
    text = text.replace("FOLDER", str(folder)).replace("PORT", str(port))
    text = text.replace("AVRO", f"file://{avro_jar()}") if "AVRO" in text else text
    return text.replace("JAR", str(connector())) if "JAR" in text else text


@pytest.fixture
def listener() -> Iterator[int]:
    """Yield the port of what accepts connections and never answers."""
    with socket.socket() as silent:
        silent.bind(("localhost", 0))
        silent.listen(100)
        yield silent.getsockname()[1]


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Return a folder whose disk is soon full; skips the test where none can be mounted, as without root."""
    folder.mkdir(parents=True)
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no disk of a size of its own can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def cancel(port: int) -> None:
    """Cancel the first job that runs on a cluster, once it does."""
    address = f"http://localhost:{port}/jobs"
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with suppress(OSError):
            with urllib.request.urlopen(address, timeout=2) as answer:
                jobs = json.load(answer)["jobs"]
            if jobs and jobs[0]["status"] == "RUNNING":
                request = urllib.request.Request(f"{address}/{jobs[0]['id']}?mode=cancel", method="PATCH")
                with urllib.request.urlopen(request, timeout=10):
                    return
        time.sleep(0.2)
