"""A job and a program publish the same of one file of settings: the algorithms that ``tests/flink`` has not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import crenel
from tests.crenel.stream import records
from tests.support.launch import Host
from tests.support.programs import require_same_rows

pytestmark = pytest.mark.flink

JOB = """
policy:
  subject: person
  event_time: seen
  quasi_identifiers:
    age: {type: numeric, domain: [18, 100]}
    area: {type: categorical, hierarchy: area.csv}
    height: {type: numeric, domain: [140, 210]}
  sensitive: [diagnosis]
  passthrough: [id, born]
privacy: {k: 4, l: 2}
seed: 11
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      person STRING, age SMALLINT, area STRING, height DECIMAL(5, 1), seen TIMESTAMP_LTZ(3), diagnosis STRING,
      born DATE, id BIGINT, WATERMARK FOR seen AS seen - INTERVAL '20' MINUTE
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = 'csv', 'csv.null-literal' = '')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  audit: {connector: filesystem, path: FOLDER/audit, format: csv}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: csv}
"""
AREAS = "Oslo;Norway;*\nBergen;Norway;*\nLund;Sweden;*\n"
LEVELS = {
    "age": {"type": "categorical", "hierarchy": {"numbers": {"domain": [18, 100], "levels": [1, 10, 50]}}},
    "area": {"type": "categorical", "hierarchy": "area.csv"},
    "height": {
        "type": "categorical",
        "hierarchy": {"numbers": {"domain": [140, 210], "levels": [5, 35], "whole": False}},
    },
}
SECTIONS = {
    "mondrian": {"window": {"tuples": 50}},
    "ola": {"window": {"tuples": 50}},
}
CHANGED = {
    "ola": [f"policy.quasi_identifiers={json.dumps(LEVELS)}"],
    "mondrian": ["policy.quasi_identifiers.age.missing=value"],  # every fortieth record has no age
}


@pytest.mark.parametrize("algorithm", SECTIONS)
def test_a_job_and_a_program_publish_the_same(algorithm: str, mini: Host, tmp_path: Path) -> None:
    table = records().drop_columns(["tests", "clinic"])
    table = table.append_column("id", pa.array(range(len(table)), pa.int64()))
    seen = table["seen"].cast(pa.timestamp("ms", "UTC"), safe=False)
    table = table.set_column(table.schema.get_field_index("seen"), "seen", seen)
    written = table.set_column(
        table.schema.get_field_index("seen"),
        "seen",
        pa.array([f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}Z" for time in seen.to_pylist()]),
    )
    pa.csv.write_csv(written, tmp_path / "in.csv", pa.csv.WriteOptions(include_header=False, quoting_style="none"))
    (tmp_path / "area.csv").write_text(AREAS, encoding="utf-8")
    job = tmp_path / "job.yaml"
    text = JOB.replace("FOLDER", str(tmp_path))
    text += f"algorithm: {algorithm}\n{algorithm}: {json.dumps(SECTIONS[algorithm])}\n"
    job.write_text(text, encoding="utf-8")
    changed = CHANGED.get(algorithm, [])
    arguments = (job, *(part for change in changed for part in ("--set", change)))
    done = mini.crenel("run", *arguments)
    assert done.returncode == 0, done.stderr
    done = mini.crenel("verify", *arguments)
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: something was not checked

    found = crenel.anonymize(table, crenel.load(job, changed), lateness="20 min")
    assert min(found.audit.num_rows, found.released.num_rows) > 0
    assert ("age_missing" in found.released.column_names) == any("missing" in change for change in changed)
    for name, result in (("audit", found.audit), ("released", found.released), ("suppressed", found.suppressed)):
        require_same_rows(tmp_path / name, result)
