"""Noised attributes and noise within releases, as a configuration has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.model.attributes import Noised
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease
from crenel.jobs.config.load import load

TEXT = """
policy:
  quasi_identifiers: {age: {type: numeric}}
  noised:
    height: {domain: [100, 220], step: 1}
    weight: {domain: [30, 250], step: 0.1}
privacy: {k: 10, noise_within_release: {epsilon: 2}}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


def test_shares_are_in_the_order_of_the_policy(path: Path) -> None:
    config = load(
        path, ["privacy.noise_within_release={epsilon: 4, shares: {weight: 0.75, height: 0.25}, scale: domain}"]
    )
    assert tuple(config.policy.noised.values()) == (
        Noised((100, 220), 1).named("height"),
        Noised((30, 250), 0.1).named("weight"),
    )
    assert config.privacy.noise_within_release == NoiseWithinRelease(4, {"weight": 0.75, "height": 0.25}, "domain")
    confident = load(
        path, ["privacy.noise_within_release.confidence={c: 0.99, k: 10}", "privacy.noise_within_release.least=0"]
    )
    assert confident.privacy.noise_within_release == NoiseWithinRelease(2, least=0, confidence=Confidence(0.99, 10))
    assert "linkable" in confident.privacy.reasons


def test_what_promises_less_than_it_seems_to_is_warned_of(path: Path) -> None:
    assert load(path).warnings == ()
    assert [warning.partition(":")[0] for warning in load(path, ["seed=3"]).warnings] == ["seed"]
    assert [warning.partition(":")[0] for warning in load(path, ["privacy.noise_within_release.least=0"]).warnings] == [
        "privacy.noise_within_release.least"
    ]
    assert load(path, ["privacy.noise_within_release={epsilon: 2, least: 0, scale: domain}"]).warnings == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("policy.noised.height.domain=null", "policy.noised.height.domain: is not"),
        ("policy.noised.weight={step: 0.1}", "policy.noised.weight.domain: is missing"),
        ("policy.noised.weight={domain: [220, 220]}", "policy.noised.weight.domain: holds one value"),
        ("policy.noised.height.step=0", "policy.noised.height.step: "),
        ("policy.noised.height.step=200", "policy.noised.height.step: is wider than the domain"),
        ("policy.noised.age={domain: [0, 99]}", "policy.noised: column 'age' has the role 'quasi_identifiers' already"),
        ("policy.drop=[height]", "policy.drop: column 'height' has the role 'noised' already"),
        (
            "privacy.noise_within_release=null",
            "privacy.noise_within_release: is missing; policy.noised names height, weight",
        ),
        ("policy.noised={}", "privacy.noise_within_release: policy.noised names no column; name one, or remove it"),
        (
            "privacy.noise_within_release.epsilon=0",
            "privacy.noise_within_release.epsilon: is too small; a number above 0",
        ),
        (
            "privacy.noise_within_release.epsilon=-1",
            "privacy.noise_within_release.epsilon: is too small; a number above 0",
        ),
        ("privacy.noise_within_release.least=2", "privacy.noise_within_release.least: "),
        (
            "privacy.noise_within_release.shares={height: 0.5, weight: 0.4}",
            "privacy.noise_within_release.shares: must be above 0 each",
        ),
        (
            "privacy.noise_within_release.shares={height: 1.5, weight: -0.5}",
            "privacy.noise_within_release.shares.weight: ",
        ),
        (
            "privacy.noise_within_release.shares={height: 1}",
            "privacy.noise_within_release.shares: must name each column of policy.noised",
        ),
        ("privacy.noise_within_release.confidence={c: 1, k: 3}", "privacy.noise_within_release.confidence.c: "),
        ("privacy.noise_within_release.confidence={c: 0.9, k: 1}", "privacy.noise_within_release.confidence.k: "),
        (
            "privacy.noise_within_release.confidence={c: 0.9, k: 11}",
            "privacy.noise_within_release.confidence.k: must be at most privacy.k (10)",
        ),
        ("privacy.noise_within_release.scale=widest", "privacy.noise_within_release.scale: "),
    ],
)
def test_what_is_wrong_is_told_by_field(path: Path, change: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(path, [change])
    assert [found for found in error.value.problems if found.startswith(problem)], error.value.problems
