"""Generalized sensitive columns: the declared label is published and counted in the place of the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import settings as examples_of
from hypothesis import strategies as st

import crenel
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.hierarchy import MISSING
from tests.support.ages import write_ages
from tests.support.example_counts import examples

ILLNESSES = {
    "flu": ["lungs", "body", "*"],
    "asthma": ["lungs", "body", "*"],
    "angina": ["heart", "body", "*"],
    "panic": ["mind", "mind", "*"],
}
PAY = crenel.Numbers(domain=(0, 99_999), levels=[10_000, 50_000])
PARTS = ["0-49999", "50000-99999"]
HOUR = 3_600_000

ALGORITHMS: dict[str, Any] = {
    "nearest": crenel.Nearest(delay=crenel.Delay(tuples=60)),
    "castle": crenel.Castle(delay=crenel.Delay(tuples=60)),
    "mondrian": crenel.Mondrian(window=crenel.Window(tuples=100)),
    "suhdsa": crenel.Suhdsa(tuples=100),
    "sampled": crenel.Cells(sample_rate=0.5, partition="cells.yaml", epsilon=20, delta=0.01, window="1 h", windows=4),
    "noisy": crenel.Cells(partition="cells.yaml", epsilon=8, delta=0.01, window="1 h", windows=4, release="noisy"),
}


def settings(folder: Path, algorithm: str, *, generalized: bool = True, **policy: Any) -> crenel.Settings:
    write_ages(folder / "cells.yaml", 30, 60)
    own = {"illness": crenel.Generalized(ILLNESSES, 1), "pay": crenel.Generalized(PAY, 1)} if generalized else {}
    return crenel.Settings(
        policy=crenel.Policy(
            subject="person",
            event_time="at",
            quasi_identifiers={"age": crenel.Numeric((0, 99))},
            sensitive=["illness", "pay"],
            generalized=own,
            **policy,
        ),
        privacy=crenel.Privacy(k=10, l=2),
        algorithm=ALGORITHMS[algorithm],
        seed=5,
        folder=folder,
    )


def records(illness: list[Any], pay: list[Any]) -> pa.Table:
    rows = range(len(illness))
    return pa.table(
        {
            "person": [f"p{row * 7 % 2000}" for row in rows],
            "age": [row * 37 % 100 for row in rows],
            "illness": pa.array(illness, pa.string()),
            "pay": pa.array(pay, pa.int32()),
            "at": pa.array([row * HOUR // 900 for row in rows], pa.timestamp("ms")),
        }
    )


def label(illness: str) -> str:
    return ILLNESSES[illness][0]


def part(pay: int) -> str:
    return PARTS[pay // 50_000]


some_illnesses = st.lists(st.sampled_from([*ILLNESSES]), min_size=300, max_size=300)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
@examples_of(max_examples=examples(3), deadline=None)
def test_generalizing_is_the_same_as_labels_in_the_input(
    algorithm: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    illness = data.draw(some_illnesses)
    pay = data.draw(st.lists(st.integers(0, 99_999), min_size=300, max_size=300))
    folder = tmp_path_factory.mktemp("cells")
    raw = records(illness, pay)
    labeled = raw.set_column(2, "illness", pa.array(map(label, illness))).set_column(3, "pay", pa.array(map(part, pay)))
    found = crenel.anonymize(raw, settings(folder, algorithm))
    expected = crenel.anonymize(labeled, settings(folder, algorithm, generalized=False))
    assert found.released.equals(expected.released)
    assert found.audit.equals(expected.audit)
    assert found.suppressed.equals(expected.suppressed)
    verdict = crenel.verify(found, settings(folder, algorithm))
    assert verdict.outcome == "holds", verdict


@pytest.mark.parametrize("algorithm", ["nearest", "sampled", "noisy"])
def test_fewer_labels_make_fewer_keys(algorithm: str, tmp_path: Path) -> None:
    illness = [[*ILLNESSES][row % 4] for row in range(1800)]
    result = crenel.anonymize(
        records(illness, [row * 997 % 100_000 for row in range(1800)]), settings(tmp_path, algorithm)
    )
    assert result.released.num_rows > 100
    assert set(result.released["illness"].to_pylist()) <= {"lungs", "heart", "mind"}
    assert set(result.released["pay"].to_pylist()) == set(PARTS)
    assert result.released["pay"].type == pa.string()


def test_a_value_outside_the_declared_ones_is_rejected_by_itself(tmp_path: Path) -> None:
    illness = ["flu", "lungs", "*", None, "asthma", "FLU", ""]
    pay = [0, 99_999, 5, 5, 100_000, 5, None]
    result = crenel.anonymize(records(illness, pay), settings(tmp_path, "nearest"), row_numbers=True)
    found = [(row["row"], row["column"], row["reason"]) for row in result.rejected.to_pylist()]
    assert found == [
        (1, "illness", "unknown_category"),
        (2, "illness", "unknown_category"),
        (3, "illness", "missing"),
        (4, "pay", "unknown_category"),
        (5, "illness", "unknown_category"),
        (6, "illness", "unknown_category"),
    ]
    assert result.suppressed["row"].to_pylist() == [0]


def test_a_missing_value_is_a_label_of_its_own_where_it_is_kept(tmp_path: Path) -> None:
    pay = [None if row % 2 else 5 for row in range(200)]
    illness = [None if row % 3 else "flu" for row in range(200)]
    made = settings(tmp_path, "nearest", missing="value")
    result = crenel.anonymize(records(illness, pay), made)
    assert result.rejected.num_rows == 0
    assert set(result.released["illness"].to_pylist()) == {"lungs", MISSING}
    assert set(result.released["pay"].to_pylist()) == {PARTS[0], MISSING}
    assert crenel.verify(result, made).outcome == "holds"


@pytest.mark.parametrize("other", ["flu", "body", "cold", None])
def test_verify_holds_each_value_to_the_labels_of_the_declared_level(other: str | None, tmp_path: Path) -> None:
    illness = [[*ILLNESSES][row % 4] for row in range(300)]
    made = settings(tmp_path, "nearest")
    result = crenel.anonymize(records(illness, [5, 60_000] * 150), made)
    assert crenel.verify(result, made).outcome == "holds"
    column = result.released["illness"].to_pylist()
    column[7] = other
    changed = result.released.set_column(result.released.column_names.index("illness"), "illness", pa.array(column))
    verdict = crenel.verify(replace(result, released=changed), made)
    (domain,) = [check for check in verdict.checks if check.name == "domain"]
    assert "'illness'" in str(domain.findings)
    assert "level 1" in str(domain.findings)


def test_a_stream_goes_on_under_the_same_labels_alone(tmp_path: Path) -> None:
    illness = [[*ILLNESSES][row % 4] for row in range(300)]
    data = records(illness, [5, 60_000] * 150)
    made = settings(tmp_path, "sampled")
    stream = crenel.open_stream(made)
    first = stream.push(data.slice(0, 150)).released
    snapshot = stream.snapshot()
    again = crenel.open_stream(made, snapshot=snapshot)
    again.push(data.slice(150))
    whole = crenel.anonymize(data, made)
    assert pa.concat_tables([first, again.finish().released]).equals(whole.released)
    finer = replace(made.policy, generalized={"illness": crenel.Generalized(ILLNESSES), "pay": crenel.Generalized(PAY)})
    with pytest.raises(crenel.PolicyError, match=r"policy\.generalized\.illness, policy\.generalized\.pay"):
        crenel.open_stream(replace(made, policy=finer), snapshot=snapshot)


def test_the_settings_are_those_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "illness.csv").write_text("flu;lungs;*\nasthma;lungs;*\n", encoding="utf-8")
    policy = crenel.Policy(
        quasi_identifiers={"age": crenel.Numeric((0, 99))},
        sensitive=["illness", "pay"],
        generalized={"illness": crenel.Generalized("illness.csv"), "pay": crenel.Generalized(PAY, 1)},
    )
    made = crenel.Settings(policy=policy, privacy=crenel.Privacy(k=2), algorithm=ALGORITHMS["nearest"], folder=tmp_path)
    (tmp_path / "settings.yaml").write_text(made.to_yaml(), encoding="utf-8")
    read = crenel.load(tmp_path / "settings.yaml")
    assert read.policy == made.policy
    assert read.policy.generalized["pay"].level == 1
    for name, made_one in made.policy.generalized.items():
        read_one = read.policy.generalized[name]
        assert (read_one.level, read_one.labels) == (made_one.level, made_one.labels)
    assert set(read.policy.generalized["pay"].labels) == set(PARTS)

    content = made.sections()
    content["policy"]["generalized"]["pay"]["level"] = 2
    with pytest.raises(ConfigError) as error:
        crenel.Settings.of_sections(content, tmp_path, "x")
    (problem,) = error.value.problems
    assert problem.startswith("policy.generalized.pay.level: must be from 0 to 1, below the root")


@pytest.mark.parametrize(
    ("generalized", "problem"),
    [
        (lambda: {"age": crenel.Generalized(PAY)}, "policy.generalized.age: is not a column of policy.sensitive"),
        (lambda: {"pay": crenel.Generalized(PAY, 2)}, "level: must be from 0 to 1"),
        (lambda: {"illness": crenel.Generalized({"flu": []})}, "hierarchy: has no root"),
        (
            lambda: {"illness": crenel.Generalized({"flu": ["lungs", "*"], "panic": ["*"]}, 1)},
            "hierarchy: has no levels",
        ),
    ],
)
def test_an_impossible_level_is_an_error_with_its_field(
    generalized: Callable[[], Any], problem: str, tmp_path: Path
) -> None:
    made = settings(tmp_path, "nearest")
    with pytest.raises(ConfigError) as error:
        replace(made, policy=replace(made.policy, generalized=generalized()))
    assert problem in str(error.value)


def test_a_reference_lists_labels(tmp_path: Path) -> None:
    data = records([[*ILLNESSES][row % 4] for row in range(300)], [5, 60_000] * 150)
    made = settings(tmp_path, "nearest")
    for values, fits in ((["lungs", "heart", "mind"], True), (["flu", "heart", "mind"], False)):
        (tmp_path / "reference.csv").write_text(
            "value,count\n" + "".join(f"{value},1\n" for value in values), encoding="utf-8"
        )
        compared = crenel.Privacy(k=10, sensitive={"illness": crenel.Sensitive(reference="reference.csv", t=0.5)})
        both = replace(made, privacy=compared)
        if fits:
            assert crenel.verify(crenel.anonymize(data, both), both).outcome == "holds"
        else:
            with pytest.raises(ConfigError, match=r"privacy\.sensitive\.illness\.reference: value 1 "):
                crenel.anonymize(data, both)


def test_an_attacker_learns_labels_alone(tmp_path: Path) -> None:
    data = records([[*ILLNESSES][row % 2] for row in range(300)], [5, 60_000] * 150)
    made = settings(tmp_path, "nearest")
    made = replace(made, privacy=crenel.Privacy(k=10))
    results = crenel.attack(data, made, result=crenel.anonymize(data, made))
    (homogeneity,) = [of for of in results.attacks if of.name == "homogeneity in illness"]
    assert homogeneity.success == 1  # flu and asthma are both of the lungs
    assert pc.all(pc.equal(crenel.anonymize(data, made).released["illness"], "lungs")).as_py()


def test_a_plan_and_an_explanation_count_labels(tmp_path: Path) -> None:
    data = records([[*ILLNESSES][row % 4] for row in range(900)], [5, 60_000] * 450)
    made = settings(tmp_path, "nearest")
    found = crenel.plan(data, made, vary={"algorithm": ["nearest"], "k": [10, 20]}, replays=4)
    assert found.settings is not None
    assert found.chosen is not None
    planned = found.settings.policy.generalized
    assert {name: of.labels for name, of in planned.items()} == {
        name: of.labels for name, of in made.policy.generalized.items()
    }
    summary = crenel.anonymize(data, found.settings).summary
    assert summary.mean_loss == pytest.approx(found.chosen.figures.loss)
    # All values are of one label, which no l of 2 allows, although there are two values.
    lungs = records([["flu", "asthma"][row % 2] for row in range(300)], [5, 60_000] * 150)
    result = crenel.anonymize(lungs, made)
    assert result.released.num_rows == 0
    assert sum(crenel.why(lungs, made).remedies.suppressed.values()) == 300
    page = crenel.report(crenel.anonymize(data, made), made, data=data)
    assert "Secrecy of the labels of illness and pay" in " ".join(page.split())
