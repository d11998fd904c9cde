"""Anonymization within a PyFlink program, which a process of its own runs."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import crenel
from crenel.jobs.pipeline.job import JOB, Names
from tests.crenel.flink_program import settings
from tests.support.launch import TIMEOUT, environment, rows_of


def test_a_job_keeps_its_names_and_programs_have_their_own() -> None:
    assert (JOB.uid("nearest"), JOB.table("encode")) == ("crenel-nearest", "crenel_encode")
    assert (Names("a").uid("nearest"), Names("a").table("encode")) == ("crenel-a-nearest", "crenel_a_encode")


@pytest.mark.cluster("mini")
def test_a_program_joins_anonymizes_twice_and_aggregates(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [(f"p{draw.randrange(80)}", draw.randrange(18, 90), draw.randrange(2)) for _ in range(300)]
    (tmp_path / "visits.csv").write_text("".join(f"{p},{age},{code}\n" for p, age, code in rows), encoding="utf-8")
    program = [sys.executable, "-m", "tests.crenel.flink_program", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, env=environment(), timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "insert_into(released=...)" in done.stdout
    assert "delivery='caller'" in done.stdout
    assert "sinks.audit.connector: is not known to be exactly-once" in done.stdout
    assert "sinks.released: has a sink already" in done.stdout

    persons, ages, codes = zip(*rows, strict=True)
    diagnoses = [("flu", "asthma")[code] for code in codes]
    table = pa.table({"person": persons, "age": pa.array(ages, pa.int32()), "diagnosis": diagnoses})
    fine = crenel.anonymize(table, settings(3)).released
    assert sorted(tuple(map(str, row.values())) for row in fine.to_pylist()) == sorted(
        tuple(row.values()) for row in rows_of(tmp_path / "fine", fine.column_names)
    )
    counted = crenel.anonymize(table, settings(10)).released.group_by("age_min").aggregate([([], "count_all")])
    last: dict[int, int] = {}
    for age, count in re.findall(r"\+[IU]\[(\d+), (\d+)\]", done.stdout):
        last[int(age)] = int(count)
    assert last == dict(zip(counted["age_min"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
