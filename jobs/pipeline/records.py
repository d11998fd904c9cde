"""Records in a text column, whose fields become columns: the query, and the part that encode parses.

Each format defines the query expression of a field, the fields that encode reads, and the fields that only encode can
read. Flink's SQL reads a field of JSON, but cannot split quoted lines of CSV.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.records import CsvRecords, JsonRecords, Records
from crenel.jobs.pipeline.encoder_arguments import ArgumentForm
from crenel.jobs.pipeline.sql_types import literal, parse, quote
from crenel.operators.encode import csv_fields, json_fields
from crenel.operators.encode.csv_values import CsvType
from crenel.operators.encode.records import Form, RecordsPlan

_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\['\\])*)'\]|\[(\d{1,9})\]", re.ASCII)


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
        made = _json_expressions(records)
    else:
        made = _csv_expressions(records)
    if record is not None:
        made.append(f"CAST({quote(records.column)} AS BYTES) AS {quote(record)}")
    return f"SELECT {', '.join([*made, *map(quote, others)])} FROM source"


def records_plan(records: Records, argument_forms: Sequence[ArgumentForm | None]) -> RecordsPlan | None:
    """Return the fields that encode parses, once per record instead of once per field; None without any.

    ``argument_forms``: column and form of each argument of encode. SQL supplies the rest.

    Raises
    ------
    ConfigError
        A field that only encode can read is requested in a form that its type does not have.
    """
    if isinstance(records, JsonRecords):
        return _json_plan(records, argument_forms)
    return _csv_plan(records, argument_forms)


def _json_expressions(records: JsonRecords) -> list[str]:
    """Return the SELECT expression of each field."""
    return [_field(records.column, name, *field) for name, field in records.fields.items()]


def _json_plan(records: JsonRecords, argument_forms: Sequence[ArgumentForm | None]) -> RecordsPlan | None:
    """Return the fields of a record that encode reads; None without any.

    SQL supplies the rest: other columns, fields of other types (such as times), and paths with more than members and
    array indices.
    """
    fields: list[json_fields.JsonField] = []
    numbers: dict[str, int] = {}
    arguments: list[tuple[int, Form] | None] = []
    for argument in argument_forms:
        name, form = argument or ("", "text")
        field = _read_here(*records.fields[name]) if name in records.fields else None
        if field is None or form not in json_fields.FORMS[field.type]:
            arguments.append(None)
            continue
        if name not in numbers:
            numbers[name] = len(fields)
            fields.append(field)
        arguments.append((numbers[name], form))
    return RecordsPlan(json_fields.JsonFields(tuple(fields)), tuple(arguments)) if fields else None


def _read_here(kind: str, path: str) -> json_fields.JsonField | None:
    sql, steps = parse(kind.upper()), _steps(path)
    if sql.name not in json_fields.FORMS or steps is None:
        return None
    return json_fields.JsonField(steps, sql.name, sql.precision or 0, sql.scale)


def _steps(path: str) -> tuple[str | int, ...] | None:
    """Return the steps of a JSON path; None for paths with more than members and array indices."""
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


def _csv_expressions(records: CsvRecords) -> list[str]:
    """Return the SELECT expression of each field: a NULL of its type."""
    return [f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in records.fields.items()]


def _csv_plan(records: CsvRecords, argument_forms: Sequence[ArgumentForm | None]) -> RecordsPlan | None:
    """Return the fields of a line that encode reads; None without any. SQL supplies other columns.

    Raises
    ------
    ConfigError
        A field is requested in a form that its type does not have.
    """
    positions = {name: place for place, name in enumerate(records.fields)}
    fields: dict[str, tuple[int, CsvType]] = {}
    arguments: list[tuple[int, Form] | None] = []
    problems = []
    for argument in argument_forms:
        name, form = argument or ("", "text")
        if argument is None or name not in positions:
            arguments.append(None)
            continue
        sql = parse(records.fields[name].upper())
        if form not in csv_fields.FORMS[sql.name]:
            problems.append(f"{records.place}.fields.{name}: {sql.text} is not read as {form}; declare it as STRING")
        fields.setdefault(name, (positions[name], CsvType(sql.name, sql.precision or 0, sql.scale)))
        arguments.append((list(fields).index(name), form))
    if problems:
        raise ConfigError("source", problems)
    if not fields:
        return None
    read = csv_fields.CsvFields(len(positions), tuple(fields.values()), records.delimiter, records.quote, records.null)
    return RecordsPlan(read, tuple(arguments))
