"""Fields of nested columns as columns of their own, whose names are their paths, such as ``patient.address.zip``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias, TypeVar

from crenel.jobs.config.file import ConfigError
from crenel.jobs.pipeline.sql_types import SqlType, fields_of, parse, quote

AnyType = TypeVar("AnyType")

Path: TypeAlias = tuple[str, ...]
"""Name of a column, followed by the name of a field of each level."""

_SHALLOW = 2
"""Longest path that Flink's planner can pass to a function in Python as it is.

A longer one, beside an argument that is computed, ends in a NullPointerException of ``RemoteCalcSplitRule`` (Flink
2.3), which takes no field out of an expression.
"""


def flat_columns(types: Mapping[str, str], roles: Collection[str]) -> dict[str, str]:
    """Return the SQL expression of each column, where a role names a field of a ROW column of each of its fields.

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
    found = flat_paths({name: parse(text) for name, text in types.items()}, roles, _sql_fields)
    return {name: _expression(path, types) for name, path in found.items()}


def flat_paths(
    types: Mapping[str, AnyType], roles: Collection[str], fields: Callable[[AnyType], Mapping[str, AnyType]]
) -> dict[str, Path]:
    """Return the path of each column by its name, in order.

    A column whose whole name has a role stays as it is, also one with a dot in its name.

    Parameters
    ----------
    fields : returns the fields of a type by name, none for a type without fields

    Raises
    ------
    ConfigError
        A column with a role has fields with roles of their own, or two columns have one name.
    """
    found: list[tuple[str, Path]] = []
    problems: list[str] = []

    def add(path: Path, kind: AnyType) -> None:
        name = ".".join(path)
        inner = fields(kind)
        below = [role for role in roles if role.startswith(f"{name}.")] if inner else []
        if name in roles or not below:
            found.append((name, path))
            # With a column of that whole name, the role is the role of that column.
            if below := [role for role in below if role not in types]:
                problems.append(
                    f"policy: the column {name!r} has a role, and its field {below[0]!r} too; give one to each field, "
                    f"or one to {name!r} alone"
                )
            return
        for field, of_field in inner.items():
            add((*path, field), of_field)

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


def _sql_fields(of: SqlType) -> dict[str, SqlType]:
    return {name: parse(text) for name, text in fields_of(of).items()}


def _expression(path: Path, types: Mapping[str, str]) -> str:
    """Return the SQL expression of a path; a field of a missing ROW is missing."""
    text, expression, nullable = types[path[0]], quote(path[0]), list[str]()
    for step in path[1:]:
        row = parse(text)
        if row.nullable:
            nullable.append(expression)
        text, expression = fields_of(row)[step], f"{expression}.{quote(step)}"
    if len(path) <= _SHALLOW and not (nullable and not parse(text).nullable):
        return expression
    if not nullable:
        return f"IFNULL({expression}, {expression})"
    # Flink takes a field that is never null in its ROW for one that is never null.
    present = " AND ".join(f"{row} IS NOT NULL" for row in nullable)
    return f"CASE WHEN {present} THEN {expression} END"
