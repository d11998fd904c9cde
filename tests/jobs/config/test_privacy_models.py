"""Sensitive columns in a configuration, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.privacy import Sensitive
from crenel.anonymity.model.reference import OF_STREAM, Reference
from crenel.jobs.config.load import load

CONFIGURATION = """
policy:
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
  sensitive: [diagnosis, salary]
privacy:
  k: 10
  l: 2
  alpha: 0.8
  sensitive:
    diagnosis: {l: 3, alpha: 0.5, recursive: {c: 3, l: 2}}
    salary: {entropy_l: 2}
castle: {delay: {tuples: 100}}
source: {ddl: "CREATE TEMPORARY TABLE source (age INT, diagnosis STRING, salary INT)"}
sinks:
  released: {connector: filesystem, path: /out, format: csv}
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    return path


def test_each_column_has_promises_of_its_own(configuration: Path) -> None:
    privacy = load(configuration).privacy
    assert privacy.further == ((ALPHA, 0.8),)
    assert privacy.sensitive == {
        "diagnosis": Sensitive(l=3, alpha=0.5, recursive={"c": 3, "l": 2}),
        "salary": Sensitive(entropy_l=2),
    }
    assert privacy.sensitive["diagnosis"].further == ((ALPHA, 0.5), (RECURSIVE, (3.0, 2.0)))
    assert privacy.sensitive["salary"].further == ((ENTROPY_L, 2.0),)
    assert privacy.in_force == {
        **{"k": 10, "l": 2, "alpha": 0.8, "l_diagnosis": 3, "alpha_diagnosis": 0.5},
        **{"recursive_c_diagnosis": 3.0, "recursive_l_diagnosis": 2.0, "entropy_l_salary": 2.0},
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("diagnosis.l=11", "privacy.sensitive.diagnosis.l: must be from 1 to k (10), not 11"),
        ("diagnosis.alpha=2", "privacy.sensitive.diagnosis.alpha: must be a number above 0 and at most 1"),
        ("diagnosis.alpha=no", "privacy.sensitive.diagnosis.alpha: is not a number; a number above 0 and at most 1"),
        ("diagnosis.recursive={c: 3}", "privacy.sensitive.diagnosis.recursive.l: is missing; a whole number from 2"),
        ("diagnosis.recursive=3", "privacy.sensitive.diagnosis.recursive: is not a mapping; a mapping such as {c: 3"),
        ("diagnosis.recursive.l=2.5", "privacy.sensitive.diagnosis.recursive: must be a mapping such as {c: 3, l: 2}"),
        ("salary.entropy_l=0.5", "privacy.sensitive.salary.entropy_l: must be a number from 1 to k"),
        ("salary.entropi_l=2", "privacy.sensitive.salary.entropi_l: is unknown (did you mean 'entropy_l'?)"),
        ("salary={}", "privacy.sensitive.salary: has no privacy model; give l or another one, or remove it"),
        ("wage={l: 2}", "privacy.sensitive.wage: is not a column of policy.sensitive; one of diagnosis, salary"),
    ],
)
def test_what_is_wrong_is_told_by_field(configuration: Path, change: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(configuration, [f"privacy.sensitive.{change}"])
    assert any(found.startswith(problem) for found in error.value.problems), error.value.problems


def test_a_column_has_a_reference_of_its_own(configuration: Path) -> None:
    folder = configuration.parent / "references"
    folder.mkdir()
    (folder / "pay.csv").write_text("value,count\n10,3\n20,1\n", encoding="utf-8")
    config = load(configuration, ["privacy.sensitive.salary={t: 0.3, beta: 2, reference: references/pay.csv}"])
    salary = config.privacy.sensitive["salary"]
    assert salary.further == ((T, 0.3), (BETA, 2.0))
    assert salary.reference == Reference(("10", "20"), (0.75, 0.25))
    assert config.privacy.reference_of("diagnosis") is None
    assert config.privacy.in_force["t_salary"] == 0.3
    of_all = [f"privacy.sensitive.{name}.reference=references/pay.csv" for name in ("salary", "diagnosis")]
    assert load(configuration, ["privacy.t=0.4", *of_all]).privacy.further == ((ALPHA, 0.8), (T, 0.4))


def test_a_reference_has_the_distance_that_its_column_names(configuration: Path) -> None:
    (configuration.parent / "ill.csv").write_text("value,count\nflu,3\ncold,1\n", encoding="utf-8")
    (configuration.parent / "tree.csv").write_text("cold;light;all\nflu;light;all\nburn;other;all\n", encoding="utf-8")
    options = "t: 0.3, reference: ill.csv"
    ordered = load(configuration, [f"privacy.sensitive.diagnosis={{{options}, distance: ordered}}"]).privacy
    meant = "distance: hierarchical, hierarchy: tree.csv"
    tree = load(configuration, [f"privacy.sensitive.diagnosis={{{options}, {meant}}}"]).privacy
    found = [privacy.reference_of("diagnosis") for privacy in (ordered, tree)]
    assert [reference.distance for reference in found if reference] == ["ordered", "hierarchical"]
    assert found[1] is not None
    assert found[1].hierarchy is not None
    assert found[1].hierarchy.labels[:3] == ("cold", "flu", "burn")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["salary.beta=0"], "privacy.sensitive.salary.beta: must be a number above 0, at most a million"),
        (["salary.t=1.5"], "privacy.sensitive.salary.t: must be a number above 0 and at most 1"),
        (["salary.reference=good.csv"], "privacy.sensitive.salary.reference: no privacy model compares with it; give"),
        (["salary={t: 0.3, reference: none.csv}"], "privacy.sensitive.salary.reference: FOLDER/none.csv: cannot be"),
        (["salary={t: 0.3, reference: bad.csv}"], "privacy.sensitive.salary.reference: FOLDER/bad.csv: line 3: its"),
        (["salary={t: 0.3, reference: good.csv, distance: far}"], "privacy.sensitive.salary.distance: is not one of"),
        (["salary={l: 2, distance: ordered}"], "privacy.sensitive.salary: its 'distance' is one to a 'reference'"),
        (
            ["salary={t: 0.3, reference: good.csv, distance: hierarchical}"],
            "privacy.sensitive.salary: a 'hierarchy' and 'distance: hierarchical' go together",
        ),
        (
            ["salary={t: 0.3, reference: good.csv, hierarchy: tree.csv}"],
            "privacy.sensitive.salary: a 'hierarchy' and 'distance: hierarchical' go together",
        ),
        (
            ["salary={t: 0.3, reference: good.csv, distance: hierarchical, hierarchy: tree.csv}"],
            "privacy.sensitive.salary.hierarchy: value 2 of the reference is none of its leaves; add it",
        ),
        (
            ["salary={t: 0.3, reference: good.csv, distance: hierarchical, hierarchy: odd.csv}"],
            "privacy.sensitive.salary.hierarchy: has no levels; give every value",
        ),
        (
            ["salary={t: 0.3, reference: good.csv, distance: hierarchical, hierarchy: none.csv}"],
            "privacy.sensitive.salary.hierarchy: FOLDER/none.csv: cannot be read",
        ),
        (["salary={t: 0.3, reference: [1]}"], "privacy.sensitive.salary.reference: is not text; the path of a CSV"),
    ],
)
def test_what_is_wrong_with_a_reference_is_told_by_field(configuration: Path, changes: list[str], problem: str) -> None:
    (configuration.parent / "good.csv").write_text("value,count\n10,3\n20,1\n", encoding="utf-8")
    (configuration.parent / "tree.csv").write_text("10;all\n30;all\n", encoding="utf-8")
    (configuration.parent / "odd.csv").write_text("10;all\n20;some;all\n", encoding="utf-8")
    (configuration.parent / "bad.csv").write_text("value,count\n10,3\n20,-1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load(configuration, [f"privacy.sensitive.{change}" for change in changes])
    expected = problem.replace("FOLDER", str(configuration.parent))
    assert any(found.startswith(expected) for found in error.value.problems), error.value.problems


def test_what_has_no_reference_is_compared_with_the_stream_so_far(configuration: Path) -> None:
    (configuration.parent / "ill.csv").write_text("value,count\nflu,3\ncold,1\n", encoding="utf-8")
    privacy = load(configuration, ["privacy.t=0.3", "privacy.sensitive.diagnosis={t: 0.2, reference: ill.csv}"]).privacy
    found = {column: privacy.reference_of(column) for column in ("diagnosis", "salary")}
    assert {column: reference is OF_STREAM for column, reference in found.items()} == {
        "diagnosis": False,
        "salary": True,
    }


def test_a_promise_of_one_column_needs_the_column(configuration: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(configuration, ["policy.sensitive=null", "policy.drop=[diagnosis, salary]"])
    assert (
        "privacy.sensitive.diagnosis: is not a column of policy.sensitive; policy.sensitive names no column; name it"
        in error.value.problems
    )
