"""Cells with noisy counts from Python: accounts, what verification sees, and how settings are refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

import crenel
from crenel.anonymity.noise.selection import noisy_counts
from crenel.jobs.cli.app import app
from tests.support.ages import write_ages
from tests.support.web_page import Page

ROWS = 400
ILLNESSES = ("flu", "cold", "gout")
THRESHOLD = noisy_counts(5, 0.5, 1e-3).threshold


@pytest.fixture
def settings(tmp_path: Path) -> crenel.Settings:
    write_ages(tmp_path / "cells.yaml", 50)
    return crenel.Settings(
        policy=crenel.Policy(
            subject="person", quasi_identifiers={"age": crenel.Numeric((0, 99))}, sensitive=["illness"]
        ),
        privacy=crenel.Privacy(k=5, l=2),
        algorithm=crenel.Cells(partition="cells.yaml", epsilon=0.5, delta=1e-3, release="noisy"),
        subject_key=b"a key of sixteen bytes or more",
        folder=tmp_path,
    )


def visits(seed: int) -> pa.Table:
    """Return records of which persons under 50 have all illnesses, and older ones rarely another than the flu."""
    random = np.random.default_rng(seed)
    age = random.integers(0, 100, ROWS)
    illness = np.where((age < 50) | (random.random(ROWS) < 0.05), random.integers(0, 3, ROWS), 0)
    columns = {"person": [str(i) for i in range(ROWS)], "age": age, "illness": [ILLNESSES[i] for i in illness]}
    return pa.table(columns)


def test_every_record_and_every_synthetic_one_is_accounted_for(settings: crenel.Settings) -> None:
    signs = set()
    for seed in range(8):
        data = visits(seed)
        result = crenel.anonymize(data, settings)
        summary = result.summary
        assert summary.released == result.released.num_rows == sum(result.audit["tuples"].to_pylist())
        assert summary.read + summary.synthetic == summary.released + sum(summary.suppressed.values())
        verdict = crenel.verify(result, settings)
        assert verdict.outcome == "holds", [check for check in verdict.checks if check.findings]
        published = Counter((row["age_min"], row["illness"]) for row in result.released.to_pylist())
        assert min(published.values()) >= THRESHOLD
        # Two values or more in each published cell, and never the older persons' flu alone.
        cells = Counter(lower for lower, _ in published)
        assert min(cells.values()) >= 2
        assert set(result.audit["subjects"].to_pylist()) == set(result.audit["tuples"].to_pylist())
        true = Counter(
            (0 if age < 50 else 50, of)
            for age, of in zip(data["age"].to_pylist(), data["illness"].to_pylist(), strict=True)
        )
        signs |= {np.sign(count - true[key]) for key, count in published.items()}
    assert signs >= {-1, 1}


def test_verification_sees_synthetic_records_that_nobody_counted(settings: crenel.Settings) -> None:
    result = next(
        found for found in (crenel.anonymize(visits(seed), settings) for seed in range(9)) if found.summary.synthetic
    )
    shards = {0: {**result.summary.shards[0], "synthetic": 0}}
    forged = replace(result, summary=replace(result.summary, shards=shards))
    broken = [check.name for check in crenel.verify(forged, settings).checks if check.findings]
    assert broken == ["nothing lost"]


def test_no_page_and_no_verdict_claims_persons_behind_synthetic_records(settings: crenel.Settings) -> None:
    data = pa.concat_tables([visits(1), visits(1).slice(0, 20)])
    result = crenel.anonymize(data, settings)
    page = Page(crenel.report(result, settings, data=data))
    text, summary = " ".join(page.text.split()), result.summary
    assert f"{summary.released} synthetic records were published for 420 input rows" in text
    assert "20 were not counted, because they were late, or beyond the contribution bound of their person" in text
    assert "synthetic records or more (k is 5)" in text
    assert "fewer than 5 people may be behind them" in text
    assert "people or more" not in text
    for claim in (
        "persons of the group",
        "persons or more",
        "Differential privacy at a useful epsilon",
        "sampling is on",
    ):
        assert claim not in text
    facts, went = dict(page.tables["Sizes of groups"][1]), dict(r[:2] for r in page.tables["Rows by outcome"][1])
    assert int(facts["minimum synthetic records of the group"]) >= THRESHOLD
    # The rows that were read divide into the outcomes, without the records that noise added.
    assert int(went["counted in a published group"]) == summary.released - summary.synthetic
    assert int(went["total"]) == summary.read == 420
    mechanisms = {row[0]: row[1:] for row in page.tables["Mechanisms in use"][1]}
    assert mechanisms["k 5, synthetic records counted"] == ["no term of its own"] * 2
    checks = {check.name: check for check in crenel.verify(result, settings).checks}
    assert checks["k"].words.startswith("5 synthetic records or more, and one row for each")
    assert "distinct persons" not in checks
    assert "fewer than 5 may be behind them" in checks["persons"].words
    subjects = pa.array([of - 1 for of in result.audit["subjects"].to_pylist()], pa.int64())
    place = result.audit.column_names.index("subjects")
    forged = replace(result, audit=result.audit.set_column(place, "subjects", subjects))
    assert [check.name for check in crenel.verify(forged, settings).checks if check.findings] == ["k"]
    assert crenel.why(data, settings).synthetic


def test_a_sample_of_persons_is_reported_as_persons_under_differential_privacy(settings: crenel.Settings) -> None:
    sampled = crenel.Cells(partition="cells.yaml", epsilon=1.0, delta=0.01, sample_rate=0.2)
    settings = replace(settings, algorithm=sampled, privacy=crenel.Privacy(k=6))
    page = Page(crenel.report(crenel.anonymize(visits(1), settings), settings))
    text = " ".join(page.text.split())
    assert "synthetic" not in text
    assert "because they were outside of the sample, late, or beyond the contribution bound of their person" in text
    assert "Differential privacy at a useful epsilon" not in text
    assert "More than epsilon and delta below, for each person and horizon" in text
    names = [row[0] for row in page.tables["Mechanisms in use"][1]]
    assert {"epsilon and delta for each person", "k 6, persons counted"} <= {*names}


def test_a_person_counts_once_and_a_restored_stream_goes_on(settings: crenel.Settings) -> None:
    data = visits(1)
    twice = pa.concat_tables([data, data])
    result = crenel.anonymize(twice, settings)
    assert result.summary.sampled_out == ROWS
    stream = crenel.open_stream(settings)
    stream.push(data.slice(0, 200))
    restored = crenel.open_stream(settings, snapshot=stream.snapshot())
    restored.push(data.slice(200))
    assert restored.finish().released.sort_by("illness").equals(_finished(stream, data.slice(200)).sort_by("illness"))


def test_a_restore_cannot_change_what_buffered_records_were_sampled_by(settings: crenel.Settings) -> None:
    stream = crenel.open_stream(settings)
    stream.push(visits(1))
    sampled = replace(settings.algorithm, release="sampled", sample_rate=0.2, epsilon=1.0, delta=0.01)
    changed = replace(settings, privacy=crenel.Privacy(k=6), algorithm=sampled)
    with pytest.raises(crenel.PolicyError, match=r"cells\.release, cells\.sample_rate"):
        crenel.open_stream(changed, snapshot=stream.snapshot())


def _finished(stream: crenel.Stream, rest: pa.Table) -> pa.Table:
    stream.push(rest)
    return stream.finish().released


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sample_rate": 0.2}, "cells.sample_rate: release: noisy counts all persons; remove it"),
        ({"release": "sampled"}, "cells.sample_rate: is missing"),
        ({"epsilon": 1e-7}, "cells.epsilon: must be 1e-06 or more for each of 1 windows"),
        ({"release": "both"}, "cells.release: is not one of the choices"),
    ],
)
def test_settings_that_do_not_go_with_the_release_are_refused(
    settings: crenel.Settings, changed: dict[str, object], problem: str
) -> None:
    with pytest.raises(crenel.ConfigError, match=problem):
        crenel.anonymize(visits(0), replace(settings, algorithm=replace(settings.algorithm, **changed)))


def test_the_budget_shows_the_threshold(settings: crenel.Settings, tmp_path: Path) -> None:
    content = yaml.safe_load(settings.to_yaml()) | {
        "subject_key": "a key of sixteen bytes or more",
        "source": {"ddl": "CREATE TEMPORARY TABLE source"},
        "sinks": {"released": {"connector": "blackhole"}},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    shown = CliRunner().invoke(app, ["budget", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    assert "warning: cells.release: noisy publishes synthetic records" in " ".join(shown.stderr.split())
    figures = json.loads(shown.stdout)
    assert figures["threshold"] == THRESHOLD
    assert figures["delta_by_composition"] <= figures["delta"] == 1e-3
    assert figures["persons_published_rarely"] < THRESHOLD < figures["persons_published_often"]
    assert "warning: epoch" not in shown.stderr
    anew = CliRunner().invoke(app, ["budget", str(path), "--json", "--set", "epoch=2"])
    assert anew.exit_code == 0, anew.output
    assert "warning: epoch: is not 1" in " ".join(anew.stderr.split())
    assert "epsilon and delta hold for each epoch alone" in " ".join(anew.stderr.split())


def test_shards_that_begin_anew_take_another_contribution_of_a_person(settings: crenel.Settings) -> None:
    # State alone bounds contributions, and a new epoch has none.
    epoch = crenel.open_stream(settings)
    epoch.push(visits(1))
    again = crenel.open_stream(settings, snapshot=epoch.snapshot())
    again.push(visits(1))
    anew = crenel.open_stream(settings)
    anew.push(visits(1))
    assert again.finish().summary.sampled_out == ROWS
    assert anew.finish().summary.sampled_out == 0
