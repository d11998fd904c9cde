"""Columns that are fields of records in a column of text: a query of them, and what encode reads of a record itself.

Each format tells three things of its records: what stands for a field in the query, what encode reads of it, and what
only encode can read.
"""

from __future__ import annotations

from collections.abc import Sequence

from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.records import JsonRecords, Records
from crenel.jobs.pipeline import csv_records, json_records
from crenel.jobs.pipeline.encoder_arguments import Asked
from crenel.jobs.pipeline.sql_types import quote
from crenel.operators.encode.records import RecordsPlan


def records_query(records: Records, columns: Sequence[str], record: str | None = None) -> str:
    """A SELECT of the fields, where what cannot be read is a missing value, and of all other columns of the source.

    Fields that only encode can read have their types there, and no values.

    Parameters
    ----------
    columns : those of the table ``source``, by name
    record : a further column, which holds the record's bytes; None: there is none

    Raises
    ------
    ConfigError
        The table has no such column of text, or one with the name of a field.
    """
    others = [column for column in columns if column != records.column]
    problems = []
    if len(others) == len(columns):
        problems.append(
            f"{records.place}.column: the table source has no column {records.column!r}; one of {', '.join(columns)}"
        )
    problems += [
        f"{records.place}.fields.{name}: the table source has a column of that name too; rename one of the two"
        for name in records.fields
        if name in others
    ]
    if problems:
        raise ConfigError("source", problems)
    if isinstance(records, JsonRecords):
        made = json_records.expressions(records)
    else:
        made = csv_records.expressions(records)
    if record is not None:
        made.append(f"CAST({quote(records.column)} AS BYTES) AS {quote(record)}")
    return f"SELECT {', '.join([*made, *map(quote, others)])} FROM source"


def records_plan(records: Records, asked: Sequence[Asked | None]) -> RecordsPlan | None:
    """What encode reads of a record, so that it is parsed once and not for each field; None where that is nothing.

    ``asked``: what each argument of encode is of a column. SQL gives what remains.

    Raises
    ------
    ConfigError
        What only encode can read is asked for in a form that its type has not.
    """
    if isinstance(records, JsonRecords):
        return json_records.plan(records, asked)
    return csv_records.plan(records, asked)
