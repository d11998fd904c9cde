"""Output of ``crenel budget`` for noise within releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crenel.anonymity.noise.linking import linking_range
from crenel.jobs.cli.app import app

TEXT = """
policy:
  quasi_identifiers: {age: {type: numeric}}
  noised:
    height: {domain: [100, 220]}
    weight: {domain: [30, 250], step: 0.1}
privacy:
  k: 10
  noise_within_release: {epsilon: 2, shares: {height: 0.25, weight: 0.75}, confidence: {c: 0.9, k: 10}}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


def test_reaches_are_those_of_the_noise_that_is_drawn(path: Path) -> None:
    result = CliRunner().invoke(app, ["budget", str(path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["noise_within_release"]
    assert [(row["attribute"], row["class"]) for row in found] == [
        (name, of) for name in ("height", "weight") for of in ("least", "a tenth", "a half", "whole")
    ]
    for row in found:
        domain, epsilon, step = {"height": (120, 0.5, 1.0), "weight": (220, 1.5, 0.1)}[row["attribute"]]
        share = {"least": 0.02, "a tenth": 0.1, "a half": 0.5, "whole": 1.0}[row["class"]]
        assert row["width"] == pytest.approx(share * domain)
        assert row["scale"] == pytest.approx(share * domain / epsilon)
        for c, shown in ((0.9**0.5, row["linking_range"]), (0.5, row["within"]["0.5"]), (0.99, row["within"]["0.99"])):
            drawn = linking_range.py_func(row["scale"] / step, 1 - c)  # type: ignore[attr-defined]
            assert shown == pytest.approx(drawn * step)


def test_by_the_domain_there_is_one_width_and_without_confidence_no_range(path: Path) -> None:
    changes = [
        "--set",
        "privacy.noise_within_release.scale=domain",
        "--set",
        "privacy.noise_within_release.confidence=null",
    ]
    found = json.loads(CliRunner().invoke(app, ["budget", str(path), "--json", *changes]).stdout)
    assert [(row["class"], row["linking_range"]) for row in found["noise_within_release"]] == [("whole", None)] * 2


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ((), "is not differential privacy: the width depends"),
        (("scale=domain",), "is not differential privacy: which values are published depends"),
        (("scale=domain", "confidence=null"), "noised values have 2-differential privacy"),
    ],
)
def test_a_budget_says_which_noise_is_differentially_private(
    path: Path, changes: tuple[str, ...], reported: str
) -> None:
    given = [part for change in changes for part in ("--set", f"privacy.noise_within_release.{change}")]
    result = CliRunner().invoke(app, ["budget", str(path), *given])
    assert "noise within releases, epsilon 2 for a record" in result.output
    assert reported in " ".join(result.output.split())
    assert "add 2 to each epsilon" not in result.output


def test_noised_values_add_their_epsilon_to_that_of_sampling(path: Path) -> None:
    changes = {"privacy.noise_within_release.scale": "domain", "privacy.noise_within_release.confidence": "null"}
    changes |= {"sampling_and_noise": "{sample_rate: 0.5, phi: 100}"}
    changes |= {"policy.quasi_identifiers.age": "{type: numeric, domain: [0, 100]}"}
    given = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    result = CliRunner().invoke(app, ["budget", str(path), *given])
    assert "these values add 2 to each epsilon above" in " ".join(result.output.split()), result.output


def test_a_plot_of_delta_needs_sampling_and_noise(path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["budget", str(path), "--plot", str(tmp_path / "delta.svg")])
    assert result.exit_code == 2
    assert "--plot draws delta" in result.output
