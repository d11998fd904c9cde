"""Fields of nested columns as columns of their own, whose names are their paths, such as ``patient.address.zip``.

A field of the rows of an array, such as ``visits[*].diagnosis``, is an array with the value of each row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from crenel.anonymity.model.policy import ITEMS
from crenel.jobs.config.file import ConfigError
from crenel.jobs.pipeline.packing import JavaFunction, java_function
from crenel.jobs.pipeline.sql_types import SqlType, element_of, fields_of, parse, quote

AnyType = TypeVar("AnyType")

Path: TypeAlias = tuple[str, ...]
"""Name of a column, followed by the name of a field of each level; ``ITEMS`` ends a step to the rows of an array."""

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
        As ``flat_paths``.

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


def flat_paths(
    types: Mapping[str, AnyType],
    roles: Collection[str],
    fields: Callable[[AnyType], Mapping[str, AnyType]],
    element: Callable[[AnyType], AnyType | None],
) -> dict[str, Path]:
    """Return the path of each column by its name, in order.

    A column whose whole name has a role stays as it is, also one with a dot in its name.

    Parameters
    ----------
    fields : returns the fields of a type by name, none for a type without fields
    element : returns the type of the elements of an array, None for any other type

    Raises
    ------
    ConfigError
        A column with a role has fields with roles of their own, or two columns have one name.
    """
    found: list[tuple[str, Path]] = []
    problems: list[str] = []

    def add(path: Path, kind: AnyType) -> None:
        name, inside = ".".join(path), path
        inner = fields(kind)
        if not inner and f"{ITEMS}." not in name and (item := element(kind)) is not None:
            inner, inside = fields(item), (*path[:-1], f"{path[-1]}{ITEMS}")
        below = [role for role in roles if role.startswith(f"{'.'.join(inside)}.")] if inner else []
        if name in roles or not below:
            found.append((name, path))
            # With a column of that whole name, the role is the role of that column.
            if below := [role for role in below if role not in types]:
                problems.append(
                    f"policy: the column {name!r} has a role, and its field {below[0]!r} too; give one to each field, "
                    f"or one to {name!r} alone"
                )
            return
        if path[-1].endswith(ITEMS):
            problems.append(
                f"policy: the source has a column {name!r}, and {ITEMS!r} stands for the rows of an array; rename it "
                "in source.query"
            )
        for field, of_field in inner.items():
            add((*inside, field), of_field)

    for name, kind in types.items():
        add((name,), kind)
    problems += [
        f"policy: the source has {times} columns {name!r}, by their names and the paths of their fields; rename one in "
        "source.query"
        for name, times in Counter(name for name, _ in found).items()
        if times > 1
    ]
    if problems:
        raise ConfigError("source", problems)
    return dict(found)


def first_field(name: str, sql: SqlType) -> str | None:
    """Return the path of a field of a column, as an example of a path; None for a column without fields.

    Examples
    --------
    >>> first_field("visits", parse("ARRAY<ROW<`ward` STRING>>"))
    'visits[*].ward'
    """
    item = element_of(sql) if f"{ITEMS}." not in name else None
    fields = fields_of(item or sql)
    return next((f"{name}{ITEMS if item else ''}.{field}" for field in fields), None)


def _sql_paths(types: Mapping[str, str], roles: Collection[str]) -> dict[str, Path]:
    return flat_paths({name: parse(text) for name, text in types.items()}, roles, _sql_fields, element_of)


def _sql_fields(of: SqlType) -> dict[str, SqlType]:
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


def _present(expression: str, sql: SqlType, nullable: Sequence[str], steps: int) -> str:
    """Return the expression of a field, also in the forms that Flink's planner passes on; ``nullable``: ROWs around."""
    if steps <= _SHALLOW and not (nullable and not sql.nullable):
        return expression
    if not nullable:
        return f"IFNULL({expression}, {expression})"
    # Flink takes a field that is never null in its ROW for one that is never null.
    present = " AND ".join(f"{row} IS NOT NULL" for row in nullable)
    return f"CASE WHEN {present} THEN {expression} END"


def _item_function(array: SqlType, path: Path) -> JavaFunction:
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
