"""``crenel init``: proposed roles, items that a person must decide, and no value of a record in its output."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from typer.testing import CliRunner, Result

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.cli.app import app
from crenel.jobs.config.load import load
from crenel.jobs.formats.json_records import JsonRecords, json_steps, member_path
from tests.support.launch import DATA

ADULT = DATA / "adult"
ADULT_COLUMNS = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
    "capital-loss,hours-per-week,native-country,income"
)

LISTED = {"sex": ["FMARKED", "MMARKED"], "ward": ["WARD1", "WARD2", "WARD3"]}
"""Values of the visits that many persons share."""


WARDS = (0.25, 0.25, 0.25, 0.246, 0.004)


def records(rows: int = 900) -> dict[str, list[Any]]:
    """Return columns whose values are rare texts, so that one of them in an output is found."""
    random = np.random.default_rng(3)
    person = random.integers(0, 300, rows).tolist()
    return {
        "visit_id": [f"VISIT{number}X" for number in range(rows)],
        "patient_id": [f"PATIENT{number}X" for number in person],
        "name": [f"Marked Name{number}" for number in person],
        "age": [20.37 + number % 60 for number in person],
        "sex": [("FMARKED", "MMARKED")[number % 2] for number in person],
        "zip": [f"0{7130 + number % 90}" for number in person],
        "birth_date": [f"{1931 + number % 60}-07-{10 + number % 19}" for number in person],
        "diagnosis": [f"DIAGNOSIS{number}" for number in random.integers(0, 6, rows).tolist()],
        "ward": [f"WARD{number}" if number else "" for number in random.choice(5, rows, p=WARDS).tolist()],
        "ip_address": [f"10.0.{a}.{b}" for a, b in random.integers(17, 250, (rows, 2)).tolist()],
        "dose": [37.113 + number for number in random.integers(0, 400, rows).tolist()],
        "visited": [f"2024-03-{10 + number % 20} 11:{10 + number % 49}:13" for number in range(rows)],
        "seen": [f"2024-04-{10 + number % 20}" for number in range(rows)],
        "country": ["COUNTRYMARKED"] * rows,
    }


ROLES = {
    "subject": ["patient_id"],
    "event_time": ["visited"],
    "quasi_identifiers": ["age", "sex", "zip", "birth_date", "ward", "ip_address", "dose", "seen"],
    "sensitive": ["diagnosis"],
    "drop": ["visit_id", "name", "country"],
}


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "visits.csv", records())


def write_csv(path: Path, columns: dict[str, list[Any]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def init(source: Path, *arguments: str | Path) -> tuple[Result, Path]:
    """Run the command; return its result and the path of the configuration."""
    path = source.parent / "proposal.yaml"
    command = ["init", source, "--write", path, *arguments]
    return CliRunner().invoke(app, [str(argument) for argument in command]), path


def problems(path: Path, *overrides: str) -> dict[str, str]:
    """Return the problems of a configuration by field."""
    try:
        load(path, overrides)
    except ConfigError as error:
        return dict(problem.split(": ", 1) for problem in error.problems)
    return {}


def test_the_roles_of_visits_are_proposed_and_leave_nothing_to_decide(visits: Path) -> None:
    result, path = init(visits)
    assert result.exit_code == 0, result.output
    assert "Undecided" not in result.output
    policy = load(path).policy
    assert {
        "subject": [policy.subject],
        "event_time": [policy.event_time],
        "quasi_identifiers": [attribute.name for attribute in policy.attributes],
        "sensitive": [*policy.sensitive],
        "drop": [*policy.drop],
    } == ROLES
    assert policy.passthrough == ()
    attributes = policy.quasi_identifiers
    assert {name: attributes[name].hierarchy.labels for name in LISTED} == {
        name: (*values, "(other)", "(missing)", "*") for name, values in LISTED.items()
    }
    assert attributes["dose"].domain == (-0.0, 500.0)
    assert attributes["seen"].hierarchy.labels[0] == "2023-01-01"
    assert attributes["ip_address"].hierarchy.find(["10.0.0.0/16"])[0] >= 0
    text = path.read_text(encoding="utf-8")
    assert (
        "TO CONFIRM: the values that at least 10 persons have, without groups; '(other)' stands for all others, 1 in"
        in text
    )
    assert (
        "TO CONFIRM: the domain holds nearly all values of the sample; 0 rows lie outside, and would be rejected."
        in text
    )


def test_lines_of_json_are_proposed_with_the_types_of_their_fields(tmp_path: Path) -> None:
    columns = records()
    paths = {"zip": ("home", "zip"), "country": ("home", "its $country's"), "dose": ("a.dose",)}
    lines = []
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        record: dict[str, Any] = {"tests": ["MARKED"], "home": None} if number == 7 else {"tests": []}
        for name, value in zip(columns, values, strict=True):
            *above, last = paths.get(name, (name,))
            inner = record.setdefault(above[0], {}) if above else record
            if inner is not None:
                inner[last] = value
        if number < 3:
            record["scores"] = {"MARKED": 3}  # a name that is a value
        lines.append(json.dumps(record))
    (tmp_path / "visits.jsonl").write_text("\n".join([*lines, '{"MARKED": ', "7"]), encoding="utf-8")
    result, path = init(tmp_path / "visits.jsonl")
    assert result.exit_code == 0, result.output
    names = {name: ".".join(steps) for name, steps in paths.items()}
    found = load(path).source.records
    assert isinstance(found, JsonRecords)
    types = {"age": "DOUBLE", "a.dose": "DOUBLE", "birth_date": "DATE", "seen": "DATE", "visited": "TIMESTAMP_LTZ(3)"}
    assert found.types == {shown: types.get(shown, "STRING") for shown in (names.get(name, name) for name in columns)}
    assert {name: json_steps(of.path or member_path(name)) for name, of in found.fields.items()} == {
        names.get(name, name): paths.get(name, (name,)) for name in columns
    }
    roles = yaml.safe_load(path.read_text(encoding="utf-8"))["policy"]
    for role, expected in ROLES.items():
        own = [name.replace("$$", "$") for name in ([roles[role]] if isinstance(roles[role], str) else roles[role])]
        assert sorted(own) == sorted(names.get(name, name) for name in expected), role
    assert "2 lines are no objects of JSON" in result.stdout
    assert "tests is an array, and left out" in result.stdout
    assert "1 further fields are in fewer than 10 records" in result.stdout
    assert "MARKED" not in re.sub("[FM]MARKED", "", result.output + path.read_text(encoding="utf-8"))


CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
schema:
- name: visits
  properties:
  - {name: visit_id, primaryKey: true}
  - {name: patient_id, tags: [direct-identifier]}
  - {name: name, classification: restricted}
  - {name: age, customProperties: [{property: crenelRole, value: quasi-identifier}]}
  - {name: zip, tags: [special-category]}
  - {name: diagnosis, classification: public}
  - {name: ward, customProperties: [{property: crenelRole, value: pass-through}]}
  - {name: country, criticalDataElement: true}
  - {name: absent, tags: [pii]}
- name: others
"""


def test_a_contract_proposes_roles_and_what_it_contradicts_is_undecided(visits: Path) -> None:
    contract = visits.parent / "the visits.yaml"
    contract.write_text(CONTRACT, encoding="utf-8")
    result, path = init(visits, "--contract", contract, "--schema-name", "visits")
    assert result.exit_code == 0, result.output
    contradicted = {f"policy.quasi_identifiers.{name}" for name in ("zip", "diagnosis")}
    assert problems(path).keys() == contradicted
    text = path.read_text(encoding="utf-8")
    for reason in (
        "The contract tags it 'direct-identifier'; values repeat over rows.",
        "The contract classifies it as 'restricted'; identifies a person directly.",
        "The contract has crenelRole: quasi-identifier; an attacker may know it, by its name.",
        "The contract tags it 'special-category', but the data suggest quasi-identifier: an attacker",
        "The contract classifies it as 'public', but the data suggest sensitive: a value that must not be inferred, by",
        "The contract has crenelRole: pass-through.",
        "At most one value in all rows; the contract calls it a critical data element.",
    ):
        assert f"# {reason}" in text
    assert '  contract: {file: "the visits.yaml", schema_name: visits}\n' in text
    for line in (
        "The contract lists columns that the data lack: absent.",
        "The contract does not list columns of the data: sex, birth_date, ip_address, dose, visited, seen.",
    ):
        assert line in result.stdout
        assert f"# {line}" in text
    number = '{"type": "numeric"}'
    config = load(path, [f"{name}={number}" for name in contradicted])
    assert (config.policy.subject, config.policy.passthrough) == ("patient_id", ("ward",))
    assert not [text for text in config.warnings if text.startswith("policy.contract")]


def test_a_schema_of_avro_proposes_roles(visits: Path) -> None:
    fields = [{"name": name, "type": "string"} for name in records()]
    fields[8] |= {"confluent:tags": ["SENSITIVE"]}
    contract = visits.parent / "visits.avsc"
    contract.write_text(json.dumps({"type": "record", "name": "Visit", "fields": fields}), encoding="utf-8")
    result, path = init(visits, "--contract", contract)
    assert result.exit_code == 0, result.output
    text = path.read_text(encoding="utf-8")
    assert "    # The contract tags it 'sensitive'.\n" in text
    assert text.index("sensitive:\n") < text.index("- ward") < text.index("drop:\n")
    assert "The contract" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--contract", "absent.yaml"), "absent.yaml: cannot be read: No such file"),
        (("--contract", "two.yaml"), "two.yaml: schema: holds 2 objects (visits, others); name one by --schema-name"),
        (("--schema-name", "visits"), "--schema-name is for a contract; give its file by --contract"),
    ],
)
def test_an_unusable_contract_is_refused(
    visits: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str], message: str
) -> None:
    monkeypatch.chdir(visits.parent)
    Path("two.yaml").write_text(CONTRACT, encoding="utf-8")
    result, path = init(visits, *arguments)
    assert (result.exit_code, path.exists()) == (2, False)
    assert message in result.stderr


def test_the_file_is_a_job_with_reasons_beside_roles(visits: Path) -> None:
    _, path = init(visits)
    config = load(path)
    assert (config.privacy.k, config.privacy.l, config.algorithm.name) == (10, 2, "nearest")
    assert config.sinks.keys() == {"released", "audit", "suppressed", "rejected"}
    assert f"'path' = '{visits}'" in config.source.ddl
    assert "TRY_CAST(TRIM(`age`) AS DOUBLE) AS `age`" in str(config.source.query)
    assert "NULLIF(TRIM(`zip`), '') AS `zip`" in str(config.source.query)
    assert str(config.source.query).endswith("WHERE `visit_id` IS DISTINCT FROM 'visit_id'\n")
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines[: lines.index("source:")]):
        if re.match(r"    ?[\w-]+: (\{type|undecided)|  (subject|event_time):|    - ", line):
            assert lines[number - 1].lstrip().startswith("# "), line
    assert max(map(len, lines)) <= 140


@pytest.mark.parametrize("name", ["zip", "postal_code", "value"])
def test_a_code_that_reads_as_a_number_loses_its_last_digits(tmp_path: Path, name: str) -> None:
    columns = {"patient_id": [f"p{number % 60}" for number in range(300)], name: [31_000 + n % 80 for n in range(300)]}
    result, path = init(write_csv(tmp_path / "visits.csv", columns))
    assert result.exit_code == 0, result.output
    (zips,) = load(path).policy.categorical
    assert zips.hierarchy.paths()[31_042] == ("31042", "31040-31049", "31000-31099", "31000-31999", "30000-39999", "*")


def test_bounds_are_round_and_no_rare_value(tmp_path: Path) -> None:
    pays = [1_000 + 26 * (n // 2) for n in range(299)] + [2**40]
    columns = {"patient_id": [f"p{number % 60}" for number in range(300)], "amount": pays}
    _, path = init(write_csv(tmp_path / "visits.csv", columns))
    assert load(path).policy.quasi_identifiers["amount"].domain == (500, 5_500)
    assert "; 1 rows lie outside, and would be rejected." in path.read_text(encoding="utf-8")


def test_a_column_of_many_values_without_groups_is_dropped(tmp_path: Path) -> None:
    columns = {"patient_id": [f"p{n % 60}" for n in range(900)], "town": [f"TOWN{n % 150}" for n in range(900)]}
    _, path = init(write_csv(tmp_path / "visits.csv", {**columns, "age": [n % 90 for n in range(900)]}))
    assert load(path).policy.drop == ("town",)
    assert "without groups of its values nothing of it can be published" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("null", ["NA", "?", "null"])
def test_a_text_for_missing_values_is_recognized(tmp_path: Path, null: str) -> None:
    ages = [null if n % 3 == 0 else str(20 + n % 60) for n in range(300)]
    columns = {"patient_id": [f"p{n % 60}" for n in range(300)], "age": ages, "sex": ["f", null, "m"] * 100}
    _, path = init(write_csv(tmp_path / "visits.csv", columns))
    config = load(path)
    assert config.policy.quasi_identifiers["age"].missing == "value"
    assert config.policy.quasi_identifiers["sex"].hierarchy.labels[:2] == ("f", "m")
    assert f"NULLIF(NULLIF(TRIM(`sex`), ''), '{null}') AS `sex`" in str(config.source.query)


def test_spellings_of_one_person_are_made_one(tmp_path: Path) -> None:
    names = ["\u00c5sa", "A\u030asa", *(f"p{n}" for n in range(40))]
    columns = {"patient_id": [names[n % 42] for n in range(420)], "age": [20 + n % 60 for n in range(420)]}
    result, path = init(write_csv(tmp_path / "visits.csv", columns))
    assert "Warning: patient_id: 1 of 42 values differ from another only in" in result.output
    assert load(path).policy.subject_normalization == ("nfc", "trim")


def test_rows_that_would_be_rejected_are_counted(tmp_path: Path) -> None:
    ages = ["" if n % 3 == 0 else str(20 + n % 60) for n in range(300)]
    persons = [f"p{n % 60}" if n % 20 else "" for n in range(300)]
    columns = {"patient_id": persons, "age": ages, "sex": ["f", "", "m"] * 100}
    source = write_csv(tmp_path / "visits.csv", columns)
    with source.open("a", encoding="utf-8") as file:
        file.write("p1,30,f,more\np2\n")
    result, path = init(source)
    assert "Warning: patient_id: 15 of 300 rows have no value, and would be rejected as missing" in result.output
    policy = load(path).policy
    assert (policy.missing, policy.quasi_identifiers["age"].missing) == ("value", "value")
    assert "Warning: 2 lines have another number of fields than the first one" in result.output


def test_quantities_of_five_digits_are_no_codes(tmp_path: Path) -> None:
    columns = {"patient_id": [f"p{n % 60}" for n in range(300)], "value": [10_000 + 137 * (n % 80) for n in range(300)]}
    _, path = init(write_csv(tmp_path / "visits.csv", columns))
    assert load(path).policy.quasi_identifiers["value"].domain == (8_000, 22_000)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_only_values_that_many_persons_share_are_written(tmp_path: Path, form: str) -> None:
    columns = records()
    path = tmp_path / f"visits.{form}"
    if form == "csv":
        write_csv(path, columns)
    else:
        pyarrow.parquet.write_table(pa.table(columns), path)
    result, output = init(path)
    assert result.exit_code == 0, result.output
    text = result.output + output.read_text(encoding="utf-8")
    values = {str(value) for column in columns.values() for value in column if value != ""}
    assert len(values) > 2000
    assert {value for value in values if value in text} == {value for listed in LISTED.values() for value in listed}


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    times = pa.array(np.arange(50) * 10**9, pa.timestamp("us"))
    table = pa.table(
        {"patient": [f"p{n % 20}" for n in range(50)], "age": pa.array(range(50), pa.int32()), "at": times}
    )
    pyarrow.parquet.write_table(table, tmp_path / "visits.parquet")
    result, path = init(tmp_path / "visits.parquet", "--sample", "40")
    assert result.exit_code == 0, result.output
    config = load(path)
    for column in (
        "`patient` STRING",
        "`age` INT",
        "`at` TIMESTAMP(6)",
        "'format' = 'parquet'",
        "'parquet.utc-timezone' = 'true'",
    ):
        assert column in config.source.ddl
    assert "CAST(`at` AS TIMESTAMP_LTZ(3)) AS `at`" in str(config.source.query)
    assert "first 40 rows" in path.read_text(encoding="utf-8")
    assert (config.privacy.l, config.policy.event_time) == (1, "at")


DDL = """-- A topic; with a comment.
CREATE TABLE IF NOT EXISTS db.visits (
  `person id` STRING NOT NULL, age INT COMMENT 'years, of age', amount DECIMAL(10, 2), /* (a comment, */
  diagnosis VARCHAR(20), tags MAP<STRING, INT>, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (`person id`) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = '${TOPIC:-visits}');
"""


def test_a_statement_gives_names_and_types(tmp_path: Path) -> None:
    source = tmp_path / "visits.ddl"
    source.write_text(DDL, encoding="utf-8")
    result, path = init(source)
    assert result.exit_code == 0, result.output
    assert problems(path).keys() == {f"policy.quasi_identifiers.{name}" for name in ("amount", "tags", "ms")}
    number = '{"type": "numeric"}'
    config = load(path, [f"policy.quasi_identifiers.{name}={number}" for name in ("amount", "tags", "ms")])
    assert (config.policy.subject, config.policy.event_time) == ("person id", "ts")
    assert config.policy.sensitive == ("diagnosis",)
    assert config.source.ddl.startswith("CREATE TEMPORARY TABLE source (\n  `person id` STRING NOT NULL, age INT")
    assert "'topic' = 'visits'" in config.source.ddl
    assert config.source.query is None


def test_names_that_are_special_in_yaml_and_sql_are_quoted(tmp_path: Path) -> None:
    names = ["null", "a: b", "`x", "it's ${y}", "no", '"q"']
    source = write_csv(tmp_path / "it's.csv", {name: ["yes", "$v: [", ""] * 30 for name in names}, ";")
    result, path = init(source)
    assert result.exit_code == 0, result.output
    written = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)["policy"]
    assert (written["subject"], [*written["quasi_identifiers"]]) == ("undecided", names)
    config = load(path, ["policy.subject=null"])
    labels = {attribute.hierarchy.labels for attribute in config.policy.categorical}
    assert labels == {("$v: [", "yes", "(other)", "(missing)", "*")}
    assert "'path' = '" + str(source).replace("'", "''") in config.source.ddl
    assert "'csv.field-delimiter' = ';'" in config.source.ddl
    assert "```x` STRING" in config.source.ddl
    assert "`it's ${y}` STRING" in config.source.ddl


def test_an_existing_file_is_replaced_by_force_alone(visits: Path) -> None:
    path = visits.parent / "proposal.yaml"
    path.write_text("mine", encoding="utf-8")
    result, _ = init(visits)
    assert (result.exit_code, path.read_text(encoding="utf-8")) == (2, "mine")
    assert "--force" in result.stderr
    assert init(visits, "--force")[0].exit_code == 0
    assert path.read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ("31,MARKED\n34,x\n", "--columns NAME,NAME,..."),
        ("MARKED,x\nMARKED,y\n", "--columns NAME,NAME,..."),
        ("a,a\n1,2\n", "--columns NAME,NAME,..."),
        ("", "give a file with the names"),
        ("CREATE TABLE MARKED AS", "give one such statement"),
        ("a,b\n\x00MARKED\udcff,1\n", "save the file as UTF-8"),
        ("\x1f\udc8b\x08MARKED", "is compressed by gzip; unpack it"),
        ("Obj\x01MARKED", "is a file of Avro; 'crenel init' reads CSV, Parquet and lines of JSON"),
        ("ORC\x00MARKED", "is a file of ORC; "),
        ('[{"MARKED": 1}]', "is an array of JSON; "),
        ('{\n"MARKED": 1\n}\n', "no line with an object of JSON; "),
        ('{"MARKED": [1]}\n', "has 0 fields with a value of their own"),
        (None, "No such file"),
    ],
)
def test_an_unusable_source_is_refused_with_a_remedy_and_without_a_value(
    tmp_path: Path, content: str | None, remedy: str
) -> None:
    source = tmp_path / "in.csv"
    if content is not None:
        source.write_bytes(content.encode("utf-8", "surrogateescape"))
    result, path = init(source)
    assert result.exit_code == 2
    assert remedy in result.stderr
    assert "MARKED" not in result.output
    assert not path.exists()


def test_names_of_columns_can_be_given(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("31,x\n34,y\n", encoding="utf-8")
    assert "give one for each" in init(source, "--columns", "age")[0].stderr
    assert "a name repeats" in init(source, "--columns", "age,age")[0].stderr
    result, path = init(source, "--columns", "age,sex")
    assert result.exit_code == 0, result.output
    assert problems(path).keys() == {"policy.subject"}
    assert "first 2 rows" in path.read_text(encoding="utf-8")
    assert "WHERE" not in path.read_text(encoding="utf-8")


@pytest.mark.skipif(not ADULT.is_dir(), reason="needs ../shared/data/adult")
def test_the_roles_of_adult(tmp_path: Path) -> None:
    source = tmp_path / "adult.csv"
    source.symlink_to(ADULT / "adult.data")
    assert "--columns" in init(source)[0].stderr
    result, path = init(source, "--columns", ADULT_COLUMNS)
    assert result.exit_code == 0, result.output
    assert problems(path).keys() == {"policy.subject"}
    text = path.read_text(encoding="utf-8") + result.output
    assert "Private" in text
    for value in ("Never-worked", "Armed-Forces", "Holand-Netherlands", "1484705", "12285", "99999"):
        assert value not in text
