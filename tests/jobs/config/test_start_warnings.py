"""Silent effects of a source on a job."""

from __future__ import annotations

import pytest

from crenel.jobs.config.start_warnings import (
    arrival_warnings,
    backend_warnings,
    idleness_warnings,
    row_warnings,
    start_warnings,
)

KAFKA = {"connector": "kafka", "format": "raw"}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, "begins at the offsets that were committed under 'properties.group.id'"),
        ("earliest-offset", "reads again what an earlier job has read"),
        ("Timestamp", "reads again what an earlier job has read"),
        ("specific-offsets", "reads again what an earlier job has read"),
        ("group-offsets", None),
        ("latest-offset", None),
    ],
)
def test_where_a_source_of_kafka_begins_without_state(mode: str | None, expected: str | None) -> None:
    warnings = list(start_warnings(KAFKA if mode is None else KAFKA | {"scan.startup.mode": mode}))
    assert len(warnings) == (expected is not None)
    for warning in warnings:
        assert warning.startswith("source.ddl: 'scan.startup.mode'")
        assert expected is not None
        assert expected in warning
        assert "flink stop --drain" in warning


def test_a_source_of_files_begins_where_it_begins() -> None:
    assert list(start_warnings({"connector": "filesystem"})) == []


@pytest.mark.parametrize(
    "option",
    [
        "json.ignore-parse-errors",
        "csv.ignore-parse-errors",
        "value.json.ignore-parse-errors",
        "debezium-json.ignore-parse-errors",
        "value.protobuf.ignore-parse-errors",
    ],
)
def test_rows_that_are_dropped_in_silence_are_told_of(option: str) -> None:
    (warning,) = row_warnings("source.forget.ddl", KAFKA | {"format": "json", option: "TRUE"})
    assert warning.startswith(f"source.forget.ddl: '{option}' = 'true' drops records that cannot be read")
    assert warning.endswith(
        "#lines-of-csv"
        if "csv" in option
        else "#protobuf-records"
        if "protobuf" in option
        else "#records-that-cannot-be-read"
    )
    assert list(row_warnings("source.ddl", KAFKA | {option: "false"})) == []


@pytest.mark.parametrize("option", ["format", "value.format"])
def test_json_that_would_end_the_job_is_told_of(option: str) -> None:
    (warning,) = row_warnings("source.ddl", {"connector": "kafka", option: "json"})
    assert warning.startswith("source.ddl: 'format' = 'json' ends the job at the first record")
    assert "source.from_json" in warning
    assert list(row_warnings("source.ddl", {"connector": "kafka", option: "raw"})) == []


@pytest.mark.parametrize("name", ["avro", "avro-confluent"])
def test_avro_that_would_end_the_job_is_told_of(name: str) -> None:
    (warning,) = row_warnings("source.ddl", {"connector": "kafka", "value.format": name})
    assert warning.startswith(f"source.ddl: 'format' = '{name}' ends the job at the first record")
    assert "source.from_avro" in warning
    assert list(row_warnings("source.ddl", {"connector": "filesystem", "format": name})) == []


def test_protobuf_that_would_end_the_job_or_drop_records_causes_a_warning() -> None:
    for more, beginning in [
        ({}, "source.ddl: 'format' = 'protobuf' ends the job at the first record that is no message"),
        ({"protobuf.ignore-parse-errors": "true"}, "source.ddl: 'protobuf.ignore-parse-errors' = 'true' drops records"),
    ]:
        (warning,) = row_warnings("source.ddl", {"connector": "kafka", "value.format": "protobuf", **more})
        assert warning.startswith(beginning)
        assert warning.endswith("docs/reference/configuration/source.md#protobuf-records")
        assert "source.from_protobuf" in warning


@pytest.mark.parametrize(
    ("options", "counted_by", "of_all", "expected"),
    [
        ({}, "castle.delay.event_time", "", True),
        ({}, None, "", False),
        ({}, "castle.delay.event_time", "1 min", False),
        ({}, "castle.delay.event_time", "0 ms", True),
        ({"scan.watermark.idle-timeout": "30 s"}, "suhdsa.event_time", "", False),
        ({"scan.watermark.idle-timeout": "0 s"}, "suhdsa.event_time", "1 min", True),
        ({"connector": "filesystem"}, "suhdsa.event_time", "", False),
    ],
)
def test_partitions_that_stand_still_hold_up_event_time(
    options: dict[str, str], counted_by: str | None, of_all: str, expected: bool
) -> None:
    settings = {"table.exec.source.idle-timeout": of_all}
    warnings = list(idleness_warnings(KAFKA | options, counted_by, settings))
    assert [warning.split(",")[0] for warning in warnings] == [
        "source.ddl: 'scan.watermark.idle-timeout' is not given"
    ] * expected
    assert all(f"and {counted_by} counts event time" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("options", "counted_by", "of_all", "warns"),
    [
        ({"source.monitor-interval": "1 s"}, "castle.delay.event_time", "", True),
        ({"source.monitor-interval": "1 s", "scan.watermark.idle-timeout": "1 s"}, "suhdsa.event_time", "0 s", True),
        ({"source.monitor-interval": "1 s"}, "castle.delay.event_time", "10 s", False),
        ({"source.monitor-interval": "1 s"}, None, "", False),
        ({}, "castle.delay.event_time", "", False),
    ],
)
def test_readers_without_a_file_hold_up_event_time(
    options: dict[str, str], counted_by: str | None, of_all: str, warns: bool
) -> None:
    settings = {"table.exec.source.idle-timeout": of_all}
    warnings = list(idleness_warnings({"connector": "filesystem", **options}, counted_by, settings))
    assert [warning.partition(",")[0] for warning in warnings] == [
        "flink.table.exec.source.idle-timeout: is not given"
    ] * warns


ARRIVED = "`arrived` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL"
SEEN = "`seen at` TIMESTAMP_LTZ(3) *ROWTIME* AS "


@pytest.mark.parametrize(
    ("columns", "warns"),
    [
        ([ARRIVED, f"{SEEN}COALESCE(`TO_TIMESTAMP_LTZ`(`ms`, 3), `arrived`)"], True),
        ([f"{SEEN}`IFNULL`(`ts`, CAST(CURRENT_TIMESTAMP AS TIMESTAMP_LTZ(3)))".replace(" *", " NOT NULL *")], True),
        ([f"{SEEN}CASE WHEN `ts` IS NULL THEN\nNOW() ELSE `ts` END"], True),
        ([ARRIVED, f"{SEEN}COALESCE(`TO_TIMESTAMP_LTZ`(`ms`, 3), `TO_TIMESTAMP_LTZ`(0, 3))"], False),
        ([f"{SEEN}COALESCE(`ts`, `arrived`)"], False),  # another field of the record
        ([ARRIVED, f"{SEEN}`arrived`"], False),
        ([f"{SEEN}`LEAST`(`ts`, CURRENT_TIMESTAMP)"], False),
        ([ARRIVED, "`seen` TIMESTAMP_LTZ(3) AS COALESCE(`ts`, `arrived`)"], False),  # without the watermark
    ],
)
def test_a_watermark_that_falls_back_to_the_arrival_causes_a_warning(columns: list[str], warns: bool) -> None:
    warnings = list(arrival_warnings(columns, "nearest.delay.event_time"))
    assert [warning.partition(",")[0] for warning in warnings] == [
        "source.ddl: column 'seen at' has the watermark"
    ] * warns
    assert all("which nearest.delay.event_time counts" in warning for warning in warnings)
    assert not list(arrival_warnings(columns, None))


@pytest.mark.parametrize("given", ["forst", "ForSt", "org.apache.flink.state.forst.ForStStateBackendFactory"])
@pytest.mark.parametrize("name", ["state.backend.type", "state.backend"])
def test_a_backend_without_canonical_savepoints_is_told_with_the_way_to_stop_it(name: str, given: str) -> None:
    (warning,) = backend_warnings({name: given})
    assert warning.startswith(f"flink.{name}: ForSt has no canonical savepoints, so 'flink stop'")
    assert "'--type native'" in warning
    assert list(backend_warnings({name: "rocksdb"})) == list(backend_warnings({})) == []
