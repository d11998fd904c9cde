"""Jobs that have every feature at once publish what a program does by the same settings, row by row."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pytest

import crenel
from crenel.anonymity.model import hierarchy
from crenel.anonymity.model.fingerprint import hierarchy_digest
from tests.flink import clinic
from tests.support.launch import Host, rows_of
from tests.support.launch import crenel as cold
from tests.support.programs import LINK, require_same_rows

pytestmark = pytest.mark.flink

FLAT = """
policy:
  subject: person
  event_time: seen
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
    town: {type: categorical, hierarchy: towns.csv}
    wage: {type: numeric, domain: [0, 100000], step: 0.5}
    born: {type: numeric, domain: [1900-01-01, 2026-12-31]}
  sensitive: [illness]
  passthrough: [id]
  drop: [name, codes, height]
  reference: line
  pseudonym: {column: who, scope: release}
privacy: {k: 4, l: 2}
seed: 7
subject_key: a key for tests, of 16 bytes or more
audit_chain: {key: a key of an auditor for tests}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      line BIGINT, id BIGINT, person STRING, name STRING, age INT, town STRING, wage DOUBLE, height INT, born DATE,
      illness STRING, codes STRING, seen TIMESTAMP_LTZ(3), WATERMARK FOR seen AS seen - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.csv', 'format' = 'csv', 'csv.null-literal' = '')
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: csv}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: csv}
  audit: {connector: filesystem, path: FOLDER/audit, format: csv}
  summary: {connector: filesystem, path: FOLDER/summary, format: csv}
"""
CASTLE = """
castle: {delay: {tuples: 60, jitter: 0.2}, max_clusters: 10, reuse_limit: 20, suppression: generalize}
sampling_and_noise: {sample_rate: 0.9, phi: 50}
"""
SUHDSA = """  repairs: {connector: filesystem, path: FOLDER/repairs, format: csv}
  windows: {connector: filesystem, path: FOLDER/windows, format: csv}
algorithm: suhdsa
suhdsa: {tuples: 30, target: {most: 4}, adaptive: {least: 20}}
shards: {count: 2}
"""
NESTED = """
policy:
  subject: patient.id
  quasi_identifiers:
    patient.age: {type: numeric, domain: [0, 120], publish: median}
    patient.home.town: {type: categorical, hierarchy: towns.csv, publish: set}
    patient.born: {type: numeric, domain: [1900-01-01, 2026-12-31]}
  noised:
    patient.height: {domain: [100, 220]}
  sensitive: [visit.illness, visit.codes]
  arrays: {visit.codes: 2}
  generalized:
    visit.illness: {hierarchy: illness.csv, level: 1}
  passthrough: [id, wage]
  reference: line
privacy: {k: 4, l: 2, alpha: 0.8, noise_within_release: {epsilon: 1, confidence: {c: 0.9, k: 3}}}
algorithm: nearest
nearest: {delay: {tuples: 60, jitter: 0.25}}
shards: {count: 2, by: regions, regions: regions.yaml}
shape: nested
seed: 7
subject_key: a key for tests, of 16 bytes or more
source:
  ddl: |
    CREATE TEMPORARY TABLE source (record STRING)
    WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in.json', 'format' = 'raw')
  from_json:
    column: record
    fields:
      line: BIGINT
      id: BIGINT
      wage: DOUBLE
      patient.id: {type: STRING, path: $.patient.id}
      patient.age: {type: INT, path: $.patient.age}
      patient.height: {type: INT, path: $.patient.height}
      patient.born: {type: DATE, path: $.patient.born}
      patient.home.town: {type: STRING, path: $.patient.home.town}
      visit.illness: {type: STRING, path: $.visit.illness}
      visit.codes: {type: ARRAY<INT>, path: $.visit.codes}
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: json}
  suppressed: {connector: filesystem, path: FOLDER/suppressed, format: json}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: json}
  audit: {connector: filesystem, path: FOLDER/audit, format: json}
"""
REGIONS = """
version: 1
attributes:
  patient.age: {domain: [0, 120]}
  patient.born: {domain: [-2208988800000, 1798675200000]}
  patient.home.town: {hierarchy: HIERARCHY}
tree:
  cut: patient.age
  below: 50
  left: {shard: 0, share: 0.5, loss: 0.3}
  right: {shard: 1, share: 0.5, loss: 0.3}
"""


def write(folder: Path, text: str) -> Path:
    """Write the records, what the configuration names, and the configuration itself; return its path."""
    clinic.write(folder)
    digest = hierarchy_digest(hierarchy.load(folder / "towns.csv"))
    (folder / "regions.yaml").write_text(REGIONS.replace("HIERARCHY", digest), encoding="utf-8")
    path = folder / "job.yaml"
    path.write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    return path


def run(path: Path, host: Host | None = None, mode: str = "loopback") -> dict[str, Any]:
    """Run a job to its end, in the shared process or in one of its own; return its summary."""
    ended: CompletedProcess[str] = (cold if host is None else host.crenel)("run", path, "--json", mode=mode)
    assert ended.returncode == 0, ended.stderr
    assert "Secret" not in ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def require_same(folder: Path, result: crenel.Result, summary: dict[str, Any]) -> None:
    """Require that the CSV files and the summary of a job are the outputs of a program."""
    for name in ("released", "suppressed", "rejected"):
        require_same_rows(folder / name, getattr(result, name))
    require_same_rows(folder / "audit", result.audit, LINK)
    require_same_summary(summary, result)


def require_same_summary(summary: dict[str, Any], result: crenel.Result) -> None:
    """Require that a job counts what a program counts, and rejects the records that are wrong."""
    of = result.summary
    assert (summary["rows_in"], summary["released"]) == (of.read, of.released)
    for name in ("suppressed", "rejected"):
        assert +Counter(summary[name]) == +Counter(getattr(of, name))
    assert +Counter(summary["releases_by_kind"]) == +Counter(of.releases)
    rejected = {(row["column"].rpartition(".")[2], row["reason"]) for row in result.rejected.to_pylist()}
    assert rejected >= {(column, reason) for column, _, reason in clinic.WRONG.values() if column in ("age", "town")}


def test_castle_with_noise_reuse_pseudonyms_and_a_chain(mini: Host, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        FLAT.replace("[0, 120]}", "[0, 120], missing: value}").replace("12-31]}", "12-31], step: 1 d}") + CASTLE,
    )
    summary = run(path, mini)
    result = crenel.anonymize(clinic.table(), crenel.load(path), lateness="5 s")
    require_same(tmp_path, result, summary)
    verified = mini.crenel("verify", path)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_nearest_by_regions_with_nested_records_arrays_labels_and_noise_within_releases(
    mini: Host, tmp_path: Path
) -> None:
    path = write(tmp_path, NESTED)
    summary = run(path, mini)
    result = crenel.anonymize(clinic.nested_table(), crenel.load(path))
    assert result.released.num_rows > 300
    for name in ("released", "audit", "suppressed", "rejected"):
        assert lines(tmp_path / name) == sorted(map(repr, map(plain, getattr(result, name).to_pylist())))
    require_same_summary(summary, result)
    verified = mini.crenel("verify", path)
    assert verified.returncode in (0, 3), verified.stdout + verified.stderr


def test_windows_with_repairs_in_a_process_that_is_started_for_them(tmp_path: Path) -> None:
    path = write(tmp_path, FLAT + SUHDSA)
    summary = run(path, mode="process")
    result = crenel.anonymize(clinic.table(), crenel.load(path))
    assert result.released.num_rows > 700
    require_same(tmp_path, result, summary)
    repairs, windows = result.further["repairs"], result.further["windows"]
    times = repairs["event_time"].cast(pa.timestamp("ms", "UTC"))  # a program gets milliseconds here
    require_same_rows(tmp_path / "repairs", repairs.set_column(1, "event_time", times))
    # Processing times of windows differ from run to run.
    assert 0 < len(rows_of(tmp_path / "windows", windows.column_names)) == windows.num_rows > repairs.num_rows > 0


def lines(folder: Path) -> list[str]:
    """Return the records of JSON files, each as ``plain`` has it."""
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("part-*")]
    return sorted(repr(plain(json.loads(line))) for text in texts for line in text.splitlines())


def plain(record: dict[str, Any]) -> dict[str, str]:
    """Return a record without nesting, with ends as ``NAME_min`` and ``NAME_max``, and each value as text."""

    def leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, of in value.items():
                yield from leaves(of, f"{name}_{key}" if key in ("min", "max") else f"{name}.{key}".lstrip("."))
        elif isinstance(value, date | datetime):
            yield name, re.sub(r"\.?0*(\+00:00)?$", "", str(value)) if isinstance(value, datetime) else str(value)
        else:
            yield name, repr(float(value)) if isinstance(value, int | float) else str(value)

    return dict(sorted(leaves(record, "")))


def test_a_job_that_fails_names_field_cause_and_remedy_and_no_value(mini: Host, tmp_path: Path) -> None:
    path = write(tmp_path, FLAT + CASTLE.splitlines()[1])
    (tmp_path / "in.csv").write_text("1,2,p,Secret,3,Ash,4711-secret,170,2000-01-01,cold,1,\n", encoding="utf-8")
    ended = mini.crenel("run", path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "source.ddl: column wage: a value of the source could not be read as the type of its column" in ended.stderr
    assert not [value for value in ("Secret", "4711-secret") if value in ended.stderr]
    shutil.rmtree(ended.stderr.split("Flink's logs are in ")[1].split(";")[0])
    ended = mini.crenel("check", path, "--set", "policy.sensitive=[illnes]")
    assert ended.returncode == 2
    assert "policy.sensitive: the source has no column 'illnes'; did you mean 'illness'?" in ended.stderr
