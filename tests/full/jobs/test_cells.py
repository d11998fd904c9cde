"""A job with ``cells``: windows close by the clock while it runs, and every record is accounted for."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.ages import write_ages
from tests.support.launch import Host

pytestmark = pytest.mark.flink

ROWS = 3_000
WIDTH = 2_000

JOB = f"""
policy:
  subject: person
  event_time: at
  quasi_identifiers: {{age: {{type: numeric, domain: [0, 99]}}}}
  sensitive: [illness]
privacy: {{k: 10}}
algorithm: cells
cells:
  window: {WIDTH} ms
  lateness: 500 ms
  sample_rate: 0.2
  partition: cells.yaml
  epsilon: 2
  delta: 1.0e-6
subject_key: a key of sixteen bytes or more
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      `number` BIGINT, `age` INT, `who` INT,
      `person` AS CAST(`who` AS STRING),
      `illness` AS IF(MOD(`number`, 2) = 0, 'flu', 'cold'),
      `at` AS CAST(CURRENT_TIMESTAMP AS TIMESTAMP_LTZ(3))
    ) WITH (
      'connector' = 'datagen', 'rows-per-second' = '300',
      'fields.number.kind' = 'sequence', 'fields.number.start' = '1', 'fields.number.end' = '{ROWS}',
      'fields.age.min' = '0', 'fields.age.max' = '99'
    )
  query: SELECT person, age, illness, `at` FROM source
sinks:
  released: {{connector: filesystem, path: released, format: csv}}
  audit: {{connector: filesystem, path: audit, format: json}}
  suppressed: {{connector: filesystem, path: suppressed, format: csv}}
  rejected: {{connector: filesystem, path: rejected, format: csv}}
  summary: {{connector: filesystem, path: summary, format: csv}}
"""


def lines(folder: Path) -> list[str]:
    return [line for part in folder.rglob("part*") for line in part.read_text(encoding="utf-8").splitlines()]


SETTINGS = (
    # One admission has none of the few persons. Its reports close windows all the same.
    "shards.count=16",
    "source.query=SELECT CAST(MOD(ABS(who), 60) AS STRING) AS person, age, 'flu' AS illness, `at` FROM source",
    *("privacy.k=3", "cells.sample_rate=0.5", "cells.windows=20", "cells.epsilon=100", "cells.delta=0.99"),
)


def test_windows_close_by_the_clock_and_cells_have_declared_boxes(mini: Host, tmp_path: Path) -> None:
    write_ages(tmp_path / "cells.yaml", 50)
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("path: ", f"path: {tmp_path}/"), encoding="utf-8")
    settings = [part for change in SETTINGS for part in ("--set", change)]
    ended = mini.crenel("run", path, "--json", "--parallelism", "2", *settings)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["rows_in"] == ROWS
    assert summary["released"] + sum(summary["suppressed"].values()) + summary["sampled_out"] == ROWS
    verified = mini.crenel("verify", path, *settings)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "as many of each as the summary says" in " ".join(verified.stdout.split())
    audit = [json.loads(line) for line in lines(tmp_path / "audit")]
    shards = Counter[int]()
    for release in audit:
        shards[release["shard"]] += release["tuples"]
    # At the end of the input alone, each record would have waited for nearly all others.
    assert summary["delay_tuples"]["max"] < max(shards.values()) / 2
    windows = Counter(release["event_time"] for release in audit)
    assert len(windows) >= 3
    # Each cell once a window. The first and the last windows may have too few persons in a cell, and so may one in
    # which a busy machine made few records.
    assert max(windows.values()) == 2
    assert list(windows.values()).count(2) > 1
    assert len({(release["event_time"], release["age_min"]) for release in audit}) == len(audit)
    released = [tuple(row) for row in csv.reader(lines(tmp_path / "released"))]
    assert {row[:2] for row in released} == {("0", "49"), ("50", "99")}
    assert min(Counter(released).values()) >= 3
