"""Columns that are fields of JSON in a column of text: the query that reads them, and what encode reads itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobs.config.file import ConfigError
from jobs.config.source import JsonRecords
from jobs.wiring.arguments import Asked
from jobs.wiring.sql_types import literal, parse, quote
from operators.encode.json_fields import FORMS, Form, JsonField, JsonPlan

_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\['\\])*)'\]|\[(\d{1,9})\]", re.ASCII)


def json_query(records: JsonRecords, columns: Sequence[str], record: str | None = None) -> str:
    """A SELECT of the fields, where what cannot be read is a missing value, and of all other columns of the source.

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
    if record is not None:
        made.append(f"CAST({quote(records.column)} AS BYTES) AS {quote(record)}")
    return f"SELECT {', '.join([*made, *map(quote, others)])} FROM source"


def json_plan(records: JsonRecords, asked: Sequence[Asked | None]) -> JsonPlan | None:
    """What encode reads of a record, so that it is parsed once and not for each field; None where that is nothing.

    ``asked``: what each argument of encode is of a column. SQL gives what remains: other columns, fields of other types
    (such as times), and those whose path has more than members and places in arrays.
    """
    fields: list[JsonField] = []
    numbers: dict[str, int] = {}
    arguments: list[tuple[int, Form] | None] = []
    for argument in asked:
        name, form = argument or ("", "text")
        field = _read_here(*records.fields[name]) if name in records.fields else None
        if field is None or form not in FORMS[field.type]:
            arguments.append(None)
            continue
        if name not in numbers:
            numbers[name] = len(fields)
            fields.append(field)
        arguments.append((numbers[name], form))
    return JsonPlan(tuple(fields), tuple(arguments)) if fields else None


def _read_here(kind: str, path: str) -> JsonField | None:
    sql, steps = parse(kind.upper()), _steps(path)
    if sql.name not in FORMS or steps is None:
        return None
    return JsonField(steps, sql.name, sql.precision or 0, sql.scale)


def _steps(path: str) -> tuple[str | int, ...] | None:
    """The way of a JSON path; None where it is more than one to a single place."""
    steps: list[str | int] = []
    end = 1
    while end < len(path):
        found = _STEP.match(path, end)
        if found is None:
            return None
        member, quoted, place = found.groups()
        steps.append(int(place) if place else member if member else re.sub(r"\\(.)", r"\1", quoted))
        end = found.end()
    return tuple(steps)


def _field(column: str, name: str, kind: str, path: str) -> str:
    text = f"JSON_VALUE({quote(column)}, {literal(path)})"
    return f"{text if kind.upper() == 'STRING' else f'TRY_CAST({text} AS {kind})'} AS {quote(name)}"
