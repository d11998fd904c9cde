"""Arrays side by side, as rows again: what Python hands over in columns is taken apart in Java."""

from __future__ import annotations

from collections.abc import Sequence


def unnested(origin: str, kept: Sequence[str], arrays: Sequence[str]) -> str:
    """A query that gives one row for each element of some arrays, which are of the same length.

    A row object for each element would take Python longer than all else that the operator does with it, so the arrays
    are zipped by Flink's own functions: ``MAP_FROM_ARRAYS`` lays two side by side and looks at no key (equal and
    missing ones stay), and its entries are an array again, for more than two.

    Parameters
    ----------
    origin : what to read, such as a view
    kept : columns that each row repeats
    arrays : columns of arrays; in the result each has the element in its place
    """
    half = len(arrays) // 2
    parts = [_zipped(part) for part in (arrays[:half], arrays[half:]) if part]
    joined = parts[0][0] if len(parts) == 1 else _map(parts[0][0], parts[1][0])
    elements = [f"z{number}{place}" for number, (_, places) in enumerate(parts) for place in places]
    selected = [*kept, *(f"{element} AS {name}" for element, name in zip(elements, arrays, strict=True))]
    columns = ", ".join(f"z{number}" for number in range(len(parts)))
    return f"(SELECT {', '.join(selected)} FROM {origin} CROSS JOIN UNNEST({joined}) AS z ({columns}))"


def _zipped(arrays: Sequence[str]) -> tuple[str, list[str]]:
    """An array of all of them, and where in its elements each one's are."""
    if len(arrays) == 1:
        return arrays[0], [""]
    half = len(arrays) // 2
    (left, before), (right, behind) = _zipped(arrays[:half]), _zipped(arrays[half:])
    places = [*(f".`key`{place}" for place in before), *(f".`value`{place}" for place in behind)]
    return f"MAP_ENTRIES({_map(left, right)})", places


def _map(left: str, right: str) -> str:
    return f"MAP_FROM_ARRAYS({left}, {right})"
