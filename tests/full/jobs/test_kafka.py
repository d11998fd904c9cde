"""``conf/kafka.yaml``, from a topic to topics: through kills, a stop and a move each record leaves once."""

from __future__ import annotations

import csv
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crenel.jobs.cli import synthetic
from crenel.jobs.config.load import load
from tests.support import broker as brokers
from tests.support.behind import behind
from tests.support.broker import Broker
from tests.support.cluster import Cluster, job_id, restored, with_settings
from tests.support.launch import ROOT, Host
from tests.support.tutorials import run

pytestmark = pytest.mark.cluster

CONFIGURATION = ROOT / "conf" / "kafka.yaml"
GENERALIZED = ("age_min", "age_max", "area", "education", "salary_min", "salary_max")
SINKS = ("audit", "released", "suppressed", "rejected")
IDLE = 10
"""Seconds after which a partition is idle, as the configuration has it."""

PARTITIONS = 3
"""Those that are written to; one more stays idle."""

ROWS = 9000
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

TOOL = f"""#!{sys.executable}
import sys
from tests.support.broker import tool
tool(sys.argv)
"""
"""Program in the place of one of Kafka's tools, which Maven does not hold."""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[bytes | None]:
    """Visits, each with a clinic of its own, and among them records that nothing can read."""
    made = tmp_path_factory.mktemp("visits") / "visits.csv"
    synthetic.write(made, ROWS)
    with made.open(encoding="utf-8", newline="") as file:
        visits = [dict(zip(synthetic.COLUMNS, row, strict=True)) for row in csv.reader(file)]
    found: list[bytes | None] = [
        json.dumps({**visit, "clinic": f"clinic {number}"}).encode() for number, visit in enumerate(visits)
    ]
    chance = random.Random(3)
    for record in CANNOT_BE_READ:
        found.insert(chance.randrange(len(found)), record)
    return found


def test_each_record_leaves_once_through_kills_a_stop_and_a_move(
    cluster: Cluster,
    mini: Host,
    broker: Broker,
    records: list[bytes | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create({"visits": PARTITIONS + 1, **dict.fromkeys(SINKS, 2)})
    variables = {"KAFKA_BOOTSTRAP_SERVERS": broker.address, "CRENEL_SUBJECT_KEY": "a key of the tests"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    parts = sixths(records)
    broker.write("visits", next(parts))
    job = submit(cluster, tmp_path, variables)
    # By event time alone, so nothing would leave if the idle partition held the watermark back.
    cluster.wait(lambda: bool(broker.read("released")), "release")
    for kill in (cluster.kill_worker, killed_whole(cluster)):
        restarts = cluster.restarts(job)
        broker.write("visits", next(parts))
        cluster.wait(kill, "kill")
        broker.write("visits", next(parts))
        cluster.wait(lambda before=restarts: cluster.restarts(job) > before, "restart")  # type: ignore[misc]
        done = cluster.checkpoints(job)
        cluster.wait(lambda before=done: cluster.checkpoints(job) > before, "checkpoint")  # type: ignore[misc]
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    assert len(broker.read("released")) < len(records)

    job = submit(cluster, tmp_path, variables, restored(savepoint) | {"parallelism.default": 2})
    cluster.wait(lambda: cluster.state(job) == "RUNNING", "restored job")
    broker.write("visits", next(parts))
    cluster.wait(lambda: cluster.rows_read(job) >= len(records) // 6, "rows")
    time.sleep(IDLE + 2)  # now no partition has brought anything of late
    drained = cluster.stop_job(job, tmp_path / "savepoints", drain=True)

    # A broker says that a transaction is committed before its readers see it.
    cluster.wait(lambda: sum(len(broker.read(name)) for name in SINKS[1:]) >= len(records), "end of transactions")
    left = {name: broker.read(name) for name in SINKS}
    require_once(records, left)
    require_persons(records, left)
    result = mini.crenel("verify", CONFIGURATION, "--json", *connected())
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert [check for check in checks.values() if check["findings"]] == [], result.stderr
    assert {checks[name]["outcome"] for name in ("k", "cover", "release ids", "in force")} == {"holds"}

    # Under a policy that the state does not fit, a drained job goes on where it was, with shards that begin anew.
    changed = ("--set", "policy.quasi_identifiers.age.domain=[18, 110]", "--set", "shards.count=2")
    result = mini.crenel("check", CONFIGURATION, "--against", drained, *changed, *connected())
    assert (result.returncode, result.stderr.count("go on from here with another epoch")) == (2, 2), result.stderr
    changed += ("--set", "epoch=2")
    result = mini.crenel("check", CONFIGURATION, "--against", drained, *changed, *connected())
    assert f"It can go on from {drained}: with -n; the 4 stored shards buffer no tuples" in result.stdout, result.stderr
    more = [(0, json.dumps({**json.loads(records[0] or b""), "clinic": f"more {i}"}).encode()) for i in range(200)]
    broker.write("visits", more)
    settings = restored(drained) | {"execution.state-recovery.ignore-unclaimed-state": "true"}
    job = submit(cluster, tmp_path, variables, settings, *changed, "--set", "privacy.k=1", "--set", "privacy.l=1")
    cluster.wait(lambda: cluster.rows_read(job) == len(more), "rows")
    cluster.stop_job(job, tmp_path / "savepoints", drain=True)
    cluster.wait(lambda: len(broker.read("released")) >= len(left["released"]) + len(more), "end of transactions")
    require_once(records + [record for _, record in more], {name: broker.read(name) for name in SINKS})


def test_the_tutorial_runs_and_prints_what_it_shows(
    mini: Host, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.address)
    monkeypatch.setenv("CONNECTOR", str(brokers.connector()))
    tools = ("kafka-topics.sh", "kafka-console-producer.sh", "kafka-console-consumer.sh")
    run(ROOT / "docs" / "tutorials" / "kafka.md", tmp_path, mini, dict.fromkeys(tools, TOOL))


def require_once(records: list[bytes | None], left: dict[str, list[Any]]) -> None:
    """Require that each record was released, suppressed or rejected once, and that unreadable ones were rejected."""
    released = Counter(row["clinic"] for row in left["released"])
    rejected = Counter(row["reference"] for row in left["rejected"])
    assert max((released + rejected).values()) == 1
    assert len(released) + len(rejected) + len(left["suppressed"]) == len(records)
    place = {record: f"{number % PARTITIONS}:{number // PARTITIONS}" for number, record in enumerate(records)}
    assert {place[record] for record in CANNOT_BE_READ} <= rejected.keys()
    clinics = {json.loads(record)["clinic"]: record for record in records if record and record not in CANNOT_BE_READ}
    assert {place[clinics[clinic]] for clinic in released}.isdisjoint(rejected)
    assert len(released) > 0.9 * len(records)


def require_persons(records: list[bytes | None], left: dict[str, list[Any]]) -> None:
    """At least k persons, and not only rows, are behind each generalization, as who has the input can count."""
    read = [json.loads(record) for record in records if record and record not in CANNOT_BE_READ]
    persons = {visit["clinic"]: visit["person"] for visit in read}
    found = behind(left["released"], GENERALIZED, lambda row: persons[row["clinic"]])
    assert min(map(len, found.values())) >= load(CONFIGURATION).privacy.k


def sixths(records: list[bytes | None]) -> Iterator[list[tuple[int, bytes | None]]]:
    """Yield a sixth of the records after the other, each with its partition."""
    placed = [(number % PARTITIONS, record) for number, record in enumerate(records)]
    for number in range(6):
        yield placed[len(placed) * number // 6 : len(placed) * (number + 1) // 6]


def submit(
    cluster: Cluster,
    folder: Path,
    variables: Mapping[str, str],
    settings: Mapping[str, Any] | None = None,
    *arguments: str,
) -> str:
    """Start the job; its id."""
    flink = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "pipeline.jars": f"file://{brokers.connector()}",
        **(settings or {}),
    }
    what = ("--config", CONFIGURATION, *with_settings(CONFIGURATION, flink), "--set", "nearest.delay={event_time: 6 h}")
    done = cluster.ask("anonymize", *what, *arguments, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return job_id(done)


def connected() -> tuple[str, str]:
    """Return the argument with which a local run finds the connector."""
    return "--set", f"flink.pipeline.jars=file://{brokers.connector()}"


def killed_whole(cluster: Cluster) -> Callable[[], bool]:
    """Kill the TaskManager with all processes that it started, and start another."""

    def kill() -> bool:
        cluster.kill_taskmanager()
        cluster.start_taskmanager()
        return True

    return kill
