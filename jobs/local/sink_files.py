"""Reader of the finished files of a sink with the connector ``filesystem``, without Flink."""

from __future__ import annotations

import codecs
import io
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import SEPARATOR
from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.policy import ITEMS
from crenel.operators.encode.columns import array_texts, field_at
from crenel.operators.output_columns import IN_FORCE

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Texts of numbers by those that Arrow writes."""

MIXED = ", or of several configurations that a job was restored with: 'crenel verify' reads them with all of these"
"""End of a message about outputs that do not fit a configuration."""

FORM = "\0form"
"""Name of a column with the names of the columns that a row has, where rows differ in that; null: unknown."""


class OutputsError(InputError):
    """Error for unreadable outputs, or those of another configuration: one line, which begins with a field."""

    lead = ": "


@dataclass(frozen=True)
class Form:
    """Columns that a row of a folder may have: those of one configuration.

    Attributes
    ----------
    options : of the sink; ``format`` is ``csv``, ``json`` or ``parquet``
    columns : required columns of each row, in this order where the format has no names
    paths : where each column is in a nested record (``crenel.jobs.pipeline.sink_columns.released_paths``); None:
        records are flat
    arrays : sensitive arrays among the columns, which become JSON; other arrays are sets
    digest : that the column ``in_force`` of such a row has, where it has this column
    """

    options: Mapping[str, str]
    columns: Sequence[str]
    paths: Mapping[str, tuple[str, ...]] | None = None
    arrays: Collection[str] = ()
    digest: str = ""

    @property
    def names(self) -> dict[tuple[str, ...], str]:
        """The columns by their place in a record."""
        return {path: name for name, path in (self.paths or {name: (name,) for name in self.columns}).items()}

    @property
    def text(self) -> str:
        """The names of the columns as one text."""
        return "\n".join(self.columns)

    @property
    def older(self) -> Form:
        """The form of rows that an older version wrote, without ``in_force``."""
        return replace(self, columns=[name for name in self.columns if name != IN_FORCE.name], digest="")


def read_folder(
    sink: str, folder: Path, forms: Sequence[Form]
) -> tuple[dict[str, pa.ChunkedArray], tuple[tuple[str, int], ...]] | None:
    """Return all rows of the finished files of a folder, as text columns, and name and row count of each file.

    The rows come in the order of the files. None without such files.

    Parameters
    ----------
    forms : each row has the columns of one of them, and is null in all others

    Raises
    ------
    OutputsError
        A file cannot be read, ends in the middle of a line, or has other columns. The message holds no value of a
        record.
    """
    place = f"sinks.{sink}.path: {folder}"
    forms = [*forms, *(form.older for form in forms if IN_FORCE.name in form.columns)]
    columns = list(dict.fromkeys(name for form in forms for name in form.columns))
    columns += [FORM] if len({form.text for form in forms}) > 1 else []
    try:
        files = list(_finished(folder))
        if not files and _unfinished(folder):
            raise OutputsError(f"{place} holds unfinished files only; wait for a checkpoint, or for the job's end")
        read = {"csv": _csv, "json": _json, "parquet": _parquet}[forms[0].options["format"]]
        parts = [(file.name, part) for file in files if (part := read(place, file, forms)) is not None]
    except OSError as error:
        raise OutputsError(f"{place} cannot be read: {error.strerror}") from None
    if not parts:
        return None
    rows = [len(next(iter(part.values()))) for _, part in parts]
    texts = {
        name: pa.chunked_array(
            [
                chunk
                for (_, part), count in zip(parts, rows, strict=True)
                for chunk in (part[name].chunks if name in part else [pa.nulls(count, pa.string())])
            ],
            pa.string(),
        )
        for name in columns
    }
    return texts, tuple((name, count) for (name, _), count in zip(parts, rows, strict=True))


def _finished(folder: Path) -> Iterator[Path]:
    """Yield finished files: names of unfinished files begin with a dot, and those of metadata with an underscore."""
    for path in _files(folder):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if not hidden and ".inprogress." not in path.name and S_ISREG(path.stat().st_mode):
            yield path


def _unfinished(folder: Path) -> bool:
    return any(".inprogress." in path.name for path in _files(folder))


def _files(folder: Path) -> list[Path]:
    """Return what a folder holds, or a file itself, in order; nothing where there is no folder.

    Raises
    ------
    OSError
        A part of the folder, or the target of a link, cannot be read: its files would otherwise count as missing.
    """
    if folder.is_file():
        return [folder]
    if not folder.exists() and not folder.is_symlink():
        return []

    def refuse(error: OSError) -> None:
        raise error

    return sorted(Path(above, name) for above, _, names in os.walk(folder, onerror=refuse) for name in names)


def _csv(place: str, file: Path, forms: Sequence[Form]) -> dict[str, pa.ChunkedArray] | None:
    content = _whole(place, file)
    if not content:
        return None
    widths = list(dict.fromkeys(len(form.columns) for form in forms))
    tables = {width: _csv_rows(place, file, content, forms[0].options, width) for width in widths}
    wrong = next(iter(tables.values()))[1]
    for _, skipped in tables.values():
        wrong = {number: width for number, width in wrong.items() if number in skipped}
    if wrong:
        number, actual = next(iter(wrong.items()))
        expected = " or ".join(map(str, sorted({len(form.columns) for form in forms if form.digest} or widths)))
        raise OutputsError(
            f"{place}: line {number} of {file.name} has {actual} columns, and by this configuration it would be "
            f"{expected}; these are outputs of another policy{_or_chain(place)}{MIXED}"
        )
    pieces: list[tuple[NDArray[np.int64], dict[str, pa.ChunkedArray]]] = []
    for width, (table, skipped) in tables.items():
        numbers = np.setdiff1d(np.arange(1, table.num_rows + len(skipped) + 1), [*skipped])
        fitting = [form for form in forms if len(form.columns) == width]
        for columns, own in _csv_forms(place, file, table, fitting):
            part = table if own is None else table.filter(pa.array(own))
            named = dict(zip(columns, part.columns, strict=True))
            named[FORM] = pa.chunked_array([pa.repeat(pa.scalar("\n".join(columns)), part.num_rows)])
            pieces.append((numbers if own is None else numbers[own], named))
    pieces = [(numbers, part) for numbers, part in pieces if len(numbers)]
    if len(pieces) == 1:
        return pieces[0][1]
    order = np.argsort(np.concatenate([numbers for numbers, _ in pieces]), kind="stable")
    return {
        name: pa.chunked_array(
            [
                chunk
                for numbers, part in pieces
                for chunk in (part[name].chunks if name in part else [pa.nulls(len(numbers), pa.string())])
            ],
            pa.string(),
        ).take(pa.array(order))
        for name in dict.fromkeys(name for _, part in pieces for name in part)
    }


def _csv_rows(
    place: str, file: Path, content: bytes, options: Mapping[str, str], width: int
) -> tuple[pa.Table, dict[int, int]]:
    """Return the rows of a number of columns, and the widths of all other rows by their number, from 1."""
    others: dict[int, int] = {}

    def note(row: pyarrow.csv.InvalidRow) -> str:
        others[row.number] = row.actual_columns
        return "skip"

    disabled = options.get("csv.disable-quote-character", "false").lower() == "true"
    quote = False if disabled else _character(options, "quote-character", '"')
    literal = options.get("csv.null-literal", "")
    columns = [str(number) for number in range(width)]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(content),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=columns, block_size=len(content) + 1),
            pyarrow.csv.ParseOptions(
                delimiter=_character(options, "field-delimiter", ","),
                quote_char=quote,
                escape_char=_character(options, "escape-character", "") or False,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[literal],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError):
        raise OutputsError(f"{place}: {file.name} is not CSV as the options of the sink say") from None
    return table, others


def _csv_forms(
    place: str, file: Path, table: pa.Table, forms: Sequence[Form]
) -> Iterator[tuple[Sequence[str], NDArray[np.bool_] | None]]:
    """Yield the columns of rows of one width, and which rows have them; None: all rows.

    Where several configurations have as many columns, the column ``in_force`` of a row of ``audit`` tells them apart.
    """
    if len({tuple(form.columns) for form in forms}) == 1:
        yield forms[0].columns, None
        return
    rest = np.ones(table.num_rows, np.bool_)
    for form in forms:
        if form.digest:
            own = pc.fill_null(pc.equal(table.column(list(form.columns).index(IN_FORCE.name)), form.digest), False)
            own = own.to_numpy() & rest
            rest &= ~own
            yield form.columns, own
    others = list(dict.fromkeys(tuple(form.columns) for form in forms if not form.digest))
    if len(others) == 1:
        yield others[0], rest
    elif rest.any():
        raise OutputsError(
            f"{place}: {file.name} has rows of CSV that fit several configurations; give each a folder of its own"
        )


def _or_chain(place: str) -> str:
    return ", or with another audit_chain" if place.startswith("sinks.audit.") else ""


def _json(place: str, file: Path, forms: Sequence[Form]) -> dict[str, pa.ChunkedArray] | None:
    content = _whole(place, file)
    if not content:
        return None
    options, arrays = forms[0].options, {name for form in forms for name in form.arrays}
    names = {path: name for form in forms for path, name in form.names.items()}
    values_of: dict[str, list[str | None]] = {name: [] for name in names.values()}
    nulls_are_left_out = options.get("json.encode.ignore-null-fields", "false").lower() == "true"
    known = {frozenset(form.columns): form.text for form in forms}
    values_of[FORM] = []
    records = _NestedRecords(names, is_complete=not nulls_are_left_out)
    for number, line in enumerate(content.splitlines(), 1):
        try:
            # Numbers keep their spelling.
            row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        except ValueError:
            raise OutputsError(f"{place}: line {number} of {file.name} is not JSON") from None
        if isinstance(row, dict):
            row = dict(records.flat(row))
        if (
            not isinstance(row, dict)
            or not any(row.keys() <= names if nulls_are_left_out else row.keys() == names for names in known)
            or not all(isinstance(row.get(name), list | None) for name in arrays if name in values_of)
        ):
            raise OutputsError(
                f"{place}: line {number} of {file.name} has other columns than this configuration gives; these are "
                f"outputs of another policy{_or_chain(place)}{MIXED}"
            )
        row[FORM] = known.get(frozenset(row))
        for name, values in values_of.items():
            value = row.get(name)
            if isinstance(value, list) and name not in arrays:  # a set
                value = SEPARATOR.join(map(str, value))
            values.append(value if value is None or isinstance(value, str) else json.dumps(value))
    return {name: pa.chunked_array([pa.array(values, pa.string())]) for name, values in values_of.items()}


class _NestedRecords:
    """Reader of the columns of nested records.

    Parameters
    ----------
    names : name of each column by its path
    is_complete : whether each record has all columns, null where missing
    """

    def __init__(self, names: Mapping[tuple[str, ...], str], *, is_complete: bool) -> None:
        self._names, self._is_complete = names, is_complete
        self._inside: dict[tuple[str, ...], dict[str, None]] = {}  # columns in the rows of each array
        for path, name in names.items():
            for end, step in enumerate(path[:-1], 1):
                if step.endswith(ITEMS):
                    self._inside.setdefault(path[:end], {})[name] = None

    def flat(self, row: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
        """Yield name and value of each column of a record; an unknown one has its path in the place of the name."""
        for key, value in row.items():
            path, items = (*above, key), (*above, f"{key}{ITEMS}")
            if path in self._names:
                yield self._names[path], value
            elif isinstance(value, dict):
                yield from self.flat(value, path)
            elif items in self._inside and _are_rows(value):
                yield from self._of_items(value, items)
            else:
                yield path, value

    def _of_items(self, rows: list[Any] | None, items: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
        """Yield the columns of the rows of an array, each with the values of all rows."""
        flat_rows = [dict(self.flat(row, items)) for row in rows or ()]
        known = self._inside[items]
        for name in known | {name: None for row in flat_rows for name in row}:
            if name not in known or not self._is_complete or all(name in row for row in flat_rows):
                yield name, None if rows is None else [row.get(name) for row in flat_rows]


def _are_rows(value: Any) -> bool:
    """Return whether a value is an array of rows, or null."""
    return value is None or (isinstance(value, list) and all(isinstance(each, dict) for each in value))


def _parquet(place: str, file: Path, forms: Sequence[Form]) -> dict[str, pa.ChunkedArray] | None:
    try:
        table = pyarrow.parquet.read_table(file)
        for form in forms:
            if table.column_names == list(dict.fromkeys(first.removesuffix(ITEMS) for first, *_ in form.names)):
                texts = {
                    name: _text(_field(table[path[0].removesuffix(ITEMS)], path), as_json=name in form.arrays)
                    for path, name in form.names.items()
                }
                return texts | {FORM: pa.chunked_array([pa.repeat(pa.scalar(form.text), table.num_rows)])}
    except pa.ArrowException:
        raise OutputsError(f"{place}: {file.name} is not a whole file of Parquet") from None
    raise OutputsError(
        f"{place}: {file.name} has other columns than this configuration gives; these are outputs of another "
        f"policy{MIXED}"
    )


def _field(column: pa.ChunkedArray, path: Sequence[str]) -> pa.ChunkedArray:
    """Return a field of a column; ``path`` begins with its name."""
    if len(path) == 1:
        return column
    return pa.chunked_array([field_at(chunk, path) for chunk in column.chunks or [column.combine_chunks()]])


def _text(column: pa.ChunkedArray, *, as_json: bool) -> pa.ChunkedArray:
    if as_json:
        return pa.chunked_array([array_texts(column)])
    if column.type == pa.list_(pa.string()):  # a set
        return pc.binary_join(column, SEPARATOR)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):  # passed through
        return pa.chunked_array([[None if value is None else str(value) for value in column.to_pylist()]], pa.string())
    if pa.types.is_decimal(column.type):  # Arrow writes a zero as 0.E-10
        texts = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.chunked_array([texts], pa.string())
    text = pc.cast(column, pa.string())
    if pa.types.is_floating(column.type):
        for of_arrow, of_others in _NOT_FINITE.items():
            text = pc.if_else(pc.equal(text, of_arrow), of_others, text)
    return text


def _whole(place: str, file: Path) -> bytes:
    """Return the bytes of a file that consists of complete lines."""
    content = file.read_bytes()
    if content and not content.endswith(b"\n"):
        raise OutputsError(f"{place}: {file.name} is cut off in the middle of its last line")
    return content


def _character(options: Mapping[str, str], name: str, default: str) -> str:
    r"""Return a character from the CSV options, which Flink accepts with escapes, as ``\t``."""
    given = options.get(f"csv.{name}", default)
    return codecs.decode(given, "unicode_escape") if given.startswith("\\") and len(given) > 1 else given
