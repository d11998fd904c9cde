"""``examples/kafka_program.py`` on a cluster: through a kill, a request, a stop and changes each record leaves once."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import crenel
from examples.kafka_program import OUTPUTS, SETTINGS, TOPICS
from tests.support import broker as brokers
from tests.support.behind import behind
from tests.support.broker import Broker
from tests.support.cluster import PYTHON, Cluster
from tests.support.launch import ROOT, Host

pytestmark = pytest.mark.cluster

PROGRAM = ROOT / "examples" / "kafka_program.py"
KEYS = {"CRENEL_SUBJECT_KEY": "a subject key of the tests", "CRENEL_AUDIT_KEY": "an audit key of the tests"}
INVENTED, MORE = 2000, 500
IDLE = 15
"""Seconds after which the program takes a partition for idle."""

FORGOTTEN = "p-forgotten"
SOURCES = {f"crenel-visits-source-kafka-{name}" for name in ("visits", "diagnoses", "requests")}
METRICS = {"tuples_in", "released", "buffered", "forgotten", "releases_cluster", "suppressed_too_few_subjects", "k"}
CHANGES = (
    # An operator before the anonymization, and a statement with an aggregate before all others.
    ("INTERVAL '1' HOUR\n", "INTERVAL '1' HOUR\nWHERE CHAR_LENGTH(v.area) > 3\n"),
    (
        "    for name in OUTPUTS:",
        "    ages = 'CREATE TEMPORARY TABLE ages (age INT, visits BIGINT) WITH '\n"
        "    t_env.execute_sql(ages + \"('connector' = 'blackhole')\")\n"
        "    published = t_env.sql_query(f'SELECT age_min, COUNT(*) FROM {outputs.released} GROUP BY age_min')\n"
        "    statements.add_insert('ages', published)\n"
        "    from crenel.jobs.pipeline.job import upwards\n"
        "    ends = t_env._j_tenv.execEnv().getTransformations()\n"
        "    print('uids', *(each.getUid() for end in ends for each in upwards(end, set())))\n"
        "    for name in OUTPUTS:",
    ),
)
"""Texts of the program with those that replace them in its next version."""

VERIFIED = """
audit_chain: {{key: "{key}"}}
flink: {{pipeline.jars: "file://{jar}"}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (patient STRING, age INT, area STRING, ward STRING, seen TIMESTAMP_LTZ(3),
    diagnosis STRING, WATERMARK FOR seen AS seen) WITH ('connector' = 'datagen')
sinks:
"""
SINK = (
    "  {name}: {{connector: kafka, properties.bootstrap.servers: '{brokers}', topic: example.{name}, format: json, "
    "sink.delivery-guarantee: exactly-once, sink.transactional-id-prefix: verified-{name}}}\n"
)


def test_each_record_leaves_once_through_a_kill_a_request_a_stop_and_changes_of_the_program(
    cluster: Cluster, mini: Host, broker: Broker, tmp_path: Path
) -> None:
    broker.create(dict.fromkeys(TOPICS, 2))
    archive = packed(tmp_path)
    job, _ = submitted(cluster, broker, archive, PROGRAM, "--invent", str(INVENTED))
    cluster.wait(lambda: bool(broker.read("example.released")), "release")
    cluster.kill_taskmanager()
    cluster.start_taskmanager()
    cluster.wait(lambda: cluster.restored(job) > 0, "restart")
    write(broker, INVENTED, MORE)

    write(broker, INVENTED + MORE, 1, FORGOTTEN)
    checkpointed(cluster, job, broker)
    broker.write("example.requests", [(0, json.dumps({"patient": FORGOTTEN}).encode())])
    cluster.wait(lambda: bool(broker.read("example.forgotten")), "record of the request")
    time.sleep(IDLE + 1)
    checkpointed(cluster, job, broker)
    assert "closing" not in {row["kind"] for row in broker.read("example.audit")}
    cluster.wait(lambda: metrics(cluster, job) >= METRICS, "metrics", 30)
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    before = len(broker.read("example.released"))

    changed = PROGRAM.read_text(encoding="utf-8")
    for old, new in CHANGES:
        assert changed.count(old) == 1
        changed = changed.replace(old, new)
    (tmp_path / "changed.py").write_text(changed, encoding="utf-8")
    job, printed = submitted(cluster, broker, archive, tmp_path / "changed.py", savepoint=savepoint)
    uids = printed.split("uids ")[1].split()
    assert SOURCES - set(uids) == set()  # by topic: in another order, one would read on at the offsets of another
    write(broker, INVENTED + MORE + 1, MORE)
    cluster.wait(lambda: len(broker.read("example.released")) > before, "release after the restore")
    checkpointed(cluster, job, broker)
    cluster.stop_job(job, tmp_path / "savepoints", drain=True)

    require_once(broker)
    require_verified(mini, broker, tmp_path)


def packed(folder: Path) -> Path:
    """Return a zip file of the package, in which folders take the place of links."""
    shutil.copytree(ROOT / "crenel", folder / "zip" / "crenel", ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(folder / "crenel"), "zip", folder / "zip"))


def submitted(
    cluster: Cluster, broker: Broker, archive: Path, program: Path, *arguments: str, savepoint: Path | None = None
) -> tuple[str, str]:
    """Start the program as a user does; the id of its job, and what the program printed."""
    run = ("run", "-d", *PYTHON, "-pyfs", archive, "--jarfile", brokers.connector())
    if savepoint is not None:
        run += ("-s", savepoint)
    what = ("-py", program, "--brokers", broker.address, "--checkpoints", "1 s", *arguments)
    done: subprocess.CompletedProcess[str] = cluster.flink(*run, *what, **KEYS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("JobID ")[-1].split()[0], done.stdout


def write(broker: Broker, first: int, count: int, patient: str = "") -> None:
    """Write visits with their diagnoses, a minute apart; each has a ward of its own."""
    records: dict[str, list[tuple[int, bytes | None]]] = {"visits": [], "diagnoses": []}
    for number in range(first, first + count):
        time_of = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + 60 * number))
        visit = {
            "visit": number,
            "patient": patient or f"p{number * 7 % 700}",
            "age": 109 if patient else 18 + number % 70,  # so no other visit is released with that of the one patient
            "area": ("Oslo", "Bergen", "Lund")[number % 3],
            "ward": f"ward {number}",
            "seen": time_of,
        }
        diagnosis = {"visit": number, "diagnosis": ("flu", "asthma")[number % 2], "made": time_of}
        for topic, record in (("visits", visit), ("diagnoses", diagnosis)):
            records[topic].append((number % 2, json.dumps(record).encode()))
    for topic, each in records.items():
        broker.write(f"example.{topic}", each)


def checkpointed(cluster: Cluster, job: str, broker: Broker) -> None:
    """Wait until the job has read all visits and diagnoses, and two checkpoints have completed since."""
    topics = ("example.visits", "example.diagnoses")
    cluster.wait(lambda: all(broker.behind(topic, "crenel-example") == 0 for topic in topics), "records")
    done = cluster.checkpoints(job)
    cluster.wait(lambda: cluster.checkpoints(job) > done + 1, "checkpoint")


def metrics(cluster: Cluster, job: str) -> set[str]:
    """Return the names of Crenel's metrics."""
    paths = [f"/jobs/{job}/vertices/{vertex['id']}" for vertex in cluster.get(f"/jobs/{job}")["vertices"]]
    names = [metric["id"] for path in paths for metric in cluster.get(f"{path}/subtasks/metrics")]
    return {name.rpartition(".crenel.")[2] for name in names if ".crenel." in name}


def require_once(broker: Broker) -> None:
    """Require that each joined record was published or suppressed once, and that the counts are those of the rows."""
    found = {name: broker.read(f"example.{name}") for name in (*OUTPUTS, "counts", "visits")}
    visits = {visit["ward"]: visit for visit in found["visits"]}
    assert len(visits) == INVENTED + 2 * MORE + 1
    released = Counter(row["ward"] for row in found["released"])
    assert max(released.values()) == 1
    assert [row["tuples"] for row in found["forgotten"]] == [1]
    assert f"ward {INVENTED + MORE}" not in released
    missing = len(visits) - 1 - len(released) - len(found["suppressed"]) - len(found["rejected"])
    assert missing == 0, sorted(visits.keys() - released.keys())
    assert len(released) > 0.9 * len(visits)
    persons = behind(found["released"], ("age_min", "age_max", "area"), lambda row: visits[row["ward"]]["patient"])
    assert min(map(len, persons.values())) >= SETTINGS.privacy.k
    last = {(row["area"], row["diagnosis"]): row["visits"] for row in found["counts"]}
    assert last == Counter((row["area"], row["diagnosis"]) for row in found["released"])


def require_verified(mini: Host, broker: Broker, folder: Path) -> None:
    """Require that ``crenel verify`` finds the outputs to hold, with a chain over a restore and its end."""
    (folder / "area.csv").write_text("Oslo;Norway;*\nBergen;Norway;*\nLund;Sweden;*\n", encoding="utf-8")
    attributes = {**SETTINGS.policy.quasi_identifiers, "area": crenel.Categorical("area.csv")}
    policy = replace(SETTINGS.policy, quasi_identifiers=attributes)
    settings = replace(SETTINGS, policy=policy, folder=folder, subject_key=KEYS["CRENEL_SUBJECT_KEY"])
    text = settings.to_yaml() + VERIFIED.format(key=KEYS["CRENEL_AUDIT_KEY"], jar=brokers.connector())
    text += "".join(SINK.format(name=name, brokers=broker.address) for name in OUTPUTS)
    (folder / "verified.yaml").write_text(text, encoding="utf-8")
    done = mini.crenel("verify", folder / "verified.yaml", "--json", **KEYS)
    checks: dict[str, Any] = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert [check for check in checks.values() if check["findings"]] == [], done.stderr
    outcomes = {name: check["outcome"] for name, check in checks.items()}
    assert {outcomes[name] for name in ("chain", "starts", "values", "end", "k")} == {"holds"}, outcomes
