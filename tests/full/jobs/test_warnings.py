"""Warnings and refusals at a start that need Flink or the first rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from crenel.jobs.config.flink_settings import STATE
from tests.support.broker import connector
from tests.support.launch import Host, rows_of
from tests.support.protobuf import format_jar
from tests.support.visits import WRONG, visits, write

pytestmark = pytest.mark.flink

CHANGES = """
policy:
  subject: person
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
  passthrough: [id]
privacy: {k: 2}
castle: {delay: {tuples: 10}}
subject_key: a key for tests, of 16 bytes or more
source:
  ddl: |
    CREATE TEMPORARY TABLE source (id BIGINT, person STRING, age INT)
    WITH ('connector' = 'filesystem', 'path' = 'FOLDER/changes.json', 'format' = 'debezium-json')
  query: SELECT id, person, age FROM source
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: csv}
"""

NOW = (
    "SELECT id, person, age FROM TO_CHANGELOG(input => TABLE source, op_mapping => MAP['INSERT, UPDATE_AFTER', 'now'])"
)


def test_check_and_run_warn_of_the_same_and_check_of_the_first_rows(mini: Host, tmp_path: Path) -> None:
    path = write(tmp_path / "job", visits())
    (tmp_path / "taken").write_text("", encoding="utf-8")
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "part-0").write_text("", encoding="utf-8")
    settings = (f"sinks.audit.path={tmp_path}/audit", f"sinks.summary.path={tmp_path}/taken/summary")
    given = [part for setting in settings for part in ("--set", setting)]
    checked, ran = mini.crenel("check", path, *given), mini.crenel("run", path, *given)
    warnings = [line.removeprefix("Warning: ") for line in checked.stdout.splitlines() if line.startswith("Warning: ")]
    unknown = sum(reason == "unknown_category" for _, _, reason in WRONG.values()) * len(visits()) // 100
    assert warnings[0].startswith("sinks.audit.path: there are files already"), checked.stdout + checked.stderr
    reasons = re.findall(r"^(\S+): .* of the first .* are rejected as (\w+): ", "\n".join(warnings[1:]), re.M)
    assert len(reasons) == len(warnings) - 1
    assert {reason for _, reason in reasons} >= {reason for _, _, reason in WRONG.values()} - {"unreadable"}
    (town,) = (warning for warning in warnings if "unknown_category" in warning)
    assert town.startswith("policy.quasi_identifiers.town: ")
    # How many rows the first blocks hold depends on how busy the machine is.
    found = re.search(r"([\d,]+) of the first ([\d,]+) rows", town)
    assert found is not None
    count, rows = (int(number.replace(",", "")) for number in found.groups())
    assert 1000 <= rows <= len(visits())
    assert unknown * rows // len(visits()) - 1 <= count <= unknown
    assert "Atlantis" not in checked.stdout
    result = [line for line in ran.stderr.splitlines() if line.startswith("crenel: warning: ")]
    assert [f"crenel: warning: {warning.removesuffix('.')}" for warning in warnings[:1]] == result
    assert ran.returncode == 1
    assert f"at sinks.summary.path: {tmp_path}/taken/summary" in ran.stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_statement_with_a_variable_that_cannot_be_parsed_is_told_by_its_place_alone(
    mini: Host, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "job.yaml"
    text = CHANGES.replace("FOLDER", str(tmp_path)).replace("age INT)", "age INT 'SECRET')")
    path.write_text(text.replace("SECRET", "${CRENEL_TEST_NONE:-hush'hush}"), encoding="utf-8")
    (tmp_path / "changes.json").touch()
    result = mini.crenel(command, path)
    column = next(line for line in text.splitlines() if "SECRET" in line).index("'SECRET'") + 1 - len("    ")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"source.ddl: Flink cannot parse it at line 1, column {column}; its message is withheld" in result.stderr
    assert "hush" not in result.stderr
    path.write_text(text, encoding="utf-8")
    result = mini.crenel(command, path)
    assert "source.ddl: Flink cannot parse it: ParseException: Encountered \"\\'SECRET\\'\" at line 1" in result.stderr


def test_a_source_of_changes_is_refused_and_goes_as_rows_that_are_only_added(mini: Host, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(CHANGES.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    persons = [{"id": number, "person": f"p{number}", "age": 20 + number} for number in range(6)]
    changes = [{"op": "c", "before": None, "after": person} for person in persons]
    changes += [{"op": "u", "before": person, "after": person | {"age": 60}} for person in persons[:2]]
    changes += [{"op": "d", "before": persons[5], "after": None}]
    (tmp_path / "changes.json").write_text("".join(f"{json.dumps(change)}\n" for change in changes), encoding="utf-8")
    refused = mini.crenel("check", path)
    assert refused.returncode == 2
    (problem,) = refused.stderr.splitlines()[1:]
    assert problem.startswith("  - source.ddl: gives rows that are updated or deleted later, and what has left")
    grouped = mini.crenel(
        "check", path, "--set", "source.query=SELECT id, person, MAX(age) AS age FROM source GROUP BY id, person"
    )
    assert grouped.stderr.splitlines()[1].startswith("  - source.query: gives rows that are updated")
    ran = mini.crenel("run", path, "--json", "--set", f"source.query={NOW}")
    assert ran.returncode == 0, ran.stderr
    released = rows_of(tmp_path / "released", ("age_min", "age_max", "id"))
    assert sorted(int(row["id"]) for row in released) == [0, 0, 1, 1, 2, 3, 4, 5]

    # A second run would publish all of it once more, but for one that goes on from the state of the first.
    anew = mini.crenel("check", path, "--set", f"source.query={NOW}")
    restored = mini.crenel("check", path, "--set", f"source.query={NOW}", "--set", f"flink.{STATE[0]}=file:/state")
    assert [result.returncode for result in (anew, restored)] == [0, 0]
    assert "Warning: sinks.released.path: there are files already" in anew.stdout
    assert "Warning: " not in restored.stdout


ROWS = """
policy:
  quasi_identifiers:
    age: {type: numeric, domain: [0, 120]}
privacy: {k: 2}
castle: {delay: {tuples: 10}}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (age INT)
    WITH ('connector' = 'filesystem', 'path' = 'FOLDER/in/rows.csv', 'format' = 'csv')
sinks:
  released: {connector: filesystem, path: FOLDER/out, format: csv}
"""
TABLE = "CREATE TEMPORARY TABLE source (age INT) WITH"
REFUSED = "Flink refuses the source, the query, a sink or a setting: ValidationException"


def test_what_flink_would_refuse_is_refused_with_field_cause_and_remedy(mini: Host, tmp_path: Path) -> None:
    path, source = tmp_path / "job.yaml", tmp_path / "in" / "rows.csv"
    path.write_text(ROWS.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    source.parent.mkdir()
    source.write_text("20\n30\n", encoding="utf-8")
    for setting, beginning, remedy in [
        (
            f"sinks.released.path={tmp_path}/in",
            "sinks.released.path: contains 'path' of source.ddl, so raw records and the output would mix",
            "outside of the source",
        ),
        (  # the Java of these tests may have loaded the jars of Kafka, Avro and Protobuf already
            f"source.ddl={TABLE} ('connector' = 'iceberg', 'catalog-name' = 'visits')",
            f"{REFUSED} at source.ddl: Could not find any factory for identifier 'iceberg'",
            "name the file of iceberg-flink-runtime in flink.pipeline.jars (docs/how-to/deploy.md",
        ),
        (
            f"source.ddl={TABLE} ('connector' = 'filesystem', 'path' = '{source}', 'format' = 'cvs')",
            f"{REFUSED} at source.ddl: Could not find any format factory for identifier 'cvs'",
            "correct the name, or name the jar that has it in flink.pipeline.jars",
        ),
        (
            "sinks.released.format=jsno",
            f"{REFUSED} at sinks.released: Could not find any format factory for identifier 'jsno'",
            "correct the name, or name the jar that has it in flink.pipeline.jars",
        ),
        (
            "sinks.summary={connector: prnt}",
            f"{REFUSED} at sinks.summary: Could not find any factory for identifier 'prnt'",
            "correct the name, or name the jar that has it in flink.pipeline.jars",
        ),
        (
            "source.ddl=CREATE TEMPORARY TABLE visits (age INT) WITH ('connector' = 'datagen')",
            "source.ddl: creates 'visits' and not the table 'source'",
            "write CREATE TEMPORARY TABLE source (...) WITH (...)",
        ),
        (
            "source.ddl=SHOW TABLES",
            "source.ddl: does not create the table 'source'",
            "write CREATE TEMPORARY TABLE source (...) WITH (...)",
        ),
    ]:
        refused = mini.crenel("check", path, "--set", setting)
        assert refused.returncode == 2, refused.stdout
        problem = refused.stderr.splitlines()[1]
        assert problem.startswith(f"  - {beginning}")
        assert remedy in problem
    assert mini.crenel("check", path).returncode == 0

    empty = tmp_path / "in" / "empty.csv"
    empty.write_text("", encoding="utf-8")
    given = f"source.ddl={TABLE} ('connector' = 'filesystem', 'path' = '{empty}', 'format' = 'csv')"
    ended = mini.crenel("run", path, "--json", "--set", given)
    assert ended.returncode == 0, ended.stderr
    (warning,) = json.loads(ended.stdout)["warnings"]
    assert warning.startswith("source.ddl: no row was read, so nothing was published; check the path")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "org.example.Visit",
            "ClassNotFoundException: org.example.Visit",
        ),
        (
            "java.lang.String",
            "NoSuchMethodException: java.lang.String.getDescriptor()",
        ),
    ],
)
def test_a_class_that_is_no_message_of_the_format_is_refused_by_its_option(
    mini: Host, tmp_path: Path, name: str, expected: str
) -> None:
    path, jars = tmp_path / "job.yaml", f"{connector()};{format_jar()}"
    path.write_text(ROWS.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    options = f"'connector' = 'kafka', 'value.format' = 'protobuf', 'value.protobuf.message-class-name' = '{name}'"
    ddl = f"source.ddl={TABLE} ({options}, 'topic' = 'visits', 'properties.bootstrap.servers' = 'localhost:1')"
    done = mini.crenel("check", path, "--set", ddl, "--set", f"flink.pipeline.jars={jars}")
    assert done.returncode == 2
    assert f"{expected}; name the jar of the compiled message in flink.pipeline.jars; if its class is of" in done.stderr
    assert "docs/how-to/bad-records.md#protobuf" in done.stderr
