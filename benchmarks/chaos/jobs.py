"""Disturbed jobs, their streams, and faults in their outputs."""

from __future__ import annotations

import csv
import json
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.behind import behind
from tests.support.broker import Broker
from tests.support.launch import Host, rows_in
from tests.support.towns import TOWNS, write_towns
from tests.support.visits import SUPPRESSED

SINKS = ("released", "audit", "suppressed", "rejected")
PARTITIONS = 3
_HELD_BACK = 1  # partitions in which nothing ever comes
_PERSONS = 3  # rows of a person at the mean
_DAMAGED = 200  # one of so many records in a topic is no JSON
_K, _L = 8, 2
_GENERALIZED = ("age_min", "age_max", "town")

_HEAD = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    town: {type: categorical, hierarchy: towns.csv}
  sensitive: [illness]
  passthrough: [id]
"""
_FILES = """
  drop: [name]
privacy: {k: K, l: L}
ALGORITHM
shards: {count: 4}
seed: 11
subject_key: a key of the benchmarks
flink: {execution.checkpointing.interval: 1 s, python.fn-execution.bundle.size: "200"}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (id BIGINT, person STRING, name STRING, age INT, town STRING, illness STRING)
    WITH ('connector' = 'filesystem', 'path' = 'INPUT', 'format' = 'csv')
  query: SELECT paced(id) AS id, person, name, age, town, illness FROM source
sinks:
"""
_TOPICS = """
  event_time: seen
  reference: place
  drop: [name, arrived, partition, offset]
privacy: {k: K, l: L}
ALGORITHM
shards: {count: 4}
subject_key: a key of the benchmarks
flink: {execution.checkpointing.interval: 1 s, pipeline.jars: CONNECTOR}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      record STRING, arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, `partition` INT METADATA VIRTUAL,
      `offset` BIGINT METADATA VIRTUAL, place AS CONCAT_WS(':', CAST(`partition` AS STRING), CAST(`offset` AS STRING)),
      seen AS COALESCE(TO_TIMESTAMP_LTZ(TRY_CAST(JSON_VALUE(record, '$.ms') AS BIGINT), 3), arrived),
      WATERMARK FOR seen AS LEAST(seen, arrived) - INTERVAL '5' SECOND
    ) WITH (
      'connector' = 'kafka', 'properties.bootstrap.servers' = 'BROKER', 'properties.group.id' = 'NAME',
      'topic' = 'NAME-in', 'format' = 'raw', 'scan.startup.mode' = 'earliest-offset',
      'scan.watermark.idle-timeout' = '5 s'
    )
  from_json:
    column: record
    fields: {id: BIGINT, person: STRING, name: STRING, age: INT, town: STRING, illness: STRING}
sinks:
"""
_ALGORITHMS = {
    "castle": "castle: {delay: DELAY, max_clusters: 30, reuse_limit: 1000}",
    "nearest": "algorithm: nearest\nnearest: {delay: DELAY, reuse_limit: 1000}",
    "window": "algorithm: suhdsa\nsuhdsa: SIZE",
}
_DELAYS = {"tuples": ("{tuples: 1000, jitter: 0.25}", "{tuples: 200}"), "event time": ("{event_time: 10 min}",) * 2}


@dataclass(frozen=True)
class Setting:
    """A job.

    Attributes
    ----------
    algorithm : castle, nearest or window
    delay : ``tuples`` or ``event time``
    kafka : from a topic to topics, and not from a file to files
    """

    algorithm: str
    delay: str
    kafka: bool

    @property
    def name(self) -> str:
        return f"{self.algorithm}, {self.delay}, {'Kafka' if self.kafka else 'files'}"

    @property
    def deterministic(self) -> bool:
        """Whether two runs publish the same bytes."""
        return self.delay == "tuples" and not self.kafka


SETTINGS = tuple(
    Setting(algorithm, delay, kafka)
    for algorithm in _ALGORITHMS
    for delay, kafka in (("tuples", False), ("event time", True), ("tuples", True))
)


@dataclass
class OutputFaults:
    """Faults in the outputs of a job: counts, and the findings of ``crenel verify``.

    Attributes
    ----------
    rows : of the input
    thin : generalizations with less than k persons of the input behind them, or less than l illnesses
    """

    rows: int
    lost: int
    twice: int
    thin: int = 0
    findings: list[str] = field(default_factory=list)


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows of the stream; people come again, and no two rows have one ``id``."""
    chance = random.Random(5)
    towns = sorted(TOWNS)
    for number in range(count):
        person = chance.randrange(count // _PERSONS)
        yield {
            "id": number,
            "person": f"subject-{person:06}",
            "name": f"dropped-{person:06}",
            "age": chance.randrange(100),
            "town": chance.choice(towns),
            "illness": chance.choice(("cold", "flu", "gout")),
            "ms": 1_704_067_200_000 + number * 1000,
        }


def records(count: int) -> list[tuple[int, bytes]]:
    """Return the same as records for a topic, each with its partition, and some unreadable ones."""
    texts = [b"{" if row["id"] % _DAMAGED == 1 else json.dumps(row).encode() for row in rows(count)]
    return [(number % PARTITIONS, text) for number, text in enumerate(texts)]


def configure(setting: Setting, folder: Path, count: int, broker: Broker | None, connector: Path | None) -> Path:
    """Write the configuration, its hierarchy and its input into a folder."""
    folder.mkdir(parents=True)
    write_towns(folder)
    delay, size = _DELAYS[setting.delay]
    algorithm = _ALGORITHMS[setting.algorithm].replace("DELAY", delay).replace("SIZE", size)
    if broker is None:
        with (folder / "input.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([*row.values()][:-1] for row in rows(count))
        text = _FILES.replace("INPUT", str(folder / "input.csv"))
        sinks = {name: {"connector": "filesystem", "path": str(folder / name), "format": "csv"} for name in SINKS}
    else:
        broker.create({f"{folder.name}-in": PARTITIONS + _HELD_BACK, **{f"{folder.name}-{name}": 2 for name in SINKS}})
        text = (
            _TOPICS.replace("BROKER", broker.address).replace("NAME", folder.name).replace("CONNECTOR", f"{connector}")
        )
        sinks = {
            name: {
                "connector": "kafka",
                "properties.bootstrap.servers": broker.address,
                "topic": f"{folder.name}-{name}",
                "format": "json",
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": f"{folder.name}-{name}",
            }
            for name in SINKS
        }
    text = text.replace("{k: K, l: L}", f"{{k: {_K}, l: {_L}}}")
    text = _HEAD.rstrip() + text.replace("ALGORITHM", algorithm)
    text += "".join(f"  {name}: {json.dumps(options)}\n" for name, options in sinks.items())
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return folder / "job.yaml"


class Feed(threading.Thread):
    """Writes records to a topic, some each second, until all are written or it is told to hurry."""

    def __init__(self, broker: Broker, topic: str, what: Sequence[tuple[int, bytes]], rate: int) -> None:
        super().__init__(daemon=True)
        self._broker, self._topic, self._what, self._rate = broker, topic, what, rate
        self.hurry = threading.Event()

    def run(self) -> None:
        """Write them."""
        written = 0
        while written < len(self._what):
            some = len(self._what) if self.hurry.is_set() else self._rate // 4
            self._broker.write(self._topic, self._what[written : written + some])
            written += some
            self.hurry.wait(0.25)


def published(folder: Path, broker: Broker | None) -> dict[str, list[Any]]:
    """Return the committed lines of files, or records of topics, by output."""
    if broker is not None:
        return {name: broker.read(f"{folder.name}-{name}") for name in SINKS}
    found = {}
    for name in SINKS:
        files = sorted((folder / name).rglob("part-*")) if (folder / name).is_dir() else []
        found[name] = sorted(line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return found


def wrong(left: Mapping[str, list[Any]], count: int, *, kafka: bool) -> OutputFaults:
    """Return the faults in the result of ``published``, against the ``count`` rows of the input."""
    released, suppressed = left["released"], left["suppressed"]
    if not kafka:
        released, suppressed = rows_in(released, (*_GENERALIZED, "illness", "id")), rows_in(suppressed, SUPPRESSED)
    ids = Counter(int(row["id"]) for row in released)
    positions = Counter((int(row["shard"]), int(row["position"])) for row in suppressed)
    # Only a record of a topic has a place of its own by which it is known among the rejected.
    rejected = Counter(row["reference"] if kafka else number for number, row in enumerate(left["rejected"]))
    known = len(ids) + len(positions) + len(rejected)
    twice = ids.total() + positions.total() + rejected.total() - known + max(known - count, 0)
    persons = behind(released, _GENERALIZED, lambda row: _came(count)[int(row["id"])])
    illnesses = behind(released, _GENERALIZED, lambda row: row["illness"])
    thin = sum(len(persons[shown]) < _K or len(illnesses[shown]) < _L for shown in persons)
    return OutputFaults(count, max(count - known, 0), twice, thin)


@cache
def _came(count: int) -> list[str]:
    """Return the person of each row of the input."""
    return [row["person"] for row in rows(count)]


def findings(mini: Host, configuration: Path, extra: Iterable[str] = ()) -> list[str]:
    """Return the violations that ``crenel verify`` finds in the outputs."""
    plain = configuration.with_name("verified.yaml")  # without the function that only the cluster has
    text = configuration.read_text(encoding="utf-8").replace("paced(id) AS id", "id")
    plain.write_text(text, encoding="utf-8")
    verdict = mini.crenel("verify", plain, "--json", *extra)
    if not verdict.stdout.startswith("{"):
        return [verdict.stderr.strip().splitlines()[-1]]
    return [check["name"] for check in json.loads(verdict.stdout)["checks"] if check["findings"]]
