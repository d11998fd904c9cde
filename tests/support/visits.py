"""A stream for whole jobs: people with illnesses, with what CSV must quote, and rows that must be rejected."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from tests.support.launch import rows_of

ROWS = 3000
K, L = 5, 2
START = 1_704_067_200_000

# Characters that CSV must quote, and characters of more than one byte.
TOWNS = {
    'The "Old" Town': "north",
    "Ash, upper": "north",
    "Ash, lower": "north",
    "Two\nLines": "south",
    "Weißenburg": "south",
    "東京; 港区": "south",
}
ILLNESSES = ["cold", "flu", 'a "bad" back', "gout, or so", "first\nsecond", "Fußpilz", "頭痛", "'", "\\"]

SOURCE = ("line", "id", "person", "name", "age", "town", "wage", "illness", "ms")
RELEASED = ("age_min", "age_max", "town", "wage_min", "wage_max", "illness", "id")
GENERALIZED = RELEASED[:5]


def audit_columns(sensitive: Sequence[str], generalized: Sequence[str]) -> tuple[str, ...]:
    """Columns of an audit log."""
    release = ("release_id", "shard", "event_time", "kind", "subjects", "tuples")
    diversity = (f"diversity_{name}" for name in sensitive)
    return (*release, *diversity, "loss", "in_force", "k", "l", "sample_rate", "phi", *generalized)


AUDIT = audit_columns(["illness"], GENERALIZED)
SUPPRESSED = ("reason", "shard", "position", "event_time")
REJECTED = ("column", "reason", "event_time", "reference")

POLICY = """
policy:
  subject: person
  event_time: ts
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
    town: {type: categorical, hierarchy: towns.csv}
    wage: {type: numeric}
  sensitive: [illness]
  passthrough: [id]
  drop: [name]
  reference: line
privacy: {k: 5, l: 2}
castle:
  delay: {tuples: 60, event_time: 5 min}
  max_clusters: 10
shards: {count: 4}
seed: 7
subject_key: a key for tests, of 16 bytes or more
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      line BIGINT, id BIGINT, person STRING, name STRING, age STRING, town STRING, wage DOUBLE, illness STRING,
      ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = 'INPUT', 'format' = 'csv', 'csv.null-literal' = '')
  query: SELECT line, id, person, name, TRY_CAST(age AS INT) AS age, town, wage, illness, ts FROM source
sinks:
  released: {connector: filesystem, path: OUTPUT/released, format: csv}
  suppressed: {connector: filesystem, path: OUTPUT/suppressed, format: csv}
  rejected: {connector: filesystem, path: OUTPUT/rejected, format: csv}
  audit: {connector: filesystem, path: OUTPUT/audit, format: csv}
  summary: {connector: filesystem, path: OUTPUT/summary, format: csv}
"""

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A job, its input, and what it left behind."""

    folder: Path
    ended: CompletedProcess[str]
    sensitive: tuple[str, ...] = ("illness",)

    @property
    def released(self) -> list[dict[str, str]]:
        return self.sink("released", (*GENERALIZED, *self.sensitive, "id"))

    @property
    def audit(self) -> list[dict[str, str]]:
        return self.sink("audit", audit_columns(self.sensitive, GENERALIZED))

    def sink(self, name: str, columns: Sequence[str]) -> list[dict[str, str]]:
        return rows_of(self.folder / name, columns)

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ended.stdout)
        return found


def visits() -> list[Row]:
    """People who come again, in time order but for a few seconds, some of them with what must be rejected."""
    draw = random.Random(3)
    people = [
        (f"p{i}", draw.randrange(15, 95), draw.choice(list(TOWNS)), round(draw.lognormvariate(7.5, 0.8), 2))
        for i in range(500)
    ]
    rows = []
    for number in range(ROWS):
        person, age, town, wage = draw.choice(people)
        row = {
            "line": number + 1,
            "id": number + 10_000,
            "person": person,
            "name": f"Secret {person}",
            "age": age,
            "town": town,
            "wage": wage,
            "illness": draw.choices(ILLNESSES, range(len(ILLNESSES), 0, -1))[0],
            "ms": START + number * 1000 + draw.randrange(-8000, 1),
        }
        rows.append(row | WRONG.get(number % 100, ("", {}, ""))[1])
    return rows


# Position in each hundred of rows: the column that is wrong, its value, and the reason to expect.
WRONG: dict[int, tuple[str, Row, str]] = {
    11: ("age", {"age": ""}, "missing"),
    23: ("age", {"age": 999}, "outside_domain"),
    37: ("town", {"town": "Atlantis"}, "unknown_category"),
    53: ("illness", {"illness": ""}, "missing"),
    71: ("person", {"person": ""}, "missing"),
}


def write(folder: Path, rows: Sequence[Row], *, exist_ok: bool = False) -> Path:
    """Return the stream, its hierarchy and its configuration; returns the path of the latter."""
    folder.mkdir(parents=True, exist_ok=exist_ok)
    with (folder / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([row[name] for name in SOURCE] for row in rows)
    with (folder / "towns.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows([town, above, "any"] for town, above in TOWNS.items())
    text = POLICY.replace("INPUT", str(folder / "in.csv")).replace("OUTPUT", str(folder))
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return folder / "job.yaml"
