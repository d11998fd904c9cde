"""Streams that join the blocks of the source: requests to forget persons, and auxiliary streams.

None of them affects the watermarks of the source, except for the end of event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pyflink.common import Duration, WatermarkStrategy
from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment, Table

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.load import Config
from crenel.jobs.config.source import ForgetSource
from crenel.jobs.pipeline.job import Names, upwards
from crenel.jobs.pipeline.layout import Layout
from crenel.jobs.pipeline.source_table import FORGET, append_only, column_types, create_table, parsing
from crenel.jobs.pipeline.sql_expressions import argument, literal, quote
from crenel.operators.column_types import INTEGERS, TEXTS, ColumnType, parse
from crenel.operators.encode.arguments import ArgumentCollector
from crenel.operators.encode.columns import Read
from crenel.operators.encode.forget import code_of, forget_function
from crenel.operators.encode.hashing import text_codes


@dataclass(frozen=True)
class Requests:
    """A table of requests to forget persons.

    Attributes
    ----------
    table : one column, the subject
    field : of the table, for errors
    remedy : field or place where its column can be cast, for errors
    """

    table: Table
    field: str
    remedy: str


def read_forget(tables: StreamTableEnvironment, source: ForgetSource) -> Requests:
    """Create the table of requests of a configuration.

    Raises
    ------
    ConfigError
        ``source.forget.ddl`` creates no readable table, or Flink cannot parse a statement.
    """
    create_table(tables, "source.forget.ddl", source, FORGET)
    with parsing("source.forget.query", source.varied):
        view = tables.sql_query(source.query or "SELECT * FROM forget")
    return Requests(view, "source.forget.query" if source.query else "source.forget.ddl", "source.forget.query")


def subject_of(read: Requests, found: Layout) -> tuple[str, Read]:
    """Return the SQL expression of a subject in a table of requests, and how encode reads it.

    Raises
    ------
    ConfigError
        The table has other than one column, or its type differs from the source's subject, so that equal values would
        not match.
    """
    columns = column_types(read.table)
    field = read.field
    if len(columns) != 1:
        listed = ", ".join(columns)
        raise ConfigError(
            "source", [f"{field}: gives the columns {listed}; it must give one, the subject, as policy.subject has it"]
        )
    ((name, kind),) = columns.items()
    sql = parse(kind)
    subject = _subject_type(found)
    if not _alike(sql, subject):
        raise ConfigError(
            "source",
            [
                f"{field}: the column {name!r} has the type {sql.text}, and policy.subject {subject.text}; the two "
                f"must be written alike: CAST it to {subject.text} in {read.remedy}"
            ],
        )
    reader = ArgumentCollector({name: sql}, normalization=found.plan.policy.subject_normalization)
    form = reader.subject(name)
    return argument(reader.arguments[form.value], sql), form


def requests(tables: StreamTableEnvironment, read: Requests, found: Layout, names: Names) -> DataStream:
    """Return requests as rows (key of a shard, bytes), one for each shard that may hold the person's tuples.

    Raises
    ------
    ConfigError
        As ``subject_of`` does; or the table updates or deletes earlier rows.
    """
    expression, form = subject_of(read, found)
    view, function = names.table("requests"), names.table("forget")
    tables.create_temporary_view(view, read.table)
    tables.create_temporary_system_function(function, forget_function(found.plan, form))
    arguments = f"SELECT {function}({expression}) AS e FROM {view}"
    query = (
        f"SELECT t.k AS k, ROW(t.k, r.b) AS v FROM (SELECT e.k AS shards, e.b AS b FROM ({arguments})) AS r "
        "CROSS JOIN UNNEST(r.shards) AS t (k)"
    )
    return append_only(tables, query, read.field)


def codes_of(tables: StreamTableEnvironment, config: Config, found: Layout, subjects: Sequence[str]) -> list[str]:
    """Return the code of each person, as the output ``forgotten`` will state it.

    Raises
    ------
    ConfigError
        A subject is no value of the subject's type; the message states the number of the first.
    """
    kind = _subject_type(found).text
    values = ", ".join(f"({number}, CAST({literal(text)} AS STRING))" for number, text in enumerate(subjects))
    query = f"SELECT i, CAST(TRY_CAST(s AS {kind}) AS STRING) FROM (VALUES {values}) AS v (i, s)"
    with tables.execute_sql(query).collect() as rows:
        texts = dict(tuple(row) for row in rows)
    for number in range(len(subjects)):
        if texts[number] is None:
            raise ConfigError("it", [f"--subject: number {number + 1} is no {kind}, the type of policy.subject"])
    key = config.subject_key.hash_key
    hashes = text_codes(np.array([texts[number] for number in range(len(subjects))], object), key, repeated=False)
    return [code_of(subject, key) for subject in hashes]


def column_of(tables: StreamTableEnvironment) -> tuple[str, str]:
    """Return name and type of the only column of the requests table, which ``read_forget`` has created.

    Raises
    ------
    ConfigError
        The table has other than one column, so the content of a request is unknown.
    """
    columns = [
        (column.getName(), column.getDataType().getLogicalType().asSummaryString())
        for column in tables.from_path("forget")._j_table.getResolvedSchema().getColumns()
        if column.isPhysical()
    ]
    if len(columns) != 1:
        listed = ", ".join(name for name, _ in columns)
        raise ConfigError(
            "it",
            [
                f"source.forget.ddl: the table 'forget' has the columns {listed}, and only a table of one column can "
                "be written to from here; write the request where the table reads it"
            ],
        )
    ((name, kind),) = columns
    return name, kind.removesuffix(" NOT NULL")


def write_requests(
    tables: StreamTableEnvironment, source: ForgetSource, column: tuple[str, str], subjects: Sequence[str]
) -> None:
    """Insert requests into the table with one ``column``, and wait for completion."""
    with parsing("source.forget.ddl", source.varied):
        tables.execute_sql(source.ddl)
    name, kind = column
    rows = ", ".join(f"(CAST({literal(text)} AS {kind}))" for text in subjects)
    tables.execute_sql(f"INSERT INTO forget ({quote(name)}) VALUES {rows}").wait()


def _subject_type(found: Layout) -> ColumnType:
    subject = found.plan.policy.subject
    return parse("STRING") if subject is None else found.plan.types[subject]


def _alike(one: ColumnType, other: ColumnType) -> bool:
    """Return whether equal values of two types are equal as text."""
    texts = tuple(name for name in TEXTS if name != "CHAR")
    return one.text == other.text or any(one.name in kinds and other.name in kinds for kinds in (texts, (*INTEGERS,)))


def without_watermarks(stream: DataStream, name: str, names: Names) -> DataStream:
    """Mark a stream as idle, so that no watermark waits for it; the end of event time still passes."""
    idle = WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(1))
    return stream.assign_timestamps_and_watermarks(idle).uid(names.uid(f"{name}-idle")).name(name)


def nothing(tables: StreamTableEnvironment, names: Names) -> DataStream:
    """Return a stream without blocks that does not end.

    When a job is drained (``flink stop --drain``), Flink has each source signal the end of event time. In Flink 2.3,
    this signal is lost for a source whose partitions are all idle (``scan.watermark.idle-timeout``). The buffered
    tuples would then not be decided. This stream is never idle. Beside a bounded source it would keep the job from
    ending.
    """
    ticks = names.table("ticks")
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE {ticks} (tick INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1', "
        "'fields.tick.min' = '0', 'scan.parallelism' = '1')"
    )
    query = f"SELECT tick AS k, ROW(tick, CAST(NULL AS BYTES)) AS v FROM {ticks} WHERE tick < 0"
    return tables.to_data_stream(tables.sql_query(query))


def beginnings(tables: StreamTableEnvironment, keys: Sequence[int], epoch: int, names: Names) -> DataStream:
    """Return a stream of one row without a block for each shard; the stream ends.

    The row starts each shard of a chained job, even one without tuples, so that its closing record exists. A missing
    closing record then shows that the log of a shard is gone. It also starts each admission, whose reports the shards
    wait for. Each ``epoch`` sends these rows once: its operators have
    other names, or Flink would consider the stream finished.
    """
    table = names.table(f"begin_{epoch}")
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE {table} (tick INT) WITH ('connector' = 'datagen', 'number-of-rows' = '{len(keys)}', "
        f"'fields.tick.kind' = 'sequence', 'fields.tick.start' = '0', 'fields.tick.end' = '{len(keys) - 1}', "
        "'scan.parallelism' = '1')"
    )
    key = f"ARRAY[{', '.join(map(str, keys))}][tick + 1]"
    query = f"SELECT k, ROW(k, CAST(NULL AS BYTES)) AS v FROM (SELECT {key} AS k FROM {table})"
    stream = tables.to_data_stream(tables.sql_query(query))
    for number, transformation in enumerate(upwards(stream._j_data_stream.getTransformation(), set())):
        transformation.setUid(names.uid(f"begin-{epoch}-{number}"))
        transformation.setName("begin")
    return stream
