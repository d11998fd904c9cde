"""Outputs of a run that Flink reads back as they are read without it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.local.test_outputs import OF_STAYS, ROWS_OF_STAYS, read
from tests.support.launch import ROOT, environment
from tests.support.outputs import configure, write_json

READ_BOTH_WAYS = """
import sys
from crenel.anonymity.model.errors import InputError
from crenel.evidence.outputs import elements
from crenel.jobs.config.load import load
from crenel.jobs.local.sink_tables import read_tables
from crenel.jobs.local.outputs import cast_texts, read_outputs
from crenel.operators.plan import output_schemas

config = load(sys.argv[1], sys.argv[2:])
schemas, plain = output_schemas(config, chained=config.audit_chain is not None), read_outputs(config)
texts = read_tables(config, {name: schemas[name].names for name in ("released", "audit") if name in config.sinks})
for name, text in texts.items():
    both = [cast_texts(name, text, schemas[name]), getattr(plain, name).combine_chunks()]
    for column in config.policy.arrays:
        left, right = ([text and elements(text) for text in table[column].to_pylist()] for table in both)
        assert left == right != [None] * len(left), column
    both = [table.drop_columns([*config.policy.arrays]) for table in both]
    assert both[0].equals(both[1]), name
for connector in ("hive", "kafka"):
    config.sinks["released"] = {"connector": connector}
    try:
        read_outputs(config)
    except InputError as error:
        print(type(error).__name__, error)
"""


def read_both_ways(path: Path, *overrides: str) -> str:
    """Check that Flink reads what is read without it; return the errors for connectors that nothing reads."""
    done = subprocess.run(
        [sys.executable, "-c", READ_BOTH_WAYS, str(path), *overrides],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.flink
def test_what_flink_reads_is_what_is_read_without_it(tmp_path: Path) -> None:
    source = tmp_path / "input.csv"
    source.write_text("", encoding="utf-8")
    read(tmp_path, options="json")
    path = tmp_path / "job.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("/nowhere", str(source)), encoding="utf-8")
    shown = read_both_ways(path)
    lines = shown.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["OutputsError sinks.released.connector"] * 2
    assert "in the classpath; name the file of flink-sql-connector-kafka in flink.pipeline.jars" in lines[1]
    assert json.dumps(str(tmp_path)) not in shown


@pytest.mark.flink
def test_flink_reads_arrays_of_rows_as_they_are_read_without_it(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text("", encoding="utf-8")
    path = configure(tmp_path, ["released"], "json")
    write_json(tmp_path / "released", ROWS_OF_STAYS)
    ddl = (
        "CREATE TEMPORARY TABLE source (id BIGINT, age INT, town STRING, `of` ROW<stays ARRAY<ROW<illness STRING, `at` "
        f"ROW<ward INT>>>>) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'input.json'}', 'format' = 'json')"
    )
    roles = [
        'policy.sensitive=["of.stays[*].illness", "of.stays[*].at.ward"]',
        'policy.arrays={"of.stays[*].illness": 3, "of.stays[*].at.ward": 3}',
        "policy.passthrough=[id]",
        "policy.event_time=null",
        "policy.subject=null",
    ]
    read_both_ways(path, *OF_STAYS, *roles, f"source.ddl={ddl}", "source.query=SELECT * FROM source")
