"""Formats of records in one column, whose fields become columns: the extension point behind ``source.from_NAME``."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import AfterValidator, BeforeValidator

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fields import Column
from crenel.jobs.pipeline.packing import JavaFunction
from crenel.jobs.pipeline.sql_expressions import quote
from crenel.operators.column_types import element_of, parse
from crenel.operators.encode.cells import FORMS, CellType
from crenel.operators.encode.columns import Argument, Form
from crenel.operators.encode.records import Fields, RecordArguments
from crenel.settings_file import FileSection

if TYPE_CHECKING:
    from typing import Any

PLAIN = "STRING|BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DATE"
DECIMAL = r"DECIMAL\([0-9]{1,2}(, ?[0-9]{1,2})?\)"
JACKSON = r"[\w.$]*\.jackson\.core\.[\w.$]*(JsonParseException|JsonEOFException): "
"""Beginning of a failure of the parser that Flink reads JSON and CSV with."""


class RecordFormat(FileSection):
    """Records of one format in a column of the source, so that an unreadable record is a row like others.

    A subclass has the fields of the section ``source.from_NAME``, among them ``fields``: the section, or the SQL type,
    of each resulting column by its name.

    Attributes
    ----------
    name : of the format, and of its section
    example : a valid section, in YAML
    content : what the column holds of a record, "text" or "bytes"
    record : one record in words
    page : page about the format, to which messages point; empty: there is none
    ended_by : Flink's own formats that end a job at a record, with that record in words
    is_ended_by_files : whether these end a job that reads files, too
    failures : patterns in the trace of a job that Flink's own format of this name has ended, by the cause in words
    column : of the table ``source``, which holds a record
    """

    name: ClassVar[str]
    example: ClassVar[str]
    content: ClassVar[str] = "bytes"
    record: ClassVar[str] = "record"
    page: ClassVar[str] = ""
    ended_by: ClassVar[Mapping[str, str]] = {}
    is_ended_by_files: ClassVar[bool] = True
    failures: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    column: Column
    if TYPE_CHECKING:  # behind other fields in the file
        fields: dict[str, Any]

    @abstractmethod
    def reader(self, fields: Mapping[str, CellType]) -> Fields:
        """Return the reader of some fields, from the type of each column, or of its elements, in order."""

    @classmethod
    def precompile(cls) -> None:
        """Compile the reader ahead of its first use; without compiled code there is nothing to do."""

    @property
    def place(self) -> str:
        """Name of the section in a configuration."""
        return f"source.from_{self.name}"

    @property
    def types(self) -> dict[str, str]:
        """SQL type by column."""
        return {name: of if isinstance(of, str) else of.type for name, of in self.fields.items()}

    @property
    def paths(self) -> dict[str, str]:
        """Path in the record by column, where a field has one of another name."""
        paths = {name: getattr(of, "path", None) for name, of in self.fields.items()}
        return {name: path.removeprefix("$.") for name, path in paths.items() if path is not None}

    @property
    def parsing_options(self) -> str:
        """Parsing options that ``query`` does not contain, for the fingerprint of stored state."""
        return ""

    def problems(self) -> Iterable[str]:
        """Return problems of the fields, such as those that a schema does not have, each with its field."""
        return ()

    def expression(self, name: str) -> str:
        """Return a column in SQL; a NULL of its type where only encode can read it."""
        return f"CAST(NULL AS {self.types[name]})"

    def functions(self) -> Iterator[JavaFunction]:
        """Yield the functions that ``expression`` calls."""
        yield from ()

    def is_parsed(self, name: str, form: Form) -> bool:
        """Return whether encode reads a column in a form; otherwise ``expression`` does."""
        return True

    def query(self, columns: Sequence[str], record: str | None = None) -> str:
        """Return a SELECT of the fields and of all other columns of the source; unreadable fields are missing values.

        Parameters
        ----------
        columns : names of the columns of the table ``source``
        record : a further column, which holds the record's bytes; None: there is none

        Raises
        ------
        ConfigError
            The table has no such column, or has a column with the name of a field, or the fields have ``problems``.
        """
        others = [column for column in columns if column != self.column]
        problems = []
        if len(others) == len(columns):
            problems.append(
                f"{self.place}.column: the table source has no column {self.column!r}; one of {', '.join(columns)}"
            )
        problems += [
            f"{self.place}.fields.{name}: the table source has a column of that name too; rename one of the two"
            for name in self.fields
            if name in others
        ]
        problems += self.problems()
        if problems:
            raise ConfigError("source", problems)
        made = [f"{self.expression(name)} AS {quote(name)}" for name in self.fields]
        if record is not None:
            made.append(f"CAST({quote(self.column)} AS BYTES) AS {quote(record)}")
        return f"SELECT {', '.join([*made, *map(quote, others)])} FROM source"

    def arguments(self, wanted: Sequence[Argument]) -> RecordArguments | None:
        """Return the fields that encode parses, once per record instead of once per field; None without any.

        ``wanted``: the arguments of encode. SQL supplies the rest.

        Raises
        ------
        ConfigError
            A field that only encode can read is requested in a form that its type does not have.
        """
        types = {name: parse(kind.upper()) for name, kind in self.types.items()}
        fields: dict[str, CellType] = {}
        arguments: list[tuple[int, Form] | None] = []
        problems = []
        for name, form in wanted:
            if name not in types or not self.is_parsed(name, form):
                arguments.append(None)
                continue
            sql = types[name]
            if form not in FORMS[sql.name]:
                problems.append(f"{self.place}.fields.{name}: {sql.text} is not read as {form}; declare it as STRING")
            cell = element_of(sql) or sql
            kind = "TIMESTAMP" if cell.name == "TIMESTAMP_LTZ" else cell.name
            fields.setdefault(name, CellType(kind, cell.precision or 0, cell.scale))
            arguments.append((list(fields).index(name), form))
        if problems:
            raise ConfigError("source", problems)
        return RecordArguments(self.reader(fields), tuple(arguments)) if fields else None

    @classmethod
    def advice(cls) -> str:
        """Return how to read records so that those that cannot be read do not end the job."""
        raw = "'raw'" if cls.content == "text" else "'raw' into a column of BYTES"
        return (
            f"read each {cls.record} as 'format' = {raw}, and its fields with source.from_{cls.name}, so that such a "
            f"{cls.record} is rejected with a reason" + (f": {cls.page}" if cls.page else "")
        )


F = TypeVar("F", bound=RecordFormat)

_KNOWN: dict[str, type[RecordFormat]] = {}


def add_format(kind: type[F]) -> type[F]:
    """Register the class of a format by its name, as ``extensions`` of a configuration do.

    Registering a class twice has no effect; another class of the same name raises ``ValueError``.
    """
    known = (known_formats() | _KNOWN).setdefault(kind.name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"source.from_{kind.name}: there are two formats of this name")
    _KNOWN[kind.name] = kind
    return kind


def known_formats() -> dict[str, type[RecordFormat]]:
    """Return the classes of all formats, by name."""
    builtin = import_module("crenel.jobs.formats.builtin")
    return {kind.name: kind for kind in builtin.FORMATS} | _KNOWN


def short_for(key: str) -> BeforeValidator:
    """Return a validator that takes a text for a mapping with one key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def type_of(pattern: str, what: str) -> AfterValidator:
    """Return a validator of SQL types; ``what`` is read as one of them."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text.strip(), re.IGNORECASE):
            raise ValueError(f"is not a type that {what} is read as")
        return text.strip()

    return AfterValidator(check)


def is_array(text: str) -> bool:
    """Return whether a type is one of arrays."""
    return text.strip().upper().startswith("ARRAY")
