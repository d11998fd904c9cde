"""Contracts: statements on columns, refused files, and columns that are published unchanged against a contract."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import crenel
from crenel.anonymity.model.errors import ConfigError
from crenel.contract import ContractError, read_contract
from crenel.jobs.config.load import load
from tests.support.protobuf import descriptor_set, field

CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: MARKED
version: 1.0.0
status: active
schema:
- name: visits
  properties:
  - {name: patient, tags: [pii], classification: restricted}
  - {name: email, tags: [DirectIdentifier], encryptedName: email_code}
  - {name: phone, encryptedName: phone_code}
  - {name: area, classification: public, encryptedName: area_code}
  - {name: age, tags: [sensitive], customProperties: [{property: crenelRole, value: quasi-identifier}]}
  - {name: town, physicalName: town_code, tags: [Quasi Identifier, 'privacy:pii']}
  - {name: diagnosis, tags: [PersonalData.SpecialCategory], criticalDataElement: true, description: MARKED}
  - {name: ward, classification: public}
  - {name: device, authoritativeDefinitions: [{type: businessDefinition, url: https://x.example/terms/pii/}]}
  - {name: visit, primaryKey: true, customProperties: [{property: pii, value: no}]}
  - name: home
    logicalType: object
    tags: [confidential]
    properties:
    - {name: zip}
    - {name: country, classification: public}
  - name: calls
    logicalType: array
    items:
      logicalType: object
      properties:
      - {name: number, tags: [pii]}
"""

SCHEMA = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "patient", "type": "string", "confluent:tags": ["PII"]},
        {"name": "age", "type": ["null", "int"], "crenel.role": "quasi-identifier", "doc": "MARKED"},
        {
            "name": "home",
            "type": {
                "type": "record",
                "name": "Home",
                "fields": [{"name": "zip", "type": "string", "tags": "quasi-identifier"}],
            },
        },
        {"name": "past", "type": {"type": "array", "items": "Home"}},
        {
            "name": "either",
            "type": ["Home", {"type": "record", "name": "B", "fields": [{"name": "zip", "type": "int"}]}],
        },
    ],
}

CONFIGURATION = """
policy:
  quasi_identifiers: {age: {type: numeric}}
  sensitive: [diagnosis]
  passthrough: [ward, visit]
  contract: visits.odcs.yaml
privacy: {k: 10}
algorithm: nearest
nearest: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "visits.odcs.yaml"
    path.write_text(CONTRACT, encoding="utf-8")
    return path


@pytest.fixture
def configuration(contract: Path) -> Path:
    path = contract.parent / "visits.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    return path


def words(path: Path, column: str) -> list[str]:
    return [each.words for each in read_contract(path, None).fields[column].statements]


def problems(path: Path, *overrides: str) -> list[str]:
    """Return the problems of a configuration; none where it is valid."""
    try:
        load(path, overrides)
    except ConfigError as error:
        return [*error.problems]
    return []


def warned(path: Path, *overrides: str) -> list[str]:
    return [warning for warning in load(path, overrides).warnings if warning.startswith("policy.")]


def test_a_contract_states_roles_by_a_small_vocabulary(contract: Path) -> None:
    found = read_contract(contract, None)
    assert {name: [*of.roles] for name, of in found.fields.items() if of.roles} == {
        "email": ["drop"],
        "email_code": ["drop"],
        "phone_code": ["drop"],
        "age": ["quasi_identifier"],
        "town": ["quasi_identifier"],
        "town_code": ["quasi_identifier"],
        "diagnosis": ["sensitive"],
    }
    personal = {name for name, of in found.fields.items() if of.personal(is_protected=False)}
    assert personal == {
        *("patient", "email", "email_code", "phone", "phone_code", "age", "town", "town_code", "diagnosis", "device"),
        *("home", "home.zip", "calls[].number"),
    }
    assert {name for name, of in found.fields.items() if of.public} == {
        "ward",
        "visit",
        "home.country",
        "area",
        "area_code",
    }
    assert words(contract, "patient") == ["classifies it as 'restricted'", "tags it 'pii'"]
    assert words(contract, "town") == ["tags it 'quasi-identifier'", "tags it 'privacy: pii'"]
    assert words(contract, "age") == ["tags it 'sensitive'", "has crenelRole: quasi-identifier"]
    assert words(contract, "visit") == ["has pii: false"]
    assert words(contract, "phone") == ["names an encrypted form of it"]
    assert words(contract, "device") == ["defines it as 'pii'"]
    assert words(contract, "email_code")[0] == "has it as the encrypted form of another property"
    assert (found.fields["visit"].is_key, found.fields["diagnosis"].is_critical) == (True, True)
    columns = ["patient", "email_code", "age", "town_code", "home.zip", "calls", "new"]
    assert found.missing(columns) == ["phone", "area", "diagnosis", "ward", "device", "visit"]
    assert found.unknown(columns) == ["new"]
    assert "MARKED" not in repr(found)


def test_fields_of_avro_have_the_same_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "visits.avsc"
    answer = {"subject": "visits-value", "version": 1, "schema": json.dumps(SCHEMA)}
    for content in (SCHEMA, answer):
        path.write_text(json.dumps(content), encoding="utf-8")
        assert words(path, "patient") == ["tags it 'pii'"]
        assert words(path, "age") == ["has crenelRole: quasi-identifier"]
        for name in ("home.zip", "past[].zip", "either[0].zip"):
            assert words(path, name) == ["tags it 'quasi-identifier'"]
        assert words(path, "either[1].zip") == []
        with pytest.raises(ContractError, match="leave out --schema-name"):
            read_contract(path, "visits", "--schema-name")


EXTENDED: dict[str, Any] = {"label": "LABEL_OPTIONAL", "extendee": ".google.protobuf.FieldOptions"}
OPTIONS = {
    "name": "options.proto",
    "package": "crenel",
    "dependency": ["google/protobuf/descriptor.proto"],
    "message_type": [{"name": "Meta", "field": [field("tags", 1, "string", many=True), field("key", 2, "string")]}],
    "enum_type": [{"name": "DataLevel", "value": [{"name": "DATA_LEVEL_PII", "number": 0}]}],
    "extension": [
        field("personal_data", 50_000, "bool", **EXTENDED),
        field("role", 50_001, "string", **EXTENDED),
        field("meta", 50_002, ".crenel.Meta", **EXTENDED),
        field("sensitivity", 50_003, ".crenel.DataLevel", **{**EXTENDED, "type": "TYPE_ENUM"}),
    ],
}
VISITS = {
    "name": "visits.proto",
    "package": "clinic",
    "dependency": ["options.proto"],
    "message_type": [
        {
            "name": "Home",
            "field": [
                field("zip", 1, "string", options={"[crenel.personal_data]": True}),
                field("town", 2, "string", options={"deprecated": True}),
                field("people", 3, ".clinic.Person", many=True),
            ],
        },
        {
            "name": "Person",
            "field": [
                field("name", 1, "string", options={"[crenel.meta]": {"tags": ["new", "direct-id"], "key": "MARKED"}}),
                field("home", 2, ".clinic.Home"),
                field("ward", 3, "string", options={"[crenel.personal_data]": False}),
            ],
        },
        {
            "name": "Visit",
            "field": [
                field("person", 1, "string", options={"[crenel.role]": "subject"}),
                field("token", 2, "string", options={"debug_redact": True}),
                field("level", 3, "string", options={"[crenel.sensitivity]": "DATA_LEVEL_PII"}),
                field("doctor", 4, ".clinic.Person"),
                field("before", 5, ".clinic.Visit"),
                field("scores", 6, ".clinic.Visit.ScoresEntry", many=True),
            ],
            "nested_type": [
                {
                    "name": "ScoresEntry",
                    "field": [field("key", 1, "string"), field("value", 2, ".clinic.Home")],
                    "options": {"map_entry": True},
                }
            ],
        },
    ],
}


def test_fields_of_protobuf_have_the_same_vocabulary_in_their_options(tmp_path: Path) -> None:
    path = tmp_path / "visits.desc"
    path.write_bytes(descriptor_set(OPTIONS, VISITS))
    found = read_contract(path, "Visit").fields
    said = {name: [each.words for each in of.statements] for name, of in found.items() if of.statements}
    inside = ["has personal-data: true", "tags it 'direct-id'"]
    # A message inside itself states what its fields state, since their paths have no end.
    assert sorted(said.pop("before")) == sorted(
        [*inside, "has crenelRole: subject", "has debug-redact: true", "has sensitivity: pii"]
    )
    assert said.pop("scores.value.people[].name") == ["tags it 'direct-id'"]
    assert {name: sorted(words) for name, words in said.items()} == {
        "person": ["has crenelRole: subject"],
        "token": ["has debug-redact: true"],
        "level": ["has sensitivity: pii"],
        "doctor.name": ["tags it 'direct-id'"],
        "doctor.home.zip": ["has personal-data: true"],
        "doctor.home.people": inside,
        "doctor.ward": ["has personal-data: false"],
        "scores.value.zip": ["has personal-data: true"],
        "scores.value.people[].home": inside,
        "scores.value.people[].ward": ["has personal-data: false"],
    }
    assert found["doctor.ward"].public
    assert "doctor.home.town" in found


def test_a_column_with_a_message_inside_itself_is_not_passed_through(configuration: Path) -> None:
    (configuration.parent / "visits.desc").write_bytes(descriptor_set(OPTIONS, VISITS))
    given = "policy.contract={file: visits.desc, schema_name: clinic.Visit}"
    (problem,) = problems(configuration, given, "policy.passthrough=[before]")
    assert problem.startswith("policy.passthrough: 'before' is published unchanged, and visits.desc ")


WIDE = {
    "name": "wide.proto",
    "message_type": [
        {"name": f"M{depth}", "field": [field(f"f{each}", each, f".M{depth + 1}") for each in range(1, 11)]}
        for depth in range(5)
    ],
}
WIDE["message_type"].append({"name": "M5"})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (
            descriptor_set(OPTIONS, VISITS),
            None,
            "has 4 messages (clinic.Home, clinic.Person, clinic.Visit, crenel.Meta)",
        ),
        (
            descriptor_set(OPTIONS, VISITS),
            "visit",
            "has no message of the name that --schema-name gives; choose one of",
        ),
        (descriptor_set(OPTIONS, VISITS)[:-3], "Visit", "is no descriptor set; write one by protoc --include_imports"),
        (
            descriptor_set(OPTIONS, own=False),
            "Meta",
            "lacks the file 'google/protobuf/descriptor.proto', which 'options.proto' imports; write it by protoc",
        ),
        (descriptor_set(), None, "has no message; give the descriptor set of the file that declares it"),
        (descriptor_set(WIDE), "M0", "M0 has more than 10,000 fields, with those inside its messages; give a"),
    ],
)
def test_an_unusable_descriptor_set_is_refused(tmp_path: Path, content: bytes, name: str | None, message: str) -> None:
    path = tmp_path / "visits.desc"
    path.write_bytes(content)
    with pytest.raises(ContractError) as caught:
        read_contract(path, name, "--schema-name")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_descriptor_set_names_the_extra_where_its_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "visits.desc"
    path.write_bytes(descriptor_set({"name": "other.proto", "message_type": [{"name": "M6"}]}))
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ContractError, match=r"visits\.desc: .*install crenel with its extra 'contract' or 'flink'"):
        read_contract(path, "M6")


def test_avro_needs_no_package_and_a_contract_names_the_extra(
    contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("open_data_contract_standard.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "open_data_contract_standard", None)
    with pytest.raises(ContractError, match=r"visits\.odcs\.yaml: .*install crenel with its extra 'contract'"):
        read_contract(contract, None)
    path = tmp_path / "visits.avsc"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    assert "home.zip" in read_contract(path, None).fields


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("v3.1.0", "v2.2.2"), "apiVersion: is not of version 3; migrate the contract"),
        (("apiVersion: v3.1.0", "dataContractSpecification: 1.1.0"), "apiVersion: is missing, so the file is no contr"),
        (("kind: DataContract", "kind: MARKED"), "kind: is not that of a contract; write kind: DataContract"),
        (("status: active", "status: [MARKED]"), "status: is not text; correct it as"),
        (("tags: [pii], c", "tags: MARKED, c"), "schema[0].properties[0].tags: is not a list; correct it as"),
        (("criticalDataElement: true", "criticalDataElement: MARKED"), "criticalDataElement: is neither true nor"),
        (("status: active", "statuses: MARKED"), "statuses: is unknown; correct it as"),
        (("name: ward", "name: age"), "schema[0].properties[7]: the column 'age' is listed twice; keep one"),
        (("name: town,", "name: age,"), "schema[0].properties[5]: the column 'age' is listed twice; keep one"),
        (
            ("name: country", "name: zip"),
            "schema[0].properties[10].properties[1]: the column 'home.zip' is listed twice",
        ),
        (("{name: ward, ", "{"), "schema[0].properties[7].name: is missing; give the name of the column"),
        (("value: quasi-identifier", "value: MARKED"), "schema[0].properties[4]: crenelRole: is no role; choose drop,"),
        (("schema:", "x: [}"), "line "),
        ((CONTRACT, "- MARKED"), "is no contract; give an Open Data Contract (YAML with apiVersion"),
        ((CONTRACT, ""), "is no contract; give an Open Data Contract (YAML with apiVersion"),
        ((CONTRACT, "3"), "is no contract; give an Open Data Contract (YAML with apiVersion"),
        (
            (CONTRACT, '{"type": "record", "name": "MARKED"}'),
            "is a record without fields; correct the schema of Avro",
        ),
        ((CONTRACT, '{"type": "string"}'), "is a schema of Avro, but of no record"),
        ((CONTRACT, CONTRACT.partition("schema:")[0]), "schema: holds no schema object; add one"),
        (
            ("schema:", "schema:\n- {name: other}"),
            "schema: holds 2 objects (other, visits); name one by policy.contract.",
        ),
    ],
)
def test_an_invalid_contract_is_refused_by_file_and_field(
    contract: Path, change: tuple[str, str], message: str
) -> None:
    assert change[0] in CONTRACT
    contract.write_text(CONTRACT.replace(*change, 1), encoding="utf-8")
    with pytest.raises(ContractError) as caught:
        read_contract(contract, None)
    text = str(caught.value)
    assert text.startswith(f"{contract}: ")
    assert message in text
    assert "MARKED" not in text


def test_one_of_several_schema_objects_is_named(contract: Path) -> None:
    contract.write_text(CONTRACT + "- {name: other, properties: [{name: a}]}\n", encoding="utf-8")
    assert [*read_contract(contract, "other").fields] == ["a"]
    assert "age" in read_contract(contract, "visits").fields
    with pytest.raises(ContractError, match=r"--schema-name gives \(did you mean 'visits'\?\); known: visits, other"):
        read_contract(contract, "visit", "--schema-name")
    with pytest.raises(ContractError, match="absent: cannot be read"):
        read_contract(contract.parent / "absent", None)


def test_personal_data_that_is_published_unchanged_is_refused_until_it_is_confirmed(configuration: Path) -> None:
    assert problems(configuration) == []
    assert warned(configuration) == []
    change = "policy.passthrough=[patient, ward]"
    (problem,) = problems(configuration, change)
    assert problem == (
        "policy.passthrough: 'patient' is published unchanged, and visits.odcs.yaml classifies it as 'restricted'; "
        "give it another role, or confirm it by policy.contract.confirmed: [patient]"
    )
    confirmed = "policy.contract={file: visits.odcs.yaml, confirmed: [patient]}"
    (warning,) = warned(configuration, change, confirmed)
    assert warning.startswith("policy.contract.confirmed: 'patient' is published unchanged, and visits.odcs.yaml class")
    (stale,) = problems(configuration, confirmed)
    assert stale.startswith("policy.contract.confirmed: 'patient' is not published unchanged against visits.odcs.yaml")
    assert problems(configuration, "policy.drop=[patient, email]") == []


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ("policy.sensitive=[patient, device]", ""),  # personal data that privacy models protect
        ("policy.sensitive=[town_code]", "policy.sensitive: 'town_code' is published unchanged, and visits.odcs.yaml"),
        ("policy.sensitive=[email_code]", "policy.sensitive: 'email_code' "),
        ("policy.passthrough=[home.country]", ""),
        ("policy.passthrough=[home.street.number]", "policy.passthrough: 'home.street.number' "),  # as all of home
        ("policy.sensitive=[home.zip]", ""),
        ("policy.passthrough=[home.zip]", "policy.passthrough: 'home.zip' "),
        (
            'policy.passthrough=["calls[*].number"]',
            "policy.passthrough: 'calls[*].number' is published unchanged, and visits.odcs.yaml tags it 'pii'",
        ),
        (
            "policy.passthrough=[calls]",
            "policy.passthrough: 'calls' is published unchanged, and visits.odcs.yaml tags it 'pii' ('calls[].number' "
            "in it); give it another role",
        ),
    ],
)
def test_identifying_and_nested_values_are_found(configuration: Path, change: str, refused: str) -> None:
    found = problems(configuration, change)
    assert (len(found), "".join(found)[: len(refused)]) == (bool(refused), refused)


def test_a_column_that_the_contract_does_not_list_is_told(configuration: Path) -> None:
    (warning,) = warned(configuration, "policy.passthrough=[new]")
    assert warning.startswith(
        "policy.contract: visits.odcs.yaml does not list 'new', which policy.passthrough publishes"
    )
    # A job may read it from a listed field by its path, which a program with the same settings does not know.
    confirmed = "policy.contract={file: visits.odcs.yaml, confirmed: [new]}"
    assert warned(configuration, "policy.passthrough=[new]", confirmed) == [warning]


def test_columns_of_records_are_found_by_their_paths(configuration: Path) -> None:
    fields = {"age": "INT", "diagnosis": "STRING", "code": {"type": "STRING", "path": "$.home.zip"}}
    source = {"ddl": "CREATE TEMPORARY TABLE source", "from_json": {"column": "record", "fields": fields}}
    changes = [f"source={json.dumps(source)}", "policy.passthrough=[code]"]
    (problem,) = problems(configuration, *changes)
    assert problem.startswith("policy.passthrough: 'code' is published unchanged, and visits.odcs.yaml tags it 'confid")


def test_an_unusable_contract_is_a_problem_of_its_field(configuration: Path) -> None:
    (problem,) = problems(configuration, "policy.contract=absent.yaml")
    assert problem.startswith("policy.contract.file: ")
    assert "absent.yaml: cannot be read: No such file" in problem


def test_settings_in_python_have_the_same_contract(configuration: Path) -> None:
    settings = crenel.load(configuration)
    assert settings.policy.contract == crenel.Contract("visits.odcs.yaml")
    configuration.write_text(settings.to_yaml(), encoding="utf-8")
    assert crenel.load(configuration).policy.contract == settings.policy.contract

    def made(**contract: Any) -> crenel.Settings:
        return crenel.Settings(
            policy=crenel.Policy(
                quasi_identifiers={"age": crenel.Numeric()},
                passthrough=["patient"],
                contract=crenel.Contract(configuration.parent / "visits.odcs.yaml", **contract),
            ),
            privacy=crenel.Privacy(k=2),
            algorithm=crenel.Nearest(crenel.Delay(tuples=5)),
        )

    with pytest.raises(ConfigError, match=r"policy\.contract\.confirmed: \[patient\]"):
        made()
    warnings = made(confirmed=["patient"]).warnings
    assert [warning.partition(":")[0] for warning in warnings] == ["policy.contract.confirmed"]
