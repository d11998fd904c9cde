"""Values of a field of records in an SQL type, as arguments of encode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model import values
from crenel.operators.encode.columns import Form, with_elements
from crenel.operators.encode.packed_arrays import pack
from crenel.operators.encode.try_cast import WHOLE

FORMS: dict[str, tuple[Form, ...]] = {
    "STRING": ("text",),
    "BOOLEAN": ("boolean", "text"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), ("number", "text", "missing")),
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


class FieldCells:
    """The values of a field, with an attribute for each ``Form`` of its type.

    Parameters
    ----------
    cells : (rows,) values of a type that ``crenel.anonymity.model.values`` has a text for, null where missing
    """

    def __init__(self, cells: pa.Array) -> None:
        self._cells = cells

    @property
    def missing(self) -> NDArray[np.bool_]:
        return _array(self._cells.is_null())

    @property
    def number(self) -> NDArray[Any]:
        return values.numbers(self._cells)

    @property
    def integer(self) -> NDArray[np.int64]:
        return values.integers(self._cells)

    @property
    def boolean(self) -> NDArray[Any]:
        return _array(self._cells)

    @property
    def time(self) -> NDArray[np.datetime64]:
        return values.milliseconds(self._cells).view("datetime64[ms]")

    @property
    def text(self) -> pa.StringArray:
        return values.texts(self._cells)

    @property
    def day(self) -> pa.StringArray:
        return values.days(self._cells)


class ArrayCells:
    """The values of an array field, with an attribute for each ``Form`` of an array.

    Parameters
    ----------
    kind : type of the elements
    cells : (rows,) lists of elements as in ``FieldCells``, null where missing; whole numbers are int64
    """

    def __init__(self, kind: CellType, cells: pa.ListArray) -> None:
        self._kind, self._cells = kind, cells

    @property
    def list(self) -> pa.ListArray:
        if self._kind.name == "STRING" or self._kind.name in WHOLE:
            return self._cells
        return with_elements(self._cells, values.texts(self._cells.values))

    @property
    def packed(self) -> pa.BinaryArray:
        return pack(self._cells, self._kind.name)


def _array(cells: pa.Array) -> NDArray[Any]:
    found: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
    return found
