"""A job whose audit log has a hash chain: ``crenel verify`` finds what is changed in its files, in every format."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.launch import Host

pytestmark = pytest.mark.flink

ROWS = 1500
TOWNS = ("oslo", "bergen", "rome", "pisa")
ILLNESSES = ("flu", "gout", "cold")
CONFIGURATION = """
policy:
  subject: person
  event_time: seen
  quasi_identifiers:
    age: {type: numeric, domain: [0, 99]}
    weight: {type: numeric}
    price: {type: numeric, ends: 0.1}
    account: {type: numeric}
    share: {type: numeric, domain: [-0.125, 0.875]}
    income: {type: numeric, domain: [100000001, 400000003]}
    born: {type: numericMEAN}
    hired: {type: numericMEAN}
    town: {type: categorical, hierarchy: towns.csv}
  sensitive: [illness]
  passthrough: [id, score, ratio, amount, stamp, zoned, flag, code, word, clock]
  pseudonym: {column: who, scope: release}
privacy: {k: 4, l: 2}
castle: {delay: {tuples: 200}, reuse_limit: REUSE}
shards: {count: 2}
subject_key: {file: FOLDER/subject-key}
audit_chain: {key: {file: FOLDER/audit-key}}
flink: {execution.checkpointing.interval: 1 h}  # few files of each sink
source:
  ddl: |
    CREATE TEMPORARY TABLE source (id BIGINT, person STRING, age INT, town STRING, illness STRING)
    WITH ('connector' = 'filesystem', 'path' = 'INPUT', 'format' = 'csv')
  query: |
    SELECT
      id, person, age, CAST(60 + SIN(id) * 40 AS FLOAT) AS weight, CAST(id / 7.0 AS DECIMAL(10, 2)) AS price,
      CAST(100000001 + MOD(id, 3) * 50000000 AS FLOAT) AS income,
      (MOD(id, 700) - 350) * 10000000000000007 AS account, CAST(MOD(id, 100) / 123.0 AS DECIMAL(15, 15)) AS share,
      CAST(TIMESTAMPADD(DAY, CAST(MOD(id, 500) AS INT), TIMESTAMP '1959-01-01 00:00:00') AS DATE) AS born,
      CAST(TIMESTAMPADD(SECOND, CAST(MOD(id, 500) AS INT), TIMESTAMP '1969-12-31 23:55:00') AS TIMESTAMP(0)) AS hired,
      town, illness, SIN(id) * POWER(10, MOD(id, 24) - 12) AS score, CAST(SIN(id) * 1000 AS FLOAT) AS ratio,
      CAST(id / 8.0 AS DECIMAL(12, 3)) AS amount,
      TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '2024-01-01 00:00:00.5') AS stamp,
      TO_TIMESTAMP_LTZ(id * 50, 3) AS zoned, MOD(id, 3) = 0 AS flag, CAST(illness AS CHAR(6)) AS code,
      CASE MOD(id, 5) WHEN 0 THEN 'a "word", quoted' WHEN 1 THEN '007' WHEN 2 THEN '1.50'
      WHEN 3 THEN '2024-03-01T08:00:00' END AS word,
      CAST('08:30:00' AS TIME) AS clock, TO_TIMESTAMP_LTZ(id * 1000, 3) AS seen
    FROM source
sinks:
"""
SINKS = ("released", "audit", "suppressed", "rejected", "summary")


def ended(mini: Host, folder: Path, form: str) -> Path:
    """Run a job; its configuration."""
    chance = random.Random(8)
    lines = (
        f"{i},{chance.randrange(400)},{chance.randrange(100)},{chance.choice(TOWNS)},{chance.choice(ILLNESSES)}"
        for i in range(ROWS)
    )
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "towns.csv").write_text("oslo;north;*\nbergen;north;*\nrome;;*\npisa;;*\n", encoding="utf-8")
    for name in ("subject-key", "audit-key"):
        (folder / name).write_text(f"a {name} of the tests\n", encoding="utf-8")
    text = CONFIGURATION.replace("INPUT", str(folder / "people.csv")).replace("FOLDER", str(folder))
    reuse, mean = ("500", "") if form == "csv" else ("0", ", publish: mean")  # a mean is of one class
    text = text.replace("REUSE", reuse).replace("MEAN", mean)
    text += "".join(f"  {s}: {{connector: filesystem, path: {folder / s}, format: {form}}}\n" for s in SINKS)
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    done = mini.crenel("run", folder / "job.yaml", "--json")
    assert done.returncode == 0, done.stderr
    (folder / "summary.json").write_text(done.stdout, encoding="utf-8")
    return folder / "job.yaml"


def verified(mini: Host, job: Path, *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Return the exit code of ``crenel verify``, what it found, by statement, and the outcome of each."""
    done = mini.crenel("verify", job, "--json", *arguments)
    verdict = json.loads(done.stdout)
    return (
        done.returncode,
        {check["name"]: check["findings"] for check in verdict["checks"] if check["findings"]},
        {check["name"]: check["outcome"] for check in verdict["checks"]},
    )


def largest(job: Path, sink: str) -> Path:
    """Return the file of a sink that holds most: where a checkpoint comes early, the first holds a few lines."""
    return max((job.parent / sink).rglob("part-*"), key=lambda file: file.stat().st_size)


def changed(job: Path, sink: str, line: int | None, old: Sequence[str], new: Sequence[str]) -> tuple[Path, bytes]:
    """Replace the first of some texts that is in a line of a file of a sink; the file, and what it held.

    ``line``: its number; None: the first with such a text.
    """
    file = largest(job, sink)
    before = file.read_bytes()
    lines = before.decode().splitlines(keepends=True)
    line = next(i for i, text in enumerate(lines) if old[0] in text) if line is None else line
    one, other = next(pair for pair in zip(old, new, strict=True) if pair[0] in lines[line])
    lines[line] = lines[line].replace(one, other, 1)
    file.write_text("".join(lines), encoding="utf-8")
    return file, before


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_a_job_wrote_holds_with_columns_of_every_type_and_what_is_changed_is_named(
    form: str, mini: Host, tmp_path: Path
) -> None:
    job = ended(mini, tmp_path, form)
    stated = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    code, found, outcomes = verified(mini, job, "--run", stated["run"])
    assert (code, found) == (0, {})
    held = ("chain", "starts", "values", "cover", "distinct persons", "l of illness", "alone", "counts", "end", "run")
    assert {outcomes[name] for name in held} == {"holds"}
    code, found, _ = verified(mini, job, "--run", "0" * 16)
    assert (code, found.keys()) == (1, {"run"})
    cases = [
        ("released", 40, ILLNESSES, ("gout", "cold", "flu"), {"values"}),
        ("released", 41, ("true", "false"), ("false", "true"), {"values"}),
        ("released", None, ("1.50",), ("1.5",), {"values"}),
        ("released", None, ("03-01T08:00:00",), ("03-01 08:00:00",), {"values"}),
        ("audit", 30, ("cluster", "merged", "split", "reused"), ("merged", "split", "cluster", "cluster"), {"chain"}),
    ]
    for sink, line, old, new, names in cases:
        file, before = changed(job, sink, line, old, new)
        code, found, _ = verified(mini, job)
        file.write_bytes(before)
        assert code == 1
        assert names <= found.keys()
        assert all(finding["release"] is not None for name in names for finding in found[name])
    assert verified(mini, job)[0] == 0
    earlier = tmp_path / "earlier.json"
    earlier.write_text(mini.crenel("verify", job, "--json").stdout, encoding="utf-8")
    assert verified(mini, job, "--since", str(earlier))[0] == 0
    for file in (*(tmp_path / "audit").rglob("part-*"), *(tmp_path / "summary").rglob("part-*")):  # the end is cut off
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = (line for line in lines if "closing" not in line and file.is_relative_to(tmp_path / "audit"))
        file.write_text("".join(kept), encoding="utf-8")
    code, found, outcomes = verified(mini, job)
    assert (code, found, outcomes["end"]) == (3, {}, "unchecked")
    assert verified(mini, job, "--running")[0] == 0
    assert verified(mini, job, "--since", str(earlier))[0] == 1
