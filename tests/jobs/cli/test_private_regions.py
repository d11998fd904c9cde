"""``crenel regions --private``: how many persons a cell gets, without a job that reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crenel.anonymity.regions.loss import EncodedSample
from crenel.jobs.cli import regions
from crenel.jobs.cli.cli_common import console
from crenel.jobs.config.load import Config
from crenel.jobs.local.sample import Sampled
from tests.jobs.cli.test_app import crenel

PERSONS = 4_000

JOB = """
policy:
  subject: person
  quasi_identifiers: {age: {type: numeric, domain: [0, 99]}, size: {type: numeric, domain: [0, 99]}}
  sensitive: [illness]
  generalized: {illness: {hierarchy: illnesses.csv, level: 1}}
privacy: {k: 30}
algorithm: cells
cells: {release: noisy, partition: cells.yaml, epsilon: 1, delta: 1.0e-6}
subject_key: a key of sixteen bytes or more
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


@pytest.mark.parametrize(
    ("overrides", "least", "persons"),
    [
        # A key of 32 persons is published with probability 0.95, and a cell has two labels.
        ([], None, 64),
        (["policy.generalized={}"], None, 32),
        # Of 193 persons, k are in the sample with probability 0.95.
        (["cells.release=sampled", "cells.sample_rate=0.2"], None, 386),
        ([], 900, 900),
    ],
    ids=["noisy", "no labels", "sampled", "given"],
)
def test_cells_have_the_persons_of_keys_that_are_published(
    overrides: list[str], least: int | None, persons: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "illnesses.csv").write_text("flu;acute;*\ncold;acute;*\nasthma;chronic;*\n", encoding="utf-8")
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    drawn = np.random.default_rng(0).integers(0, 100, (PERSONS, 2)).astype(np.float64)

    def read(config: Config, rows: int | None) -> Sampled:
        assert rows is None  # all of the source
        return Sampled(config.policy, True, PERSONS, 0, EncodedSample(drawn, np.zeros((PERSONS, 0), np.int32)))

    monkeypatch.setattr(regions, "read_sample", read)
    learned: list[float] = []
    learn = regions.learn_privately
    monkeypatch.setattr(regions, "learn_privately", lambda *of: learned.append(of[3]) or learn(*of))
    regions.write_regions(tmp_path / "job.yaml", overrides, 64, 100, tmp_path / "cells.yaml", console(), 5.0, least)
    assert learned == [persons]
    assert "learned by 'crenel regions --private 5'" in (tmp_path / "cells.yaml").read_text(encoding="utf-8")


def test_least_goes_with_private(tmp_path: Path) -> None:
    ended = crenel("regions", tmp_path / "job.yaml", "--count", "2", "--write", tmp_path / "cells.yaml", "--least", "9")
    assert ended.exit_code == 2
    assert "--private" in ended.stderr
