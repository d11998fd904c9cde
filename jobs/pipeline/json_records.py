"""Fields of JSON records: SQL expressions for them, and the fields that encode parses itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crenel.jobs.config.records import JsonRecords
from crenel.jobs.pipeline.encoder_arguments import Asked
from crenel.jobs.pipeline.sql_types import literal, parse, quote
from crenel.operators.encode.json_fields import FORMS, JsonField, JsonFields
from crenel.operators.encode.records import Form, RecordsPlan

_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\['\\])*)'\]|\[(\d{1,9})\]", re.ASCII)


def expressions(records: JsonRecords) -> list[str]:
    """Return the SELECT expression of each field."""
    return [_field(records.column, name, *field) for name, field in records.fields.items()]


def plan(records: JsonRecords, asked: Sequence[Asked | None]) -> RecordsPlan | None:
    """Return the fields of a record that encode reads; None without any.

    SQL supplies the rest: other columns, fields of other types (such as times), and paths with more than members and
    array indices.
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
    return RecordsPlan(JsonFields(tuple(fields)), tuple(arguments)) if fields else None


def _read_here(kind: str, path: str) -> JsonField | None:
    sql, steps = parse(kind.upper()), _steps(path)
    if sql.name not in FORMS or steps is None:
        return None
    return JsonField(steps, sql.name, sql.precision or 0, sql.scale)


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
