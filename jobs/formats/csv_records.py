"""Lines of CSV, which Flink's SQL cannot split where they have quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field
from pydantic import model_validator as check

from crenel.anonymity.model.fields import Column
from crenel.jobs.formats.record_format import DECIMAL, JACKSON, PLAIN, RecordFormat, is_array, type_of
from crenel.operators.encode.cells import CellType
from crenel.operators.encode.csv_fields import CsvFields

_ASCII = re.compile(r"[\t -~]")
_TYPE = type_of(rf"({PLAIN}|TIMESTAMP(_LTZ)?(\([036]\))?|{DECIMAL})", "a field of CSV")


def _one_value(text: str) -> str:
    if is_array(text):
        raise ValueError("is an array, and a field of a line of CSV is one value; read records of JSON for arrays")
    return text


def _character(text: str) -> str:
    if not _ASCII.fullmatch(text):
        raise ValueError("is not one character of ASCII")
    return text


class CsvRecords(RecordFormat):
    """Columns that are read from lines of CSV, instead of by a query.

    Attributes
    ----------
    column : text column of the table that holds the line, readable or not
    fields : type of each field of a line by its column, in order
    delimiter : separator of fields
    quote : quote around a field; a doubled quote within a field stands for itself. None: there are no quotes
    null_literal : text of a missing value; ``""`` is an empty field
    """

    name = "csv"
    example = "{column: line, fields: {age: INT, area: STRING}}"
    content = "text"
    record = "line"
    page = "docs/reference/configuration/source.md#lines-of-csv"
    failures: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "a line is not valid CSV": (
            r"[\w.$]*\.dataformat\.csv\.CsvReadException: ",
            rf"{JACKSON}.*\.dataformat\.csv\.",
            r"java\.lang\.RuntimeException: (\S+: )?Row length mismatch\. .*\bCsvToRowDataConverters\.",
        )
    }

    column: Column = Field(description="the column of the table source that holds a line, such as line")
    fields: dict[Column, Annotated[str, AfterValidator(_one_value), _TYPE]] = Field(
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
    def _with_distinct_signs(self) -> CsvRecords:
        if self.delimiter == self.quote:
            raise ValueError("has one character as 'delimiter' and as 'quote'; give two, or quote: null")
        return self

    @property
    def parsing_options(self) -> str:
        return f" {(self.delimiter, self.quote, self.null_literal)}"

    def reader(self, fields: Mapping[str, CellType]) -> CsvFields:
        positions = {name: position for position, name in enumerate(self.fields)}
        read = tuple((positions[name], kind) for name, kind in fields.items())
        return CsvFields(len(positions), read, self.delimiter, self.quote, self.null_literal)
