"""Published records as lines of JSON, as Flink's format ``json`` writes them by default.

Flink builds an object for each value of each record, both where Python hands the values on and where it writes them.
The generalization of a release is the same for all of its records, so one text serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from json.encoder import encode_basestring
from typing import Any

from crenel.operators.output_columns import Kind


class LineWriter:
    """Writer of the records of releases.

    Parameters
    ----------
    generalization, members : name and type of each published column, those with a value per release before those with
        one per record
    """

    def __init__(self, generalization: Mapping[str, Kind], members: Mapping[str, Kind]) -> None:
        self._generalization = _writers(generalization)
        self._members = _writers(members)

    def lines(
        self, generalization: Sequence[Sequence[Any]], members: Sequence[list[Any]], ends: list[int]
    ) -> list[str]:
        """Return the lines of each release, joined by line breaks, which JSON itself never contains; "" without any.

        Parameters
        ----------
        generalization : values of each column, one per release
        members : values of each column, one per record
        ends : (releases + 1,) release i has the records ends[i] to ends[i + 1]
        """
        heads = _texts(self._generalization, generalization, len(ends) - 1)
        bodies = _texts(self._members, members, ends[-1])
        comma = "," if self._generalization and self._members else ""
        lines = []
        for head, (start, stop) in zip(heads, pairwise(ends), strict=True):
            begin = f"{{{head}{comma}"
            lines.append(begin + f"}}\n{begin}".join(bodies[start:stop]) + "}" if stop > start else "")
        return lines


def _texts(writers: list[tuple[str, Callable[[Any], str]]], columns: Sequence[Sequence[Any]], rows: int) -> list[str]:
    """Return the members of each row's object."""
    cells = [
        [name + ("null" if value is None else write(value)) for value in column]
        for (name, write), column in zip(writers, columns, strict=False)  # rows without members have an unnamed column
    ]
    return list(map(",".join, zip(*cells, strict=True))) if cells else [""] * rows


def _writers(columns: Mapping[str, Kind]) -> list[tuple[str, Callable[[Any], str]]]:
    return [(f"{encode_basestring(name)}:", _WRITE[kind]) for name, kind in columns.items()]


def _real(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


_WRITE: Mapping[Kind, Callable[[Any], str]] = {
    "STRING": encode_basestring,
    "INT": str,
    "LONG": str,
    "BOOLEAN": lambda value: "true" if value else "false",
    "DOUBLE": _real,
}
