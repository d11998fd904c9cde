"""Arrays in the bytes of Flink's own serializer, which carry them to ``released``.

The form is that of ``ArrayDataSerializer`` and ``BinaryArrayData`` in Flink 2.3: the number of bytes, then the number
of elements, a bit for each missing element, the elements, and the texts that an element cannot hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry

_TEXT = "STRING"
_TYPES: dict[str, np.dtype[Any]] = {
    "BOOLEAN": np.dtype(np.uint8),
    "INT": np.dtype("<i4"),
    "BIGINT": np.dtype("<i8"),
    "FLOAT": np.dtype("<f4"),
    "DOUBLE": np.dtype("<f8"),
    _TEXT: np.dtype("<i8"),
}
"""Form of an element, by SQL type; a text is its length with its bytes, or with their position."""

ELEMENTS = tuple(_TYPES)
"""SQL types of elements that can be packed."""

_SIZE = 4
"""Bytes of the number of bytes in front."""

_HELD = 7
"""Maximum number of bytes of a text that an element holds itself."""

_LARGEST = 2**31 - 1


def pack(lists: pa.ListArray, kind: str) -> pa.BinaryArray:
    """Return (rows,) each list as bytes, null where it is missing.

    Parameters
    ----------
    lists : (rows,) lists of elements in Arrow's type for ``kind``, or int64 for INT
    kind : one of ``ELEMENTS``

    Raises
    ------
    OverflowError
        The bytes of all lists are more than an array of Arrow holds.
    """
    elements, counts = lists.flatten(), pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    first = np.cumsum(counts) - counts
    there = elements.is_valid().to_numpy(zero_copy_only=False)
    width = _TYPES[kind].itemsize
    header = _SIZE + (counts + 31) // 32 * 4
    behind = (header + counts * width + 7) // 8 * 8
    content, ends, size = np.zeros(0, np.uint8), np.zeros(len(elements) + 1, np.int32), behind
    if kind == _TEXT:
        _, offsets, buffer = elements.buffers()
        ends = np.frombuffer(offsets, np.int32)[elements.offset : elements.offset + len(elements) + 1]
        content = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
        lengths = np.where(there, np.diff(ends), 0).astype(np.int64)
        beyond = np.concatenate([[0], np.cumsum(np.where(lengths > _HELD, (lengths + 7) // 8 * 8, 0))])
        size = behind + beyond[first + counts] - beyond[first]
        values = np.zeros(len(elements), np.int64)
    else:
        filled = elements.fill_null(False if kind == "BOOLEAN" else 0)
        values = filled.to_numpy(zero_copy_only=False).astype(_TYPES[kind])
    missing = lists.is_null().to_numpy(zero_copy_only=False)
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(np.where(missing, 0, _SIZE + size), out=starts[1:])
    if starts[-1] > _LARGEST:
        raise OverflowError("the arrays of a batch have more than 2^31 bytes")
    out = np.zeros(int(starts[-1]), np.uint8)
    _pack(out, starts, size, counts, there, values.view(np.uint8), width, kind == _TEXT, content, ends)
    valid = None if not missing.any() else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(lists), buffers)


def precompile() -> None:
    """Compile the packing ahead of its first use."""
    pack(pa.array([["a"]]), "STRING")


@entry
def _pack(
    out: NDArray[np.uint8],
    starts: NDArray[np.int64],
    size: NDArray[np.int64],
    counts: NDArray[np.int64],
    there: NDArray[np.bool_],
    values: NDArray[np.uint8],
    width: Int,
    is_text: bool,
    content: NDArray[np.uint8],
    ends: NDArray[np.int32],
) -> None:
    element: Int = np.int64(0)
    for row in range(len(counts)):
        if starts[row] == starts[row + 1]:
            continue
        start = starts[row] + 4
        for byte in range(4):
            out[start - 4 + byte] = (size[row] >> (24 - 8 * byte)) & 255
            out[start + byte] = (counts[row] >> (8 * byte)) & 255
        fixed = start + 4 + (counts[row] + 31) // 32 * 4
        behind = start + (fixed - start + counts[row] * width + 7) // 8 * 8
        for number in range(counts[row]):
            if not there[element]:
                out[start + 4 + number // 8] |= np.uint8(1 << (number % 8))
            elif is_text:
                begin, end = np.int64(ends[element]), np.int64(ends[element + 1])
                length = end - begin
                target = fixed
                if length > 7:
                    target = behind
                    for byte in range(4):
                        out[fixed + byte] = (length >> (8 * byte)) & 255
                        out[fixed + 4 + byte] = ((behind - start) >> (8 * byte)) & 255
                    behind += (length + 7) // 8 * 8
                else:
                    out[fixed + 7] = length | 128
                for byte in range(length):
                    out[target + byte] = content[begin + byte]
            else:
                for byte in range(width):
                    out[fixed + byte] = values[element * width + byte]
            fixed += width
            element += 1
