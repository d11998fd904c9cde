"""Policies refuse what cannot be kept, and their fingerprint changes with what stored state cannot outlive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anonymity.hierarchy import from_paths
from anonymity.policy import (
    CastleParameters,
    Categorical,
    DifferentialPrivacy,
    Numeric,
    Policy,
    PolicyError,
    Privacy,
    Shards,
    fingerprint,
)

CITIES = from_paths([("Rome", "Europe", "*"), ("Lima", "*")])
POLICY = Policy(
    quasi_identifiers=(Numeric("age", (17, 90)), Categorical("city", CITIES), Numeric("pay")),
    sensitive=("income",),
    passthrough=("trip",),
    subject="person",
    event_time="ts",
    reference="line",
    drop=("name",),
)


STEP = "policy.quasi_identifiers.age.step"


def test_published_columns_are_the_sensitive_ones_and_then_the_passed_through() -> None:
    assert POLICY.members == ("income", "trip")
    assert [a.name for a in POLICY.numeric] == ["age", "pay"]
    assert [a.name for a in POLICY.categorical] == ["city"]


def test_every_column_has_one_role() -> None:
    assert POLICY.roles == {
        **dict.fromkeys(("age", "city", "pay"), "quasi_identifier"),
        "income": "sensitive",
        "trip": "passthrough",
        "name": "drop",
        "person": "subject",
        "ts": "event_time",
        "line": "reference",
    }


@pytest.mark.parametrize("role", ["sensitive", "passthrough", "drop"])
@pytest.mark.parametrize("taken", ["age", "city", "person", "ts", "line"])
def test_a_second_role_is_refused_by_the_columns_name(role: str, taken: str) -> None:
    changed: dict[str, Any] = {role: ("other", taken)}
    with pytest.raises(PolicyError, match=rf"column '{taken}' has the role '\w+' already"):
        replace(POLICY, **changed)


@pytest.mark.parametrize("name", ["income", "age"])
def test_a_column_named_twice_in_its_role_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match=f"column '{name}'"):
        replace(POLICY, sensitive=("income", name))


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: Policy(()), "policy.quasi_identifiers"),
        (lambda: Numeric("age", (2, 1)), "policy.quasi_identifiers.age.domain"),
        (lambda: Numeric("age", (0, float("inf"))), "policy.quasi_identifiers.age.domain"),
        (lambda: Numeric("age", (float("nan"), 1)), "policy.quasi_identifiers.age.domain"),
        (lambda: Numeric("age", (-1e308, 1e308)), "policy.quasi_identifiers.age.domain"),
        (lambda: Numeric("age", (0, 5e-324)), "policy.quasi_identifiers.age.domain: is narrower than 2.225e-308"),
        *((lambda step=step: Numeric("age", step=step), STEP) for step in (0, -1, float("inf"), float("nan"))),
        (lambda: Numeric("age", (3, 3), 1), STEP),
        (lambda: Numeric("age", (0, 1), 1.001), STEP),
        (lambda: Numeric("age", (0, 2.0**40 + 1), 1), STEP),
        (lambda: Numeric("age", (0, 1e300), 5e-324), STEP),
        (lambda: Numeric("age", (2.0**60, 2.0**60 + 512), 1), STEP),
        (lambda: DifferentialPrivacy(0, 1), "differential_privacy.sample_rate"),
        (lambda: DifferentialPrivacy(1.001, 1), "differential_privacy.sample_rate"),
        (lambda: DifferentialPrivacy(float("nan"), 1), "differential_privacy.sample_rate"),
        (lambda: DifferentialPrivacy(0.5, 0), "differential_privacy.phi"),
        (lambda: DifferentialPrivacy(0.5, 2.0**-13), "differential_privacy.phi"),
        (lambda: DifferentialPrivacy(0.5, float("inf")), "differential_privacy.phi"),
        (lambda: DifferentialPrivacy(0.5, float("nan")), "differential_privacy.phi"),
        (lambda: Privacy(0), "privacy.k"),
        (lambda: Privacy(2, 0), "privacy.l"),
        (lambda: Privacy(2, 3), "privacy.l"),
        (lambda: CastleParameters(), "castle.delay"),
        (lambda: CastleParameters(-1), "castle.delay.tuples"),
        (lambda: CastleParameters(None, -1), "castle.delay.event_time"),
        (lambda: CastleParameters(0, max_clusters=0), "castle.max_clusters"),
        (lambda: CastleParameters(0, loss_window=0), "castle.loss_window"),
        (lambda: CastleParameters(0, reuse_limit=-1), "castle.reuse_limit"),
        (lambda: Shards(0), "shards.count"),
    ],
)
def test_an_impossible_value_is_refused_by_its_field(made: Callable[[], object], field: str) -> None:
    with pytest.raises(PolicyError) as error:
        made()
    assert str(error.value).startswith(f"{field}: ")


def test_the_edges_of_what_is_possible_are_let_in() -> None:
    Numeric("age", (3, 3))
    Numeric("age", (0.2, 0.3), 0.1)
    Numeric("age", (0, 2.0**40), 1)
    Numeric("age", step=1e-300)
    DifferentialPrivacy(1, 2.0**-12)
    Privacy(1, 1)
    CastleParameters(0, 0, max_clusters=1, loss_window=1, reuse_limit=0)


QI = "policy.quasi_identifiers"
AGE, CITY, PAY = POLICY.quasi_identifiers
OTHER_TREE = Categorical("city", from_paths([("Rome", "*"), ("Lima", "Europe", "*")]))


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"quasi_identifiers": (PAY, CITY, AGE)}, {QI}),
        ({"quasi_identifiers": (Numeric("age", (17, 91)), CITY, PAY)}, {f"{QI}.age.domain"}),
        ({"quasi_identifiers": (Numeric("age"), CITY, PAY)}, {f"{QI}.age.domain"}),
        ({"quasi_identifiers": (AGE, OTHER_TREE, PAY)}, {f"{QI}.city.hierarchy"}),
        ({"quasi_identifiers": (AGE, Categorical("city", CITIES.with_missing()), PAY)}, {f"{QI}.city.hierarchy"}),
        ({"quasi_identifiers": (AGE, CITY)}, {QI, f"{QI}.pay.domain"}),
        ({"sensitive": ()}, {"policy.sensitive"}),
        ({"sensitive": ("trip",), "passthrough": ("income",)}, {"policy.sensitive", "policy.passthrough"}),
        ({"subject": None}, {"policy.subject"}),
        ({"event_time": None}, {"policy.event_time"}),
        ({"missing": "value"}, {"policy.missing"}),
        ({"drop": ()}, set()),
    ],
)
def test_the_fingerprint_tells_which_field_state_cannot_outlive(change: dict[str, Any], fields: set[str]) -> None:
    assert differing(written(), written(policy=replace(POLICY, **change))) == fields


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"shards": Shards(5)}, "shards.count"),
        ({"shards": Shards(4, "age")}, "shards.by"),
        ({"subject_key": b""}, "subject_key"),
        ({"members": {"income": "BIGINT", "trip": "INT"}}, "type of the column trip"),
    ],
)
def test_the_fingerprint_covers_shards_key_and_types(change: dict[str, Any], field: str) -> None:
    assert differing(written(), written(**change)) == {field}


NOISE = DifferentialPrivacy(0.9, 100.0)
STEPS = (Numeric("age", (17, 90), 1.0), CITY, Numeric("pay", step=0.5))


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"differential_privacy": None}, {"differential_privacy", STEP, f"{QI}.pay.step"}),
        ({"differential_privacy": replace(NOISE, sample_rate=0.8)}, {"differential_privacy"}),
        ({"differential_privacy": replace(NOISE, phi=99.0)}, {"differential_privacy"}),
        ({"differential_privacy": replace(NOISE, observed_range=True)}, {"differential_privacy"}),
        ({"policy": replace(POLICY, quasi_identifiers=(replace(AGE, step=2.0), *STEPS[1:]))}, {STEP}),
        ({"policy": replace(POLICY, quasi_identifiers=(AGE, *STEPS[1:]))}, {STEP}),
        ({}, set()),
    ],
)
def test_the_fingerprint_covers_sampling_and_noise_where_they_are_on(change: dict[str, Any], fields: set[str]) -> None:
    noised: dict[str, Any] = {
        "policy": replace(POLICY, quasi_identifiers=STEPS),
        "differential_privacy": NOISE,
    }
    assert differing(written(**noised), written(**noised | change)) == fields


def test_without_noise_the_fingerprint_is_that_of_a_policy_without_steps() -> None:
    assert written(policy=replace(POLICY, quasi_identifiers=STEPS)) == written()


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    # Written down once: where this changes, what was stored before can no longer be restored.
    stored = written()
    assert stored["subject_key"] == "3142e7cf870344dc"
    assert stored[f"{QI}.city.hierarchy"] == "40d3df3d11f69c08"


def written(**change: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {
        "policy": POLICY,
        "shards": Shards(4),
        "subject_key": b"key",
        "members": {"income": "BIGINT", "trip": "STRING"},
    }
    return fingerprint(**{**arguments, **change})


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {field for field in one.keys() | other.keys() if one.get(field) != other.get(field)}
