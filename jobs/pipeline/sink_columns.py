"""Columns of the sinks in SQL, over the rows of the operator.

``crenel.operators.output_columns`` declares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crenel.anonymity.model.attributes import SEPARATOR
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import ITEMS
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.nested import RowForm, rows_function
from crenel.jobs.pipeline.packing import JavaFunction
from crenel.jobs.pipeline.sql_expressions import literal, quote
from crenel.operators.column_types import element_of, parse
from crenel.operators.output_columns import (
    SQL,
    SUMMARY,
    Generalization,
    OutputColumn,
    interval_columns,
)
from crenel.operators.plan import AnonymizationPlan

_TIMESTAMP = "TIMESTAMP_LTZ(3)"
_ARRAY = "ARRAY<STRING>"


@dataclass(frozen=True)
class Column:
    """A column of a sink.

    Attributes
    ----------
    name : visible to the user
    sql_type : its type
    expression : its value, over the columns of the operator's rows
    functions : functions of Crenel that build it from several columns
    """

    name: str
    sql_type: str
    expression: str
    functions: tuple[JavaFunction, ...] = ()

    @property
    def is_set(self) -> bool:
        """Whether the column is an array of the values of a set."""
        return self.sql_type == _ARRAY

    @property
    def declaration(self) -> str:
        """Declaration for CREATE TABLE."""
        return f"{quote(self.name)} {self.sql_type}"

    @property
    def selection(self) -> str:
        """Expression for SELECT."""
        return f"{self.expression} AS {quote(self.name)}"


def sink_columns(
    config: Config, plan: AnonymizationPlan, own: Mapping[OutputColumn, Column], *, timestamps: bool
) -> dict[str, tuple[Column, ...]]:
    """Return the columns of all sinks but ``summary``.

    Parameters
    ----------
    own : the columns of a published record, whose SQL depends on the types of the source's columns
    timestamps : whether event time is published as a timestamp, and not as epoch milliseconds
    """
    # A policy may change when a job is restored, so each release states the values in force.
    constants = plan.values_in_force
    sets = {attribute.name for attribute in config.policy.sets}

    def of(column: OutputColumn, sink: str) -> Column:
        found = own.get(column)
        if found is None and column.row:
            return _column(column, timestamps=timestamps)
        if found is None:
            value, kind = constants[column.name], SQL[column.kind]
            text = "NULL" if value is None else literal(value) if isinstance(value, str) else repr(value)
            return Column(column.name, kind, f"CAST({text} AS {kind})")
        if column.name in sets and not has_no_arrays(config.sinks.get(sink, {})):
            return Column(found.name, _ARRAY, f"SPLIT({found.expression}, {literal(SEPARATOR)})")
        return found

    outputs = plan.outputs(chained=config.audit_chain is not None)
    return {sink: tuple(of(column, sink) for column in columns) for sink, columns in outputs.items()}


def has_no_arrays(options: Mapping[str, str]) -> bool:
    """Return whether a sink holds a set as text: CSV has no arrays, and neither have most databases behind JDBC."""
    return options.get("connector") == "jdbc" or "csv" in (options.get("format"), options.get("value.format"))


def _column(column: OutputColumn, *, timestamps: bool = False) -> Column:
    if column.is_timestamp or (timestamps and column.name == "event_time"):
        return Column(column.name, _TIMESTAMP, f"TO_TIMESTAMP_LTZ({column.row}, 3)")
    return Column(column.name, SQL[column.kind], column.row)


def day_column(name: str) -> Column:
    """Return a column with the day of event time, to partition a table by; all records of a release have the same."""
    return Column(name, "STRING", "DATE_FORMAT(TO_TIMESTAMP_LTZ(event_ms, 3), 'yyyy-MM-dd')")


SUMMARY_COLUMNS = tuple(map(_column, SUMMARY))


def released_paths(config: Config, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return where each column of ``released`` is in a nested record; a dot in a name begins a level.

    A step that ends with ``ITEMS`` is an array of rows, in which the column has one value each.

    Parameters
    ----------
    names : of the columns, each with one value of a record

    Examples
    --------
    The interval of ``patient.age`` is at ``patient``, ``age`` and there ``min`` and ``max``.
    """
    generalization = Generalization(config.policy, config.algorithm.has_representative)
    ends = {
        end.name: (*attribute.name.split("."), place)
        for attribute in config.policy.attributes
        if generalization.is_interval(attribute)
        for end, place in zip(interval_columns(attribute.name), ("min", "max"), strict=True)
    }
    return {name: ends.get(name, tuple(name.split("."))) for name in names}


def nested_columns(columns: Iterable[Column], paths: Mapping[str, tuple[str, ...]]) -> tuple[Column, ...]:
    """Return columns of ROWs, and of arrays of ROWs, in the place of columns with paths, as of ``released_paths``.

    Raises
    ------
    ConfigError
        A column would be two of a value, a ROW and an array of ROWs.
    """
    tree: dict[str, Any] = {}
    for column in columns:
        *above, last = paths[column.name]
        level, clashes = tree, False
        for step in above:
            array = f"{step.removesuffix(ITEMS)}{ITEMS}"
            clashes = clashes or (step.removesuffix(ITEMS) if step == array else array) in level
            level = level.setdefault(step, {})
            if isinstance(level, Column):
                break
        if clashes or isinstance(level, Column) or {last, f"{last}{ITEMS}"} & level.keys():
            raise ConfigError(
                "shape",
                [f"shape: {column.name!r} has the place of another column; rename one in source.query, or set it flat"],
            )
        level[last] = column
    return tuple(_whole(name, node) for name, node in tree.items())


def _whole(name: str, node: Any) -> Column:
    """Return a column with one CAST for all levels of a ROW: Flink 1.20 does not plan one inside another."""
    column = _nested(name, node)
    if isinstance(node, Column) or name.endswith(ITEMS):
        return column
    return replace(column, expression=f"CAST({column.expression} AS {column.sql_type})")


def _nested(name: str, node: Any) -> Column:
    if isinstance(node, Column):
        return replace(node, name=name)
    if name.endswith(ITEMS):
        return _rows(name.removesuffix(ITEMS), node)
    fields = [_nested(field, inner) for field, inner in node.items()]
    kind = f"ROW<{', '.join(field.declaration for field in fields)}>"
    functions = tuple(function for field in fields for function in field.functions)
    return Column(name, kind, f"ROW({', '.join(field.expression for field in fields)})", functions)


def _rows(name: str, node: Mapping[str, Any]) -> Column:
    """Return an array of ROWs from arrays of the fields of each."""
    arrays: list[Column] = []

    def row(level: Mapping[str, Any]) -> tuple[str, RowForm]:
        fields, forms = [], list[RowForm]()
        form: RowForm
        for field, inner in level.items():
            if isinstance(inner, Column):
                element = element_of(parse(inner.sql_type))
                if element is None:
                    raise ConfigError(
                        "shape",
                        [
                            f"shape: {inner.name!r} is a column of {inner.sql_type}, and {ITEMS!r} in its name stands "
                            "for the rows of an array; rename it in source.query, or set shape: flat"
                        ],
                    )
                kind, form = element.text, len(arrays)
                arrays.append(inner)
            else:
                kind, form = row(inner)
            fields.append(f"{quote(field)} {kind}")
            forms.append(form)
        return f"ROW<{', '.join(fields)}>", tuple(forms)

    kind, form = row(node)
    function = rows_function([array.sql_type for array in arrays], kind, form)
    expression = f"{function.name}({', '.join(array.expression for array in arrays)})"
    return Column(name, f"ARRAY<{kind}>", expression, (function,))


def written_null(options: Mapping[str, str]) -> str:
    """Return the text by which a sink writes a missing value, if its format may write a value as the same text."""
    literals = [value for name, value in options.items() if name.endswith("csv.null-literal")]
    return literals[0] if literals else ""


LINE = Column("line", "STRING", "line")
"""The one column of a sink whose records the operator has written."""

_WRITTEN = frozenset(SQL.values()) - {"BYTES"}
_OF_FORMATS = ("json.", "key.", "value.", "raw.")


def lines_of(options: Mapping[str, str], columns: Iterable[Column]) -> tuple[str, ...] | None:
    """Return the names of a sink's columns where the operator can write its records as Flink would; else None.

    Parameters
    ----------
    options : of the sink, for which only records of JSON in Flink's default form qualify
    columns : of the sink, for which only types qualify that the operator's rows have
    """
    if options.get("connector") != "kafka" or options.get("format") != "json":
        return None
    if any(name.startswith(_OF_FORMATS) for name in options):
        return None
    names = tuple(column.name for column in columns if column.sql_type in _WRITTEN)
    return names if names and len(names) == len(tuple(columns)) else None


def row_sql(columns: Iterable[OutputColumn], arrays: Iterable[OutputColumn]) -> dict[str, str]:
    """Return the SQL types of a row of the operator, by internal name; ``arrays`` hold one value for each tuple."""
    return {column.row: SQL[column.kind] for column in columns} | {
        column.row: f"ARRAY<{SQL[column.kind]}>" for column in arrays
    }


def unnested(origin: str, kept: Iterable[OutputColumn], arrays: Iterable[OutputColumn]) -> str:
    """Return a query with one row for each element of some arrays of equal length.

    Building a row object per element would take Python longer than all other work of the operator, so Flink's own
    functions zip the arrays. ``MAP_FROM_ARRAYS`` pairs two arrays and ignores duplicate and missing keys. Its entries
    are an array again, which can be paired further.

    Parameters
    ----------
    origin : relation to read, such as a view
    kept : columns that each row repeats
    arrays : columns of arrays; in the result each column has one element
    """
    names = [column.row for column in arrays]
    half = len(names) // 2
    parts = [_zipped(part) for part in (names[:half], names[half:]) if part]
    joined = parts[0][0] if len(parts) == 1 else _map(parts[0][0], parts[1][0])
    elements = [f"z{number}{place}" for number, (_, positions) in enumerate(parts) for place in positions]
    selected = [column.row for column in kept]
    selected += [f"{element} AS {name}" for element, name in zip(elements, names, strict=True)]
    columns = ", ".join(f"z{number}" for number in range(len(parts)))
    return f"(SELECT {', '.join(selected)} FROM {origin} CROSS JOIN UNNEST({joined}) AS z ({columns}))"


def _zipped(arrays: Sequence[str]) -> tuple[str, list[str]]:
    """Return an expression that zips all arrays, and the path of each array's elements in it."""
    if len(arrays) == 1:
        return arrays[0], [""]
    half = len(arrays) // 2
    (left, before), (right, behind) = _zipped(arrays[:half]), _zipped(arrays[half:])
    positions = [*(f".`key`{place}" for place in before), *(f".`value`{place}" for place in behind)]
    return f"MAP_ENTRIES({_map(left, right)})", positions


def _map(left: str, right: str) -> str:
    return f"MAP_FROM_ARRAYS({left}, {right})"
