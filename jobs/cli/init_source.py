"""Sources of ``crenel init``: a file of CSV, Parquet or JSON lines, or a statement with names and types alone."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.values import sql_type
from crenel.evidence.profile.profile import SMALL, ColumnProfile, Profile, form_of_type, measure
from crenel.jobs.config.source import TOKEN
from crenel.jobs.pipeline.sql_times import INSTANT
from crenel.operators.encode.cells import CellType
from crenel.operators.encode.csv_values import read_as
from crenel.operators.encode.json_fields import JsonFields
from crenel.profiling import sample_of

_DELIMITERS = (",", ";", "\t", "|")
_LEADING_ZERO = r"^-?0\d"
"""A code such as a ZIP code, which as a number would lose its zeros."""

_TYPES = {
    pa.int64(): CellType("BIGINT"),
    pa.float64(): CellType("DOUBLE"),
    pa.bool_(): CellType("BOOLEAN"),
    pa.date32(): CellType("DATE"),
    pa.timestamp("ms"): CellType("TIMESTAMP", 3),
}
"""Types of the fields of CSV, each with that of the query; a column has the first that all its values have."""

_NULLS = ("NA", "N/A", "NULL", "null", "NaN", "nan", "None", "?")
"""Texts that programs write for a missing value."""

_MARK = b"\xef\xbb\xbf"
_MOST_FIELDS = 1000
"""Maximum number of columns that are profiled of JSON lines."""

_CONVERT = "'crenel init' reads CSV, Parquet and lines of JSON: convert a sample to one of them"
_OTHER_FORMS = {
    b"\x1f\x8b": "is compressed by gzip; unpack it, such as by gunzip --keep",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; unpack it",
    b"BZh": "is compressed by bzip2; unpack it",
    b"\xfd7zXZ": "is compressed by xz; unpack it",
    b"PK\x03\x04": f"is a ZIP archive or a spreadsheet; {_CONVERT}",
    b"Obj\x01": f"is a file of Avro; {_CONVERT}, or give its schema by --contract",
    b"ORC": f"is a file of ORC; {_CONVERT}",
}
"""Files that are not read, by their first bytes, each with a remedy."""

_TABLE = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*CREATE\s+(?:TEMPORARY\s+)?TABLE\s+[^(]+(?P<rest>\(.*)", re.IGNORECASE | re.DOTALL
)
_NO_COLUMN = {"WATERMARK", "PRIMARY", "CONSTRAINT", "UNIQUE", "PERIOD"}
_WATERMARK = re.compile(r"WATERMARK\s+FOR\s+(`[^`]*`|\S+)", re.IGNORECASE)
_OPTIONS_OF_A_COLUMN = re.compile(r"\s+(?:NOT\s+NULL|NULL|METADATA|COMMENT|PRIMARY|CONSTRAINT)\b.*", re.I | re.S)


class SourceError(InputError):
    """Error for an unusable source of ``crenel init``; the message holds no value of a record."""


@dataclass(frozen=True)
class Described:
    """A source with the profile of its columns.

    Attributes
    ----------
    profile : figures of the sample; names and types alone for a statement
    ddl : statement that creates the table ``source``
    query : statement that selects the columns with their types; None: all columns as they are
    unfit : number of lines of a CSV file with another number of fields than its first line, or of other lines than
        objects of JSON
    json_fields : type and steps of each column of JSON lines; empty for other sources
    left_out : fields of JSON lines that are no columns, each with the reason in words
    sample : the profiled rows; None for a statement
    """

    profile: Profile
    ddl: str
    query: str | None
    unfit: int = 0
    json_fields: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    sample: pa.Table | None = None


def describe(path: Path, rows: int, names: Sequence[str]) -> Described:
    """Read the columns of a source, and profile its first rows.

    Parameters
    ----------
    names : names of the columns of a CSV file without them; empty: its first line holds them

    Raises
    ------
    SourceError
        The file cannot be read, or its first line holds no names.
    """
    try:
        with path.open("rb") as file:
            start = file.read(1024)
        if start.startswith(b"PAR1"):
            return _of_parquet(path, rows)
        if path.suffix.lower() in (".sql", ".ddl") or re.match(rb"\s*CREATE\s+(TEMPORARY\s+)?TABLE\s", start, re.I):
            return _of_statement(path)
        if (other := _other_form(start)) is not None:
            raise SourceError(f"{path} {other}")
        return _of_json(path, rows) if _is_json(start) else _of_csv(path, rows, names)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or 'it is no such file'}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{path} is not UTF-8 text; save the file as UTF-8") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # its message quotes values of records
        raise SourceError(f"{path} cannot be read as CSV or Parquet; give a file with one record per line") from None


def _is_json(start: bytes) -> bool:
    return start.removeprefix(_MARK).lstrip().startswith((b'{"', b"{ ", b"{\n", b"{}"))


def _other_form(start: bytes) -> str | None:
    """Return what a file is that is neither CSV nor Parquet, with a remedy; None where it may be CSV."""
    if any(byte < 9 for byte in start):  # a name of a column may begin with ORC
        for magic, form in _OTHER_FORMS.items():
            if start.startswith(magic):
                return form
    if start.removeprefix(_MARK).lstrip().startswith((b"[{", b"[\n")):
        return "is an array of JSON; give a file with one object per line, such as by jq -c .[]"
    return None


def quoted(name: str) -> str:
    """Return a name for SQL within a configuration, where a dollar begins a variable."""
    return f"`{name.replace('`', '``')}`".replace("$", "$$")


def literal(text: str) -> str:
    """Return a text for SQL within a configuration."""
    return f"'{text.replace(chr(39), chr(39) * 2)}'".replace("$", "$$")


def _of_parquet(path: Path, rows: int) -> Described:
    with pyarrow.parquet.ParquetFile(path) as file:
        reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        sample, types = sample_of(reader, rows)
    source_profile = measure(sample, types)
    columns = [f"{quoted(column.name)} {column.type}" for column in source_profile.columns]
    return Described(
        source_profile,
        _ddl(path, columns, "parquet", {"parquet.utc-timezone": "true"}),
        _with_instants(source_profile.columns),
        sample=sample,
    )


def _of_json(path: Path, rows: int) -> Described:
    """Read lines of JSON, as ``source.from_json`` reads them; arrays are left out."""
    with path.open("rb") as file:
        read = [(line.rstrip(b"\r\n"), _object(line)) for line in islice(file, rows)]
    lines = pa.array([line for line, record in read if record is not None], pa.binary())
    objects = [record for _, record in read if record is not None]
    if not objects:
        raise SourceError(f"{path} has no line with an object of JSON; give a file with one object per line")
    paths, left_out = _paths(objects)
    if not paths or len(paths) > _MOST_FIELDS:
        raise SourceError(
            f"{path} has {len(paths):,} fields with a value of their own, and 'crenel init' reads from 1 to "
            f"{_MOST_FIELDS:,}; {_CONVERT}"
        )
    texts = JsonFields(tuple((path, CellType("STRING")) for path in paths)).columns(lines)
    typed = pa.table(
        {".".join(path): _typed(pa.chunked_array([cells.text])) for path, cells in zip(paths, texts, strict=True)}
    )
    fields = {
        name: ("TIMESTAMP_LTZ(3)" if pa.types.is_timestamp(column.type) else sql_type(column.type), path)
        for path, (name, column) in zip(paths, zip(typed.column_names, typed.columns, strict=True), strict=True)
    }
    return Described(
        _profiled(typed),
        _ddl(path, ["record STRING"], "raw", {}),
        None,
        len(read) - len(objects),
        fields,
        left_out,
        typed,
    )


def _profiled(typed: pa.Table) -> Profile:
    return measure(typed, {field.name: sql_type(field.type) for field in typed.schema})


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _paths(objects: Sequence[dict[str, Any]]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the paths of single values, and the fields that are left out, with the reason in words.

    The name of a field that few objects have may be a value, such as a person's.
    """
    held, arrays, objects_at = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), set[tuple[str, ...]]()
    for each in objects:
        waiting: list[tuple[tuple[str, ...], Any]] = [((), each)]
        while waiting:
            path, value = waiting.pop()
            if isinstance(value, dict):
                objects_at.add(path)
                waiting += reversed([((*path, name), inner) for name, inner in value.items()])
            else:
                (arrays if isinstance(value, list) else held)[path] += 1
    least = min(SMALL, len(objects))
    known = [path for path in held if path not in objects_at and path not in arrays]
    paths = [path for path in known if held[path] >= least]
    by_name = Counter(".".join(path) for path in paths)
    paths = [path for path in paths if by_name[".".join(path)] == 1]
    left_out = [f"{'.'.join(path)} is an array" for path, count in arrays.items() if count >= least]
    left_out += [f"{name} is the name of {count} fields" for name, count in by_name.items() if count > 1]
    if few := sum(held[path] < least for path in known) + sum(count < least for count in arrays.values()):
        left_out.append(f"{few:,} further fields are in fewer than {least} records")
    return paths, left_out


def _of_csv(path: Path, rows: int, names: Sequence[str]) -> Described:
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
    if not line.strip():
        raise SourceError(f"{path} begins with an empty line; give a file with the names of its columns there")
    delimiter = max(_DELIMITERS, key=line.count)
    first = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    if names and len(names) != len(first):
        raise SourceError(f"--columns: {len(names)} names, and the file has {len(first)} columns; give one for each")
    chosen = list(names) or first
    unfit: list[int] = []
    table = _read_csv(path, rows, chosen, delimiter, unfit, has_names=not names)
    if not names and _is_record(first, table):
        raise SourceError(
            f"{path} begins with a record, or with names that repeat or are empty; give the names by --columns "
            "NAME,NAME,..., or in its first line"
        )
    if len(set(chosen)) < len(chosen):
        raise SourceError("--columns: a name repeats; give each column its own")
    null = max(_NULLS, key=lambda text: sum(_count(column, text) for column in table.columns))
    typed = pa.table({name: _typed(_without(table.column(name), null)) for name in chosen})
    columns = [f"{quoted(name)} STRING" for name in chosen]
    nulls = [null if _count(table.column(name), null) else None for name in chosen]
    selected = [_parsed(quoted(of.name), of.type, null) for of, null in zip(typed.schema, nulls, strict=True)]
    condition = None if names else f"{quoted(chosen[0])} IS DISTINCT FROM {literal(first[0])}"
    delimiters = {} if delimiter == "," else {"csv.field-delimiter": delimiter.replace("\t", "\\t")}
    ddl, query = _ddl(path, columns, "csv", delimiters), _select(selected, condition)
    return Described(_profiled(typed), ddl, query, len(unfit), sample=typed)


def _read_csv(
    path: Path, rows: int, names: list[str], delimiter: str, unfit: list[int], *, has_names: bool
) -> pa.Table:
    """Return the first rows as text without outer spaces, an empty field as a missing value.

    ``unfit`` grows by the numbers of fields of lines with others than ``names``.
    """

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        unfit.append(row.actual_columns)
        return "skip"

    positions = [str(number) for number in range(len(names))]  # names may repeat until they are checked
    options = {
        "read_options": pyarrow.csv.ReadOptions(column_names=positions, skip_rows=int(has_names)),
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip
        ),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(positions, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    }
    schema = pa.schema([(position, pa.string()) for position in positions])
    batches, missing = [], rows
    with pyarrow.csv.open_csv(path, **options) as reader:
        for batch in reader:
            batches.append(batch.slice(0, missing))
            missing -= batches[-1].num_rows
            if not missing:
                break
    table = pa.Table.from_batches(batches, schema).rename_columns(names)
    return pa.table([pc.utf8_trim_whitespace(column) for column in table.columns], names)


def _is_record(names: list[str], table: pa.Table) -> bool:
    """Return whether a first line holds values instead of names: a number, a day, or a value of its own column."""
    if len(set(names)) < len(names) or not all(names):
        return True
    if any(_typed(pa.chunked_array([[name]])).type != pa.string() for name in names):
        return True
    return any(pc.any(pc.equal(table.column(name), name)).as_py() for name in names)


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text with the type that all its values have."""
    if column.null_count == len(column) or pc.any(pc.match_substring_regex(column, _LEADING_ZERO)).as_py():
        return column
    texts = column.combine_chunks()
    for kind, cell in _TYPES.items():
        values = read_as(cell, texts)
        if values.null_count > texts.null_count:
            continue
        if pa.types.is_timestamp(kind):
            return pa.chunked_array([values])
        try:  # the query reads 1.5 as a whole number, y as a Boolean, and a time as a day
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def _count(column: pa.ChunkedArray, text: str) -> int:
    return pc.sum(pc.equal(column, text)).as_py() or 0


def _without(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """Return a column with missing values in the place of a text."""
    return pc.if_else(pc.equal(column, text), None, column) if _count(column, text) else column


def _parsed(name: str, kind: pa.DataType, null: str | None) -> str:
    """Return the SQL expression that reads a text column as its type; a value that cannot be read is missing.

    ``null``: text of a missing value beside the empty one; None: there is none
    """
    if pa.types.is_string(kind):
        text = f"NULLIF(TRIM({name}), '')"
        return f"{text} AS {name}" if null is None else f"NULLIF({text}, {literal(null)}) AS {name}"
    if pa.types.is_timestamp(kind):
        return f"{INSTANT}({name}) AS {name}"
    return f"TRY_CAST(TRIM({name}) AS {sql_type(kind)}) AS {name}"


def _as_instant(expression: str, name: str) -> str:
    return f"CAST({expression} AS TIMESTAMP_LTZ(3)) AS {name}"


def _with_instants(columns: Sequence[ColumnProfile]) -> str | None:
    """Return the query that reads all times as event times are read; None where they are already."""
    times = {
        column.name for column in columns if column.type.startswith("TIMESTAMP") and column.type != "TIMESTAMP_LTZ(3)"
    }
    names = {column.name: quoted(column.name) for column in columns}
    selected = [_as_instant(text, text) if name in times else text for name, text in names.items()]
    return _select(selected) if times else None


def _select(selected: Sequence[str], condition: str | None = None) -> str:
    where = "" if condition is None else f"\nWHERE {condition}"
    return "SELECT\n  " + ",\n  ".join(selected) + f"\nFROM source{where}"


def _ddl(path: Path, columns: Sequence[str], form: str, further: dict[str, str]) -> str:
    options = {"connector": "filesystem", "path": str(path.absolute()), "format": form, **further}
    lines = ",\n  ".join(f"{literal(name)} = {literal(value)}" for name, value in options.items())
    return "CREATE TEMPORARY TABLE source (\n  " + ",\n  ".join(columns) + f"\n) WITH (\n  {lines}\n)"


def _of_statement(path: Path) -> Described:
    text = path.read_text(encoding="utf-8-sig").strip().rstrip(";")
    statement = _TABLE.match(text)
    if statement is None:
        raise SourceError(f"{path} is no statement CREATE TABLE name (...) WITH (...); give one such statement")
    rest = statement["rest"]
    items = [*_items(rest)]
    marked = {mark[1].strip("`") for item in items if (mark := _WATERMARK.match(item)) is not None}
    columns = tuple(
        ColumnProfile(name, sql or "computed", "timestamp" if name in marked else form_of_type(sql or "STRING"))
        for name, sql in filter(None, map(_column, items))
    )
    if not columns:
        raise SourceError(f"{path} declares no column; write each as: name TYPE")
    ddl = f"CREATE TEMPORARY TABLE source {rest}"
    return Described(Profile(0, SMALL, columns), ddl, _with_instants(columns))


def _items(text: str) -> Iterator[str]:
    """Yield the items of the first list in parentheses, without comments."""
    depth, item, end = 0, "", 0
    for match in TOKEN.finditer(text):
        token = match[0]
        if token.startswith(("--", "/*")):
            continue
        space, end = " " if match.start() > end else "", match.end()
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(token, 0)
        if depth == 0 or (depth == 1 and token == ","):
            yield item.strip()
            item = ""
            if depth == 0:
                return
        elif item or token != "(":
            item += space + token


def _column(item: str) -> tuple[str, str | None] | None:
    """Return name and type of a column, None as the type of a computed one; None for what is no column."""
    match = re.match(r"(?:`((?:[^`]|``)*)`|(\S+))\s+(.*)", item, re.DOTALL)
    if match is None or (match[2] or "").upper() in _NO_COLUMN:
        return None
    name = match[2] if match[1] is None else match[1].replace("``", "`")
    if re.match(r"AS\b", match[3], re.IGNORECASE):
        return name, None
    return name, re.sub(r"\s+", " ", _OPTIONS_OF_A_COLUMN.sub("", match[3])).strip().upper()
