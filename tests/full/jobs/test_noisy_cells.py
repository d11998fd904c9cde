"""A job with noisy counts of ``cells``: synthetic records are accounted for, and its outputs verify."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from crenel.anonymity.noise.selection import noisy_counts
from tests.full.jobs.test_cells import JOB, ROWS, lines
from tests.support.ages import write_ages
from tests.support.launch import Host

pytestmark = pytest.mark.flink


def test_synthetic_records_are_accounted_for_and_the_outputs_verify(mini: Host, tmp_path: Path) -> None:
    write_ages(tmp_path / "cells.yaml", 50)
    path = tmp_path / "job.yaml"
    text = JOB.replace("sample_rate: 0.2", "release: noisy").replace("path: ", f"path: {tmp_path}/")
    path.write_text(text, encoding="utf-8")
    ended = mini.crenel("run", path, "--json")
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    released = Counter(tuple(row) for row in csv.reader(lines(tmp_path / "released")))
    assert sum(released.values()) == summary["released"]
    assert (
        summary["rows_in"] + summary["synthetic"] == summary["released"] + summary["withheld"] + summary["sampled_out"]
    )
    assert summary["rows_in"] == ROWS
    # Each record counts; a sample would have a fifth of them.
    assert 0.7 * ROWS < summary["released"] < 1.3 * ROWS
    assert min(released.values()) >= noisy_counts(10, 2.0, 1e-6).threshold
    verified = mini.crenel("verify", path, "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["holds"]
