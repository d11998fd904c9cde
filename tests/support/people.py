"""A stream of persons who come again, and jobs on it that are stopped, killed and restored."""

from __future__ import annotations

import csv
import random
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from crenel.anonymity.model import hierarchy
from crenel.anonymity.model.fingerprint import hierarchy_digest
from tests.support.programs import LINK
from tests.support.towns import TOWNS, write_towns
from tests.support.visits import audit_columns

ROWS = 30_000
RELEASED = ("age_min", "age_max", "town", "illness", "id")
AUDIT = audit_columns(["illness"], RELEASED[:3])
CONFIGURATION = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    town: {type: categorical, hierarchy: towns.csv}
  sensitive: [illness]
  passthrough: [id]
  drop: [name]
privacy: {k: 8, l: 2}
WAY
seed: 11
CHAIN
flink:
  execution.checkpointing.interval: 1 s
  python.fn-execution.bundle.size: "1000"
source:
  ddl: |
    CREATE TEMPORARY TABLE source (id BIGINT, person STRING, name STRING, age INT, town STRING, illness STRING)
    WITH ('connector' = 'filesystem', 'path' = 'INPUT', 'format' = 'csv')
  query: SELECT paced(id) AS id, person, name, age, town, illness FROM source
sinks:
"""
WAYS = {
    "castle by subject": "castle: {delay: {tuples: 2000}, max_clusters: 30, reuse_limit: 1000}\nshards: {count: 4}",
    "nearest by regions": "algorithm: nearest\nnearest: {delay: {tuples: 2000, jitter: 0.5}, reuse_limit: 1000}\n"
    "shards: {count: 4, by: regions, regions: regions.yaml}",
    "cells": "algorithm: cells\ncells: {sample_rate: 0.5, partition: cells.yaml, epsilon: 10, delta: 0.01, "
    "window: 100 s, windows: 2, lateness: 1 h}\nshards: {count: 4}",
    "window by subject": "algorithm: suhdsa\nsuhdsa: {tuples: 100}\nshards: {count: 4}",
}
REGIONS = """
version: 1
attributes: {age: {domain: [0, 99]}, town: {hierarchy: HIERARCHY}}
tree:
  cut: age
  below: 40
  left:
    cut: town
    before: south-2
    left: {shard: 0, share: 0.2, loss: 0.3}
    right: {shard: 1, share: 0.2, loss: 0.3}
  right:
    cut: age
    below: 80
    left: {shard: 2, share: 0.4, loss: 0.4}
    right: {shard: 3, share: 0.2, loss: 0.3}
"""
SINK = "  {name}: {{connector: filesystem, path: {folder}/{name}, format: csv}}\n"


def persons(rows: int = ROWS) -> list[int]:
    """Return the persons of a stream in turn, of whom each comes three times on average."""
    chance = random.Random(5)
    return [chance.randrange(rows // 3) for _ in range(rows)]


def write(folder: Path, persons: Iterable[int]) -> Path:
    """Return the file, with a tuple of each of these persons in turn, and its hierarchy."""
    chance = random.Random(6)
    with (folder / "people.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        for i, person in enumerate(persons):
            rows.writerow(
                (
                    i,
                    f"subject-{person:06}",
                    f"dropped-{person:06}",
                    chance.randrange(100),
                    chance.choice(sorted(TOWNS)),
                    chance.choice(("cold", "flu", "gout")),
                )
            )
    write_towns(folder)
    return folder / "people.csv"


def configure(
    people: Path,
    output: Path,
    sinks: Sequence[str] = ("released", "audit", "suppressed"),
    way: str = "castle by subject",
) -> Path:
    """Return a configuration of the job in the folder where it writes."""
    output.mkdir(parents=True, exist_ok=True)
    towns = Path(shutil.copy(people.with_name("towns.csv"), output))
    regions = REGIONS.replace("HIERARCHY", hierarchy_digest(hierarchy.load(towns)))
    (output / "regions.yaml").write_text(regions, encoding="utf-8")
    chain = "audit_chain: {key: the key of the auditor}" if "audit" in sinks else ""
    text = CONFIGURATION.replace("INPUT", str(people)).replace("WAY", WAYS[way]).replace("CHAIN", chain)
    text += "".join(SINK.format(name=name, folder=output / "out") for name in sinks)
    (output / "job.yaml").write_text(text, encoding="utf-8")
    return output / "job.yaml"


def published(output: Path, sinks: Sequence[str] = ("released", "audit", "suppressed")) -> dict[str, list[str]]:
    """Return the lines that were committed, sorted, by output; of audit without the chain, which tells of restores."""
    found = {}
    for name in sinks:
        files = sorted((output / "out" / name).rglob("part-*"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        found[name] = sorted(line.rsplit(",", len(LINK))[0] if name == "audit" else line for line in lines)
    return found


def rows_in_order(people: Path) -> pa.Table:
    """Return the tuples as a table, for a program."""
    options = pyarrow.csv.ReadOptions(column_names=("id", "person", "name", "age", "town", "illness"))
    return pyarrow.csv.read_csv(people, options)


def raw_values(savepoint: Path) -> list[str]:
    """Files of a savepoint that hold a subject or a dropped value; fails where it holds no state at all."""
    contents = {path: path.read_bytes() for path in savepoint.rglob("*") if path.is_file()}
    assert any(b"CRNL" in content for content in contents.values())
    # With a digit: a column is called subject, and what stands behind its name may be the byte of a hyphen.
    return [path.name for path, content in contents.items() if re.search(rb"(subject|dropped)-[0-9]", content)]
