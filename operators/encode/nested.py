"""Fields of nested columns as columns of their own, whose names are their paths, such as ``patient.address.zip``.

A field of the rows of an array, such as ``visits[*].diagnosis``, is an array with the value of each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias, TypeVar

from crenel.anonymity.model.policy import ITEMS
from crenel.operators.column_types import ColumnType, element_of, fields_of

AnyType = TypeVar("AnyType")

Path: TypeAlias = tuple[str, ...]
"""Name of a column, followed by the name of a field of each level; ``ITEMS`` ends a step to the rows of an array."""


def flat_paths(
    types: Mapping[str, AnyType],
    roles: Collection[str],
    fields: Callable[[AnyType], Mapping[str, AnyType]],
    element: Callable[[AnyType], AnyType | None],
) -> tuple[dict[str, Path], list[str]]:
    """Return the path of each column by its name, in order, and problems.

    A column whose whole name has a role stays as it is, also one with a dot in its name. A problem is a column with a
    role whose fields have roles of their own, or two columns of one name.

    Parameters
    ----------
    fields : returns the fields of a type by name, none for a type without fields
    element : returns the type of the elements of an array, None for any other type
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
                "in the source's query or data"
            )
        for field, of_field in inner.items():
            add((*inside, field), of_field)

    for name, kind in types.items():
        add((name,), kind)
    problems += [
        f"policy: the source has {times} columns {name!r}, by their names and the paths of their fields; rename one in "
        "the source's query or data"
        for name, times in Counter(name for name, _ in found).items()
        if times > 1
    ]
    return dict(found), problems


def first_field(name: str, sql: ColumnType) -> str | None:
    """Return the path of a field of a column, as an example of a path; None for a column without fields.

    Examples
    --------
    >>> first_field("visits", parse("ARRAY<ROW<`ward` STRING>>"))
    'visits[*].ward'
    """
    item = element_of(sql) if f"{ITEMS}." not in name else None
    fields = fields_of(item or sql)
    return next((f"{name}{ITEMS if item else ''}.{field}" for field in fields), None)
