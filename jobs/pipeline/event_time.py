"""Problems of event time in a job's source: its type, and the watermark that delays need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.sql_expressions import quote
from crenel.jobs.pipeline.sql_times import INSTANT
from crenel.operators.column_types import ColumnType

NEVER = "TO_TIMESTAMP_LTZ(0, 3)"
"""Time in SQL of a record without one, for the column of the watermark: it is never missing, and 1970 moves nothing."""


def event_time_problems(config: Config, columns: Mapping[str, ColumnType], *, elsewhere: bool) -> Iterator[str]:
    """Yield the problems of the column of event time.

    Parameters
    ----------
    columns : type of each column of the query
    elsewhere : whether any column of the source has a watermark
    """
    name = config.policy.event_time
    if name is None or name not in columns:
        return
    sql = columns[name]
    yield from _unfit_type(name, sql)
    if any(of.rowtime for of in columns.values()):  # of this column, or of one that is never missing
        return
    if config.policy.event_time_limit is not None:
        yield (
            f"policy.event_time_limit: the column {name!r} has no watermark to be ahead of; declare a WATERMARK in "
            "the source's DDL, and select its column as it is in its query"
        )
    if config.counts_event_time is not None:
        yield from _without_watermark(name, sql, config.counts_event_time, elsewhere=elsewhere)


def _unfit_type(name: str, sql: ColumnType) -> Iterator[str]:
    where = f"policy.event_time: column {name!r}"
    if sql.processing_time:
        yield f"{where} is processing time; name a column that the records bring along"
    elif sql.name not in ("BIGINT", "TIMESTAMP_LTZ") or (sql.name == "TIMESTAMP_LTZ" and sql.precision != 3):
        column = quote(name)
        how = {
            "INT": f"CAST({column} AS BIGINT), multiplied by 1000 where it counts seconds",
            "TIMESTAMP": f"CAST({column} AS TIMESTAMP_LTZ(3))",
            "TIMESTAMP_LTZ": f"CAST({column} AS TIMESTAMP_LTZ(3))",
            "DATE": f"CAST(CAST({column} AS TIMESTAMP(3)) AS TIMESTAMP_LTZ(3))",
        }.get(sql.name, f"{INSTANT}({column})")
        yield (
            f"{where} has the type {sql.text}; it is BIGINT (epoch milliseconds) or TIMESTAMP_LTZ(3): "
            f"add a computed column to the source's DDL, such as event_time AS {how}, with the WATERMARK on it"
        )


def _without_watermark(name: str, sql: ColumnType, counted_by: str, *, elsewhere: bool) -> Iterator[str]:
    """Yield a problem: a field counts event time, but no column of the query has the watermark.

    Parameters
    ----------
    name, sql : the column of event time, and its type
    counted_by : the field
    elsewhere : whether any column of the source has a watermark
    """
    if sql.processing_time:
        return
    if elsewhere:
        yield (
            f"{counted_by}: counts event time, and the source's query does not select the column with the watermark, "
            "so the delay would end with a batch of records and not with its record; select that column too, as it is "
            "in the source, and name it in policy.drop"
        )
        return
    column = quote(name)
    stamp = f"TO_TIMESTAMP_LTZ({column}, 3)" if sql.name == "BIGINT" else column
    yield (
        f"{counted_by}: counts event time, and the column {name!r} has no watermark, so no time passes before the "
        f"input ends; add to the source's DDL passed AS COALESCE({stamp}, {NEVER}), WATERMARK FOR passed AS passed - "
        "INTERVAL '5' SECOND, select the column as it is in its query, and name it in policy.drop"
    )
