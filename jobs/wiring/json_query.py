"""The query that reads fields of JSON out of a column of text."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.config.file import ConfigError
from jobs.config.source import JsonRecords
from jobs.wiring.sql_types import literal, quote


def json_query(records: JsonRecords, columns: Sequence[str]) -> str:
    """A SELECT of the fields, where what cannot be read is a missing value, and of all other columns of the source.

    ``columns``: those of the table ``source``, by name.

    Raises
    ------
    ConfigError
        The table has no such column of text, or one with the name of a field.
    """
    others = [column for column in columns if column != records.column]
    problems = []
    if len(others) == len(columns):
        problems.append(
            f"source.from_json.column: the table source has no column {records.column!r}; one of {', '.join(columns)}"
        )
    problems += [
        f"source.from_json.fields.{name}: the table source has a column of that name too; rename one of the two"
        for name in records.fields
        if name in others
    ]
    if problems:
        raise ConfigError("source", problems)
    made = [_field(records.column, name, *field) for name, field in records.fields.items()]
    return f"SELECT {', '.join([*made, *map(quote, others)])} FROM source"


def _field(column: str, name: str, kind: str, path: str) -> str:
    text = f"JSON_VALUE({quote(column)}, {literal(path)})"
    return f"{text if kind.upper() == 'STRING' else f'TRY_CAST({text} AS {kind})'} AS {quote(name)}"
