"""``flink run`` on a standalone cluster started from the pip package, with all of UCI Adult."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.cluster import PYTHON, Cluster
from tests.support.launch import DATA, rows_of
from tests.support.visits import SUPPRESSED, audit_columns

ADULT = DATA / "adult"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not ADULT.is_dir(), reason=f"UCI Adult is not here: {ADULT}"),
]

NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
GENERALIZED = (
    *(f"{name}_{end}" for name in NUMERIC for end in ("min", "max")),
    *("education", "marital-status", "occupation", "native-country"),
)
CATEGORICAL = ("education", "occupation", "native-country")
RELEASED = (*GENERALIZED, "income")
AUDIT = audit_columns(["income"], GENERALIZED)


def arguments(name: str, *settings: str) -> list[str]:
    overrides = [part for setting in settings for part in ("--set", setting)]
    return ["--config", f"conf/{name}.yaml", *overrides]


def variables(output: Path) -> dict[str, str]:
    return {"ADULT_CSV": str(ADULT / "adult.data"), "ADULT_HIERARCHIES": str(ADULT), "CRENEL_OUTPUT": str(output)}


def test_adult_comes_out_k_anonymous_and_l_diverse(cluster: Cluster, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "connector.jar", "w") as jar:  # takes the place of no jar that Flink needs
        jar.writestr("of_a_connector.txt", "")
    settings = arguments("adult", "shards.count=2", f"flink.pipeline.jars={tmp_path / 'connector.jar'}")
    command = ("run", "-p", "2", *PYTHON, "-py", "jobs/anonymize.py", *settings)
    ended = cluster.flink(*command, **variables(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "was submitted" in ended.stdout
    assert "The job has ended." in ended.stdout
    assert "warning: source.ddl: 'csv.ignore-parse-errors' = 'true' drops records" in ended.stdout

    released = rows_of(tmp_path / "adult" / "released", RELEASED)
    suppressed = rows_of(tmp_path / "adult" / "suppressed", SUPPRESSED)
    rejected = rows_of(tmp_path / "adult" / "rejected", ("column", "reason", "event_time"))
    audit = rows_of(tmp_path / "adult" / "audit", AUDIT)
    came = Counter(row["income"] for row in complete())
    assert len(released) + len(suppressed) + len(rejected) == 32_561
    assert len(released) + len(suppressed) == sum(came.values())
    assert len(suppressed) < 100
    assert {(row["column"], row["reason"]) for row in rejected} == {
        ("occupation", "missing"),
        ("native-country", "missing"),
    }
    assert Counter(row["income"] for row in released) <= came

    classes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in released:
        classes[tuple(row[name] for name in GENERALIZED)].append(row["income"])
    assert min(len(incomes) for incomes in classes.values()) >= 10
    assert min(len(set(incomes)) for incomes in classes.values()) >= 2
    published: Counter[tuple[str, ...]] = Counter()
    for row in audit:
        assert int(row["subjects"]) >= 10
        assert int(row["diversity_income"]) >= 2
        published[tuple(row[name] for name in GENERALIZED)] += int(row["tuples"])
    assert published == {key: len(incomes) for key, incomes in classes.items()}


def test_a_configuration_that_is_not_valid_is_not_submitted(cluster: Cluster, tmp_path: Path) -> None:
    ended = cluster.ask(
        "anonymize", *arguments("adult", "privacy.l=20", "castle.max_clusters=0"), **variables(tmp_path)
    )
    assert ended.returncode == 2
    output = ended.stdout + ended.stderr
    assert "conf/adult.yaml is not a valid configuration" in output
    assert "privacy.l: must be from 1 to k (10), not 20" in output
    assert "castle.max_clusters: is too small" in output
    assert "was submitted" not in output
    assert not any(tmp_path.iterdir())


def test_settings_of_the_command_line_under_which_state_would_be_lost_or_mixed_are_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    state = f"execution.checkpointing.dir={(tmp_path / 'adult' / 'audit' / 'state').as_uri()}"
    command = ("run", "-p", "2", "-D", "pipeline.max-parallelism=64", "-D", state, *PYTHON, "-py", "jobs/anonymize.py")
    ended = cluster.flink(*command, *arguments("adult"), **variables(tmp_path))
    assert ended.returncode != 0
    assert "flink.pipeline.max-parallelism: is 128 in every job" in ended.stdout + ended.stderr
    assert "sinks.audit.path: contains flink.execution.checkpointing.dir, so the output" in ended.stdout + ended.stderr
    assert "was submitted" not in ended.stdout + ended.stderr
    # No stack trace follows the sentence.
    assert "No job was started; the cause is named above." in ended.stderr
    assert "\tat " not in ended.stdout + ended.stderr


def complete() -> list[dict[str, str]]:
    """Return the rows of Adult that have all ten quasi-identifiers; these miss no other column."""
    names = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship")
    names += ("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income")
    with (ADULT / "adult.data").open(encoding="utf-8", newline="") as file:
        rows = [dict(zip(names, row, strict=True)) for row in csv.reader(file, skipinitialspace=True) if row]
    return [row for row in rows if "?" not in (row["occupation"], row["native-country"])]
