"""Records in a text column, whose fields become columns: the query, and the part that encode parses.

Each format defines the query expression of a field, the fields that encode reads, and the fields that only encode can
read.
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
    """Return a SELECT of the fields and of all other columns of the source; unreadable fields are missing values.

    Fields that only encode can read are NULLs of their types.

    Parameters
    ----------
    columns : names of the columns of the table ``source``
    record : a further column, which holds the record's bytes; None: there is none

    Raises
    ------
    ConfigError
        The table has no such text column, or has a column with the name of a field.
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
    """Return the fields that encode parses, once per record instead of once per field; None without any.

    ``asked``: column and form of each argument of encode. SQL supplies the rest.

    Raises
    ------
    ConfigError
        A field that only encode can read is requested in a form that its type does not have.
    """
    if isinstance(records, JsonRecords):
        return json_records.plan(records, asked)
    return csv_records.plan(records, asked)
