"""Fields of nested columns as columns of their own, whose names are their paths, such as ``patient.address.zip``.

A field of the rows of an array, such as ``visits[*].diagnosis``, is an array with the value of each row.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import ITEMS
from crenel.jobs.pipeline.packing import JavaFunction, java_function
from crenel.jobs.pipeline.sql_expressions import quote
from crenel.operators.column_types import ColumnType, element_of, fields_of, parse
from crenel.operators.encode.nested import Path, flat_paths

RowForm: TypeAlias = "int | tuple[RowForm, ...]"
"""Number of the array that has the values of a field, or such a number for each field of a ROW."""

_FIELD_OF_ITEMS = """private static final int[] PATH = {STEPS};
    private transient ArrayData.ElementGetter item;
    private transient RowData.FieldGetter[] fields;

    public void open(FunctionContext context) {
        LogicalType of = ((ArrayType) type(TYPE)).getElementType();
        item = ArrayData.createElementGetter(of);
        fields = new RowData.FieldGetter[PATH.length];
        for (int step = 0; step < PATH.length; step++) {
            of = ((RowType) of).getTypeAt(PATH[step]);
            fields[step] = RowData.createFieldGetter(of, PATH[step]);
        }
    }

    public ArrayData eval(ArrayData items) {
        if (items == null) {
            return null;
        }
        Object[] values = new Object[items.size()];
        for (int i = 0; i < values.length; i++) {
            Object value = items.isNullAt(i) ? null : item.getElementOrNull(items, i);
            for (int step = 0; value != null && step < PATH.length; step++) {
                RowData row = (RowData) value;
                value = row.isNullAt(PATH[step]) ? null : fields[step].getFieldOrNull(row);
            }
            values[i] = value;
        }
        return new GenericArrayData(values);
    }"""
_ROWS = """private static final String[] ARRAYS = {TYPES};
    private transient ArrayData.ElementGetter[] getters;
    private transient ArrayData[] columns;

    public void open(FunctionContext context) {
        getters = new ArrayData.ElementGetter[ARRAYS.length];
        for (int number = 0; number < ARRAYS.length; number++) {
            getters[number] = ArrayData.createElementGetter(((ArrayType) type(ARRAYS[number])).getElementType());
        }
    }

    private Object value(int number, int i) {
        ArrayData column = columns[number];
        boolean isMissing = column == null || i >= column.size() || column.isNullAt(i);
        return isMissing ? null : getters[number].getElementOrNull(column, i);
    }

    public ArrayData eval(PARAMETERS) {
        columns = new ArrayData[] {COLUMNS};
        int longest = -1;
        for (int number = 0; number < columns.length; number++) {
            longest = Math.max(longest, columns[number] == null ? -1 : columns[number].size());
        }
        if (longest < 0) {
            return null;
        }
        Object[] rows = new Object[longest];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = ROW;
        }
        return new GenericArrayData(rows);
    }"""

_SHALLOW = 2
"""Longest path that Flink's planner can pass to a function in Python as it is.

A longer one, beside an argument that is computed, ends in a NullPointerException of ``RemoteCalcSplitRule`` (Flink
2.3), which takes no field out of an expression.
"""


def flat_columns(types: Mapping[str, str], roles: Collection[str]) -> dict[str, str]:
    """Return the SQL expression of each column, where a role names a field of a nested column of each of its fields.

    Parameters
    ----------
    types : SQL type by column, as of ``SourceColumns``
    roles : columns and paths with a role

    Raises
    ------
    ConfigError
        Lists the problems of ``flat_paths``.

    Examples
    --------
    >>> flat_columns({"patient": "ROW<`zip` STRING>"}, ["patient.zip"])
    {'patient.zip': '`patient`.`zip`'}
    """
    return {name: field_at(path, types)[0] for name, path in _sql_paths(types, roles).items()}


def item_functions(types: Mapping[str, str], roles: Collection[str]) -> Iterator[JavaFunction]:
    """Yield the functions that ``flat_columns`` calls; arguments as there."""
    for path in _sql_paths(types, roles).values():
        if (function := field_at(path, types)[1]) is not None:
            yield function


def _sql_paths(types: Mapping[str, str], roles: Collection[str]) -> dict[str, Path]:
    paths, problems = flat_paths({name: parse(text) for name, text in types.items()}, roles, _sql_fields, element_of)
    if problems:
        raise ConfigError("source", problems)
    return paths


def _sql_fields(of: ColumnType) -> dict[str, ColumnType]:
    return {name: parse(text) for name, text in fields_of(of).items()}


def field_at(path: Path, types: Mapping[str, str]) -> tuple[str, JavaFunction | None]:
    """Return the SQL expression of a path, and the function that it calls; a field of a missing ROW is missing.

    ``types`` : SQL type by column
    """
    expression, nullable, level = "", list[str](), types
    for number, step in enumerate(path, 1):
        name = step if step in level else step.removesuffix(ITEMS)
        text = level[name]
        expression = f"{expression}.{quote(name)}" if expression else quote(name)
        sql = parse(text)
        if name != step:
            function = _item_function(sql, path[number:])
            return f"{function.name}({_present(expression, sql, nullable, number)})", function
        if number < len(path):
            if sql.nullable:
                nullable.append(expression)
            level = fields_of(sql)
    return _present(expression, sql, nullable, len(path)), None


def _present(expression: str, sql: ColumnType, nullable: Sequence[str], steps: int) -> str:
    """Return the expression of a field, also in the forms that Flink's planner passes on; ``nullable``: ROWs around."""
    if steps <= _SHALLOW and not (nullable and not sql.nullable):
        return expression
    if not nullable:
        return f"IFNULL({expression}, {expression})"
    # Flink takes a field that is never null in its ROW for one that is never null.
    present = " AND ".join(f"{row} IS NOT NULL" for row in nullable)
    return f"CASE WHEN {present} THEN {expression} END"


def _item_function(array: ColumnType, path: Path) -> JavaFunction:
    """Return a function from an array of rows to the array of one of their fields; that of a missing row is missing."""
    item, steps = element_of(array) or array, []
    for step in path:
        level = fields_of(item)
        steps.append(str(list(level).index(step)))
        item = parse(level[step])
    body = _FIELD_OF_ITEMS.replace("STEPS", ", ".join(steps)).replace("TYPE", json.dumps(array.text))
    return java_function("items", body, "A field of each row of an array.", [array.text], f"ARRAY<{item.text}>", body)


def rows_function(arrays: Sequence[str], row: str, form: RowForm) -> JavaFunction:
    """Return a function from arrays to an array of rows; missing if all arrays are missing.

    The fields of an array of rows have equal lengths. Columns of a query with such names may have others: the rows that
    a shorter one lacks are missing in it.

    Parameters
    ----------
    arrays : SQL types of the arrays
    row : SQL type of a row
    form : number of the array of each field of a row
    """
    columns = [f"a{number}" for number in range(len(arrays))]
    body = _ROWS.replace("PARAMETERS", ", ".join(f"ArrayData {column}" for column in columns))
    body = body.replace("COLUMNS", ", ".join(columns)).replace("ROW", _row(form))
    body = body.replace("TYPES", ", ".join(map(json.dumps, arrays)))
    return java_function("rows", f"{row} {body}", "Rows of the values of arrays.", arrays, f"ARRAY<{row}>", body)


def _row(form: RowForm) -> str:
    if isinstance(form, int):
        return f"value({form}, i)"
    return f"GenericRowData.of(new Object[] {{{', '.join(map(_row, form))}}})"
