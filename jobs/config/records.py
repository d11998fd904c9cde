"""Records in one column, whose fields become columns: ``source.from_json`` and its like for CSV, Avro and Protobuf."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic import model_validator as check

from crenel.anonymity.model.errors import read_text
from crenel.anonymity.model.fields import Column, reading
from crenel.anonymity.model.policy import ITEMS
from crenel.anonymity.model.secret import Secret
from crenel.anonymity.model.secret_field import KEY_SOURCES, secret_field
from crenel.operators.encode.avro.schema import AvroType, SchemaError, parse
from crenel.operators.encode.protobuf.schema import DescriptorError, MessageType, is_descriptor_set, read_message
from crenel.operators.encode.schema_registry import SchemaRegistry
from crenel.settings_file import FileSection

_WORDS = "STRING|BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DATE"
_DECIMAL = r"DECIMAL\([0-9]{1,2}(, ?[0-9]{1,2})?\)"
_TIME = r"(TIME|TIMESTAMP|TIMESTAMP_LTZ)(\([0-9]\))?"
_JSON_VALUE = rf"({_WORDS}|{_TIME}|{_DECIMAL})"
_JSON_TYPE = re.compile(rf"{_JSON_VALUE}|ARRAY<{_JSON_VALUE}>", re.IGNORECASE)
_CSV_TYPE = re.compile(rf"({_WORDS}|TIMESTAMP(_LTZ)?(\([036]\))?|{_DECIMAL})", re.IGNORECASE)
_BINARY = r"STRING|BOOLEAN|INT|BIGINT|FLOAT|DOUBLE|TIMESTAMP(_LTZ)?\([36]\)"
_AVRO_VALUE = rf"{_BINARY}|DATE|TIME\(3\)|{_DECIMAL}"
_PROTOBUF_TYPE = re.compile(rf"{_BINARY}|ARRAY<({_BINARY})>", re.IGNORECASE)
_AVRO_TYPE = re.compile(rf"{_AVRO_VALUE}|ARRAY<({_AVRO_VALUE})>", re.IGNORECASE)
_ASCII = re.compile(r"[\t -~]")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\['\\])*)'\]|\[(\d{1,9})\]", re.ASCII)


@dataclass(frozen=True)
class JsonRecords:
    """JSON records in a text column, so that an unreadable record is a row like others.

    Attributes
    ----------
    column : of the table ``source``, which holds a record's text
    fields : SQL type and JSON path, by the name of the resulting column
    encodings : how a value is written where it is not as JSON writes its type, by column
    place : of its parameters in a configuration
    parsing_options : parsing options that the query of the fields does not contain
    """

    place: ClassVar[str] = "source.from_json"
    parsing_options: ClassVar[str] = ""
    column: str
    fields: Mapping[str, tuple[str, str]]
    encodings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CsvRecords:
    """CSV lines in a text column, so that an unreadable line is a row like others.

    Attributes
    ----------
    column : of the table ``source``, which holds a line
    fields : SQL type by the name of the resulting column, in the order of the line
    delimiter, quote, null : as in ``crenel.operators.encode.csv_fields.CsvFields``
    """

    place: ClassVar[str] = "source.from_csv"
    column: str
    fields: Mapping[str, str]
    delimiter: str = ","
    quote: str | None = '"'
    null: str = ""

    @property
    def parsing_options(self) -> str:
        """Parsing options that the query of the fields does not contain."""
        return f" {(self.delimiter, self.quote, self.null)}"


@dataclass(frozen=True)
class AvroRecords:
    """Avro records in a column of bytes, so that an unreadable record is a row like others.

    Attributes
    ----------
    column : of the table ``source``, which holds a record's bytes
    fields : SQL type and path, by the name of the resulting column
    schema : schema of the records, or the one that theirs are read as
    registry : registry of the schemas that records name; None: they name none
    """

    place: ClassVar[str] = "source.from_avro"
    column: str
    fields: Mapping[str, tuple[str, tuple[str, ...]]]
    schema: AvroType
    registry: SchemaRegistry | None = None

    @property
    def parsing_options(self) -> str:
        """Paths of the fields, which the query of the fields does not contain."""
        return f" {[path for _, path in self.fields.values()]}"


@dataclass(frozen=True)
class ProtobufRecords:
    """Protobuf records in a column of bytes, so that an unreadable record is a row like others.

    Attributes
    ----------
    column : of the table ``source``, which holds a record's bytes
    fields : SQL type and path, by the name of the resulting column
    message : type of the records
    registry : registry of the schemas that records name; None: they name none
    """

    place: ClassVar[str] = "source.from_protobuf"
    column: str
    fields: Mapping[str, tuple[str, tuple[str, ...]]]
    message: MessageType
    registry: SchemaRegistry | None = None

    @property
    def parsing_options(self) -> str:
        """Paths of the fields, which the query of the fields does not contain."""
        return f" {[path for _, path in self.fields.values()]}"


Records: TypeAlias = JsonRecords | CsvRecords | AvroRecords | ProtobufRecords


def json_steps(path: str) -> tuple[str | int, ...] | None:
    """Return the steps of a JSON path; None for paths with more than members and array indices.

    Examples
    --------
    >>> json_steps("$.visits[0]['ward']")
    ('visits', 0, 'ward')
    """
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


def item_steps(path: str) -> tuple[tuple[str | int, ...], tuple[str | int, ...]] | None:
    """Return the steps of a JSON path to an array, and those from each of its items; None for other paths.

    Examples
    --------
    >>> item_steps("$.visits[*].diagnosis"), item_steps("$.codes")
    ((('visits',), ('diagnosis',)), (('codes',), ()))
    """
    before, _, after = path.partition(ITEMS)
    array, item = json_steps(before), json_steps(f"${after}")
    return None if array is None or item is None else (array, item)


def is_array(text: str) -> bool:
    """Return whether a type is one of arrays."""
    return text.strip().upper().startswith("ARRAY")


def _json_type(text: str) -> str:
    if not _JSON_TYPE.fullmatch(text.strip()):
        raise ValueError("is not a type that JSON text is read as")
    return text.strip()


def _csv_type(text: str) -> str:
    if is_array(text):
        raise ValueError("is an array, and a field of a line of CSV is one value; read records of JSON for arrays")
    if not _CSV_TYPE.fullmatch(text.strip()):
        raise ValueError("is not a type that a field of CSV is read as")
    return text.strip()


def _path(text: str | None) -> str | None:
    if text is not None and not text.startswith("$"):
        raise ValueError("does not begin with '$'")
    return text


def _character(text: str) -> str:
    if not _ASCII.fullmatch(text):
        raise ValueError("is not one character of ASCII")
    return text


def _avro_type(text: str) -> str:
    if not _AVRO_TYPE.fullmatch(text.strip()):
        raise ValueError("is not a type that a field of Avro is read as")
    return text.strip()


def _protobuf_type(text: str) -> str:
    if not _PROTOBUF_TYPE.fullmatch(text.strip()):
        raise ValueError("is not a type that a field of Protobuf is read as")
    return text.strip()


def _descriptor_set(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    if not is_descriptor_set(content):
        raise ValueError(
            f"{path}: is text; write a descriptor set by protoc --include_imports --descriptor_set_out=FILE"
        )
    return content


def _avro_schema(path: Path) -> AvroType:
    text = read_text(path, ValueError)
    try:
        return parse(text)
    except SchemaError as error:
        raise ValueError(f"{path}: {error}") from None


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        fit = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fit, parts = False, urlsplit("")
    if not fit:
        raise ValueError("is no address that begins with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password; give them as 'user' and 'password'")
    return text


def _as_url(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


def _as_type(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class JsonFieldSection(FileSection):
    """Column that is read from a field of a JSON record.

    Attributes
    ----------
    type : type of the column, in Flink's SQL; ``NAME: TYPE`` is short for ``NAME: {type: TYPE}``
    path : JSON path of the field; None: the field of the column's name
    encoding : how Debezium and Kafka Connect write a value in JSON: the bytes of a DECIMAL in base64, alone or in an
        object with its scale, or a time as a number of days or of parts of a second, since 1970 or, for a TIME, since
        midnight. None: as JSON writes its type
    """

    type: Annotated[str, AfterValidator(_json_type)] = Field(
        description="one of STRING, BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), DATE, "
        "TIME, TIMESTAMP(p), TIMESTAMP_LTZ(p), and ARRAY<...> of one of them"
    )
    path: Annotated[str | None, AfterValidator(_path)] = Field(
        None,
        description="a JSON path such as $.patient.age, or $.visits[*].ward for an ARRAY, or null: the field of the "
        "column's name",
    )

    encoding: Literal["base64", "variable_scale", "days", "milliseconds", "microseconds", "nanoseconds"] | None = Field(
        None,
        description="base64 or variable_scale for a DECIMAL(p, s), days for a DATE, milliseconds, microseconds or "
        "nanoseconds for a TIMESTAMP(p), TIMESTAMP_LTZ(p) or TIME(p), or null",
    )

    @check(mode="after")
    def _with_encoding(self) -> JsonFieldSection:
        name = self.type.upper().partition("(")[0]
        fit = {"base64": ("DECIMAL",), "variable_scale": ("DECIMAL",), "days": ("DATE",)}
        wanted = fit.get(self.encoding or "", ("TIMESTAMP", "TIMESTAMP_LTZ", "TIME"))
        if self.encoding is not None and name not in wanted:
            names = " or ".join(filter(None, (", ".join(wanted[:-1]), wanted[-1])))
            raise ValueError(f"has the encoding {self.encoding} and the type {self.type}; give {names}")
        return self

    @check(mode="after")
    def _with_items(self) -> JsonFieldSection:
        if is_array(self.type) and self.path is not None and item_steps(self.path) is None:
            raise ValueError(
                f"has a path that no ARRAY is read by; give names, positions and at most one {ITEMS!r}, such as "
                "$.visits[*].ward"
            )
        return self


class JsonSection(FileSection):
    """Columns that are read from JSON records, instead of by a query.

    Attributes
    ----------
    column : text column of the table that holds the record, readable or not
    """

    column: Column = Field(description="the column of the table source that holds a record's text, such as record")
    fields: dict[Column, Annotated[JsonFieldSection, BeforeValidator(_as_type)]] = Field(
        min_length=1, description="at least one 'column: TYPE' or 'column: {type: TYPE, path: $.a.b}'"
    )

    def core(self) -> JsonRecords:
        return JsonRecords(
            self.column,
            {name: (field.type, field.path or member_path(name)) for name, field in self.fields.items()},
            {name: field.encoding for name, field in self.fields.items() if field.encoding is not None},
        )


class CsvSection(FileSection):
    """Columns that are read from lines of CSV, instead of by a query.

    Attributes
    ----------
    column : text column of the table that holds the line, readable or not
    fields : type of each field of a line by its column, in order
    delimiter : separator of fields
    quote : quote around a field; a doubled quote within a field stands for itself. None: there are no quotes
    null_literal : text of a missing value; ``""`` is an empty field
    """

    column: Column = Field(description="the column of the table source that holds a line, such as line")
    fields: dict[Column, Annotated[str, AfterValidator(_csv_type)]] = Field(
        min_length=1,
        description="'column: TYPE' for each field of a line, in order; a type is one of STRING, BOOLEAN, TINYINT, "
        "SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), DATE, TIMESTAMP(p), TIMESTAMP_LTZ(p); p is 0, 3 or 6",
    )
    delimiter: Annotated[str, AfterValidator(_character)] = Field(",", description="one character, such as ';'")
    quote: Annotated[str, AfterValidator(_character)] | None = Field(
        '"', description="one character, which stands twice within a quoted field, or null: there are no quotes"
    )
    null_literal: str = Field("", description="a text that stands for a missing value")

    @check(mode="after")
    def _with_distinct_signs(self) -> CsvSection:
        if self.delimiter == self.quote:
            raise ValueError("has one character as 'delimiter' and as 'quote'; give two, or quote: null")
        return self

    def core(self) -> CsvRecords:
        return CsvRecords(self.column, dict(self.fields), self.delimiter, self.quote, self.null_literal)


class BinaryFieldSection(FileSection):
    """Column that is read from a field of a record of Avro or Protobuf.

    Attributes
    ----------
    type : type of the column, in Flink's SQL; ``NAME: TYPE`` is short for ``NAME: {type: TYPE}``
    path : names of records and the field, with dots; a step to the items of an array ends with ``[*]``. None: the
        field of the column's name
    """

    type: str
    path: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="names with dots, such as patient.age, or visits[*].ward for an ARRAY, or null: the field of the "
        "column's name",
    )

    @check(mode="after")
    def _with_items(self) -> BinaryFieldSection:
        steps = [] if self.path is None else [step for step in self.path.split(".") if "[" in step]
        if len(steps) > 1 or any(not step.endswith(ITEMS) or step.count("[") > 1 for step in steps):
            raise ValueError(
                f"has a path that no ARRAY is read by; give names with dots and at most one {ITEMS!r} behind a name, "
                "such as visits[*].ward"
            )
        if steps and not is_array(self.type):
            raise ValueError(f"has a path through an array, and the type {self.type}; declare it as ARRAY<{self.type}>")
        return self

    def core(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return type and path of a column; the path of an array has a step that ends with ``ITEMS``."""
        path = self.path or name
        return self.type, tuple((path if ITEMS in path or not is_array(self.type) else path + ITEMS).split("."))


class AvroFieldSection(BinaryFieldSection):
    """Column that is read from a field of an Avro record, as ``BinaryFieldSection``."""

    type: Annotated[str, AfterValidator(_avro_type)] = Field(
        description="one of STRING, BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), DATE, TIME(3), "
        "TIMESTAMP(3), TIMESTAMP(6), TIMESTAMP_LTZ(3), TIMESTAMP_LTZ(6), as the schema has it, and ARRAY<...> of one "
        "of them"
    )


class RegistrySection(FileSection):
    """Registry of schemas, with Confluent's interface.

    Attributes
    ----------
    url : its address, without user and password
    user, password : for basic authentication
    """

    url: Annotated[str, AfterValidator(_address)] = Field(
        description="an address such as http://registry:8081, or http://registry:8080/apis/ccompat/v7 for Apicurio"
    )
    user: Annotated[str, Field(min_length=1)] | None = Field(None, description="a user, or null")
    password: Annotated[Secret | None, secret_field("source.from_avro.registry.password")] = Field(
        None, description=f"a password as ${{VARIABLE}}, one of {KEY_SOURCES}, or null"
    )

    def core(self, field: str) -> SchemaRegistry:
        """Return the registry; ``field``: of the configuration, for errors."""
        return SchemaRegistry(self.url, self.user, self.password, field)


class ProtobufRegistrySection(RegistrySection):
    """Registry of schemas of Protobuf, as ``RegistrySection``."""

    password: Annotated[Secret | None, secret_field("source.from_protobuf.registry.password")] = Field(
        None, description=f"a password as ${{VARIABLE}}, one of {KEY_SOURCES}, or null"
    )


class AvroSection(FileSection):
    """Columns that are read from Avro records, instead of by a query.

    Attributes
    ----------
    column : column of bytes of the table that holds the record, readable or not
    schema_file : schema that the fields are of; records of a newer schema are read as records of this one
    registry : registry of the schemas that records name in front, as Confluent's serializers write it; an address is
        short for ``{url: ADDRESS}``. None: records name no schema, and all are of this one
    """

    column: Column = Field(description="the column of the table source that holds a record's bytes, such as record")
    schema_file: Annotated[AvroType, BeforeValidator(reading(_avro_schema))] = Field(
        description="a file with a schema of Avro in JSON, such as visits.avsc"
    )
    registry: Annotated[RegistrySection, BeforeValidator(_as_url)] | None = Field(
        None, description="an address such as http://registry:8081, a mapping with url, user and password, or null"
    )
    fields: dict[Column, Annotated[AvroFieldSection, BeforeValidator(_as_type)]] = Field(
        min_length=1, description="at least one 'column: TYPE' or 'column: {type: TYPE, path: a.b}'"
    )

    def core(self) -> AvroRecords:
        return AvroRecords(
            self.column,
            {name: field.core(name) for name, field in self.fields.items()},
            self.schema_file,
            None if self.registry is None else self.registry.core("source.from_avro.registry"),
        )


class ProtobufFieldSection(BinaryFieldSection):
    """Column that is read from a field of a Protobuf record, as ``BinaryFieldSection``."""

    type: Annotated[str, AfterValidator(_protobuf_type)] = Field(
        description="one of STRING, BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, TIMESTAMP(3), TIMESTAMP(6), as the message "
        "has it, and ARRAY<...> of one of them, TIMESTAMP_LTZ(3) or TIMESTAMP_LTZ(6)"
    )


class ProtobufSection(FileSection):
    """Columns that are read from Protobuf records, instead of by a query.

    Attributes
    ----------
    column : column of bytes of the table that holds the record, readable or not
    descriptor_file : descriptor set of the message, with the files that it imports
    message : full name of the message, or its last part. None: the descriptor set has one
    registry : registry of the schemas that records name in front, as Confluent's serializers write it; an address is
        short for ``{url: ADDRESS}``. None: records name no schema, and begin with their first field
    """

    column: Column = Field(description="the column of the table source that holds a record's bytes, such as record")
    descriptor_file: Annotated[bytes, BeforeValidator(reading(_descriptor_set))] = Field(
        description="a file that protoc --include_imports --descriptor_set_out wrote, such as visits.desc"
    )
    message: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="the name of a message, such as clinic.Visit, or null where the file has one"
    )
    registry: Annotated[ProtobufRegistrySection, BeforeValidator(_as_url)] | None = Field(
        None, description="an address such as http://registry:8081, a mapping with url, user and password, or null"
    )
    fields: dict[Column, Annotated[ProtobufFieldSection, BeforeValidator(_as_type)]] = Field(
        min_length=1, description="at least one 'column: TYPE' or 'column: {type: TYPE, path: a.b}'"
    )

    @check(mode="after")
    def _with_message(self) -> ProtobufSection:
        self._found()
        return self

    def _found(self) -> MessageType:
        try:
            return read_message(self.descriptor_file, self.message, "'message'")
        except DescriptorError as error:
            raise ValueError(f"descriptor_file {error}") from None

    def core(self) -> ProtobufRecords:
        return ProtobufRecords(
            self.column,
            {name: field.core(name) for name, field in self.fields.items()},
            self._found(),
            None if self.registry is None else self.registry.core("source.from_protobuf.registry"),
        )


def member_path(*names: str) -> str:
    """Return the JSON path of a member, through those around it.

    Examples
    --------
    >>> member_path("home", "zip")
    "$['home']['zip']"
    """
    return "$" + "".join(f"['{escaped}']" for escaped in (re.sub(r"(['\\])", r"\\\1", name) for name in names))


def one_way(**given: Any) -> None:
    """Check that at most one of several alternatives, by name, is given.

    Raises
    ------
    ValueError
        Several are given.
    """
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"has {' and '.join(map(repr, named))}, of which one stands in the other's place; keep one")
