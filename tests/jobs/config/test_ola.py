"""The configuration of OLA: what is read, what is refused, and in what words."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.model.delay import Window
from tests.jobs.config.test_load import configured, problems

FULL = """
policy:
  quasi_identifiers:
    age: {type: categorical, hierarchy: {numbers: {domain: [0, 120], levels: [1, 5, 10]}}}
    education: {type: categorical, hierarchy: trees/education.csv}
privacy: {k: 10}
algorithm: ola
ola: {window: {tuples: 50}, max_suppression: 0.1, metric: precision}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""
NUMBERS = "policy.quasi_identifiers.age={type: numeric, domain: [0, 120]}"


def with_levels(folder: Path, *overrides: str) -> list[str]:
    (folder / "levels.csv").write_text("master;university;*\nbachelor;university;*\nnone;none;*\n")
    return ["policy.quasi_identifiers.education.hierarchy=levels.csv", *overrides]


def test_every_field_arrives(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL, *with_levels(tmp_path))
    assert config.algorithm == Ola(Window(50), 0.1, "precision")
    assert dict(config.algorithm.describe())["metric"] == "precision"
    assert configured(tmp_path, FULL, *with_levels(tmp_path, "ola={}")).algorithm == Ola()


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("ola=null", "ola: is missing; a mapping such as {window: {tuples: 1000}}"),
        ("ola.metric=best", "ola.metric: is not one of the choices"),
        ("ola.max_suppression=2", "ola.max_suppression: "),
        ("ola.window.tuples=9", "ola.window.tuples: must be k (10) or more, not 9"),
        (NUMBERS, "policy.quasi_identifiers.age.type: ola moves numbers by levels too; make it categorical"),
        ("sampling_and_noise={sample_rate: 0.5, phi: 10}", "sampling_and_noise: its argument is not made for"),
    ],
)
def test_what_is_wrong_is_told_by_field_with_what_would_be_valid(tmp_path: Path, override: str, problem: str) -> None:
    with_levels(tmp_path)
    text = FULL.replace("trees/education.csv", "levels.csv")
    (found,) = problems(tmp_path, text, override)
    assert found.startswith(problem)


def test_a_hierarchy_without_levels_is_refused(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, FULL)
    assert found.startswith("policy.quasi_identifiers.education.hierarchy: has no levels")


def test_a_lattice_of_too_many_nodes_is_refused(tmp_path: Path) -> None:
    of_seven = "{type: categorical, hierarchy: {numbers: {domain: [0, 63], levels: [1, 2, 4, 8, 16, 32]}}}"
    many = ", ".join(f"q{i}: {of_seven}" for i in range(6))
    (found,) = problems(tmp_path, FULL, f"policy.quasi_identifiers={{{many}}}")
    assert found.startswith(
        "policy.quasi_identifiers: have 117649 combinations of levels, and ola looks through 100000"
    )
