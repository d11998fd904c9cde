"""Container format for all bytes that outlive a process.

A blob is a magic number, the kind of content, a format version, a checksum and named columns. Reading executes nothing:
columns are raw little-endian arrays or bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from mmap import mmap
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column: TypeAlias = NDArray[Any] | bytes

MAGIC = b"CRNL"
_HEADER = struct.Struct("<4sBHHI")  # magic, kind, format version, columns, crc32 of everything after it
_COLUMN = struct.Struct("<B2sBQ")  # name length, dtype ("\0\0" for bytes), dimensions, bytes of data
_LENGTH = struct.Struct("<Q")
_CODES = {np.dtype(f"<{code}"): code.encode() for code in ("i1", "u1", "i2", "i4", "i8", "u8", "f8", "b1")}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_BYTES = b"\0\0"

KINDS = {
    "block": 1,
    "shard": 2,
    "clustered": 3,
    "gamma": 4,
    "omega": 5,
    "suhdsa": 6,
    "buffered": 7,
    "rejected": 8,
    "batch": 9,
    "anonymity_sets": 10,
    "forget": 11,
    "seen": 12,
    "chain": 13,
    "stream": 14,
    "contributions": 15,
    "report": 16,
    "radii": 17,
    "refusal": 18,
}
"""Numbers of the kinds of blobs; those from 128 on are for extensions (``add_kind``)."""


class StateError(ValueError):
    """Unreadable stored bytes: foreign, damaged, or of an unknown version."""


def add_kind(kind: str, number: int) -> None:
    """Register a kind of an extension under a unique number from 128 to 255."""
    taken = {value: name for name, value in KINDS.items()}
    if not 128 <= number <= 255 or taken.get(number, kind) != kind or KINDS.get(kind, number) != number:
        raise ValueError(f"{kind}: must have a number of its own from 128 to 255, not {number}")
    KINDS[kind] = number


def kind_of(blob: bytes) -> str | None:
    """Return the declared kind of a blob, one of ``KINDS``; None where it is too short or its kind is unknown."""
    number = _HEADER.unpack_from(blob)[1] if len(blob) >= _HEADER.size else None
    return next((kind for kind, value in KINDS.items() if value == number), None)


def arrays_of(kind: str, names: Iterable[str], blob: bytes, newest: int, where: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a blob without other content; raise ``StateError`` where it is damaged or unknown."""
    _, columns = unpack(kind, blob, newest=newest, where=where)
    with readable(f"{kind} state of {where}"):
        return {name: array(columns, name) for name in names}


def checksum(blob: bytes) -> int:
    """Return the checksum stored in a blob."""
    return int(_HEADER.unpack_from(blob)[-1])


def pack(kind: str, version: int, columns: Mapping[str, Column]) -> bytes:
    """Write named columns as one blob.

    Parameters
    ----------
    kind : one of ``KINDS``
    version : format version of this kind, 1 to 65535
    columns : arrays of the types i1, u1, i2, i4, i8, u8, f8, b1 (any shape), or bytes
    """
    body: list[bytes] = []
    for name, column in columns.items():
        encoded = name.encode("ascii")
        if isinstance(column, bytes):
            body += (_COLUMN.pack(len(encoded), _BYTES, 0, len(column)), encoded, column)
            continue
        if column.dtype not in _CODES:
            column = column.astype(column.dtype.newbyteorder("<"))
        dtype = _CODES.get(column.dtype)
        if dtype is None:
            raise TypeError(f"column {name!r} has a type that is not stored: {column.dtype}")
        data = column.tobytes()
        shape = column.shape
        body += (_COLUMN.pack(len(encoded), dtype, len(shape), len(data)), encoded)
        body += [_LENGTH.pack(length) for length in shape]
        body.append(data)
    content = b"".join(body)
    # The checksum covers the header too: a flipped bit in the version must not pass for another version.
    head = _HEADER.pack(MAGIC, KINDS[kind], version, len(columns), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(content, zlib.crc32(head))) + content


def unpack(kind: str, blob: bytes, *, newest: int, where: str = "") -> tuple[int, dict[str, Column]]:
    """Read the format version and the columns of a blob (arrays are read-only views of ``blob``).

    Parameters
    ----------
    kind : the expected kind, one of ``KINDS``
    newest : the newest version that the caller can read
    where : location for errors, such as ``shard 3``

    Raises
    ------
    StateError
        Not a blob of this kind, damaged, or written by a newer Crenel. The message names kind, location and version.
    """
    place = f"{kind} state" + (f" of {where}" if where else "")
    if len(blob) < _HEADER.size:
        raise StateError(f"{place}: {len(blob)} bytes are too few for a header of {_HEADER.size}")
    magic, number, version, count, checksum = _HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise StateError(f"{place}: bad magic number; these bytes were not written by Crenel")
    if zlib.crc32(blob[_HEADER.size :], zlib.crc32(blob[: _HEADER.size - 4])) != checksum:
        raise StateError(f"{place}, format version {version}: checksum does not match; the bytes are damaged")
    if number != KINDS[kind]:
        actual = next((name for name, value in KINDS.items() if value == number), str(number))
        raise StateError(f"{place}: found {actual} state (format version {version}) in its place")
    if not 1 <= version <= newest:
        raise StateError(f"{place}: format version {version} is unknown; this Crenel reads 1 to {newest}")
    try:
        return version, _columns(blob, count)
    except (ValueError, KeyError, struct.error):
        raise StateError(f"{place}, format version {version}: its columns cannot be read") from None


def _columns(blob: bytes, count: int) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    offset = _HEADER.size
    for _ in range(count):
        name_length, dtype, dimensions, size = _COLUMN.unpack_from(blob, offset)
        offset += _COLUMN.size
        name = blob[offset : offset + name_length].decode("ascii")
        offset += name_length
        shape = struct.unpack_from(f"<{dimensions}Q", blob, offset)
        offset += 8 * dimensions
        if offset + size > len(blob):
            raise ValueError("a column ends outside")
        data = blob[offset : offset + size]
        offset += size
        columns[name] = data if dtype == _BYTES else np.frombuffer(data, _DTYPES[dtype]).reshape(shape)
    return columns


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Convert exceptions from columns of the wrong shape or content to a ``StateError`` that names ``what``."""
    try:
        yield
    except StateError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OSError, EOFError, OverflowError, pa.ArrowException) as error:
        raise StateError(f"{what}: its columns cannot be read ({type(error).__name__})") from None


def blob_at(stored: bytes | mmap, offset: int) -> bytes | None:
    """Return the blob at ``offset``, delimited by its stored lengths, without verifying its checksum.

    The result is None where no blob begins there, or where it does not end inside ``stored``.
    """
    if offset + _HEADER.size > len(stored):
        return None
    magic, kind, _, count, _ = _HEADER.unpack_from(stored, offset)
    if magic != MAGIC or kind not in KINDS.values():
        return None
    end = offset + _HEADER.size
    for _ in range(count):
        if end + _COLUMN.size > len(stored):
            return None
        name, dtype, dimensions, size = _COLUMN.unpack_from(stored, end)
        if dtype != _BYTES and dtype not in _CODES.values():
            return None
        end += _COLUMN.size + name + 8 * dimensions + size
    return stored[offset:end] if end <= len(stored) else None


def array(columns: Mapping[str, Column], name: str) -> NDArray[Any]:
    """Return the array column ``name``; raise ``StateError`` where it is missing or contains bytes."""
    column = columns.get(name)
    if not isinstance(column, np.ndarray):
        raise StateError(f"stored column {name!r} is missing")
    return column


def raw(columns: Mapping[str, Column], name: str) -> bytes:
    """Return the bytes column ``name``; raise ``StateError`` where it is missing or contains an array."""
    column = columns.get(name)
    if not isinstance(column, bytes):
        raise StateError(f"stored column {name!r} is missing")
    return column
