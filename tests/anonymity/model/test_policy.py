"""Policies refuse what cannot be kept, and their fingerprint changes with what stored state cannot outlive."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.attributes import Categorical, Generalized, Noised, Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import ConfigError, PolicyError
from crenel.anonymity.model.fingerprint import changed_fields, fingerprint, reported_fields
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise, Sensitive
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.anonymity.model.secret import NO_KEY, SubjectKey

CITIES = from_paths([("Rome", "Europe", "*"), ("Lima", "*")])
POLICY = Policy(
    quasi_identifiers={"age": Numeric((17, 90)), "city": Categorical(CITIES), "pay": Numeric()},
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


@pytest.mark.parametrize(
    ("role", "value"),
    [
        ("quasi_identifiers", {"visits[*].age": Numeric()}),
        ("noised", {"visits[*].cost": Noised((0, 9))}),
        ("subject", "visits[*].doctor"),
        ("event_time", "visits[*].at"),
        ("reference", "visits[*].line"),
    ],
)
def test_a_field_of_the_rows_of_an_array_has_no_role_of_one_value(role: str, value: Any) -> None:
    with pytest.raises(
        PolicyError, match=rf"policy\.{role}: 'visits\[\*\]\.\w+' .* give it one of sensitive, passthrough"
    ):
        replace(POLICY, **{role: value})
    for other in ("sensitive", "passthrough", "drop"):
        assert replace(POLICY, **{other: ("visits[*].age",)}).roles["visits[*].age"] == other
        with pytest.raises(
            PolicyError, match=rf"policy\.{other}: 'a\[\*\]\.b\[\*\]\.c' leads through an array in an array"
        ):
            replace(POLICY, **{other: ("a[*].b[*].c",)})


@pytest.mark.parametrize("name", ["income", "age"])
def test_a_column_named_twice_in_its_role_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match=f"column '{name}'"):
        replace(POLICY, sensitive=("income", name))


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: Policy({}), "quasi_identifiers"),
        (lambda: Numeric((2, 1)), "domain"),
        (lambda: Numeric((0, float("inf"))), "domain[1]"),
        (lambda: Numeric((float("nan"), 1)), "domain[0]"),
        (lambda: Numeric((-1e308, 1e308)), "domain"),
        (lambda: Numeric((0, 5e-324)), "domain"),
        *((lambda step=step: Numeric(step=step), "step") for step in (0, -1, float("inf"), float("nan"))),
        (lambda: Numeric((3, 3), 1), "step"),
        (lambda: Numeric((0, 1), 1.001), "step"),
        (lambda: Numeric((0, 2.0**40 + 1), 1), "step"),
        (lambda: Numeric((0, 1e300), 5e-324), "step"),
        (lambda: Numeric((2.0**60, 2.0**60 + 512), 1), "step"),
        (lambda: SamplingAndNoise(0, 1), "sample_rate"),
        (lambda: SamplingAndNoise(1.001, 1), "sample_rate"),
        (lambda: SamplingAndNoise(float("nan"), 1), "sample_rate"),
        (lambda: SamplingAndNoise(0.5, 0), "phi"),
        (lambda: SamplingAndNoise(0.5, 2.0**-13), "phi"),
        (lambda: SamplingAndNoise(0.5, float("inf")), "phi"),
        (lambda: SamplingAndNoise(0.5, float("nan")), "phi"),
        (lambda: Privacy(0), "k"),
        (lambda: Privacy(2, 0), "l"),
        (lambda: Privacy(2, 3), "privacy.l"),
        (lambda: Castle(), "castle.delay"),
        (lambda: Castle(Delay(-1)), "tuples"),
        (lambda: Castle(Delay(None, -1)), "event_time"),
        (lambda: Castle(Delay(0), max_clusters=0), "castle.max_clusters"),
        (lambda: Castle(Delay(0), loss_window=0), "castle.loss_window"),
        (lambda: Castle(Delay(0), reuse_limit=-1), "castle.reuse_limit"),
        (lambda: Castle(Delay(0, jitter=1.1)), "jitter"),
        (lambda: Castle(Delay(0, jitter=float("nan"))), "jitter"),
        (lambda: Nearest(Delay(0, jitter=-0.1)), "jitter"),
        (lambda: Nearest(Delay(0), isolation_price=-0.1), "nearest.isolation_price"),
        (lambda: Nearest(Delay(0), isolation_price=1.1), "nearest.isolation_price"),
        (lambda: Nearest(Delay(0), isolation_price=float("nan")), "nearest.isolation_price"),
        (lambda: Shards(0), "count"),
        (lambda: Shards(3, "regions", parted(1)), "shards.count"),
        (lambda: Shards(2, "subject", parted(1)), "shards.regions"),
    ],
)
def test_an_impossible_value_is_refused_by_its_field(made: Callable[[], object], field: str) -> None:
    with pytest.raises(ConfigError) as error:
        made()
    (problem,) = error.value.problems
    assert problem.startswith(f"{field}: ")


def test_the_edges_of_what_is_possible_are_let_in() -> None:
    Numeric((3, 3))
    Numeric((0.2, 0.3), 0.1)
    Numeric((0, 2.0**40), 1)
    Numeric(step=1e-300)
    SamplingAndNoise(1, 2.0**-12)
    Privacy(1, 1)
    Castle(Delay(0, 0), max_clusters=1, loss_window=1, reuse_limit=0)
    Castle(Delay(0, jitter=1))


QI = "policy.quasi_identifiers"
AGE, CITY, PAY = POLICY.attributes
OTHER_TREE = Categorical(from_paths([("Rome", "*"), ("Lima", "Europe", "*")])).named("city")


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"quasi_identifiers": by_name((PAY, CITY, AGE))}, {QI}),
        ({"quasi_identifiers": by_name((Numeric((17, 91)).named("age"), CITY, PAY))}, {f"{QI}.age.domain"}),
        ({"quasi_identifiers": by_name((Numeric().named("age"), CITY, PAY))}, {f"{QI}.age.domain"}),
        ({"quasi_identifiers": by_name((AGE, OTHER_TREE, PAY))}, {f"{QI}.city.hierarchy"}),
        (
            {"quasi_identifiers": by_name((AGE, Categorical(CITIES.with_missing()).named("city"), PAY))},
            {f"{QI}.city.hierarchy"},
        ),
        ({"quasi_identifiers": by_name((AGE, CITY))}, {QI, f"{QI}.pay.domain"}),
        ({"sensitive": ()}, {"policy.sensitive"}),
        ({"sensitive": ("trip",), "passthrough": ("income",)}, {"policy.sensitive", "policy.passthrough"}),
        ({"subject": None}, {"policy.subject"}),
        ({"event_time": None}, {"policy.event_time"}),
        ({"missing": "value"}, {"policy.missing", f"{QI}.city.hierarchy"}),
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
        ({"subject_key": NO_KEY}, "subject_key"),
        ({"members": {"income": "BIGINT", "trip": "INT"}}, "type of the column trip"),
    ],
)
def test_the_fingerprint_covers_shards_key_and_types(change: dict[str, Any], field: str) -> None:
    assert differing(written(), written(**change)) == {field}


def parted(value: float, share: float = 0.5) -> RegionTree:
    return RegionTree.of(Cut(0, value, Region(share, 0.1), Region(1 - share, 0.2)))


def test_the_fingerprint_covers_the_cuts_of_regions_and_not_what_is_expected_of_them() -> None:
    before, cut, learned = (
        written(shards=Shards(2, "regions", tree)) for tree in (parted(1), parted(2), parted(1, 0.3))
    )
    assert changed_fields(before, cut) == ("shards.regions",)
    assert changed_fields(before, learned) == ()
    assert changed_fields(before, written(shards=Shards(2))) == ("shards.by", "shards.regions")


NOISE = SamplingAndNoise(0.9, 100.0)
STEPS = (Numeric((17, 90), 1.0).named("age"), CITY, Numeric(step=0.5).named("pay"))


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"sampling_and_noise": None}, {"sampling_and_noise", STEP, f"{QI}.pay.step"}),
        ({"sampling_and_noise": replace(NOISE, sample_rate=0.8)}, {"sampling_and_noise"}),
        ({"sampling_and_noise": replace(NOISE, phi=99.0)}, {"sampling_and_noise"}),
        ({"sampling_and_noise": replace(NOISE, range="observed")}, {"sampling_and_noise"}),
        ({"policy": replace(POLICY, quasi_identifiers=by_name((replace(AGE, step=2.0), *STEPS[1:])))}, {STEP}),
        ({"policy": replace(POLICY, quasi_identifiers=by_name((AGE, *STEPS[1:])))}, {STEP}),
        ({}, set()),
    ],
)
def test_the_fingerprint_covers_sampling_and_noise_where_they_are_on(change: dict[str, Any], fields: set[str]) -> None:
    noised: dict[str, Any] = {
        "policy": replace(POLICY, quasi_identifiers=by_name(STEPS)),
        "sampling_and_noise": NOISE,
    }
    assert differing(written(**noised), written(**noised | change)) == fields


def test_without_noise_the_fingerprint_is_that_of_a_policy_without_steps() -> None:
    assert written(policy=replace(POLICY, quasi_identifiers=by_name(STEPS))) == written()


KEY = SubjectKey.of(b"key")
KEYLESS = "8a0a68ab674bd64c"


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    # Written down once: where this changes, what was stored before can no longer be restored.
    stored = written()
    assert written(subject_key=NO_KEY)["subject_key"] == KEYLESS
    assert stored[f"{QI}.city.hierarchy"] == "40d3df3d11f69c08"


def test_the_key_is_compared_after_a_fingerprint_was_shipped() -> None:
    shipped = pickle.loads(pickle.dumps(written()))
    assert changed_fields(written(), shipped) == ()
    other = written(subject_key=SubjectKey.of(b"b"))
    assert changed_fields(written(), pickle.loads(pickle.dumps(other))) == ("subject_key",)


def test_state_keeps_of_a_key_a_digest_with_the_parameters_of_its_stretching() -> None:
    stretched = hashlib.scrypt(b"key", salt=b"crenel", n=2**16, r=8, p=1, maxmem=2**28, dklen=32)
    digest = hashlib.blake2b(stretched, digest_size=16, person=b"crenel-subject").hexdigest()
    now = written(subject_key=KEY)
    assert now["subject_key"] == f"stretched-65536-8-1-{digest}"
    assert changed_fields(dict(now), written(subject_key=SubjectKey.of(b"key"))) == ()
    assert changed_fields(dict(now), written(subject_key=SubjectKey.of(b"another"))) == ("subject_key",)
    assert changed_fields(dict(now), written(subject_key=NO_KEY)) == ("subject_key",)
    assert changed_fields(written(subject_key=NO_KEY), now) == ("subject_key",)


def test_the_type_of_the_subject_cannot_change() -> None:
    number, text = written(subject_type="BIGINT"), written(subject_type="STRING")
    assert changed_fields(number, text) == ("type of the subject person",)
    assert changed_fields(number, written(subject_type="BIGINT")) == ()


def test_a_changed_query_is_told_and_not_refused() -> None:
    was, now = (written(source={"source.query": query, "source.ddl": "x"}) for query in ("SELECT a", "SELECT b"))
    assert changed_fields(was, now) == ()
    assert reported_fields(was, now) == ("source.query",)
    assert reported_fields(was, was) == ()


def test_a_reference_that_changed_is_refused_and_may_come_or_go() -> None:
    def privacy(*shares: float) -> Privacy:
        reference = Reference(("a", "b"), shares, (1, 2)) if shares else None  # type: ignore[arg-type]
        return Privacy(2, sensitive={"income": Sensitive(l=2, models={}, reference=reference)})

    plain, even, same, uneven = (written(privacy=privacy(*of)) for of in ((), (0.5, 0.5), (0.5, 0.5), (0.4, 0.6)))
    assert changed_fields(even, uneven) == ("privacy.sensitive.income.reference",)
    assert changed_fields(even, same) == changed_fields(plain, even) == changed_fields(even, plain) == ()
    assert plain == written()


def written(**change: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {
        "policy": POLICY,
        "shards": Shards(4),
        "subject_key": KEY,
        "members": {"income": "BIGINT", "trip": "STRING"},
    }
    return fingerprint(**{**arguments, **change})


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {field for field in one.keys() | other.keys() if one.get(field) != other.get(field)}


def test_hierarchies_get_a_leaf_for_missing_values_where_those_are_kept() -> None:
    attributes, ills = {"city": Categorical(CITIES)}, from_paths([("flu", "*"), ("cold", "*")])
    kept = Policy(attributes, missing="value", sensitive=("ill",), generalized={"ill": Generalized(ills)})
    assert kept.quasi_identifiers["city"].hierarchy.has_missing
    assert kept.generalized["ill"].hierarchy.has_missing
    assert not Policy(attributes).quasi_identifiers["city"].hierarchy.has_missing
