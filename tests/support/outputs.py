"""A configuration of files, and outputs of it that are written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CONFIGURATION = """
policy:
  subject: person
  event_time: seen
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    town: {type: categorical, hierarchy: towns.csv}
  sensitive: [illness]
  passthrough: [id]
privacy: {k: 2, l: 2}
castle: {delay: {tuples: 100}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      id BIGINT, person STRING, age INT, town STRING, illness STRING, ms BIGINT, seen AS TO_TIMESTAMP_LTZ(ms, 3),
      WATERMARK FOR seen AS seen
    ) WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'csv')
  query: SELECT id, person, age, town, illness, seen FROM source
sinks:
"""
RELEASED = ("age_min", "age_max", "town", "illness", "id")
AUDIT = (
    *("release_id", "shard", "event_time", "kind", "subjects", "tuples", "diversity_illness", "loss"),
    *("k", "l", "sample_rate", "phi", "age_min", "age_max", "town"),
)

Rows = Sequence[Mapping[str, Any]]


def member(low: int, high: int, town: str, illness: str, number: int) -> dict[str, Any]:
    """Return a released row."""
    return dict(zip(RELEASED, (low, high, town, illness, number), strict=True))


def release(number: int, shard: int, low: int, high: int, town: str, **others: Any) -> dict[str, Any]:
    """Return a row of the audit log: of two rows of two persons, but for what ``others`` say."""
    row = dict.fromkeys(AUDIT) | {"kind": "cluster", "subjects": 2, "tuples": 2, "diversity_illness": 2, "loss": 0.25}
    given = {"release_id": number, "shard": shard, "age_min": low, "age_max": high, "town": town, "k": 2, "l": 2}
    return row | {"event_time": "2024-03-01 08:00:00.5Z"} | given | others


ALIKE = [
    *(member(20, 30, "north", illness, number) for number, illness in enumerate(("flu", "gout"))),
    *(member(40, 50, "all", illness, number) for number, illness in enumerate(("flu", "cold"), 2)),
]
"""Released rows of two releases."""

AUDITED = [release(0, 0, 20, 30, "north"), release(1, 0, 40, 50, "all")]
"""Their rows in the audit log."""


def configure(folder: Path, sinks: Sequence[str] = ("released", "audit", "suppressed"), options: str = "csv") -> Path:
    """Return a configuration whose sinks are folders below ``folder``; ``options``: the format and its options."""
    (folder / "towns.csv").write_text("oslo;north;all\nbergen;north;all\nrome;south;all\n", encoding="utf-8")
    text = CONFIGURATION + "".join(
        f"  {sink}: {{connector: filesystem, path: {folder / sink}, format: {options}}}\n" for sink in sinks
    )
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return folder / "job.yaml"


def write_csv(folder: Path, rows: Rows, name: str = "part-0-0", delimiter: str = ",", null: str = "") -> Path:
    """Rows as Flink writes them, without the quotes that no value here needs."""
    folder.mkdir(exist_ok=True)
    lines = [delimiter.join(null if value is None else str(value) for value in row.values()) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


def write_json(folder: Path, rows: Rows, name: str = "part-0-0") -> Path:
    """Return the same in JSON."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return folder / name
