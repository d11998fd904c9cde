"""A format of records of one's own, as ``extensions`` of a configuration name it: ``age=30;zip=0470``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from crenel.anonymity.model.fields import Column
from crenel.jobs.formats.record_format import RecordFormat, add_format, type_of
from crenel.operators.encode.cells import CellType, FieldCells
from crenel.operators.encode.csv_values import read_as


@dataclass(frozen=True)
class PairFields:
    """Values by name in each record, an implementation of ``crenel.operators.encode.records.Fields``."""

    fields: tuple[tuple[str, CellType], ...]
    separator: str

    def columns(self, records: pa.BinaryArray) -> list[FieldCells]:
        texts = [record.decode(errors="replace") for record in records.fill_null(b"").to_pylist()]
        pairs = [dict(pair.split("=", 1) for pair in text.split(self.separator) if "=" in pair) for text in texts]
        return [
            FieldCells(read_as(kind, pa.array([each.get(name) for each in pairs], pa.string())))
            for name, kind in self.fields
        ]


@add_format
class PairRecords(RecordFormat):
    """Columns that are read from pairs of name and value, instead of by a query.

    Attributes
    ----------
    column : text column of the table that holds the record
    fields : type by column
    separator : separator of pairs
    """

    name = "pairs"
    example = "{column: record, fields: {age: INT}}"
    content = "text"

    column: Column = Field(description="the column of the table source that holds a record")
    fields: dict[Column, Annotated[str, type_of("STRING|INT|TIMESTAMP_LTZ[(]3[)]", "a value of a pair")]] = Field(
        min_length=1, description="at least one 'column: TYPE', a type being STRING, INT or TIMESTAMP_LTZ(3)"
    )
    separator: str = Field(";", description="text between two pairs")

    def reader(self, fields: Mapping[str, CellType]) -> PairFields:
        return PairFields(tuple(fields.items()), self.separator)
