"""Arrays of each type of elements that encode packs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

ELEMENTS = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int64(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
}
"""Arrow type of the elements by SQL type, as encode has them."""

_VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "INT": [0, -(2**31), 2**31 - 1, None],
    "BIGINT": [0, -(2**63), 2**63 - 1, None],
    "FLOAT": [0.0, -1.5, 8.25, None],
    "DOUBLE": [0.1, -1e300, None],
    "STRING": ["", "seven b", "eight by", "é" * 9, "x" * 300, None],
}


def arrays(kind: str) -> list[list[Any] | None]:
    """Return arrays: empty, missing, with missing elements, and long ones."""
    values = _VALUES[kind]
    return [[], None, values, values[::-1], values * 20, [None] * 33, None, values[:1]]
