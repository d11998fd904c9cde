"""Fields of JSON: what is selected, what a record that cannot be read becomes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyflink.table import EnvironmentSettings, TableEnvironment

from jobs.config.file import ConfigError
from jobs.config.source import JsonSection
from jobs.local.flags import prepare_java
from jobs.wiring.json_query import json_query
from jobs.wiring.sql_types import literal

pytestmark = pytest.mark.cluster("mini")

FIELDS = {
    "person": "STRING",
    "age": "INT",
    "city": {"type": "STRING", "path": "$.home.city"},
    "it's": "DECIMAL(5, 2)",
    "smokes": "BOOLEAN",
}
RECORDS = {
    json.dumps({"person": "ann", "age": 33, "home": {"city": "Brackwater"}, "it's": 1.5, "smokes": True}): (
        "ann",
        33,
        "Brackwater",
        "1.50",
        True,
    ),
    '{"person": "bob", "age": "34", "home": []}': ("bob", 34, None, None, None),
    '{"person": {"first": "c"}, "age": [3], "smokes": "perhaps"}': (None,) * 5,
    '{"person": "dan", "age": 3': (None,) * 5,
    "": (None,) * 5,
    "null": (None,) * 5,
}


def test_each_field_is_read_and_what_cannot_be_is_missing() -> None:
    prepare_java()
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate(RECORDS))
    tables.execute_sql(f"CREATE TEMPORARY VIEW source AS SELECT * FROM (VALUES {rows}) AS t (number, record)")
    query = json_query(JsonSection(column="record", fields=FIELDS).core(), ["number", "record"])
    with tables.execute_sql(query).collect() as found:
        read = {
            row[-1]: tuple(str(value) if i == 3 and value else value for i, value in enumerate(row)) for row in found
        }
    assert [read[number][:-1] for number in range(len(RECORDS))] == list(RECORDS.values())


def test_a_column_that_is_not_there_and_one_that_is_there_twice_are_refused() -> None:
    records = JsonSection(column="text", fields={"person": "STRING", "number": "INT"}).core()
    with pytest.raises(ConfigError) as told:
        json_query(records, ["number", "record"])
    assert told.value.problems == (
        "source.from_json.column: the table source has no column 'text'; one of number, record",
        "source.from_json.fields.number: the table source has a column of that name too; rename one of the two",
    )


def test_the_configuration_of_kafka_reads_all_that_its_policy_names() -> None:
    from jobs.config.load import load

    config = load(Path(__file__).parents[3] / "conf" / "kafka.yaml", ["subject_key=a key of the tests"])
    assert config.source.from_json is not None
    assert {"person", "age", "diagnosis"} <= config.source.from_json.fields.keys()
