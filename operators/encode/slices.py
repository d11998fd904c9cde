"""Values that are slices of the bytes of a batch, without an object for each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry


def content_of(records: pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return (bytes,) the bytes of all records, and (rows + 1,) record i is at ends[i] to ends[i + 1]."""
    _, offsets, content = records.buffers()
    ends = np.frombuffer(offsets, np.int32)[records.offset : records.offset + len(records) + 1]
    return np.frombuffer(b"" if content is None else content, np.uint8), ends


def gather(
    data: NDArray[np.uint8],
    found: NDArray[np.bool_],
    start: NDArray[np.int32] | NDArray[np.int64],
    length: NDArray[np.int32],
    kind: pa.DataType,
) -> pa.Array:
    """Return (rows,) the slices of ``data`` as an array of bytes or texts.

    Parameters
    ----------
    found : (rows,) whether a row has a value; the others are null
    start, length : (rows,) position of each slice; undefined where there is none
    kind : ``pa.binary()``, or ``pa.string()`` where every slice is UTF-8
    """
    ends = np.zeros(len(found) + 1, np.int32)
    np.cumsum(np.where(found, length, np.int32(0)), out=ends[1:])
    copied = np.empty(int(ends[-1]), np.uint8)
    _copy(data, start, ends, copied)
    valid = None if found.all() else pa.py_buffer(np.packbits(found, bitorder="little"))
    return pa.Array.from_buffers(kind, len(found), [valid, pa.py_buffer(ends), pa.py_buffer(copied)])


def texts(slices: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as text; those that are not UTF-8 are missing."""
    try:
        return pc.cast(slices, pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(each) for each in slices.to_pylist()], pa.string())


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


@entry
def _copy(
    data: NDArray[np.uint8],
    start: NDArray[np.int32] | NDArray[np.int64],
    ends: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    for row in range(len(start)):
        origin: Int = np.int64(start[row])
        for place in range(ends[row], ends[row + 1]):
            out[place] = data[origin]
            origin += 1
