"""Sections of records with a schema, that of their registry among them: the part that Avro and Protobuf share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic import model_validator as check

from crenel.anonymity.model.fields import Column
from crenel.anonymity.model.policy import ITEMS
from crenel.anonymity.model.secret import Secret
from crenel.anonymity.model.secret_field import KEY_SOURCES, secret_field
from crenel.jobs.formats.record_format import RecordFormat, is_array, short_for
from crenel.operators.column_types import ColumnType, element_of, parse
from crenel.operators.encode.schema_registry import SchemaRegistry
from crenel.operators.encode.slots import Path, array_of
from crenel.settings_file import FileSection

BINARY = r"STRING|BOOLEAN|INT|BIGINT|FLOAT|DOUBLE|TIMESTAMP(_LTZ)?\([36]\)"
"""Types that fields of both formats have."""


class SchemaFieldSection(FileSection):
    """Column that is read from a field of a record with a schema.

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
    def _with_items(self) -> SchemaFieldSection:
        steps = [] if self.path is None else [step for step in self.path.split(".") if "[" in step]
        if len(steps) > 1 or any(not step.endswith(ITEMS) or step.count("[") > 1 for step in steps):
            raise ValueError(
                f"has a path that no ARRAY is read by; give names with dots and at most one {ITEMS!r} behind a name, "
                "such as visits[*].ward"
            )
        if steps and not is_array(self.type):
            raise ValueError(f"has a path through an array, and the type {self.type}; declare it as ARRAY<{self.type}>")
        return self

    def steps(self, name: str) -> Path:
        """Return the path of a column; that of an array has a step that ends with ``ITEMS``."""
        path = self.path or name
        return tuple((path if ITEMS in path or not is_array(self.type) else path + ITEMS).split("."))


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
    password: Annotated[Secret | None, secret_field("registry.password")] = Field(
        None, description=f"a password as ${{VARIABLE}}, one of {KEY_SOURCES}, or null"
    )

    def core(self, field: str) -> SchemaRegistry:
        """Return the registry; ``field``: of the configuration, for errors."""
        password = None if self.password is None else replace(self.password, name=f"{field}.password")
        return SchemaRegistry(self.url, self.user, password, field)


Registry: TypeAlias = Annotated[
    RegistrySection | None,
    short_for("url"),
    Field(description="an address such as http://registry:8081, a mapping with url, user and password, or null"),
]
FIELDS: Any = Field(min_length=1, description="at least one 'column: TYPE' or 'column: {type: TYPE, path: a.b}'")


class SchemaRecords(RecordFormat):
    """Records with a schema, which the section names; Flink's own formats fail the job on an unreadable record.

    Attributes
    ----------
    schema_field : field of the section that names the schema
    column : column of bytes of the table that holds the record, readable or not
    """

    schema_field: ClassVar[str]

    column: Column = Field(description="the column of the table source that holds a record's bytes, such as record")
    if TYPE_CHECKING:  # behind other fields in the file
        fields: dict[str, Any]
        registry: RegistrySection | None

    @abstractmethod
    def declared(self, path: Path) -> tuple[str, tuple[str, ...], bool]:
        """Return the type of a field in words, the SQL types as which it may be read, and whether it is an array.

        Raises
        ------
        ValueError
            The schema has no such field.
        """

    @property
    def steps(self) -> dict[str, Path]:
        """Path of the field by column."""
        return {name: of.steps(name) for name, of in self.fields.items()}

    @property
    def schema_registry(self) -> SchemaRegistry | None:
        """The registry, as the reader asks it."""
        return None if self.registry is None else self.registry.core(f"{self.place}.registry")

    @property
    def parsing_options(self) -> str:
        return f" {[*self.steps.values()]}"

    def problems(self) -> Iterator[str]:
        """Yield the fields that the schema does not have, or has in another type."""
        schema = f"{self.place}.{self.schema_field}"
        for name, path in self.steps.items():
            where = f"{self.place}.fields.{name}"
            try:
                words, fit, of_items = self.declared(path)
            except ValueError as error:
                yield f"{where}: {schema} {error}; correct the path, or leave the field out"
                continue
            if of_items or array_of(path) is not None:
                fit = tuple(f"ARRAY<{kind}>" for kind in fit)
            if not fit:
                yield (
                    f"{where}: {schema} has {words} there, which is not one value of one type; "
                    "give the path of a field inside it, or leave the field out"
                )
            elif _form(parse(self.types[name].upper())) not in map(_form, map(parse, fit)):
                yield f"{where}: {schema} has {words} there; declare it as {' or '.join(fit)}"


def _form(sql: ColumnType) -> tuple[Any, ...]:
    return sql.name, sql.precision, sql.scale, element_of(sql)
