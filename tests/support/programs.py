"""A job's CSV files hold what a program publishes by the same settings, to the last digit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from crenel.operators.output_columns import CHAIN
from tests.support.launch import rows_of

LINK = tuple(column.name for column in CHAIN)
"""Columns of a chained audit log that follow its others: they tell of restores."""


def require_same_rows(folder: Path, table: pa.Table, further: Sequence[str] = ()) -> None:
    """Require that a sink holds the rows of a table.

    ``further``: columns of a chained audit log behind those of the table. Its closing records do not count.
    """
    names = table.column_names
    rows = rows_of(folder, (*names, *further))
    found = sorted(
        tuple(_number(row[name]) for name in names) for row in rows if not further or row["kind"] != "closing"
    )
    assert found == sorted(tuple(_number(_text(value)) for value in row.values()) for row in table.to_pylist())


def _text(value: object) -> str:
    if isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03d}".rstrip("0").rstrip(".")
        return f"{text}Z"
    return "" if value is None else str(value)


def _number(text: str) -> str:
    """Return the shortest form of a number, and any other text unchanged."""
    try:
        return repr(float(text))
    except ValueError:
        return text
