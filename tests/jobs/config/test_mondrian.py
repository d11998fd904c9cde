"""The configuration of Mondrian: what is read, what is refused, and in what words."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.model.delay import Window
from tests.jobs.config.test_load import configured, problems

FULL = """
policy:
  event_time: ts
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
  sensitive: [income]
privacy: {k: 10, l: 2}
algorithm: mondrian
mondrian: {window: {tuples: 50, event_time: 10 s}, cut: widest}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


def test_every_field_arrives(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL)
    assert config.algorithm == Mondrian(Window(50, 10_000), "widest")
    assert config.counts_event_time == "mondrian.window.event_time"


@pytest.mark.parametrize("section", ["{}", "{window: null}", "{window: {}}"])
def test_without_a_window_it_is_all_of_the_input(tmp_path: Path, section: str) -> None:
    config = configured(tmp_path, FULL, f"mondrian={section}")
    assert config.algorithm == Mondrian()
    assert config.counts_event_time is None
    assert dict(config.algorithm.describe()) == {"window": "all of the input", "cut": "loss"}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("mondrian=null", "mondrian: is missing; a mapping such as {window: {tuples: 1000}}"),
        ("mondrian.cut=wide", "mondrian.cut: is not one of the choices (did you mean 'widest'?); 'loss' or 'widest'"),
        ("mondrian.window.tuples=9", "mondrian.window.tuples: must be k (10) or more, not 9"),
        ("policy.event_time=null", "mondrian.window.event_time: policy.event_time names no column; name one"),
        ("sinks.windows={connector: print}", "sinks.windows: mondrian has no such output"),
        ("sampling_and_noise={sample_rate: 0.5, phi: 10}", "sampling_and_noise: its argument is not made for"),
    ],
)
def test_what_is_wrong_is_told_by_field_with_what_would_be_valid(tmp_path: Path, override: str, problem: str) -> None:
    (found,) = problems(tmp_path, FULL, override)
    assert found.startswith(problem)
