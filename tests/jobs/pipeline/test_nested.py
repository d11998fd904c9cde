"""Fields of nested columns as columns of their own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Policy
from crenel.jobs.pipeline.nested import flat_columns, item_functions
from crenel.operators.column_types import fields_of, parse
from tests.support.layouts import layout_of

PATIENT = "ROW<`age` INT NOT NULL, `home` ROW<`zip` STRING>, `seen` TIMESTAMP_LTZ(3), `ill` ARRAY<ROW<`code` STRING>>>"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("INT", {}),
        ("ARRAY<ROW<`a` INT>>", {}),
        ("ROW<a INT, b STRING NOT NULL>", {"a": "INT", "b": "STRING NOT NULL"}),
        (
            "ROW<`a``, b` DECIMAL(5, 2), `c` MAP<STRING, INT NOT NULL> 'with , and >', `d` INT 'it''s'> NOT NULL",
            {"a`, b": "DECIMAL(5, 2)", "c": "MAP<STRING, INT NOT NULL>", "d": "INT"},
        ),
        ("ROW<`a` ROW<`b` ROW<`c` INT> NOT NULL 'text'>>", {"a": "ROW<`b` ROW<`c` INT> NOT NULL 'text'>"}),
    ],
)
def test_the_fields_of_a_row_are_read_as_flink_prints_them(text: str, fields: dict[str, str]) -> None:
    assert fields_of(parse(text)) == fields


def test_a_row_is_replaced_by_its_fields_where_a_role_names_one_of_them() -> None:
    types = {"id": "STRING", "patient": PATIENT, "visit": "ROW<`ill` STRING>"}
    assert flat_columns(types, ["id", "patient.home.zip", "patient.age", "visit"]) == {
        "id": "`id`",
        # Flink takes this field for one that is never null, although the ROW may be.
        "patient.age": "CASE WHEN `patient` IS NOT NULL THEN `patient`.`age` END",
        "patient.home.zip": (
            "CASE WHEN `patient` IS NOT NULL AND `patient`.`home` IS NOT NULL THEN `patient`.`home`.`zip` END"
        ),
        "patient.seen": "`patient`.`seen`",
        "patient.ill": "`patient`.`ill`",
        "visit": "`visit`",
    }
    never_null = {"a": "ROW<`b` ROW<`c` INT NOT NULL> NOT NULL> NOT NULL"}
    assert flat_columns(never_null, ["a.b.c"]) == {"a.b.c": "IFNULL(`a`.`b`.`c`, `a`.`b`.`c`)"}


def test_a_row_stays_whole_without_roles_in_it() -> None:
    types = {"patient": PATIENT}
    assert flat_columns(types, []) == flat_columns(types, ["patient"]) == {"patient": "`patient`"}
    assert list(flat_columns(types, ["patient.age"])) == ["patient.age", "patient.home", "patient.seen", "patient.ill"]


def test_a_column_with_a_dot_in_its_name_is_no_path() -> None:
    assert flat_columns({"a.b": "INT", "a": "ROW<`b` INT>"}, ["a.b", "a"]) == {"a.b": "`a.b`", "a": "`a`"}
    with pytest.raises(ConfigError) as caught:
        flat_columns({"a.b": "INT", "a": "ROW<`b` INT>"}, ["a.b"])
    assert caught.value.problems == (
        "policy: the source has 2 columns 'a.b', by their names and the paths of their fields; rename one in "
        "the source's query or data",
    )
    with pytest.raises(ConfigError, match=r"has 2 columns 'a.b.c'"):
        flat_columns({"a": "ROW<`b.c` INT, `b` ROW<`c` INT>>"}, ["a.b.c"])


def test_a_field_of_a_column_with_a_role_has_none_of_its_own() -> None:
    # Published whole, the column would publish the quasi-identifier as it is.
    with pytest.raises(ConfigError) as caught:
        flat_columns({"patient": PATIENT}, ["patient", "patient.home.zip"])
    assert caught.value.problems == (
        "policy: the column 'patient' has a role, and its field 'patient.home.zip' too; give one to each field, or one "
        "to 'patient' alone",
    )


VISITS = "ARRAY<ROW<`ward` STRING NOT NULL, `place` ROW<`city` STRING>, `tests` ARRAY<ROW<`name` STRING>>>> NOT NULL"


def test_a_field_of_the_rows_of_an_array_is_an_array() -> None:
    types = {"id": "STRING", "patient": f"ROW<`visits` {VISITS}>", "visits": VISITS}
    roles = ["id", "patient.visits[*].place.city", "visits[*].ward"]
    found = flat_columns(types, roles)
    assert list(found) == [
        "id",
        *(f"{name}[*].{field}" for name in ("patient.visits", "visits") for field in ("ward", "place", "tests")),
    ][:2] + ["patient.visits[*].place.city"] + ["patient.visits[*].tests"] + [
        f"visits[*].{field}" for field in ("ward", "place", "tests")
    ]
    within = re.fullmatch(r"(\w+)\((.*)\)", found["patient.visits[*].place.city"])
    assert within is not None
    assert within[2] == "CASE WHEN `patient` IS NOT NULL THEN `patient`.`visits` END"
    functions = {function.name: function.source for function in item_functions(types, roles)}
    assert "PATH = {1, 0}" in functions[within[1]]
    assert 'explicit(data("ARRAY<STRING>"))' in functions[within[1]]
    # A row may be null, and then its fields are, also those that are never null in it.
    assert 'explicit(data("ARRAY<STRING>"))' in functions[found["visits[*].ward"].removesuffix("(`visits`)")]
    assert 'explicit(data("ARRAY<ARRAY<ROW<`name` STRING>>>"))' in functions[found["visits[*].tests"].partition("(")[0]]
    assert flat_columns(types, ["visits", "patient.visits"]) == {
        "id": "`id`",
        "patient.visits": "CASE WHEN `patient` IS NOT NULL THEN `patient`.`visits` END",
        "visits": "`visits`",
    }


def test_arrays_of_rows_are_refused_where_their_paths_are_ambiguous() -> None:
    for types, roles, words in (
        ({"visits": VISITS}, ["visits", "visits[*].ward"], "'visits' has a role, and its field 'visits[*].ward' too"),
        ({"a[*]": "INT", "a": "INT"}, ["a[*]"], None),
        ({"a[*].b": "INT", "a": "ARRAY<ROW<`b` INT>>"}, ["a[*].b"], "has 2 columns 'a[*].b'"),
        ({"a[*]": "ROW<`b` INT>"}, ["a[*].b"], "has a column 'a[*]', and '[*]' stands for the rows of an array"),
    ):
        if words is None:
            assert list(flat_columns(types, roles)) == list(types)
            continue
        with pytest.raises(ConfigError, match=re.escape(words)):
            flat_columns(types, roles)


def test_the_remedy_for_an_array_of_rows_names_a_field() -> None:
    policy = Policy(quasi_identifiers={"n": Numeric()})
    with pytest.raises(
        ConfigError, match=r"'visits' has no role; .*, or roles to its fields, such as 'visits\[\*\].ward'"
    ):
        layout_of(policy, {"n": "INT", "visits": VISITS})
    for arrays in ({}, {"visits": 3}):
        sensitive = replace(policy, sensitive=("visits",), arrays=arrays)
        with pytest.raises(ConfigError, match=r"such as 'visits\[\*\]\.ward'"):
            layout_of(sensitive, {"n": "INT", "visits": VISITS})


def test_each_field_needs_a_role() -> None:
    policy = Policy(quasi_identifiers={"patient.age": Numeric()})
    columns = dict.fromkeys(flat_columns({"patient": PATIENT}, policy.roles), "INT")
    with pytest.raises(ConfigError) as caught:
        layout_of(policy, columns)
    assert [problem.split(";")[0] for problem in caught.value.problems] == [
        f"policy: the source's column 'patient.{name}' has no role" for name in ("home", "seen", "ill")
    ]
    with pytest.raises(ConfigError, match=r"the source has no column 'patient.zip'; did you mean 'patient.zips'"):
        layout_of(Policy(quasi_identifiers={"patient.zip": Numeric()}), {"patient.zips": "INT"})


def test_the_remedy_for_a_row_without_a_role_names_a_field() -> None:
    with pytest.raises(ConfigError) as caught:
        layout_of(Policy(quasi_identifiers={"n": Numeric()}), {"n": "INT", "patient": PATIENT})
    [problem] = caught.value.problems
    assert problem.startswith("policy: the source's column 'patient' has no role; give it one of ")
    assert problem.endswith(", or roles to its fields, such as 'patient.age'")
