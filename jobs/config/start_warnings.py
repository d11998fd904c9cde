"""Warnings about tables and settings that affect a starting or running job silently, each with its field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from crenel.jobs.config.connectors import ALLOWED, TIMEOUT, Options, in_transactions
from crenel.jobs.config.delivery import milliseconds
from crenel.jobs.config.flink_settings import INTERVAL
from crenel.jobs.config.paths import holds_files, local_folder
from crenel.jobs.formats.record_format import known_formats
from crenel.operators.output_columns import RECORD_OUTPUTS

STARTUP = "scan.startup.mode"
IDLE = "scan.watermark.idle-timeout"
IDLE_OF_ALL = "table.exec.source.idle-timeout"
"""Flink setting for the idle timeout of sources whose table does not set one."""

BACKENDS = ("state.backend.type", "state.backend")
"""Flink settings for the state backend, current name first."""

DRAIN_FIRST = "drain it (flink stop --drain) and go on from its savepoint with another epoch"

_SILENT = re.compile(r"(?:.*\.)?ignore-parse-errors")
_AGAIN = ("earliest-offset", "timestamp", "specific-offsets")

_METADATA = re.compile(r"(`.+`) .* METADATA\b.*")
_WATERMARK = re.compile(r"`(?P<name>.+)` \S+( NOT NULL)? \*ROWTIME\*.*? AS (?P<expression>.+)", re.DOTALL)
_CHOICE = re.compile(r"\b(COALESCE|IFNULL|IF|CASE)\b")
_CLOCK = r"\b(CURRENT_TIMESTAMP|CURRENT_ROW_TIMESTAMP|LOCALTIMESTAMP|NOW|PROCTIME)\b"

_CHECKPOINT = 60_000
"""Milliseconds to allow for a checkpoint and a preceding restart, beyond the checkpoint interval."""


def start_warnings(options: Options) -> Iterator[str]:
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


def leftover_warnings(sinks: Mapping[str, Options]) -> Iterator[str]:
    """Yield a warning if a job without initial state would publish into folders with files.

    ``sinks``: options of the connector by output.
    """
    folders = {name: local_folder(sinks.get(name, {})) for name in RECORD_OUTPUTS}
    filled = [f"sinks.{name}.path" for name, folder in folders.items() if folder is not None and holds_files(folder)]
    if filled:
        yield (
            f"{', '.join(filled)}: there are files already. A job that starts without state publishes beside them, and "
            "what it reads once more leaves once more, under another generalization; give an empty folder, or go on "
            "from the state of the job that wrote them"
        )


def row_warnings(field: str, options: Options) -> Iterator[str]:
    """Yield warnings about the fate of unreadable records.

    Parameters
    ----------
    field : the statement that creates the table
    options : of the table
    """
    silent = [name for name, value in options.items() if _SILENT.fullmatch(name) and value.lower() == "true"]
    formats = known_formats()
    for name in silent:
        of = [kind for kind in formats.values() if kind.name in name] or [*formats.values()]
        yield (
            f"{field}: '{name}' = 'true' drops records that cannot be read, and counts them nowhere, so none of them "
            f"comes to 'rejected'; {of[0].advice()}"
        )
    for name in () if silent else dict.fromkeys((options.get("format", ""), options.get("value.format", ""))):
        for kind in formats.values():
            if name in kind.ended_by and (kind.is_ended_by_files or options.get("connector") == "kafka"):
                yield (
                    f"{field}: 'format' = '{name}' ends the job at the first record that {kind.ended_by[name]}, and a "
                    f"cluster starts it again at that record for ever; {kind.advice()}"
                )


def idleness_warnings(options: Options, counted_by: str | None, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning if a partition without rows would stop event time.

    Parameters
    ----------
    options : of the table ``source``
    counted_by : a field that depends on event time; None without one
    settings : Flink's, for ``IDLE_OF_ALL``
    """
    given, of_all = options.get(IDLE, settings.get(IDLE_OF_ALL, "")), settings.get(IDLE_OF_ALL, "")
    if counted_by is None:
        return
    # Zero in any unit is no timeout: Flink then waits forever. The connector of files does not know the option.
    if "source.monitor-interval" in options and not re.search("[1-9]", of_all):
        yield (
            f"flink.{IDLE_OF_ALL}: is not given, and {counted_by} counts event time, which passes only as it does in "
            "every parallel reader: one without a file holds back what waits from all of them. Give it, as '1 min'"
        )
    if options.get("connector") == "kafka" and not re.search("[1-9]", given):
        yield (
            f"source.ddl: '{IDLE}' is not given, and {counted_by} counts event time, which passes only as it does in "
            "every partition: one that brings no rows holds back what waits from all of them. Give it, as '1 min', or "
            f"flink.{IDLE_OF_ALL}"
        )


def arrival_warnings(computed: Sequence[str], counted_by: str | None) -> Iterator[str]:
    """Yield a warning if a record without a readable time would move event time to its arrival.

    Parameters
    ----------
    computed : columns that are not stored, as ``crenel.jobs.pipeline.source_table.SourceTable`` has them
    counted_by : a field that depends on event time; None without one
    """
    arrival = "|".join([_CLOCK, *(re.escape(found[1]) for of in computed if (found := _METADATA.fullmatch(of)))])
    for column in computed if counted_by is not None else ():
        found = _WATERMARK.fullmatch(column)
        if found and _CHOICE.search(found["expression"]) and re.search(arrival, found["expression"]):
            yield (
                f"source.ddl: column {found['name']!r} has the watermark, and seems to be the arrival time of a record "
                f"without a readable time. Behind old event times, one such record ends the wait of all others, which "
                f"{counted_by} counts. Fall back to TO_TIMESTAMP_LTZ(0, 3), and let policy.event_time be a column that "
                "may be missing: docs/how-to/bad-records.md#records-without-a-readable-time"
            )


def backend_warnings(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning about a state backend that is stopped in another way; ``settings``: Flink's, for ``BACKENDS``."""
    for name in BACKENDS:
        if "forst" in settings.get(name, "").lower():
            yield (
                f"flink.{name}: ForSt has no canonical savepoints, so 'flink stop' and 'flink stop --drain' fail, and "
                "the job restarts; add '--type native' to them, or set rocksdb"
            )


def timeout_warnings(sinks: Mapping[str, Options], interval: int) -> Iterator[str]:
    """Yield warnings about transactions that Kafka aborts, and their records with them.

    Parameters
    ----------
    sinks : options of the connector by output
    interval : milliseconds between two checkpoints
    """
    for name, options in sinks.items():
        timeout = milliseconds(options.get(TIMEOUT, "")) if in_transactions(options) else None
        if timeout is not None and timeout > ALLOWED:
            yield (
                f"sinks.{name}.{TIMEOUT}: is {timeout} ms, and a broker refuses more than its "
                f"transaction.max.timeout.ms, {ALLOWED} by default, at each start; raise that of the brokers first"
            )
        if timeout is not None and timeout < interval + _CHECKPOINT:
            yield (
                f"sinks.{name}.{TIMEOUT}: is {timeout} ms, and a transaction is open from one checkpoint to the end of "
                f"the next, with {INTERVAL} at {interval} ms. Kafka takes back what is open for longer; give "
                f"{interval + _CHECKPOINT} or more, and no less than the longest outage of the job"
            )
