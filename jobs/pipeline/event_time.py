"""Problems of event time in a job's source: its type, and the watermark that delays need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.sql_expressions import quote
from crenel.jobs.pipeline.sql_times import INSTANT
from crenel.operators.column_types import ColumnType


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
    if config.policy.event_time_limit is not None and not sql.rowtime:
        yield (
            f"policy.event_time_limit: the column {name!r} has no watermark to be ahead of; make policy.event_time "
            "a column of type TIMESTAMP_LTZ(3) with a WATERMARK in the source's DDL, selected as it is in its query"
        )
    if config.counts_event_time is not None:
        is_selected = any(of.rowtime for of in columns.values())
        yield from _without_watermark(name, sql, config.counts_event_time, is_selected=is_selected, elsewhere=elsewhere)


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


def _without_watermark(
    name: str, sql: ColumnType, counted_by: str, *, is_selected: bool, elsewhere: bool
) -> Iterator[str]:
    """Yield a problem if a field counts event time, but event time does not advance with each record.

    Parameters
    ----------
    name, sql : the column of event time, and its type
    counted_by : the field
    is_selected : whether any column of the query has a watermark; this suffices for epoch milliseconds, because a
        number cannot have one in SQL
    elsewhere : whether any column of the source has a watermark
    """
    if sql.processing_time or sql.rowtime or (is_selected and sql.name == "BIGINT"):
        return
    if elsewhere and sql.name == "BIGINT":
        yield (
            f"{counted_by}: counts event time, and the source's query does not select the column with the watermark, "
            "so the delay would end with a batch of records and not with its record; select that column too, as it is "
            "in the source, and name it in policy.drop"
        )
        return
    column = quote(name)
    stamp, added = column, ""
    if sql.name == "BIGINT":
        stamp, added = "event_time", f"event_time AS TO_TIMESTAMP_LTZ({column}, 3), "
    yield (
        f"{counted_by}: counts event time, and the column {name!r} has no watermark, so no time passes before the "
        f"input ends; add to the source's DDL {added}WATERMARK FOR {stamp} AS {stamp} - INTERVAL '5' SECOND, and "
        "select the column as it is in its query"
        + (", or declare a field of a record as BIGINT" if elsewhere and sql.name == "TIMESTAMP_LTZ" else "")
    )
