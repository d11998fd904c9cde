"""Proposed roles from a contract and from the data together."""

from __future__ import annotations

from typing import Any

import pytest

from crenel.evidence.profile.contract import ContractColumns, ContractField, RoleError, statements_of
from crenel.evidence.profile.profile import ColumnProfile, Profile, form_of_type
from crenel.evidence.profile.roles import Proposal, propose


def proposals(types: dict[str, str], **fields: dict[str, Any]) -> dict[str, Proposal]:
    """Return the proposals for columns of these types, under a contract with these tags and other metadata."""
    stated = {
        name: ContractField(name, statements_of(of.pop("tags", ()), None, ()), **of) for name, of in fields.items()
    }
    contract = ContractColumns("visits.yaml", stated, tuple((name,) for name in stated))
    columns = tuple(ColumnProfile(name, sql, form_of_type(sql)) for name, sql in types.items())
    return {of.column: of for of in propose(Profile(0, 10, columns), contract)}


@pytest.mark.parametrize(
    ("name", "sql", "tags", "role", "reason"),
    [
        ("x", "STRING", "sensitive", "sensitive", "the contract tags it 'sensitive'"),
        ("x", "INT", "quasi-identifier", "quasi_identifier", "the contract tags it 'quasi-identifier'"),
        ("x", "STRING", "direct-identifier", "drop", "the contract tags it 'direct-identifier'"),
        ("x", "STRING", "person-id", "subject", "the contract tags it 'person-id'"),
        ("x", "STRING", "person-id direct-identifier", "subject", "the contract tags it 'person-id'"),
        ("x", "STRING", "pii", "undecided", "the contract tags it 'pii'; neither its name nor its values show a role"),
        ("x", "STRING", "unknown", "undecided", "neither its name nor its values show a role"),
        ("x", "STRING", "pii quasi-identifier", "quasi_identifier", "the contract tags it 'quasi-identifier'"),
        (
            *("x", "STRING", "sensitive quasi-identifier", "undecided"),
            "the contract tags it 'sensitive' and tags it 'quasi-identifier'",
        ),
        (
            *("age", "INT", "sensitive", "undecided"),
            "the contract tags it 'sensitive', but the data suggest quasi-identifier: an attacker may know it",
        ),
        ("email", "STRING", "person-id", "subject", "the contract tags it 'person-id'"),
        (
            *("x", "ARRAY<INT>", "sensitive", "undecided"),
            "the contract tags it 'sensitive', and its type does not fit that role",
        ),
        ("x", "ARRAY<INT>", "direct-identifier", "drop", "the contract tags it 'direct-identifier'"),
        (
            "x",
            "TIMESTAMP(3)",
            "crenelRole=event-time",
            "event_time",
            "the contract has crenelRole: event-time; a time in",
        ),
        (
            "x",
            "INT",
            "crenelRole=event-time",
            "undecided",
            "the contract has crenelRole: event-time, and its type does not",
        ),
        ("x", "INT", "crenelRole=pass-through", "passthrough", "the contract has crenelRole: pass-through"),
    ],
)
def test_a_contract_decides_what_the_data_leave_open(name: str, sql: str, tags: str, role: str, reason: str) -> None:
    found = proposals({name: sql}, **{name: {"tags": tags.split()}})[name]
    assert found.role == role
    assert found.reason.startswith(reason)
    assert found.figures == f"{sql}; not measured"


def test_the_subject_and_the_event_time_of_a_contract_replace_those_of_the_data() -> None:
    types = {"patient_id": "STRING", "x": "STRING", "at": "TIMESTAMP(3)", "seen": "TIMESTAMP(3)"}
    roles = {name: of.role for name, of in proposals(types).items()}
    assert roles == {"patient_id": "subject", "x": "undecided", "at": "event_time", "seen": "quasi_identifier"}
    stated = {"x": {"tags": ["data-subject"]}, "seen": {"tags": ["crenel.role:event time"]}}
    roles = {name: of.role for name, of in proposals(types, **stated).items()}
    assert roles == {"patient_id": "drop", "x": "subject", "at": "quasi_identifier", "seen": "event_time"}


def test_a_contract_with_several_subjects_leaves_them_undecided() -> None:
    found = proposals({"a": "STRING", "b": "STRING"}, a={"tags": ["person-id"]}, b={"tags": ["data-subject"]})
    assert {of.role for of in found.values()} == {"undecided"}
    assert {of.reason for of in found.values()} == {"the contract gives the role subject to 'a', 'b'"}


def test_descriptions_and_keys_count_where_nothing_else_shows_a_role() -> None:
    types = {"f1": "STRING", "f2": "INT", "f3": "STRING", "age": "INT"}
    found = proposals(
        types,
        f1={"description": "ICD code of the diagnosis: MARKED"},
        f2={"description": "Year of birth"},
        f3={"is_key": True, "description": "A number"},
        age={"is_key": True, "description": "of the diagnosis"},
    )
    assert [of.role for of in found.values()] == ["sensitive", "quasi_identifier", "drop", "quasi_identifier"]
    assert found["f1"].reason == "a value that must not be inferred, by its description in the contract"
    assert found["f3"].reason == "the contract has it as primary key, which identifies a record"
    assert "MARKED" not in repr(found)


def test_a_role_that_there_is_not_is_refused_without_its_text() -> None:
    with pytest.raises(RoleError, match="crenelRole: is no role; choose drop, event-time, pass-through,") as error:
        statements_of((), None, [("crenelRole", "MARKED")])
    assert "MARKED" not in str(error.value)
