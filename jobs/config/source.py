"""Section ``source`` of a configuration: the input of tuples and of requests to forget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from pydantic import model_validator as check

from crenel.anonymity.model.fields import Column, Duration
from crenel.jobs.config.catalogs import CatalogTable
from crenel.jobs.config.records import AvroSection, CsvSection, JsonSection, ProtobufSection, Records, one_way
from crenel.settings_file import FileSection

TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|`[^`]*`|'(?P<text>(?:[^']|'')*)'|\S", re.DOTALL)
"""A comment, a quoted name, a text, or any other character of a statement in SQL."""


@dataclass(frozen=True)
class ForgetSource:
    """Source of requests to forget.

    Attributes
    ----------
    ddl : the statement that creates the table ``forget``
    query : a SELECT of one column, the subject; None: the column of the table ``forget``
    varied : fields of the statements with variables, which may hold a secret
    """

    ddl: str
    query: str | None = None
    varied: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Watermark:
    """Watermark of a source that is a table of a catalog.

    Attributes
    ----------
    column : of the table, with an event time
    delay : milliseconds, 0 or more, by which the watermark is behind the newest event time
    """

    column: str
    delay: int


@dataclass(frozen=True)
class Source:
    """Source of tuples.

    Attributes
    ----------
    ddl : the statement that creates the source table; empty where there is none
    query : the SELECT whose columns have the roles of the policy; None: all columns of the table ``source``
    records : records whose fields become columns, instead of a query; None: there are none
    forget : source of requests to forget; None: there is none
    varied : fields of the statements with variables, which may hold a secret
    table : a table of a catalog, instead of a statement; None: there is none
    watermark : of that table; None: its own, if it has one
    """

    ddl: str
    query: str | None = None
    records: Records | None = None
    forget: ForgetSource | None = None
    varied: frozenset[str] = frozenset()
    table: CatalogTable | None = None
    watermark: Watermark | None = None

    @property
    def field(self) -> str:
        """The field that names the table ``source``."""
        return "source.ddl" if self.table is None else "source.table"

    @property
    def is_given(self) -> bool:
        """Whether there is a source; a program has none."""
        return bool(self.ddl) or self.table is not None

    @property
    def statements(self) -> dict[str, str]:
        """The statements that create tables, by field."""
        found = {"source.ddl": self.ddl, "source.forget.ddl": "" if self.forget is None else self.forget.ddl}
        return {field: ddl for field, ddl in found.items() if ddl}


class ForgetSection(FileSection):
    """Source of requests to forget.

    Attributes
    ----------
    ddl : statement that creates the table ``forget``
    query : a SELECT of one column, the subject; None: the one column of the table
    """

    ddl: Annotated[str, Field(min_length=1)] = Field(
        description="a statement CREATE TEMPORARY TABLE forget (...) WITH (...)"
    )
    query: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="a statement SELECT ... FROM forget, of one column, or null"
    )

    def core(self, varied: frozenset[str]) -> ForgetSource:
        return ForgetSource(self.ddl, self.query, varied)


class WatermarkSection(FileSection):
    """Watermark of a table of a catalog.

    Attributes
    ----------
    column : of the table: a timestamp, or BIGINT (epoch milliseconds). In ``source`` it is a TIMESTAMP_LTZ(3)
    delay : time by which the watermark is behind the newest event time, as rows of a table have no order
    """

    column: Column = Field(description="a column of the table, such as visited")
    delay: Annotated[Duration, Field(le=99 * 86_400_000)] = Field(
        description="a duration of at most 99 days, such as '10 min'"
    )


class SourceSection(FileSection):
    """Source of tuples.

    Attributes
    ----------
    ddl : statement that creates the table ``source``; or ``table``
    table : a table of a catalog in ``catalogs``, which the job reads as the table ``source``: its rows at the start of
        the job, and none that are added later
    query : a SELECT whose columns have the roles of the policy; None: all columns of the table
    """

    ddl: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="a statement CREATE TEMPORARY TABLE source (...) WITH (...), or null with 'table'"
    )
    table: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="a table of a catalog, such as lake.clinic.visits, or null with 'ddl'"
    )
    watermark: WatermarkSection | None = Field(
        None, description="with 'table', a mapping such as {column: visited, delay: 10 min}; or null"
    )
    query: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="a statement SELECT ... FROM source, or null"
    )
    from_json: JsonSection | None = Field(
        None,
        description="a mapping such as {column: record, fields: {age: INT}}: columns that are read from text; or null",
    )
    from_csv: CsvSection | None = Field(
        None,
        description="a mapping such as {column: line, fields: {age: INT, area: STRING}}: columns that are read from "
        "text; or null",
    )
    from_avro: AvroSection | None = Field(
        None,
        description="a mapping such as {column: record, schema_file: visits.avsc, fields: {age: INT}}: columns that "
        "are read from bytes; or null",
    )
    from_protobuf: ProtobufSection | None = Field(
        None,
        description="a mapping such as {column: record, descriptor_file: visits.desc, fields: {age: INT}}: columns "
        "that are read from bytes; or null",
    )
    forget: ForgetSection | None = Field(
        None, description="a mapping with ddl and, where wanted, query: whom to forget; or null"
    )

    @check(mode="after")
    def _one_of_both(self) -> SourceSection:
        if (self.ddl is None) == (self.table is None):
            raise ValueError(
                "give either 'ddl', a statement CREATE TEMPORARY TABLE source (...) WITH (...), or 'table', a table of "
                "a catalog"
            )
        if self.watermark is not None and self.table is None:
            raise ValueError("'watermark' is for 'table'; declare WATERMARK FOR in 'ddl' instead")
        one_way(
            query=self.query,
            from_json=self.from_json,
            from_csv=self.from_csv,
            from_avro=self.from_avro,
            from_protobuf=self.from_protobuf,
        )
        return self

    def core(self, varied: frozenset[str], table: CatalogTable | None) -> Source:
        """Return the source; ``varied`` and ``table`` as in ``Source``."""
        records = self.from_json or self.from_csv or self.from_avro or self.from_protobuf
        return Source(
            self.ddl or "",
            self.query,
            None if records is None else records.core(),
            None if self.forget is None else self.forget.core(varied),
            varied,
            table,
            None if self.watermark is None else Watermark(self.watermark.column, self.watermark.delay),
        )


def parse_options(ddl: str) -> dict[str, str]:
    """Return the connector options of a statement, as far as its text shows them without Flink."""
    tokens = [found for found in TOKEN.finditer(ddl) if not found[0].startswith(("--", "/*"))]
    return {
        name["text"].replace("''", "'"): value["text"].replace("''", "'")
        for name, sign, value in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if sign[0] == "=" and name["text"] is not None and value["text"] is not None
    }


def parse_texts(statement: str) -> list[str]:
    """Return the string literals of an SQL statement, without their quotes."""
    return [text.replace("''", "'") for found in TOKEN.finditer(statement) if (text := found["text"]) is not None]
