"""Values of a field of records in an SQL type, as arguments of encode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.operators.encode.columns import with_elements
from crenel.operators.encode.packed_arrays import pack
from crenel.operators.encode.records import Form
from crenel.operators.encode.try_cast import WHOLE

FORMS: dict[str, tuple[Form, ...]] = {
    "STRING": ("text",),
    "BOOLEAN": ("boolean", "text"),
    "FLOAT": ("number", "missing"),
    "DOUBLE": ("number", "missing"),
    "DECIMAL": ("number", "text"),
    "DATE": ("time", "text", "day"),
    "TIME": ("text",),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), ("time", "text", "day")),
    "ARRAY": ("list", "packed"),
    **dict.fromkeys(WHOLE, ("number", "integer", "text", "missing")),
}
"""Available forms of a field, by its type."""

UNITS = {0: "s", 3: "ms", 6: "us"}
"""Arrow units by the precision of a TIMESTAMP."""

_PLAIN_DECIMALS = 6
"""Maximum scale of a DECIMAL that Arrow always writes without an exponent."""


@dataclass(frozen=True)
class CellType:
    """The type of a field.

    Attributes
    ----------
    name : an SQL type without parameters; TIMESTAMP for a TIMESTAMP_LTZ too, in UTC
    precision, scale : of DECIMAL; precision is also that of TIMESTAMP, one of ``UNITS``
    """

    name: str
    precision: int = 0
    scale: int = 0


class Cells:
    """The values of a field, with an attribute for each ``Form`` of its type.

    Parameters
    ----------
    kind : type of the field
    cells : (rows,) text, bool, int64, float64 (float32 for FLOAT), decimal128, date32, time32 of milliseconds or
        timestamp, null where missing
    """

    def __init__(self, kind: CellType, cells: pa.Array) -> None:
        self._kind, self._cells = kind, cells

    @property
    def missing(self) -> NDArray[np.bool_]:
        return _array(self._cells.is_null())

    @property
    def number(self) -> NDArray[Any]:
        cells = self._cells
        if self._kind.name == "DECIMAL":
            cells = pc.cast(self.text, pa.float64())  # a cast of decimals is not exact
        if cells.null_count or not pa.types.is_integer(cells.type):
            cells = pc.cast(cells, pa.float64(), safe=False).fill_null(np.nan)
        return _array(cells)

    @property
    def integer(self) -> NDArray[np.int64]:
        return _array(self._cells.fill_null(0))

    @property
    def boolean(self) -> NDArray[Any]:
        return _array(self._cells)

    @property
    def time(self) -> NDArray[np.datetime64]:
        cells = pc.cast(self._cells, pa.timestamp("ms")) if self._kind.name == "DATE" else self._cells
        return _array(pc.cast(pc.floor_temporal(cells, unit="millisecond"), pa.timestamp("ms")))

    @property
    def text(self) -> pa.StringArray:
        if self._kind.name == "DECIMAL" and self._kind.scale > _PLAIN_DECIMALS:
            cells = self._cells.to_pylist()
            return pa.array([None if cell is None else f"{cell:f}" for cell in cells], pa.string())
        texts = pc.cast(self._cells, pa.string())
        if self._kind.name == "TIME":
            return pc.replace_substring_regex(texts, r"(\.[0-9]+?)0*$", r"\1")
        return pc.utf8_upper(texts) if self._kind.name == "BOOLEAN" else texts

    @property
    def day(self) -> pa.StringArray:
        return pc.utf8_slice_codeunits(self.text, 0, 10)


class ArrayCells:
    """The values of an array field, with an attribute for each ``Form`` of an array.

    Parameters
    ----------
    kind : type of the elements
    cells : (rows,) lists of elements as in ``Cells``, null where missing
    """

    def __init__(self, kind: CellType, cells: pa.ListArray) -> None:
        self._kind, self._cells = kind, cells

    @property
    def list(self) -> pa.ListArray:
        if self._kind.name == "STRING" or self._kind.name in WHOLE:
            return self._cells
        return with_elements(self._cells, Cells(self._kind, self._cells.values).text)

    @property
    def packed(self) -> pa.BinaryArray:
        return pack(self._cells, self._kind.name)


def _array(cells: pa.Array) -> NDArray[Any]:
    values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
    return values
