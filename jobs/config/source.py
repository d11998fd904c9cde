"""Section ``source`` of a configuration: the input of tuples and of requests to forget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, create_model
from pydantic import model_validator as check

from crenel.anonymity.model.fields import Column, Duration
from crenel.jobs.config.catalogs import CatalogTable
from crenel.jobs.formats.record_format import RecordFormat, known_formats
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
    records: RecordFormat | None = None
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
    """Source of tuples, without the formats of records (``source_section``).

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
        given = ["query"] if self.query is not None else []
        given += [name for name, value in self if isinstance(value, RecordFormat)]
        if len(given) > 1:
            raise ValueError(
                f"has {' and '.join(map(repr, given))}, of which one stands in the other's place; keep one"
            )
        return self

    @property
    def records(self) -> RecordFormat | None:
        """The section of a format of records; None without one."""
        return next((value for _, value in self if isinstance(value, RecordFormat)), None)

    def core(self, varied: frozenset[str], table: CatalogTable | None) -> Source:
        """Return the source; ``varied`` and ``table`` as in ``Source``."""
        return Source(
            self.ddl or "",
            self.query,
            self.records,
            None if self.forget is None else self.forget.core(varied),
            varied,
            table,
            None if self.watermark is None else Watermark(self.watermark.column, self.watermark.delay),
        )


def source_section() -> type[SourceSection]:
    """Return the section with a field for each known format of records."""
    formats: dict[str, Any] = {}
    for name, kind in known_formats().items():
        about = f"a mapping such as {kind.example}: columns that are read from {kind.content}; or null"
        formats[f"from_{name}"] = (kind | None, Field(None, description=about))
    made = create_model("SourceSection", __base__=SourceSection, **formats)
    fields = made.__pydantic_fields__
    fields["forget"] = fields.pop("forget")  # last in the reference
    return made


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
