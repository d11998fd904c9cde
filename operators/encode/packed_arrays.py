"""Arrays in the bytes of Flink's own serializer, which carry them to ``released``.

The form is that of ``ArrayDataSerializer`` and ``BinaryArrayData`` in Flink 1.20 to 2.3: the number of bytes, then the
number of elements, a bit for each missing element, the elements, and the bytes that an element cannot hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry

_TYPES: dict[str, np.dtype[Any]] = {
    "BOOLEAN": np.dtype(np.uint8),
    "INT": np.dtype("<i4"),
    "BIGINT": np.dtype("<i8"),
    "FLOAT": np.dtype("<f4"),
    "DOUBLE": np.dtype("<f8"),
    "DATE": np.dtype("<i4"),
    "TIME": np.dtype("<i4"),
    "STRING": np.dtype("<i8"),
    "DECIMAL": np.dtype("<i8"),
    "TIMESTAMP": np.dtype("<i8"),
}
"""Form of an element, by SQL type; of content that stands apart, a number beside its position."""

ELEMENTS = tuple(_TYPES)
"""SQL types of elements that can be packed, without parameters."""

_SIZE = 4
"""Bytes of the number of bytes in front."""

_HELD = 7
"""Maximum number of bytes of a text that an element holds itself."""

_COMPACT_DIGITS = 18
"""Maximum precision of a DECIMAL that an element holds itself."""

_DECIMAL_BYTES = 16
"""Bytes of a decimal in Arrow, and those that Flink reserves for one that an element cannot hold."""

_LARGEST = 2**31 - 1


class _Apart(NamedTuple):
    """Content of elements that may stand behind all elements.

    Attributes
    ----------
    data : (bytes,) content of all elements
    begins, ends : (elements,) position of each element's content
    beside : (elements,) number beside the position
    held : maximum number of bytes that an element holds itself
    reserved : minimum number of bytes for content behind the elements
    """

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    beside: NDArray[np.int64]
    held: int
    reserved: int


_NO_POSITIONS = np.zeros(0, np.int64)
_NOTHING = _Apart(np.zeros(0, np.uint8), _NO_POSITIONS, _NO_POSITIONS, _NO_POSITIONS, 0, 0)


def pack(lists: pa.ListArray, kind: str) -> pa.BinaryArray:
    """Return (rows,) each list as bytes, null where it is missing.

    Parameters
    ----------
    lists : (rows,) lists of elements in Arrow's type for ``kind``, or int64 for INT; timestamps of seconds or
        milliseconds have Flink's form up to TIMESTAMP(3), and those of microseconds that of TIMESTAMP(6)
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
    apart, size = _apart(elements, kind), behind
    if apart is not None:
        lengths = apart.ends - apart.begins
        room = np.maximum((lengths + 7) // 8 * 8, apart.reserved)
        beyond = np.concatenate([[0], np.cumsum(np.where(there & (lengths > apart.held), room, 0))])
        size = behind + beyond[first + counts] - beyond[first]
        values = np.zeros(0, np.uint8)
    else:
        values = _fixed(elements, kind).astype(_TYPES[kind], copy=False).view(np.uint8)
    missing = lists.is_null().to_numpy(zero_copy_only=False)
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(np.where(missing, 0, _SIZE + size), out=starts[1:])
    if starts[-1] > _LARGEST:
        raise OverflowError("the arrays of a batch have more than 2^31 bytes")
    out = np.zeros(int(starts[-1]), np.uint8)
    _pack(out, starts, size, counts, there, values, width, apart is not None, apart or _NOTHING)
    valid = None if not missing.any() else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(lists), buffers)


def _fixed(elements: pa.Array, kind: str) -> NDArray[Any]:
    """Return the values of elements that hold them, any value where missing."""
    if kind == "DECIMAL":
        return _decimal_bytes(elements)[:, :8].copy().view(np.int64).reshape(-1)
    if kind in ("DATE", "TIME"):
        elements = elements.cast(pa.int32())
    elif kind == "TIMESTAMP":
        elements = elements.cast(pa.timestamp("ms")).cast(pa.int64())
    values: NDArray[Any] = elements.fill_null(False if kind == "BOOLEAN" else 0).to_numpy(zero_copy_only=False)
    return values


def _apart(elements: pa.Array, kind: str) -> _Apart | None:
    """Return the content of elements that cannot hold it; None for a type whose elements always do."""
    if kind == "STRING":
        _, offsets, buffer = elements.buffers()
        ends = np.frombuffer(offsets, np.int32)[elements.offset :][: len(elements) + 1].astype(np.int64)
        data = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
        return _Apart(data, ends[:-1], ends[1:], np.diff(ends), _HELD, 0)
    number = np.arange(len(elements))
    if kind == "DECIMAL" and elements.type.precision > _COMPACT_DIGITS:
        content = _decimal_bytes(elements)[:, ::-1]
        # As many bytes in front as only repeat the sign.
        sign = np.where(content[:, :1] >= 128, 255, 0)
        repeated = (content[:, :-1] == sign) & ((content[:, 1:] >= 128) == (sign > 0))
        skipped = np.cumprod(repeated, axis=1).sum(axis=1)
        begins, ends = number * _DECIMAL_BYTES + skipped, (number + 1) * _DECIMAL_BYTES
        return _Apart(content.flatten(), begins, ends, ends - begins, -1, _DECIMAL_BYTES)
    if kind == "TIMESTAMP" and elements.type.unit == "us":
        micros = elements.cast(pa.int64()).fill_null(0).to_numpy()
        millis = (micros // 1000).astype("<i8").view(np.uint8)
        return _Apart(millis, number * 8, number * 8 + 8, micros % 1000 * 1000, -1, 8)
    return None


def _decimal_bytes(elements: pa.Decimal128Array) -> NDArray[np.uint8]:
    """Return (elements, 16) the bytes of unscaled values, the least first."""
    buffer = elements.buffers()[1]
    data = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
    start = elements.offset * _DECIMAL_BYTES
    return data[start : start + len(elements) * _DECIMAL_BYTES].reshape(-1, _DECIMAL_BYTES)


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
    is_apart: bool,
    apart: _Apart,
) -> None:
    content, begins, ends, beside, held, reserved = apart
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
            elif is_apart:
                begin, end = begins[element], ends[element]
                length = end - begin
                target = fixed
                if length > held:
                    target = behind
                    for byte in range(4):
                        out[fixed + byte] = (beside[element] >> (8 * byte)) & 255
                        out[fixed + 4 + byte] = ((behind - start) >> (8 * byte)) & 255
                    behind += max((length + 7) // 8 * 8, reserved)
                else:
                    out[fixed + 7] = length | 128
                for byte in range(length):
                    out[target + byte] = content[begin + byte]
            else:
                for byte in range(width):
                    out[fixed + byte] = values[element * width + byte]
            fixed += width
            element += 1
