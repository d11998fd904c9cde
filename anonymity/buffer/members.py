"""Published columns of the buffered tuples, by slot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import zeros

_NUMPY = {
    pa.int64(): np.int64,
    pa.timestamp("ms"): np.int64,
    pa.float64(): np.float64,
    pa.bool_(): np.bool_,
    pa.string(): object,
    pa.binary(): object,
}


_FEW = 16


def in_milliseconds(column: pa.Array) -> pa.Array:
    """Return timestamps as int64, the form in which they are published; return other columns unchanged."""
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def listed(column: pa.Array) -> list[Any]:
    """Return the values of a published column as ``Releases.members`` has them; None where one is missing.

    ``pyarrow.Array.to_pylist`` makes an object of Arrow for each value, and takes ten times as long for many of them.
    """
    column = in_milliseconds(column)
    if len(column) < _FEW:
        return column.to_pylist()
    if column.type == pa.string():
        return _texts(column).tolist()
    if column.null_count:
        return column.to_pylist()
    return column.to_numpy(zero_copy_only=False).tolist()


def _texts(column: pa.Array) -> NDArray[Any]:
    """Return (rows,) the strings of a column, None where one is missing; equal ones share one object."""
    distinct = column.dictionary_encode("encode")
    texts: NDArray[Any] = distinct.dictionary.to_numpy(zero_copy_only=False)[distinct.indices.to_numpy()]
    return texts


class Members:
    """Columns of sensitive, noised and pass-through values, one tuple per slot.

    Parameters
    ----------
    schema : names and types of the published columns (int64, float64, bool, string, binary, or timestamp in ms, stored
        as int64)
    """

    def __init__(self, schema: pa.Schema) -> None:
        unknown = [field.name for field in schema if field.type not in _NUMPY]
        if unknown:
            raise TypeError(
                "published columns are int64, float64, bool, string, binary or timestamp[ms]; not so: "
                + ", ".join(unknown)
            )
        self.schema = schema
        self._values: list[NDArray[Any]] = [np.zeros(0, _NUMPY[field.type]) for field in schema]
        self._missing: list[NDArray[np.bool_]] = [np.zeros(0, np.bool_) for _ in schema]

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` slots; stored values keep theirs."""
        for columns in (self._values, self._missing):
            for i, column in enumerate(columns):
                larger = zeros(slots, column.dtype)
                larger[: len(column)] = column
                columns[i] = larger

    def put(self, slots: NDArray[np.int32], batch: pa.RecordBatch) -> None:
        """Store the rows of ``batch`` in ``slots``."""
        for i, column in enumerate(map(in_milliseconds, batch.columns)):
            if column.type == pa.binary():
                self._values[i][slots] = column.to_numpy(zero_copy_only=False)
            elif column.type == pa.string():
                self._values[i][slots] = _texts(column)
            elif column.null_count:
                missing = column.is_null().to_numpy(zero_copy_only=False)
                self._missing[i][slots] = missing
                self._values[i][slots] = column.fill_null(False if column.type == pa.bool_() else 0).to_numpy(
                    zero_copy_only=False
                )
            else:
                self._values[i][slots] = column.to_numpy(zero_copy_only=False)
                self._missing[i][slots] = False

    def take(self, slots: NDArray[np.int32]) -> tuple[list[Any], ...]:
        """Remove the values in ``slots`` and return them, one list per column; None where a value is missing."""
        columns = []
        for values, missing in zip(self._values, self._missing, strict=True):
            column = values[slots].tolist()
            if values.dtype == object:
                values[slots] = None
            elif (holes := np.flatnonzero(missing[slots])).size:
                for hole in holes:
                    column[hole] = None
            columns.append(column)
        return tuple(columns)

    def batch(self, slots: NDArray[np.int32]) -> pa.RecordBatch:
        """Return the values in ``slots`` without removing them."""
        columns = [
            pa.array(values[slots], field.type, mask=None if values.dtype == object else missing[slots])
            for field, values, missing in zip(self.schema, self._values, self._missing, strict=True)
        ]
        return pa.record_batch(columns, schema=self.schema)

    def moved(self, slots: NDArray[np.int32], count: int) -> Members:
        """Return only the values in ``slots``, moved to the first of ``count`` slots."""
        made = Members(self.schema)
        made.reserve(count)
        for old, new in ((self._values, made._values), (self._missing, made._missing)):
            for before, after in zip(old, new, strict=True):
                after[: len(slots)] = before[slots]
        return made
