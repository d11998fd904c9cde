"""Records of JSON, of which Flink's SQL reads the fields that encode does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic import model_validator as check

from crenel.anonymity.model.fields import Column
from crenel.anonymity.model.policy import ITEMS
from crenel.jobs.formats.record_format import DECIMAL, JACKSON, PLAIN, RecordFormat, is_array, short_for, type_of
from crenel.jobs.pipeline.json_arrays import json_array_function
from crenel.jobs.pipeline.packing import JavaFunction
from crenel.jobs.pipeline.sql_expressions import literal, quote
from crenel.jobs.pipeline.sql_times import encoded_function, encoded_members, time_function
from crenel.operators.column_types import INSTANTS, element_of, parse
from crenel.operators.encode import json_scan
from crenel.operators.encode.cells import CellType
from crenel.operators.encode.columns import Form
from crenel.operators.encode.json_fields import FORMS, JsonFields, Steps
from crenel.settings_file import FileSection

_VALUE = rf"({PLAIN}|(TIME|TIMESTAMP|TIMESTAMP_LTZ)(\([0-9]\))?|{DECIMAL})"
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\['\\])*)'\]|\[(\d{1,9})\]", re.ASCII)


def json_steps(path: str) -> Steps | None:
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


def item_steps(path: str) -> tuple[Steps, Steps] | None:
    """Return the steps of a JSON path to an array, and those from each of its items; None for other paths.

    Examples
    --------
    >>> item_steps("$.visits[*].diagnosis"), item_steps("$.codes")
    ((('visits',), ('diagnosis',)), (('codes',), ()))
    """
    before, _, after = path.partition(ITEMS)
    array, item = json_steps(before), json_steps(f"${after}")
    return None if array is None or item is None else (array, item)


def member_path(*names: str) -> str:
    """Return the JSON path of a member, through those around it.

    Examples
    --------
    >>> member_path("home", "zip")
    "$['home']['zip']"
    """
    return "$" + "".join(f"['{escaped}']" for escaped in (re.sub(r"(['\\])", r"\\\1", name) for name in names))


def _path(text: str | None) -> str | None:
    if text is not None and not text.startswith("$"):
        raise ValueError("does not begin with '$'")
    return text


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

    type: Annotated[str, type_of(rf"{_VALUE}|ARRAY<{_VALUE}>", "JSON text")] = Field(
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

    def function(self, path: str) -> JavaFunction | None:
        """Return the function that reads the field at a path; None where a cast of its text does."""
        sql = parse(self.type.upper())
        if (element := element_of(sql)) is not None:
            steps = item_steps(path)
            if steps is None:
                raise ValueError(f"no array is read by {path}")
            return json_array_function(element, *steps)
        if self.encoding is not None:
            return encoded_function(sql, self.encoding)
        return time_function(sql) if sql.name in INSTANTS else None


class JsonRecords(RecordFormat):
    """Columns that are read from JSON records, instead of by a query.

    Attributes
    ----------
    column : text column of the table that holds the record, readable or not
    """

    name = "json"
    example = "{column: record, fields: {age: INT}}"
    content = "text"
    page = "docs/reference/configuration/source.md#records-that-cannot-be-read"
    ended_by: ClassVar[Mapping[str, str]] = {"json": "is no JSON or has a value of another type"}
    failures: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "a record is not valid JSON": (rf"{JACKSON}.*\bflink\.formats\.json\.",),
        "a record is no envelope of changes, such as a null": (
            r"java\.(io\.IO|lang\.\w*)Exception: .*\bflink\.formats\.json\.(canal|debezium|maxwell|ogg)\.",
        ),
    }

    column: Column = Field(description="the column of the table source that holds a record's text, such as record")
    fields: dict[Column, Annotated[JsonFieldSection, short_for("type")]] = Field(
        min_length=1, description="at least one 'column: TYPE' or 'column: {type: TYPE, path: $.a.b}'"
    )

    def is_parsed(self, name: str, form: Form) -> bool:
        # Flink's SQL reads fields of other types, such as times, and paths with more than members and array indices.
        of = self.fields[name]
        fit = form in FORMS.get(parse(of.type.upper()).name, ())
        return fit and of.encoding is None and json_steps(self._path_of(name)) is not None

    def reader(self, fields: Mapping[str, CellType]) -> JsonFields:
        return JsonFields(tuple((json_steps(self._path_of(name)) or (), kind) for name, kind in fields.items()))

    def functions(self) -> Iterator[JavaFunction]:
        for name, of in self.fields.items():
            if (function := of.function(self._path_of(name))) is not None:
                yield function

    def expression(self, name: str) -> str:
        of, path = self.fields[name], self._path_of(name)
        function = of.function(path)
        if function is not None and is_array(of.type):
            return f"{function.name}({quote(self.column)})"
        paths = [f"{path}.{member}" for member in encoded_members(of.encoding)] or [path]
        texts = ", ".join(f"JSON_VALUE({quote(self.column)}, {literal(each)})" for each in paths)
        if function is not None:
            return f"{function.name}({texts})"
        return texts if of.type.upper() == "STRING" else f"TRY_CAST({texts} AS {of.type})"

    def _path_of(self, name: str) -> str:
        return self.fields[name].path or member_path(name)

    @classmethod
    def precompile(cls) -> None:
        json_scan.precompile()
