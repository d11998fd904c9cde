"""Pseudonyms, as a configuration has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Pseudonym
from crenel.jobs.config.load import load

TEXT = """
policy:
  subject: person
  event_time: ts
  quasi_identifiers: {age: {type: numeric}}
  passthrough: [visit]
  pseudonym: {column: person, scope: release}
privacy: {k: 10}
algorithm: nearest
nearest: {delay: {tuples: 5}}
subject_key: sixteen bytes 16
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


def test_it_may_have_the_name_of_the_column_that_it_stands_for(path: Path) -> None:
    assert load(path).policy.pseudonym == Pseudonym("person", "release")
    assert load(path).warnings == ()


@pytest.mark.parametrize("scope", ["stream", "day"])
def test_rows_are_linked_under_a_lasting_promise_or_where_it_is_accepted(path: Path, scope: str) -> None:
    change = f"policy.pseudonym.scope={scope}"
    assert load(path, [change, "privacy.persons={guarantee: lasting}"]).warnings == ()
    accepted = load(path, [change, "policy.pseudonym.accept_linkable=true"])
    assert [warning.partition(":")[0] for warning in accepted.warnings] == ["policy.pseudonym.accept_linkable"]
    with pytest.raises(ConfigError) as error:
        load(path, [change])
    (problem,) = error.value.problems
    assert problem.startswith(f"policy.pseudonym.scope: '{scope}' shows which rows are one person's, and nothing is")
    assert "'release'" in problem
    assert "accept_linkable: true" in problem


def test_a_code_that_outlives_the_horizon_is_warned_of(path: Path) -> None:
    def warned(scope: str, horizon: str) -> list[str]:
        persons = f"privacy.persons={{guarantee: lasting, horizon: {horizon}}}"
        changes = [f"policy.pseudonym.scope={scope}", persons, "nearest.delay.event_time=1 min"]
        return [warning.partition(":")[0] for warning in load(path, changes).warnings]

    assert warned("stream", "30 days") == ["policy.pseudonym.scope"]
    assert warned("day", "30 days") == warned("release", "1 h") == []
    assert warned("day", "1 h") == ["policy.pseudonym.scope"]


def test_noise_does_not_hold_of_rows_together_either(path: Path) -> None:
    noise = ["algorithm=castle", "castle={delay: {tuples: 5}}", "nearest=null"]
    noise += ["policy.quasi_identifiers.age.domain=[0, 100]", "sampling_and_noise={sample_rate: 0.5, phi: 10}"]
    assert load(path, noise).policy.pseudonym is not None
    with pytest.raises(ConfigError) as error:
        load(path, [*noise, "policy.pseudonym.scope=stream"])
    (problem,) = error.value.problems
    assert "sampling_and_noise and privacy.persons" in problem
    assert load(path, [*noise, "policy.pseudonym={column: who, scope: day, accept_linkable: true}"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("policy.pseudonym.scope=week", "policy.pseudonym.scope: is not one of the choices"),
        ("policy.pseudonym={column: who}", "policy.pseudonym.scope: is missing; 'stream', 'day' or 'release'"),
        ("policy.pseudonym.column=visit", "policy.pseudonym.column: 'visit' is published already"),
        ("policy.pseudonym.column=age_min", "policy.pseudonym.column: 'age_min' is published already"),
        ("policy.subject=null", "policy.pseudonym: is a code of persons, but policy.subject names no column"),
        ("subject_key=fifteen bytes..", "subject_key: is shorter than 16 bytes, and the published codes"),
        ("subject_key=null", "subject_key: is missing; without a key, an attacker who guesses a subject can"),
    ],
)
def test_what_is_wrong_is_told_by_field(path: Path, change: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(path, [change])
    assert [found for found in error.value.problems if found.startswith(problem)], error.value.problems


def test_a_lasting_promise_that_begins_anew_is_warned_of(path: Path) -> None:
    lasting = ["policy.pseudonym=null", "privacy.persons={guarantee: lasting}"]
    assert load(path, lasting).warnings == load(path, ["policy.pseudonym=null", "epoch=2"]).warnings == ()
    (warning,) = load(path, [*lasting, "epoch=2"]).warnings
    assert warning.startswith("epoch: is not 1")
