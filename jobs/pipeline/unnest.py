"""Conversion of parallel arrays to rows in Java, for columns that Python returns as arrays."""

from __future__ import annotations

from collections.abc import Sequence


def unnested(origin: str, kept: Sequence[str], arrays: Sequence[str]) -> str:
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
    half = len(arrays) // 2
    parts = [_zipped(part) for part in (arrays[:half], arrays[half:]) if part]
    joined = parts[0][0] if len(parts) == 1 else _map(parts[0][0], parts[1][0])
    elements = [f"z{number}{place}" for number, (_, places) in enumerate(parts) for place in places]
    selected = [*kept, *(f"{element} AS {name}" for element, name in zip(elements, arrays, strict=True))]
    columns = ", ".join(f"z{number}" for number in range(len(parts)))
    return f"(SELECT {', '.join(selected)} FROM {origin} CROSS JOIN UNNEST({joined}) AS z ({columns}))"


def _zipped(arrays: Sequence[str]) -> tuple[str, list[str]]:
    """Return an expression that zips all arrays, and the path of each array's elements in it."""
    if len(arrays) == 1:
        return arrays[0], [""]
    half = len(arrays) // 2
    (left, before), (right, behind) = _zipped(arrays[:half]), _zipped(arrays[half:])
    places = [*(f".`key`{place}" for place in before), *(f".`value`{place}" for place in behind)]
    return f"MAP_ENTRIES({_map(left, right)})", places


def _map(left: str, right: str) -> str:
    return f"MAP_FROM_ARRAYS({left}, {right})"
