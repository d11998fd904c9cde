"""Catalogs in a configuration, and their tables as source and sinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.causes import remedy as remedy_of
from crenel.jobs.config.delivery import repeating_scans
from crenel.jobs.config.load import Config, load
from crenel.jobs.config.source import Watermark
from crenel.jobs.failure import why_refused

TEXT = """
policy:
  event_time: visited
  quasi_identifiers:
    age: {type: numeric}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
catalogs:
  lake: {type: paimon, warehouse: file:///shared/lake, s3: {secret-key: not for others}}
  ice: {type: iceberg, catalog-type: hadoop, warehouse: file:///shared/ice}
source: {table: lake.clinic.visits, watermark: {column: visited, delay: 10 min}}
sinks:
  released: {table: lake.clinic.released, partitioned_by: "day, area", day_column: day, file.format: parquet}
  audit: {table: ice.clinic.audit}
"""


def configured(folder: Path, *overrides: str) -> Config:
    path = folder / "job.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return load(path, overrides)


def problems(folder: Path, *overrides: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        configured(folder, *overrides)
    return error.value.problems


def test_tables_of_catalogs_are_a_source_and_sinks(tmp_path: Path) -> None:
    config = configured(tmp_path)
    source, released = config.source, config.tables["released"]
    assert (str(source.table), source.field, source.watermark) == (
        "lake.clinic.visits",
        "source.table",
        Watermark("visited", 600_000),
    )
    assert source.statements == {}
    assert (str(released), released.kind, released.options) == (
        "lake.clinic.released",
        "paimon",
        {"file.format": "parquet"},
    )
    assert (released.partitioned_by, released.day_column) == (("day", "area"), "day")
    assert str(config.tables["audit"]) == "ice.clinic.audit"
    # Checks of delivery, places and secrets read a table as they read a connector.
    assert config.sinks["released"] == {
        "connector": "paimon",
        "table": "lake.clinic.released",
        "warehouse": "file:///shared/lake",
        "s3.secret-key": "not for others",
        "file.format": "parquet",
    }


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        (
            "catalogs.lake={warehouse: x}",
            "catalogs.lake: the option 'type' is missing; options of Flink's",
        ),
        ("source={ddl: CREATE, table: lake.a.b}", "source: give either 'ddl', a statement"),
        ("source={query: SELECT 1}", "source: give either 'ddl', a statement"),
        ("source={ddl: CREATE, watermark: {column: a, delay: 1 s}}", "source: 'watermark' is for 'table'; declare"),
        ("source.watermark.delay=100 days", "source.watermark.delay: is too large; a duration of at most 99 days"),
        ("source.table=visits", "source.table: is not of the form catalog.database.table; such as lake.clinic.visits"),
        (
            "source.table=lage.clinic.visits",
            "source.table: 'catalogs' has no 'lage' (did you mean 'lake'?), it",
        ),
        ("sinks.audit={table: lake..audit}", "sinks.audit.table: is not of the form catalog.database.table;"),
        (
            "sinks.summary={table: lake.clinic.n, day_column: d}",
            "sinks.summary.day_column: its rows have no event",
        ),
        ("policy.event_time=null", "sinks.released.day_column: is the day of policy.event_time, which names no column"),
        ("catalogs.default_catalog={type: paimon}", "catalogs.default_catalog: is the name of Flink's own catalog;"),
        (
            "catalogs.passing={type: generic_in_memory}",
            "catalogs.passing.type: a catalog of the type 'generic_in_memory' has no table when a job starts,",
        ),
        (
            "sinks.audit={table: lake.clinic.released}",
            "sinks.audit.table: is the same path as sinks.released.",
        ),
        (
            "sinks.audit={connector: filesystem, path: /shared/lake/clinic.db/released/x, format: csv}",
            "sinks.audit.path: lies inside sinks.released.table, so readers of one output",
        ),
        (
            "catalogs.ice={type: iceberg, catalog-type: rest, uri: 'http://ice'}",
            "catalogs.ice.catalog-type: Iceberg may commit the same files twice on recovery where its catalog is REST",
        ),
        (
            "catalogs.ice={type: jdbc, base-url: 'jdbc:postgresql://db'}",
            "sinks.audit.table: is not known to be exactly-once, so after a failure a record may leave twice,",
        ),
    ],
)
def test_what_is_wrong_is_told_by_field(tmp_path: Path, override: str, problem: str) -> None:
    (found,) = problems(tmp_path, override)
    assert found.startswith(problem)


def test_without_catalogs_a_table_has_none(tmp_path: Path) -> None:
    first, *_ = problems(tmp_path, "catalogs={}")
    assert first.startswith(
        "source.table: 'catalogs' has no 'lake', there is none; declare it, such as catalogs: {lake:"
    )


def test_a_connector_may_have_an_option_table(tmp_path: Path) -> None:
    config = configured(tmp_path, "sinks.audit={connector: other, table: visits}", "accept_duplicates=true")
    assert "audit" not in config.tables
    assert config.sinks["audit"] == {"connector": "other", "table": "visits"}


def test_no_message_of_flink_shows_a_secret_of_a_catalog(tmp_path: Path) -> None:
    config = configured(tmp_path, "sinks.released={connector: blackhole}")
    message = (
        "Unable to create catalog 'lake': 's3.secret-key'='not for others' 'warehouse'='file:///shared/lake', as no "
        "class org.apache.paimon.Catalog"
    )
    shown = why_refused(ValueError(message), config)
    assert "not for others" not in shown
    assert "file:///shared/lake" in shown
    assert "org.apache.paimon.Catalog" in shown  # the type of a catalog is part of names
    assert "not for others" not in repr(config)


CATALOGS = {"clinic": {"type": "jdbc"}, "lake": {"type": "paimon"}}


def test_a_table_that_a_restart_reads_again_is_only_looked_up() -> None:
    plan = (
        "LookupJoin(table=[clinic.people.doctors], joinType=[InnerJoin], lookup=[doctor=doctor])\n"
        "+- TableSourceScan(table=[[lake, default, visits]], fields=[id])\n"
    )
    assert not [*repeating_scans(lambda: plan, CATALOGS)]
    scan = "+- TableSourceScan(table=[[clinic, people, doctors, project=[doctor]]], fields=[doctor])\n"
    (problem,) = repeating_scans(lambda: plan + scan + scan, CATALOGS)
    assert problem.startswith("source.query: a restart reads all rows of clinic.people.doctors again, so after a")
    assert "FOR SYSTEM_TIME AS OF (docs/how-to/lakehouse.md#join" in problem


@pytest.mark.parametrize(
    ("trace", "remedy"),
    [
        ("Caused by: java.sql.SQLException: No suitable driver found for jdbc:x", "name the files of the connector"),
        (
            "java.lang.IllegalStateException: Could not find any jdbc factory that can handle url 'jdbc:x'",
            "name the files of the connector",
        ),
        (
            "org.postgresql.util.PSQLException: Connection to a:1 refused\nCaused by: java.net.ConnectException: no",
            "start the database, or correct the host and port in base-url",
        ),
        (
            "Caused by: org.postgresql.util.PSQLException: FATAL: password authentication failed",
            "correct base-url, default-database, username or password",
        ),
        ("org.apache.flink.table.api.ValidationException: One or more required options are missing", ""),
    ],
)
def test_a_database_that_cannot_be_opened_has_a_remedy(trace: str, remedy: str) -> None:
    assert remedy_of(trace).startswith(remedy)
    assert bool(remedy_of(trace)) == bool(remedy)
