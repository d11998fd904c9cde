"""Fields of CSV lines, which encode parses, because Flink's SQL cannot split quoted lines."""

from __future__ import annotations

from collections.abc import Sequence

from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.records import CsvRecords
from crenel.jobs.pipeline.encoder_arguments import Asked
from crenel.jobs.pipeline.sql_types import parse, quote
from crenel.operators.encode.csv_fields import FORMS, CsvFields
from crenel.operators.encode.csv_values import CsvType
from crenel.operators.encode.records import Form, RecordsPlan


def expressions(records: CsvRecords) -> list[str]:
    """Return the SELECT expression of each field: a NULL of its type."""
    return [f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in records.fields.items()]


def plan(records: CsvRecords, asked: Sequence[Asked | None]) -> RecordsPlan | None:
    """Return the fields of a line that encode reads; None without any. SQL supplies other columns.

    Raises
    ------
    ConfigError
        A field is requested in a form that its type does not have.
    """
    places = {name: place for place, name in enumerate(records.fields)}
    fields: dict[str, tuple[int, CsvType]] = {}
    arguments: list[tuple[int, Form] | None] = []
    problems = []
    for argument in asked:
        name, form = argument or ("", "text")
        if argument is None or name not in places:
            arguments.append(None)
            continue
        sql = parse(records.fields[name].upper())
        if form not in FORMS[sql.name]:
            problems.append(f"{records.place}.fields.{name}: {sql.text} is not read as {form}; declare it as STRING")
        fields.setdefault(name, (places[name], CsvType(sql.name, sql.precision or 0, sql.scale)))
        arguments.append((list(fields).index(name), form))
    if problems:
        raise ConfigError("source", problems)
    if not fields:
        return None
    read = CsvFields(len(places), tuple(fields.values()), records.delimiter, records.quote, records.null)
    return RecordsPlan(read, tuple(arguments))
