"""Messages of Protobuf, with or without a registry of their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field
from pydantic import model_validator as check

from crenel.anonymity.model.fields import Column, reading
from crenel.jobs.formats.record_format import short_for, type_of
from crenel.jobs.formats.schema_records import BINARY, FIELDS, Registry, SchemaFieldSection, SchemaRecords
from crenel.operators.encode.cells import CellType
from crenel.operators.encode.protobuf import fields as protobuf
from crenel.operators.encode.protobuf.schema import (
    DescriptorError,
    MessageType,
    article,
    is_descriptor_set,
    is_map,
    is_repeated,
    read_message,
)
from crenel.operators.encode.slots import array_of


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


class ProtobufFieldSection(SchemaFieldSection):
    """Column that is read from a field of a Protobuf record, as ``SchemaFieldSection``."""

    type: Annotated[str, type_of(rf"{BINARY}|ARRAY<({BINARY})>", "a field of Protobuf")] = Field(
        description="one of STRING, BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, TIMESTAMP(3), TIMESTAMP(6), as the message "
        "has it, and ARRAY<...> of one of them, TIMESTAMP_LTZ(3) or TIMESTAMP_LTZ(6)"
    )


class ProtobufRecords(SchemaRecords):
    """Columns that are read from Protobuf records, instead of by a query.

    Attributes
    ----------
    descriptor_file : descriptor set of the message, with the files that it imports
    message : full name of the message, or its last part. None: the descriptor set has one
    registry : registry of the schemas that records name in front, as Confluent's serializers write it; an address is
        short for ``{url: ADDRESS}``. None: records name no schema, and begin with their first field
    """

    name = "protobuf"
    example = "{column: record, descriptor_file: visits.desc, fields: {age: INT}}"
    page = "docs/reference/configuration/source.md#protobuf-records"
    ended_by: ClassVar[Mapping[str, str]] = {"protobuf": "is no message"}
    failures: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "a record is no message of Protobuf": (r"[\w.$]*\.protobuf\.InvalidProtocolBufferException: ",)
    }
    schema_field = "descriptor_file"

    descriptor_file: Annotated[bytes, BeforeValidator(reading(_descriptor_set))] = Field(
        description="a file that protoc --include_imports --descriptor_set_out wrote, such as visits.desc"
    )
    message: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="the name of a message, such as clinic.Visit, or null where the file has one"
    )
    registry: Registry = None
    fields: dict[Column, Annotated[ProtobufFieldSection, short_for("type")]] = FIELDS

    @check(mode="after")
    def _with_message(self) -> ProtobufRecords:
        try:
            self.message_type()
        except DescriptorError as error:
            raise ValueError(f"descriptor_file {error}") from None
        return self

    def message_type(self) -> MessageType:
        """Return the type of the records."""
        return read_message(self.descriptor_file, self.message, "'message'")

    def declared(self, path: tuple[str, ...]) -> tuple[str, tuple[str, ...], bool]:
        leaf = self.message_type().find(path)[-1]
        fit = () if is_map(leaf) else protobuf.fitting_types(leaf)
        return article(leaf), fit, is_repeated(leaf) and array_of(path) is None

    def reader(self, fields: Mapping[str, CellType]) -> protobuf.ProtobufFields:
        read = tuple((self.steps[name], kind) for name, kind in fields.items())
        return protobuf.ProtobufFields(self.message_type(), read, self.schema_registry)

    @classmethod
    def precompile(cls) -> None:
        protobuf.precompile()
