"""Auxiliary streams beside the source, which do not affect its watermarks except for the end of event time."""

from __future__ import annotations

from collections.abc import Sequence

from pyflink.common import Duration, WatermarkStrategy
from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment

from crenel.jobs.pipeline.job import upwards

_TICKS = "crenel_ticks"
_BEGIN = "crenel_begin"


def without_watermarks(stream: DataStream, name: str) -> DataStream:
    """Mark a stream as idle, so that no watermark waits for it; the end of event time still passes."""
    idle = WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(1))
    return stream.assign_timestamps_and_watermarks(idle).uid(f"crenel-{name}-idle").name(name)


def nothing(tables: StreamTableEnvironment) -> DataStream:
    """Return a stream without blocks that does not end.

    When a job is drained (``flink stop --drain``), Flink has each source signal the end of event time. In Flink 2.3,
    this signal is lost for a source whose partitions are all idle (``scan.watermark.idle-timeout``). The buffered
    tuples would then not be decided. This stream is never idle. Beside a bounded source it would keep the job from
    ending.
    """
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE {_TICKS} (tick INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1', "
        "'fields.tick.min' = '0', 'scan.parallelism' = '1')"
    )
    query = f"SELECT tick AS k, ROW(tick, CAST(NULL AS BYTES)) AS v FROM {_TICKS} WHERE tick < 0"
    return tables.to_data_stream(tables.sql_query(query))


def beginnings(tables: StreamTableEnvironment, keys: Sequence[int], epoch: int) -> DataStream:
    """Return a stream of one row without a block for each shard; the stream ends.

    The row starts each shard of a chained job, even one without tuples, so that its closing record exists. A missing
    closing record then shows that the log of a shard is gone. Each ``epoch`` sends these rows once: its operators have
    other names, or Flink would consider the stream finished.
    """
    table = f"{_BEGIN}_{epoch}"
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE {table} (tick INT) WITH ('connector' = 'datagen', 'number-of-rows' = '{len(keys)}', "
        f"'fields.tick.kind' = 'sequence', 'fields.tick.start' = '0', 'fields.tick.end' = '{len(keys) - 1}', "
        "'scan.parallelism' = '1')"
    )
    key = f"ARRAY[{', '.join(map(str, keys))}][tick + 1]"
    query = f"SELECT k, ROW(k, CAST(NULL AS BYTES)) AS v FROM (SELECT {key} AS k FROM {table})"
    stream = tables.to_data_stream(tables.sql_query(query))
    for number, transformation in enumerate(upwards(stream._j_data_stream.getTransformation(), set())):
        transformation.setUid(f"crenel-begin-{epoch}-{number}")
    return stream
