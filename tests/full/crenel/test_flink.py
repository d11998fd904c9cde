"""Anonymizations within a program of the user publish what ``crenel.anonymize`` does of the same records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import crenel
from tests.crenel.flink_program import first, second
from tests.crenel.stream import records
from tests.support.launch import ROOT, TIMEOUT, environment
from tests.support.programs import require_same_rows

pytestmark = pytest.mark.flink

ERRORS = (
    "delivery: 'released' as a table may reach any sink, .*use insert_into",
    "name: 'Visits' is in use in this environment",
    "name: begins with a letter",
    "policy.quasi_identifiers: the source has no column 'area'",
    "table: gives rows that are updated or deleted later",
    "flink.table.local-time-zone: is not UTC, .* 'seen'",
    "flink.execution.runtime-mode: is not STREAMING, which an anonymization needs, also of a bounded source",
    "nearest.delay.event_time: counts event time, and the column 'seen' has no watermark, .* the source's DDL",
    "forget: the column 'age' has the type SMALLINT, and policy.subject STRING; .*in the table of requests",
    "forget: gives the columns person, age, .* it must give one, the subject",
    "forget: gives rows that are updated or deleted later",
    "audit_chain: the environment variable CRENEL_NO_KEY is not set",
    "audit_chain: is empty; give a key",
    "audit_chain: its bytes are not UTF-8; give text",
    "table: is a str; give a Table",
    "settings: is a str; give crenel.Settings, such as crenel.load",
    "sinks.release: is no output .did you mean 'released'",
    "sinks.forgotten: records requests to forget, and there are none; give their table as forget",
    "sinks.repairs: is not written; give repairs=True to anonymize",
    "sinks.audited: is no output .*sinks.audit: there is no table 'nowhere' .*sinks.released.connector: is not known "
    "to be exactly-once, .*flink.execution.checkpointing.interval: .*in a program with delivery='caller'",
    "sinks.audit.path: is the same path as sinks.released.path",
)
"""Patterns of the messages, in the order of ``flink_program.errors``."""


def read() -> pa.Table:
    """Return the records with their numbers, as both read them."""
    table = records().drop_columns(["tests", "clinic"])
    seen = table["seen"].cast(pa.timestamp("ms", "UTC"), safe=False)
    table = table.set_column(table.schema.get_field_index("seen"), "seen", seen)
    return table.append_column("id", pa.array(range(len(table)), pa.int64()))


def write(table: pa.Table, path: Path) -> None:
    """Write the records as CSV, with a code in the place of the area."""
    seen = [f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}Z" for time in table["seen"].to_pylist()]
    codes = [area[0].lower() for area in table["area"].to_pylist()]
    for name, values in (("seen", seen), ("area", codes)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(include_header=False, quoting_style="none"))


def test_a_program_publishes_what_the_library_does(tmp_path: Path) -> None:
    table = read()
    write(table, tmp_path / "in.csv")
    program = [sys.executable, "-m", "tests.crenel.flink_program", str(tmp_path)]
    done = subprocess.run(
        program,
        cwd=ROOT,
        env={**environment(), "_python_worker_execution_mode": "loopback"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))

    for pattern, message in zip(ERRORS, report["errors"], strict=True):
        assert re.search(pattern, message, re.DOTALL), message

    assert {uid for uid in report["uids"] if uid.partition("_")[0].isdecimal()} == set()
    for name, settings in (("visits", first()), ("again", second())):
        own = [uid for uid in report["uids"] if uid.startswith(f"crenel-{name}-")]
        assert f"crenel-{name}-{settings.algorithm.name}" in own
        assert sum(uid.startswith(f"crenel-{name}-source-") for uid in own) > 1
    assert len(set(report["uids"])) == len(report["uids"])

    published = crenel.anonymize(table, first(), lateness="20 min").released
    require_same_rows(tmp_path / "released", published)

    result = crenel.anonymize(table, second())
    assert report["columns"]["released"] == result.released.column_names
    assert report["columns"]["repairs"] == result.further["repairs"].column_names
    assert set(report["columns"]["audit"]) > set(result.released.column_names) - {"diagnosis"}
    counts = {diagnosis: int(number) for diagnosis, number in re.findall(r"\+[IU]\[(.+), (\d+)\]", done.stdout)}
    assert counts == Counter(result.released["diagnosis"].to_pylist())
