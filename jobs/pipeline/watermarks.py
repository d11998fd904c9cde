"""Streams beside the source, and what their watermarks mean for it: nothing, until event time ends."""

from __future__ import annotations

from collections.abc import Sequence

from pyflink.common import Duration, WatermarkStrategy
from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment

from crenel.jobs.pipeline.job import upwards

_TICKS = "crenel_ticks"
_BEGIN = "crenel_begin"


def without_watermarks(stream: DataStream, name: str) -> DataStream:
    """The same stream, for whose watermarks nobody waits; that event time has ended is passed on."""
    idle = WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(1))
    return stream.assign_timestamps_and_watermarks(idle).uid(f"crenel-{name}-idle").name(name)


def nothing(tables: StreamTableEnvironment) -> DataStream:
    """A stream of blocks that brings none and does not end.

    Where a job is drained (``flink stop --drain``), Flink has each source say that event time has ended. A source of
    which all partitions are idle (``scan.watermark.idle-timeout``) is not heard then, in Flink 2.3, and what waits
    would not leave. This one is never idle. Beside a source that may end it would keep the job from ending.
    """
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE {_TICKS} (tick INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1', "
        "'fields.tick.min' = '0', 'scan.parallelism' = '1')"
    )
    query = f"SELECT tick AS k, ROW(tick, CAST(NULL AS BYTES)) AS v FROM {_TICKS} WHERE tick < 0"
    return tables.to_data_stream(tables.sql_query(query))


def beginnings(tables: StreamTableEnvironment, keys: Sequence[int], epoch: int) -> DataStream:
    """Return a stream that brings one row without a block for each shard, and ends.

    By it each shard of a chained job begins, whether or not a tuple comes: its closing record tells then that there was
    none, and where the log of a shard is gone its record is missing. It is sent once for each ``epoch``: with it all
    its operators have another name, or Flink would take it for one that has ended.
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
