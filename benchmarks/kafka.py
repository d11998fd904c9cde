"""From topic to topic: ``conf/kafka.yaml`` beside a plain copy by Flink SQL, with the broker of the tests.

The copy reads the same records with Flink's own format, all columns, and writes them to another topic exactly-once.
Records are JSON, or Avro without a registry; the job then reads them with ``source.from_avro`` and delays them by their
number alone. Both jobs have one slot. As in ``benchmarks.job``, a rate is the difference of two lengths, which excludes
the start. The processor time is that of the job's processes and of the broker. Other work on the machine changes a
rate, but hardly the processor time.
"""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

import fastavro
import numpy as np
import pyarrow.csv
from confluent_kafka import Consumer, Producer, TopicPartition
from numpy.typing import NDArray
from pyflink.table import StreamTableEnvironment

from benchmarks.measure import Table, core_seconds
from benchmarks.state import worker
from crenel.jobs.cli import synthetic
from crenel.jobs.config import load as config
from crenel.jobs.local.run import LOCAL
from crenel.jobs.pipeline import build as pipeline
from crenel.jobs.pipeline import environment
from tests.support import broker as brokers
from tests.support.broker import Broker
from tests.support.registry import format_jar

Form: TypeAlias = Literal["json", "avro"]

CONFIGURATION = Path(__file__).parents[1] / "conf" / "kafka.yaml"
PARTITIONS = 4
_ROWS = (300_000, 1_200_000)
_SINKS = ("released", "suppressed", "rejected", "audit")
_FIELDS = {
    **dict.fromkeys(("person", "name"), "STRING"),
    "age": "INT",
    **dict.fromkeys(("area", "education"), "STRING"),
    "salary": "INT",
    **dict.fromkeys(("diagnosis", "clinic"), "STRING"),
    "visited_ms": "BIGINT",
}
_AVRO = {"STRING": "string", "INT": "int", "BIGINT": "long"}
_SCHEMA = {
    "type": "record",
    "name": "visit",
    "fields": [{"name": name, "type": ["null", _AVRO[kind]]} for name, kind in _FIELDS.items()],
}
_COPY = """
CREATE TEMPORARY TABLE {name} ({columns}
) WITH (
  'connector' = 'kafka', 'properties.bootstrap.servers' = '{address}', 'topic' = '{topic}', 'format' = '{form}', {more}
)
"""
_READ = (
    "'properties.group.id' = 'copy', 'properties.isolation.level' = 'read_committed', "
    "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
)
_WRITE = (
    "'properties.transaction.timeout.ms' = '900000', 'sink.delivery-guarantee' = 'exactly-once', "
    "'sink.transactional-id-prefix' = '{topic}'"
)
_FIRST = 20_000
"""Records that are sent at once; the clock starts when one of them has been published."""

_SETTLE, _MEASURED, _REST = 20, 30, 5
"""Seconds at a rate before, while and after latency is measured: Java compiles first, and the last records wait."""

_PATIENCE = 15.0
"""Seconds after the last record until the last measured transaction has ended."""

_NAMES: dict[Form, str] = {"json": "JSON", "avro": "Avro"}
_GOALS = {"crenel": ("0.55", "1.8")}


def records(rows: int, form: Form = "json") -> Iterator[tuple[int, bytes]]:
    """Yield the visits of the demo, each with its partition; numbers are numbers where they can be."""
    schema = fastavro.parse_schema(_SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        synthetic.write(path, rows)
        table = pyarrow.csv.read_csv(path, pyarrow.csv.ReadOptions(column_names=list(synthetic.COLUMNS)))
    for batch in table.drop_columns(["line"]).to_batches(100_000):
        for number, visit in enumerate(batch.to_pylist()):
            if form == "json":
                yield number % PARTITIONS, json.dumps(visit).encode()
                continue
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, schema, {name: _of_type(visit[name], _FIELDS[name]) for name in _FIELDS})
            yield number % PARTITIONS, stream.getvalue()


def _of_type(value: object, kind: str) -> object:
    """Return a value of a visit in its type, None where it is no number: Avro cannot hold that."""
    if value is None or kind == "STRING":
        return value
    return int(str(value)) if str(value).isdecimal() else None


def settings_of(topic: str, output: str, form: Form = "json", *, is_live: bool = False) -> config.Config:
    """Return ``conf/kafka.yaml`` for a topic, which ends where it now does or goes on; each sink has its own topic."""
    settings = config.load(CONFIGURATION, _avro_overrides() if form == "avro" else ())
    bounds = "" if is_live else ", 'scan.bounded.mode' = 'latest-offset'"
    ddl = settings.source.ddl.replace("'topic' = 'visits'", f"'topic' = '{topic}'{bounds}")
    written = {} if form == "json" else {"format": "avro", "avro.timestamp_mapping.legacy": "false"}
    sinks = {
        name: {**options, **written, "topic": f"{output}-{name}", "sink.transactional-id-prefix": f"{output}-{name}"}
        for name, options in settings.sinks.items()
    }
    return replace(settings, source=replace(settings.source, ddl=ddl), sinks=sinks)


def _avro_overrides() -> list[str]:
    """Return the overrides by which ``conf/kafka.yaml`` reads Avro, of which the event time is a field."""
    schema = Path(os.environ["BENCH_OUTPUT"]) / "visit.avsc"
    schema.write_text(json.dumps(_SCHEMA), encoding="utf-8")
    lines = config.load(CONFIGURATION).source.ddl.splitlines()
    ddl = "\n".join(line for line in lines if "visited" not in line or "topic" in line)
    ddl = ddl.replace("record STRING", "record BYTES").replace(
        "AS STRING)),", "AS STRING)), WATERMARK FOR arrived AS arrived", 1
    )
    return [
        "source.from_json=null",
        f"source.from_avro={json.dumps({'column': 'record', 'schema_file': str(schema), 'fields': _FIELDS})}",
        f"source.ddl={json.dumps(ddl)}",
        "policy.drop=[name, arrived, partition, offset]",
        "nearest.delay={tuples: 500}",
    ]


def environment_of(settings: dict[str, str], form: Form) -> StreamTableEnvironment:
    """Return an environment of one slot with the connector, and Flink's format of Avro where records are Avro."""
    jars = [brokers.connector(), *([format_jar()] if form == "avro" else [])]
    given = {**LOCAL, "pipeline.jars": ";".join(f"file://{jar}" for jar in jars), **settings}
    return environment.local_environment(given)


def work(job: str, topic: str, output: str, form: Form = "json") -> list[float]:
    """Run a job in this process; its seconds from submission to the end, and those of one core that it took."""
    # A collection in another thread opens a connection to Java that lacks the class loader with the jars.
    gc.disable()
    checkpoints = {"execution.checkpointing.dir": f"file://{os.environ['BENCH_OUTPUT']}/checkpoints"}
    if job == "copy":
        tables = environment_of({**checkpoints, "execution.checkpointing.interval": "10 s"}, form)
        address = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
        read, written = _READ, _WRITE.format(topic=f"{output}-released")
        if form == "json":
            read += ", 'json.ignore-parse-errors' = 'true'"
        columns = ", ".join(f"{name} {kind}" for name, kind in _FIELDS.items())
        for name, where, more in (("origin", topic, read), ("target", f"{output}-released", written)):
            options = {"name": name, "columns": columns, "address": address, "topic": where, "form": form, "more": more}
            tables.execute_sql(_COPY.format(**options))
        start, before = time.perf_counter(), core_seconds()
        tables.execute_sql("INSERT INTO target SELECT * FROM origin").wait()
    else:
        settings = settings_of(topic, output, form, is_live=job == "live")
        tables = environment_of({**checkpoints, **settings.flink}, form)
        built = pipeline.build(tables, settings)
        start, before = time.perf_counter(), core_seconds()
        built.execute().get_job_execution_result().result()
    return [time.perf_counter() - start, core_seconds() - before]


def variables_of(broker: Broker, folder: str) -> dict[str, str]:
    """Return the environment of a job with a folder of its own."""
    return os.environ | {
        "KAFKA_BOOTSTRAP_SERVERS": broker.address,
        "CRENEL_SUBJECT_KEY": "a key of the benchmarks",
        "BENCH_OUTPUT": folder,
        "FLINK_LOG_DIR": f"{folder}/log",
    }


def run(broker: Broker, job: str, topic: str, folder: Path, number: int, form: Form) -> list[float]:
    """Run a job in a process of its own, as ``work`` does; the broker's processor time is included."""
    output = f"{job}-{topic}-{number}"
    broker.create(dict.fromkeys((f"{output}-{name}" for name in _SINKS), PARTITIONS))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        before = broker.core_seconds()
        seconds, cores = worker(job, topic, output, form, variables=variables_of(broker, scratch), module=__name__)
        return [seconds, cores + broker.core_seconds() - before]


def rate_table(rows: Sequence[int] = _ROWS, repeats: int = 2, form: Form = "json") -> Table:
    """Return the records per second and the processor time of a record, of both jobs in turn."""
    found: dict[tuple[str, int], list[list[float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder, broker = Path(name), Broker(Path(name))
        try:
            broker.start()
            for count in rows:
                broker.create({f"visits-{count}": PARTITIONS})
                broker.write(f"visits-{count}", records(count, form))
            for number in range(repeats):
                for job in ("copy", "crenel"):
                    for count in rows:
                        found[job, count].append(run(broker, job, f"visits-{count}", folder, number, form))
        finally:
            broker.stop()
    few, many = rows
    figures = {}
    for job in ("copy", "crenel"):
        short, long = (np.min(found[job, count], axis=0) for count in rows)
        figures[job] = (long - short) / (many - few)
    table = Table(
        f"From topic to topic: {_NAMES[form]}, {PARTITIONS} partitions, exactly-once, one slot; best of {repeats}, in "
        "turn",
        ["job", "records/s", "of the copy", "to reach", "microseconds of a core", "of the copy", "to reach"],
    )
    for job, (seconds, cores) in figures.items():
        rate, cost = figures["copy"] / figures[job]
        goals = _GOALS.get(job, ("-", "-"))
        table.add(
            job, f"{1 / seconds:,.0f}", f"{rate:.2f}", goals[0], f"{cores * 1e6:.1f}", f"{1 / cost:.2f}", goals[1]
        )
    return table


def latency_table(rates: Sequence[int] = (2_000, 20_000)) -> Table:
    """Return the latency from topic to topic: up to the write of a record, and up to the end of its transaction."""
    table = Table(
        "Latency from topic to topic: JSON, exactly-once, a checkpoint every 10 s (p50, p99 in ms)",
        ["records/s sent", "published", "written to the topic", "visible to read_committed", "sent late, p99"],
    )
    for rate in rates:
        with tempfile.TemporaryDirectory() as name:
            broker = Broker(Path(name))
            try:
                broker.start()
                sent, written, visible, late = _live(broker, rate, name)
            finally:
                broker.stop()
        cells = [", ".join(f"{figure:,.0f}" for figure in np.percentile(f, [50, 99])) for f in (written, visible)]
        table.add(f"{rate:,}", f"{len(written) / sent:.1%}", *cells, f"{late:.1f} ms")
    return table


def _live(broker: Broker, rate: int, folder: str) -> tuple[int, NDArray[np.float64], NDArray[np.float64], float]:
    """Run the job on records that come at a rate.

    Returns
    -------
    sent : number of measured records
    written, visible : (published,) milliseconds from when a record was due
    late : 99th percentile of how late records were sent, in milliseconds
    """
    broker.create({"visits": PARTITIONS, **{f"live-{name}": PARTITIONS for name in _SINKS}})
    count = _FIRST + rate * (_SETTLE + _MEASURED + _REST)
    # The clinic, which is published unchanged, tells which record it is.
    visits = [
        (partition, record.replace(b'"clinic": "', b'"clinic": "%d ' % number))
        for number, (partition, record) in enumerate(records(count))
    ]
    due, seen = np.zeros(count), np.full((2, count), np.nan)
    command = [sys.executable, "-m", __name__, "live", "visits", "live"]
    variables = variables_of(broker, folder) | {"_python_worker_execution_mode": "process"}
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as job:
        is_over = threading.Event()
        reader = threading.Thread(target=_read, args=(broker.address, seen, is_over))
        reader.start()
        try:
            broker.write("visits", visits[:_FIRST])
            while np.isnan(seen).all():
                if job.poll() is not None:
                    raise RuntimeError("the job has ended")
                time.sleep(0.1)
            behind = _send(broker.address, visits[_FIRST:], rate, due[_FIRST:])
            time.sleep(_PATIENCE)
        finally:
            is_over.set()
            reader.join()
            job.terminate()
    measured = slice(_FIRST + rate * _SETTLE, _FIRST + rate * (_SETTLE + _MEASURED))
    written, visible = ((moments - due)[measured] * 1000 for moments in seen)
    published = ~np.isnan(visible)
    return rate * _MEASURED, written[published], visible[published], float(np.percentile(behind, 99) * 1000)


def _send(address: str, visits: Sequence[tuple[int, bytes]], rate: int, due: NDArray[np.float64]) -> list[float]:
    """Send records at a rate, and note when each was due; seconds by which those of each hundredth were late."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "log_level": 0})
    step, behind, begin = rate // 100, [], time.time()
    for number, start in enumerate(range(0, len(visits), step)):
        due[start : start + step] = begin + number / 100
        wait = begin + number / 100 - time.time()
        behind.append(max(0.0, -wait))
        time.sleep(max(0.0, wait))
        for partition, record in visits[start : start + step]:
            producer.produce("visits", record, partition=partition)
        producer.poll(0)
    producer.flush(60)
    return behind


def _read(address: str, seen: NDArray[np.float64], is_over: threading.Event) -> None:
    """Note when each published record was written, by the record itself, and when it could be read."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "latency", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("live-released", number, 0) for number in range(PARTITIONS)])
    while not is_over.is_set():
        messages, now = consumer.consume(10_000, 0.05), time.time()
        for message in messages:
            if message.error() is None:
                number = int(json.loads(message.value() or b"")["clinic"].partition(" ")[0])
                seen[:, number] = message.timestamp()[1] / 1000, now
    consumer.close()


def tables() -> list[Table]:
    """Print all tables of this file."""
    return [rate_table(), rate_table(form="avro"), latency_table()]


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))  # type: ignore[arg-type]
