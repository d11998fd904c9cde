"""Arrays of each type of elements that encode packs."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

ELEMENTS = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int64(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIME(3)": pa.time32("ms"),
    "DECIMAL(9, 2)": pa.decimal128(9, 2),
    "DECIMAL(18, 0)": pa.decimal128(18, 0),
    "DECIMAL(19, 0)": pa.decimal128(19, 0),
    "DECIMAL(38, 9)": pa.decimal128(38, 9),
    "TIMESTAMP(0)": pa.timestamp("s"),
    "TIMESTAMP(3)": pa.timestamp("ms"),
    "TIMESTAMP(6)": pa.timestamp("us"),
}
"""Arrow type of the elements by SQL type, as encode has them."""

_VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "INT": [0, -(2**31), 2**31 - 1, None],
    "BIGINT": [0, -(2**63), 2**63 - 1, None],
    "FLOAT": [0.0, -1.5, 8.25, None],
    "DOUBLE": [0.1, -1e300, None],
    "STRING": ["", "seven b", "eight by", "é" * 9, "x" * 300, None],
    "DATE": [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), None],
    "TIME(3)": [time(0), time(8, 0, 0, 500000), time(23, 59, 59, 999000), time(8, 0, 0, 10000), None],
    "DECIMAL(9, 2)": [Decimal(text) for text in ("0.00", "-0.01", "9999999.99", "-9999999.99")] + [None],
    "DECIMAL(18, 0)": [Decimal(0), Decimal(10**18 - 1), Decimal(1 - 10**18), None],
    "DECIMAL(19, 0)": [Decimal(sign * of) for of in (0, 1, 127, 128, 129, 255, 256, 10**19 - 1) for sign in (1, -1)]
    + [None],
    "DECIMAL(38, 9)": [Decimal(f"{sign}{'9' * 29}.999999999") for sign in ("", "-")] + [None, Decimal("0E-9")],
    "TIMESTAMP(0)": [datetime(1970, 1, 1), datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59), None],
}
_VALUES["TIMESTAMP(3)"] = [*_VALUES["TIMESTAMP(0)"], datetime(1969, 12, 31, 23, 59, 59, 999000)]
_VALUES["TIMESTAMP(6)"] = [*_VALUES["TIMESTAMP(3)"], datetime(1969, 12, 31, 23, 59, 59, 999999)]


def arrays(kind: str) -> list[list[Any] | None]:
    """Return arrays: empty, missing, with missing elements, and long ones."""
    values = _VALUES[kind]
    return [[], None, values, values[::-1], values * 20, [None] * 33, None, values[:1]]
