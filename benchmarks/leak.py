"""``python -m benchmarks.leak``: memory of a job at a fixed rate, after one minute and at the end.

Java's objects are counted after a collection. All of its heap is touched at the start, so that growth of the resident
memory lies outside of it: classes, compiled code, buffers, threads. Needs ``jcmd`` of a JDK.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.measure import Table, resident
from crenel.jobs.local.java import find_java
from crenel.jobs.local.stop import descendants
from tests.support.cluster import Cluster
from tests.support.launch import running
from tests.support.processes import command
from tests.support.towns import TOWNS, write_towns

_JAVA = "-XX:+UseSerialGC -Xms1g -XX:+AlwaysPreTouch"
_SAMPLES = 5  # of which the least counts, since a moment's blocks are memory too
_APART = 3.0  # seconds between two of them
_MARGIN = {"Java, live objects": 4e6, "Java, resident": 32e6, "Python, resident": 8e6}
"""Growth in bytes that is no leak: Java still compiles and loads classes, and blocks are on their way at any moment."""

_ALGORITHMS = {
    "castle": "castle: {delay: {tuples: 1000}, reuse_limit: 100}",
    # Persons of the last ten seconds are remembered, so that all that is kept of one is removed as well.
    "nearest": "algorithm: nearest\nnearest: {delay: {event_time: 1 s}, reuse_limit: 100}",
    "suhdsa": "algorithm: suhdsa\nsuhdsa: {tuples: 50}",
}
_CONFIGURATION = """
policy:
  subject: person
  event_time: seen
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    town: {type: categorical, hierarchy: towns.csv}
  sensitive: [illness]
privacy: PRIVACY
ALGORITHM
shards: {count: 4}
subject_key: a key of the benchmarks
audit_chain: {key: the key of the auditor}
accept_duplicates: true            # datagen cannot be read again
flink: {execution.checkpointing.interval: 2 s, execution.checkpointing.dir: 'file://FOLDER/checkpoints'}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      person BIGINT, age INT, place INT, disease INT, seen AS CAST(CURRENT_TIMESTAMP AS TIMESTAMP_LTZ(3)),
      WATERMARK FOR seen AS seen - INTERVAL '1' SECOND
    ) WITH (
      'connector' = 'datagen', 'rows-per-second' = 'RATE',
      'fields.person.min' = '0', 'fields.person.max' = '1000000000',
      'fields.age.min' = '0', 'fields.age.max' = '99',
      'fields.place.min' = '1', 'fields.place.max' = 'PLACES',
      'fields.disease.min' = '1', 'fields.disease.max' = '3'
    )
  query: SELECT person, age, ELT(place, TOWNS) AS town, ELT(disease, 'cold', 'flu', 'gout') AS illness, seen FROM source
sinks:
"""
_SINK = "  {name}: {{connector: filesystem, path: {folder}/out/{name}, format: csv}}\n"


@dataclass(frozen=True)
class Memory:
    """Bytes of the TaskManager's Java, and of its Python workers together."""

    heap: int
    java: int
    python: int


def configure(algorithm: str, rate: int, folder: Path) -> Path:
    """Write the configuration of a job of random records, whose persons never come again."""
    write_towns(folder)
    privacy = "{k: 8, l: 2, persons: {horizon: 10 s}}" if algorithm == "nearest" else "{k: 8, l: 2}"
    text = _CONFIGURATION.replace("PRIVACY", privacy).replace("ALGORITHM", _ALGORITHMS[algorithm])
    text = text.replace("FOLDER", str(folder)).replace("RATE", str(rate)).replace("PLACES", str(len(TOWNS)))
    text = text.replace("TOWNS", ", ".join(f"'{town}'" for town in sorted(TOWNS)))
    text += "".join(_SINK.format(name=name, folder=folder) for name in ("released", "audit", "suppressed"))
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return folder / "job.yaml"


def measure(taskmanager: int) -> Memory:
    """Return the least of some samples."""
    samples = []
    for _ in range(_SAMPLES):
        heap = live_heap(taskmanager)
        workers = [process for process in descendants(taskmanager) if "beam_boot" in command(process)]
        samples.append((heap, resident(taskmanager), sum(map(resident, workers))))
        time.sleep(_APART)
    return Memory(*map(min, zip(*samples, strict=True)))


def live_heap(process: int) -> int:
    """Return the bytes of the objects that outlive a collection, which the count of all objects begins with."""
    beside = find_java() / "bin" / "jcmd"
    jcmd = str(beside) if beside.is_file() else shutil.which("jcmd")
    if jcmd is None:
        raise RuntimeError("jcmd is missing, which a JDK has (on Debian: apt install default-jdk-headless)")
    count = [jcmd, str(process), "GC.class_histogram"]
    report = subprocess.run(count, capture_output=True, text=True, check=True).stdout
    return int(report.splitlines()[-1].split()[-1])


def leak_table(algorithm: str, minutes: int, rate: int) -> tuple[Table, bool]:
    """Return memory by the minute, and whether it has grown by no more than the margin since the first."""
    os.environ["JVM_ARGS"] = _JAVA
    folder = Path(tempfile.mkdtemp(prefix="crenel-leak-"))
    (folder / "cluster").mkdir()
    with running(Cluster(folder / "cluster")) as cluster:
        job = cluster.submit(configure(algorithm, rate, folder))
        cluster.wait_for_checkpoint(job, 0)
        start, taskmanager = time.monotonic(), cluster.processes[1]
        found = []
        for minute in range(1, minutes + 1):
            time.sleep(max(0.0, start + 60 * minute - time.monotonic()))
            found.append((cluster.rows_read(job), measure(taskmanager)))
        cluster.cancel(job)
    shutil.rmtree(folder)
    table = Table(f"Memory of a running job ({algorithm}, {rate:,} rows/s), MB", ["minute", "rows", *_MARGIN])
    for minute, (rows, memory) in enumerate(found, 1):
        table.add(minute, f"{rows:,}", *(f"{amount / 1e6:.1f}" for amount in astuple(memory)))
    growth = [after - before for before, after in zip(astuple(found[0][1]), astuple(found[-1][1]), strict=True)]
    table.add("growth", "", *(f"{amount / 1e6:+.1f}" for amount in growth))
    table.add("at most", "", *(f"{amount / 1e6:+.1f}" for amount in _MARGIN.values()))
    good = found[-1][0] > found[0][0]
    return table, good and all(amount <= most for amount, most in zip(growth, _MARGIN.values(), strict=True))


def main() -> int:
    """Print the table; 1 where memory has grown by more than the margin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=5, help="length of the run, 2 or more")
    parser.add_argument("--rate", type=int, default=4000, help="rows a second")
    parser.add_argument("--algorithm", choices=_ALGORITHMS, default="nearest")
    options = parser.parse_args()
    table, good = leak_table(options.algorithm, options.minutes, options.rate)
    print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
