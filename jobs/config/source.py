"""Where tuples come from: the part ``source`` of a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic import model_validator as check

from jobs.config.fields import Column, Section

_TYPE = re.compile(
    r"(STRING|BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DATE|"
    r"(TIME|TIMESTAMP|TIMESTAMP_LTZ)(\([0-9]\))?|DECIMAL\([0-9]{1,2}(, ?[0-9]{1,2})?\))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ForgetSource:
    """Where requests to forget come from.

    Attributes
    ----------
    ddl : the statement that creates the table ``forget``
    query : a SELECT of one column, the subject; None: the column of the table ``forget``
    """

    ddl: str
    query: str | None = None


@dataclass(frozen=True)
class JsonRecords:
    """Records of JSON in a column of text, so that one which cannot be read is a row like others.

    Attributes
    ----------
    column : of the table ``source``, which holds a record's text
    fields : SQL type and JSON path by the name of the column that is made of it
    """

    column: str
    fields: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """Where tuples come from.

    Attributes
    ----------
    ddl : the statement that creates the source table
    query : the SELECT whose columns have the roles of the policy; None: all columns of the table ``source``
    from_json : columns that are read from a column of JSON, in the place of a query; None: there are none
    forget : of requests to forget; None: there are none
    """

    ddl: str
    query: str | None = None
    from_json: JsonRecords | None = None
    forget: ForgetSource | None = None


class ForgetSection(Section):
    ddl: Annotated[str, Field(min_length=1)] = Field(
        description="a statement CREATE TEMPORARY TABLE forget (...) WITH (...)"
    )
    query: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="a statement SELECT ... FROM forget, of one column, or null"
    )

    def core(self) -> ForgetSource:
        return ForgetSource(self.ddl, self.query)


def _known(text: str) -> str:
    if not _TYPE.fullmatch(text.strip()):
        raise ValueError("is not a type that JSON text is read as")
    return text.strip()


def _path(text: str | None) -> str | None:
    if text is not None and not text.startswith("$"):
        raise ValueError("does not begin with '$'")
    return text


def _as_type(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class JsonFieldSection(Section):
    type: Annotated[str, AfterValidator(_known)] = Field(
        description="one of STRING, BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), DATE, "
        "TIME, TIMESTAMP(p), TIMESTAMP_LTZ(p)"
    )
    path: Annotated[str | None, AfterValidator(_path)] = Field(
        None, description="a JSON path such as $.patient.age, or null: the field of the column's name"
    )


class JsonSection(Section):
    column: Column = Field(description="the column of the table source that holds a record's text, such as record")
    fields: dict[Column, Annotated[JsonFieldSection, BeforeValidator(_as_type)]] = Field(
        min_length=1, description="at least one 'column: TYPE' or 'column: {type: TYPE, path: $.a.b}'"
    )

    def core(self) -> JsonRecords:
        return JsonRecords(
            self.column,
            {name: (field.type, field.path or _member(name)) for name, field in self.fields.items()},
        )


class SourceSection(Section):
    ddl: Annotated[str, Field(min_length=1)] = Field(
        description="a statement CREATE TEMPORARY TABLE source (...) WITH (...)"
    )
    query: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="a statement SELECT ... FROM source, or null"
    )
    from_json: JsonSection | None = Field(
        None,
        description="a mapping such as {column: record, fields: {age: INT}}: columns that are read from text; or null",
    )
    forget: ForgetSection | None = Field(
        None, description="a mapping with ddl and, where wanted, query: whom to forget; or null"
    )

    @check(mode="after")
    def _one_of_both(self) -> SourceSection:
        if self.query is not None and self.from_json is not None:
            raise ValueError("has a 'query' and 'from_json', which stands in its place; remove one of the two")
        return self

    def core(self) -> Source:
        return Source(
            self.ddl,
            self.query,
            None if self.from_json is None else self.from_json.core(),
            None if self.forget is None else self.forget.core(),
        )


def _member(name: str) -> str:
    escaped = re.sub(r"(['\\])", r"\\\1", name)
    return f"$['{escaped}']"
