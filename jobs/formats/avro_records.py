"""Records of Avro, with or without a registry of their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from crenel.anonymity.model.errors import read_text
from crenel.anonymity.model.fields import Column, reading
from crenel.jobs.formats.record_format import DECIMAL, short_for, type_of
from crenel.jobs.formats.schema_records import BINARY, FIELDS, Registry, SchemaFieldSection, SchemaRecords
from crenel.operators.encode.avro import fields as avro
from crenel.operators.encode.avro.schema import AvroType, SchemaError, article, parse
from crenel.operators.encode.cells import CellType
from crenel.operators.encode.slots import array_of

_VALUE = rf"{BINARY}|DATE|TIME\(3\)|{DECIMAL}"


def _schema(path: Path) -> AvroType:
    text = read_text(path, ValueError)
    try:
        return parse(text)
    except SchemaError as error:
        raise ValueError(f"{path}: {error}") from None


class AvroFieldSection(SchemaFieldSection):
    """Column that is read from a field of an Avro record, as ``SchemaFieldSection``."""

    type: Annotated[str, type_of(rf"{_VALUE}|ARRAY<({_VALUE})>", "a field of Avro")] = Field(
        description="one of STRING, BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), DATE, TIME(3), "
        "TIMESTAMP(3), TIMESTAMP(6), TIMESTAMP_LTZ(3), TIMESTAMP_LTZ(6), as the schema has it, and ARRAY<...> of one "
        "of them"
    )


class AvroRecords(SchemaRecords):
    """Columns that are read from Avro records, instead of by a query.

    Attributes
    ----------
    schema_file : schema that the fields are of; records of a newer schema are read as records of this one
    registry : registry of the schemas that records name in front, as Confluent's serializers write it; an address is
        short for ``{url: ADDRESS}``. None: records name no schema, and all are of this one
    """

    name = "avro"
    example = "{column: record, schema_file: visits.avsc, fields: {age: INT}}"
    page = "docs/reference/configuration/source.md#avro-records"
    ended_by: ClassVar[Mapping[str, str]] = dict.fromkeys(("avro", "avro-confluent"), "does not fit its schema")
    is_ended_by_files = False  # files of Avro hold their schema
    failures: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "a record does not fit its schema of Avro": (
            r"java\.io\.IOException: (\S+: )?Failed to deserialize Avro record\.",
        )
    }
    schema_field = "schema_file"

    schema_file: Annotated[AvroType, BeforeValidator(reading(_schema))] = Field(
        description="a file with a schema of Avro in JSON, such as visits.avsc"
    )
    registry: Registry = None
    fields: dict[Column, Annotated[AvroFieldSection, short_for("type")]] = FIELDS

    def declared(self, path: tuple[str, ...]) -> tuple[str, tuple[str, ...], bool]:
        of = self.schema_file.find(path)
        is_array = of.kind == "array" and array_of(path) is None
        return article(of), avro.fitting_types(of.parts[0].present if is_array else of), is_array

    def reader(self, fields: Mapping[str, CellType]) -> avro.AvroFields:
        read = tuple((self.steps[name], kind) for name, kind in fields.items())
        return avro.AvroFields(self.schema_file, read, self.schema_registry)

    @classmethod
    def precompile(cls) -> None:
        avro.precompile()
