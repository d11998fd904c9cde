"""The configuration of windows: what is read, what is refused, and in what words."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.parameters import Adaptive, Target
from crenel.anonymity.model.delay import Delay
from tests.jobs.config.test_load import configured, problems

FULL = """
policy:
  event_time: ts
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
    education.level: {type: categorical, hierarchy: trees/education.csv}
  sensitive: [income]
privacy: {k: 10, l: 2}
algorithm: suhdsa
suhdsa:
  tuples: 50
  event_time: 10 s
  delay: {tuples: 120, event_time: 25 s}
  distortion_weight: 0.6
  neighbors: 4
  growth_cap: 2.5
  output: representative
  numeric: median
  categorical: ancestor
  weights: {age: 2, education.level: 0}
  target: {most: 5, smoothing: 0.4, band: 0.1, dwell: 6}
  adaptive: {least: 20, delay_weight: 0.3, windows: 9}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}, repairs: {connector: print}, windows: {connector: print}}
"""


def test_every_field_arrives(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL)
    assert config.algorithm == Suhdsa(
        tuples=50,
        event_time=10_000,
        distortion_weight=0.6,
        neighbors=4,
        growth_cap=2.5,
        output="representative",
        numeric="median",
        categorical="ancestor",
        weights={"age": 2.0, "education.level": 0.0},
        target=Target(5, 0.4, 0.1, 6),
        adaptive=Adaptive(20, 0.3, 9),
        delay=Delay(120, 25_000),
    )
    assert config.counts_event_time == "suhdsa.event_time"
    by_tuples = configured(tmp_path, FULL, "suhdsa.event_time=null", "suhdsa.delay={tuples: 120}")
    assert by_tuples.counts_event_time is None
    delayed = configured(tmp_path, FULL, "suhdsa.event_time=null")
    assert delayed.counts_event_time == "suhdsa.delay.event_time"
    # They tell nothing of single records, so any connector will do.
    assert config.sinks["repairs"] == config.sinks["windows"] == {"connector": "print"}


def test_defaults_are_those_that_are_documented(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL, "suhdsa={tuples: 50, target: {most: 3}, adaptive: {least: 10}}")
    assert config.algorithm == Suhdsa(
        tuples=50,
        event_time=None,
        distortion_weight=0.7,
        neighbors=3,
        growth_cap=3.0,
        output="generalization",
        numeric="mean",
        categorical="mode",
        target=Target(3, 0.3, 0.05, 5),
        adaptive=Adaptive(10, 0.5, 8),
    )
    assert config.algorithm.longest_delay == Delay(100)


def test_a_window_by_event_time_waits_for_two_of_them(tmp_path: Path) -> None:
    found = configured(tmp_path, FULL, "suhdsa={event_time: 1 min}").algorithm
    assert (found.longest_delay.tuples, found.longest_delay.event_time) == (None, 120_000)


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("suhdsa=null", "suhdsa: is missing; a mapping such as {tuples: 50}"),
        ("suhdsa={}", "suhdsa: give 'tuples', 'event_time', or both"),
        ("castle={delay: {tuples: 5}}", "castle: goes with 'algorithm: castle', and the algorithm is 'suhdsa'; remove"),
        ("suhdsa.tuples=0", "suhdsa.tuples: is too small; a whole number, 1 or more"),
        ("suhdsa.event_time=soon", "suhdsa.event_time: must be a duration such as '10 s'"),
        ("suhdsa.delay.tuples=49", "suhdsa.delay.tuples: must be suhdsa.tuples (50) or more, not 49"),
        ("suhdsa.delay.event_time=9 s", "suhdsa.delay.event_time: must be suhdsa.event_time (10000) or more"),
        ("suhdsa.distortion_weight=1.1", "suhdsa.distortion_weight: is too large; a number from 0 to 1"),
        ("suhdsa.neighbors=0", "suhdsa.neighbors: is too small"),
        ("suhdsa.growth_cap=1.5", "suhdsa.growth_cap: is too small; a number, 2 or more"),
        (
            "policy.quasi_identifiers.age.ends=5",
            "policy.quasi_identifiers.age.ends: a representative is one number, which has no ends; remove one",
        ),
        ("suhdsa.output=representativ", "suhdsa.output: is not one of the choices (did you mean 'representative'?)"),
        ("suhdsa.numeric=mode", "suhdsa.numeric: is not one of the choices; 'mean' or 'median'"),
        ("suhdsa.categorical=mean", "suhdsa.categorical: is not one of the choices"),
        ("suhdsa.weights={age: -1}", "suhdsa.weights.age: is too small; a mapping of quasi-identifiers to numbers"),
        ("suhdsa.weights={income: 1}", "suhdsa.weights.income: must be one of age, education.level"),
        ("suhdsa.target={}", "suhdsa.target.most: is missing; a whole number from privacy.l to privacy.k"),
        ("suhdsa.target.most=11", "suhdsa.target.most: must be from 2 to 10, not 11"),
        ("suhdsa.target.smoothing=0", "suhdsa.target.smoothing: is too small; a number above 0"),
        ("suhdsa.target.band=2", "suhdsa.target.band: is too large"),
        ("suhdsa.target.dwell=-1", "suhdsa.target.dwell: is too small"),
        ("suhdsa.adaptive.least=9", "suhdsa.adaptive.least: must be k (10) or more, not 9"),
        ("suhdsa.adaptive.least=51", "suhdsa.adaptive.least: must be from 1 to 50, not 51"),
        ("suhdsa.adaptive.windows=0", "suhdsa.adaptive.windows: is too small"),
        ("suhdsa.adaptive.delay_weight=nan", "suhdsa.adaptive.delay_weight: is not finite"),
        ("policy.event_time=null", "suhdsa.event_time: policy.event_time names no column; name one"),
        (
            "sampling_and_noise={sample_rate: 0.5, phi: 10}",
            "sampling_and_noise: its argument is not made for suhdsa; remove it, or choose 'algorithm: castle'",
        ),
    ],
)
def test_what_is_wrong_is_told_by_field_with_what_would_be_valid(tmp_path: Path, override: str, problem: str) -> None:
    (found,) = problems(tmp_path, FULL, override)
    assert found.startswith(problem)


def test_all_problems_of_a_section_are_listed_together(tmp_path: Path) -> None:
    wrong = ["suhdsa.tuples=0", "suhdsa.output=box", "suhdsa.target.band=2", "suhdsa.weights={age: -1}", "castle={}"]
    assert sorted(problem.split(":")[0] for problem in problems(tmp_path, FULL, *wrong)) == [
        "castle",
        "suhdsa.output",
        "suhdsa.target.band",
        "suhdsa.tuples",
        "suhdsa.weights.age",
    ]


def test_all_that_does_not_go_with_the_policy_is_listed_together(tmp_path: Path) -> None:
    wrong = ["suhdsa.weights={wage: 1}", "suhdsa.target.most=11", "suhdsa.adaptive.least=9", "policy.event_time=null"]
    assert [problem.split(":")[0] for problem in problems(tmp_path, FULL, *wrong)] == [
        "suhdsa.event_time",
        "suhdsa.weights.wage",
        "suhdsa.target.most",
        "suhdsa.adaptive.least",
    ]
