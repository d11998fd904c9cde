"""Warnings about source options that affect a starting or running job silently, each with its field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

STARTUP = "scan.startup.mode"
IDLE = "scan.watermark.idle-timeout"
IDLE_OF_ALL = "table.exec.source.idle-timeout"
"""Flink setting for the idle timeout of sources whose table does not set one."""

STATE = ("execution.state-recovery.path", "execution.savepoint.path")
"""Flink settings for the state that a job resumes from, current name first; ``flink run -s`` sets it."""

DRAIN_FIRST = "drain it (flink stop --drain) and go on from its savepoint with another epoch"

_RAW = (
    "read each record as 'format' = 'raw', and its fields with source.from_json, so that it is rejected with a reason: "
    "docs/reference/configuration/source.md#records-that-cannot-be-read"
)
_TEXT = (
    "read each line as 'format' = 'raw', and its fields with source.from_csv, so that it is rejected with a reason: "
    "docs/reference/configuration/source.md#lines-of-csv"
)
_BYTES = (
    "read each record as 'format' = 'raw' into a column of BYTES, and its fields with source.from_avro, so that it is "
    "rejected with a reason: docs/reference/configuration/source.md#avro-records"
)
_MESSAGES = _BYTES.replace("from_avro", "from_protobuf").replace("avro-records", "protobuf-records")
_SILENT = re.compile(r"(?:.*\.)?ignore-parse-errors")
_AGAIN = ("earliest-offset", "timestamp", "specific-offsets")


def start_warnings(options: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about the first position of a source without state; ``options``: of the table ``source``."""
    if options.get("connector") != "kafka":
        return
    mode = options.get(STARTUP)
    if mode is None:
        yield (
            f"source.ddl: '{STARTUP}' is not given, so a job that starts without state begins at the offsets that were "
            "committed under 'properties.group.id'. The tuples that the job before it had buffered are lost then, "
            "unless it was drained (flink stop --drain); and where no offset was committed, it fails, unless "
            "'properties.auto.offset.reset' is given. Name a mode"
        )
    elif mode.lower() in _AGAIN:
        yield (
            f"source.ddl: '{STARTUP}' = '{mode}' reads again what an earlier job has read, and publishes it once more, "
            "under another generalization. That is right for the first start alone: go on from the state "
            f"of the earlier job (flink run -s); where that is refused, {DRAIN_FIRST}"
        )


def row_warnings(field: str, options: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about the fate of unreadable records.

    Parameters
    ----------
    field : the statement that creates the table
    options : of the table
    """
    silent = [name for name, value in options.items() if _SILENT.fullmatch(name) and value.lower() == "true"]
    for name in silent:
        remedy = _TEXT if "csv" in name else _MESSAGES if "protobuf" in name else _RAW
        yield (
            f"{field}: '{name}' = 'true' drops records that cannot be read, and counts them nowhere, so none of them "
            f"comes to 'rejected'; {remedy}"
        )
    formats = (options.get("format"), options.get("value.format"))
    for name in ("avro", "avro-confluent"):
        if name in formats and options.get("connector") == "kafka":  # files of Avro hold their schema
            yield (
                f"{field}: 'format' = '{name}' ends the job at the first record that does not fit its schema, and a "
                f"cluster starts it again at that record for ever; {_BYTES}"
            )
    if not silent and "protobuf" in formats:
        yield (
            f"{field}: 'format' = 'protobuf' ends the job at the first record that is no message, and a cluster starts "
            f"it again at that record for ever; {_MESSAGES}"
        )
    if not silent and "json" in formats:
        yield (
            f"{field}: 'format' = 'json' ends the job at the first record that is no JSON or has a value of another "
            f"type, and a cluster starts it again at that record for ever; {_RAW}"
        )


def idleness_warnings(options: Mapping[str, str], counted_by: str | None, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning if a partition without rows would stop event time.

    Parameters
    ----------
    options : of the table ``source``
    counted_by : a field that depends on event time; None without one
    settings : Flink's, for ``IDLE_OF_ALL``
    """
    given = options.get(IDLE, settings.get(IDLE_OF_ALL, ""))
    # Zero in any unit is no timeout: Flink then waits forever.
    if options.get("connector") == "kafka" and counted_by is not None and not re.search("[1-9]", given):
        yield (
            f"source.ddl: '{IDLE}' is not given, and {counted_by} counts event time, which passes only as it does in "
            "every partition: one that brings no rows holds back what waits from all of them. Give it, as '1 min', or "
            f"flink.{IDLE_OF_ALL}"
        )
