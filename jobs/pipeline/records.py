"""Records in one column, whose fields become columns: the query, and the part that encode parses.

Each format defines the query expression of a field, the fields that encode reads, and the fields that only encode can
read. Flink's SQL reads a field of JSON, but cannot split quoted lines of CSV, and its Avro and Protobuf formats fail
the job on a record that they cannot read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.records import (
    AvroRecords,
    CsvRecords,
    JsonRecords,
    ProtobufRecords,
    Records,
    is_array,
    item_steps,
    json_steps,
)
from crenel.jobs.pipeline.json_arrays import json_array_function
from crenel.jobs.pipeline.packing import JavaFunction
from crenel.jobs.pipeline.sql_expressions import literal, quote
from crenel.jobs.pipeline.sql_times import encoded_function, encoded_members, time_function
from crenel.operators.column_types import INSTANTS, ColumnType, element_of, parse
from crenel.operators.encode import json_fields
from crenel.operators.encode.avro.fields import AvroFields
from crenel.operators.encode.avro.fields import fitting_types as avro_types
from crenel.operators.encode.avro.schema import SchemaError, article
from crenel.operators.encode.cells import FORMS, CellType
from crenel.operators.encode.columns import Argument, Form
from crenel.operators.encode.csv_fields import CsvFields
from crenel.operators.encode.protobuf import schema as protobuf
from crenel.operators.encode.protobuf.fields import ProtobufFields
from crenel.operators.encode.protobuf.fields import fitting_types as protobuf_types
from crenel.operators.encode.records import RecordArguments
from crenel.operators.encode.slots import array_of

_INSTANT = "TIMESTAMP_LTZ"


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
    if isinstance(records, AvroRecords | ProtobufRecords):
        problems += _unfit_fields(records)
    if problems:
        raise ConfigError("source", problems)
    if isinstance(records, JsonRecords):
        made = _json_expressions(records)
    else:
        types = {name: kind if isinstance(kind, str) else kind[0] for name, kind in records.fields.items()}
        made = [f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in types.items()]
    if record is not None:
        made.append(f"CAST({quote(records.column)} AS BYTES) AS {quote(record)}")
    return f"SELECT {', '.join([*made, *map(quote, others)])} FROM source"


def record_arguments(records: Records, wanted: Sequence[Argument]) -> RecordArguments | None:
    """Return the fields that encode parses, once per record instead of once per field; None without any.

    ``wanted``: the arguments of encode. SQL supplies the rest.

    Raises
    ------
    ConfigError
        A field that only encode can read is requested in a form that its type does not have.
    """
    if isinstance(records, JsonRecords):
        return _json_plan(records, wanted)
    if isinstance(records, AvroRecords | ProtobufRecords):
        return _binary_plan(records, wanted)
    return _csv_plan(records, wanted)


def _json_expressions(records: JsonRecords) -> list[str]:
    """Return the SELECT expression of each field."""
    fields = records.fields.items()
    return [_field(records.column, name, *field, records.encodings.get(name)) for name, field in fields]


def _json_plan(records: JsonRecords, wanted: Sequence[Argument]) -> RecordArguments | None:
    """Return the fields of a record that encode reads; None without any.

    SQL supplies the rest: other columns, fields of other types (such as times), and paths with more than members and
    array indices.
    """
    fields: list[json_fields.JsonField] = []
    numbers: dict[str, int] = {}
    arguments: list[tuple[int, Form] | None] = []
    for name, form in wanted:
        here = name in records.fields and name not in records.encodings
        field = _read_here(*records.fields[name]) if here else None
        if field is None or form not in json_fields.FORMS[field.type]:
            arguments.append(None)
            continue
        if name not in numbers:
            numbers[name] = len(fields)
            fields.append(field)
        arguments.append((numbers[name], form))
    return RecordArguments(json_fields.JsonFields(tuple(fields)), tuple(arguments)) if fields else None


def _read_here(kind: str, path: str) -> json_fields.JsonField | None:
    sql, steps = parse(kind.upper()), json_steps(path)
    if sql.name not in json_fields.FORMS or steps is None:
        return None
    return json_fields.JsonField(steps, sql.name, sql.precision or 0, sql.scale)


def json_functions(records: Records) -> Iterator[JavaFunction]:
    """Yield the functions that ``records_query`` calls."""
    if not isinstance(records, JsonRecords):
        return
    for name, (kind, path) in records.fields.items():
        if is_array(kind):
            yield _array_function(kind, path)
        elif (function := _function(kind, records.encodings.get(name))) is not None:
            yield function


def _function(kind: str, encoding: str | None) -> JavaFunction | None:
    """Return the function that reads the text of a field; None where a cast does."""
    sql = parse(kind.upper())
    if encoding is not None:
        return encoded_function(sql, encoding)
    return time_function(sql) if sql.name in INSTANTS else None


def _array_function(kind: str, path: str) -> JavaFunction:
    element, steps = element_of(parse(kind.upper())), item_steps(path)
    if element is None or steps is None:
        raise ValueError(f"no array is read by {path}")
    return json_array_function(element, *steps)


def _field(column: str, name: str, kind: str, path: str, encoding: str | None) -> str:
    if is_array(kind):
        return f"{_array_function(kind, path).name}({quote(column)}) AS {quote(name)}"
    text = f"JSON_VALUE({quote(column)}, {literal(path)})"
    if (function := _function(kind, encoding)) is not None:
        members = encoded_members(encoding)
        texts = [f"JSON_VALUE({quote(column)}, {literal(f'{path}.{member}')})" for member in members] or [text]
        return f"{function.name}({', '.join(texts)}) AS {quote(name)}"
    return f"{text if kind.upper() == 'STRING' else f'TRY_CAST({text} AS {kind})'} AS {quote(name)}"


def _unfit_fields(records: AvroRecords | ProtobufRecords) -> Iterator[str]:
    """Yield the fields that the schema does not have, or has in another type."""
    schema = f"{records.place}.{'schema_file' if isinstance(records, AvroRecords) else 'descriptor_file'}"
    for name, (kind, path) in records.fields.items():
        where = f"{records.place}.fields.{name}"
        try:
            words, fit = _type_of(records, path)
        except (SchemaError, protobuf.DescriptorError) as error:
            yield f"{where}: {schema} {error}; correct the path, or leave the field out"
            continue
        if not fit:
            yield (
                f"{where}: {schema} has {words} there, which is not one value of one type; "
                "give the path of a field inside it, or leave the field out"
            )
        elif _form(parse(kind.upper())) not in map(_form, map(parse, fit)):
            yield f"{where}: {schema} has {words} there; declare it as {' or '.join(fit)}"


def _form(sql: ColumnType) -> tuple[Any, ...]:
    return sql.name, sql.precision, sql.scale, element_of(sql)


def _type_of(records: AvroRecords | ProtobufRecords, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the type of a field in words, and the SQL types as which it may be read."""
    array = array_of(path)
    if isinstance(records, AvroRecords):
        of = records.schema.find(path)
        words, is_array = article(of), array is None and of.kind == "array"
        value = of.parts[0].present if is_array else of
        fit = avro_types(value)
    else:
        leaf = records.message.find(path)[-1]
        is_array = array is None and protobuf.is_repeated(leaf)
        words, fit = protobuf.article(leaf), () if protobuf.is_map(leaf) else protobuf_types(leaf)
    return words, tuple(f"ARRAY<{kind}>" for kind in fit) if array is not None or is_array else fit


def _csv_plan(records: CsvRecords, wanted: Sequence[Argument]) -> RecordArguments | None:
    """Return the fields of a line that encode reads; None without any. SQL supplies other columns."""
    fields, arguments = _typed(records.place, records.fields, wanted)
    if not fields:
        return None
    positions = {name: place for place, name in enumerate(records.fields)}
    placed = tuple((positions[name], kind) for name, kind in fields.items())
    return RecordArguments(CsvFields(len(positions), placed, records.delimiter, records.quote, records.null), arguments)


def _binary_plan(records: AvroRecords | ProtobufRecords, wanted: Sequence[Argument]) -> RecordArguments | None:
    """Return the fields of an Avro or Protobuf record that encode reads; None without any. SQL supplies the rest."""
    types = {name: kind for name, (kind, _) in records.fields.items()}
    fields, arguments = _typed(records.place, types, wanted)
    if not fields:
        return None
    placed = tuple((records.fields[name][1], kind) for name, kind in fields.items())
    if isinstance(records, ProtobufRecords):
        return RecordArguments(ProtobufFields(records.message, placed, records.registry), arguments)
    return RecordArguments(AvroFields(records.schema, placed, records.registry), arguments)


def _typed(
    place: str, types: Mapping[str, str], wanted: Sequence[Argument]
) -> tuple[dict[str, CellType], tuple[tuple[int, Form] | None, ...]]:
    """Return the type of each field that encode reads, and number and form of the field for each argument.

    Raises
    ------
    ConfigError
        A field is requested in a form that its type does not have.
    """
    fields: dict[str, CellType] = {}
    arguments: list[tuple[int, Form] | None] = []
    problems = []
    for name, form in wanted:
        if name not in types:
            arguments.append(None)
            continue
        sql = parse(types[name].upper())
        if form not in FORMS[sql.name]:
            problems.append(f"{place}.fields.{name}: {sql.text} is not read as {form}; declare it as STRING")
        cell = element_of(sql) or sql
        kind = "TIMESTAMP" if cell.name == _INSTANT else cell.name
        fields.setdefault(name, CellType(kind, cell.precision or 0, cell.scale))
        arguments.append((list(fields).index(name), form))
    if problems:
        raise ConfigError("source", problems)
    return fields, tuple(arguments)
