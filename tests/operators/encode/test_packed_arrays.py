"""Arrays in the bytes of Flink's serializer; ``tests/full/jobs/pipeline/test_records.py`` lets Flink read them."""

from __future__ import annotations

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from crenel.operators.encode import packed_arrays
from crenel.operators.encode.packed_arrays import pack
from tests.support.arrays import ELEMENTS, arrays

EPOCH = datetime(1970, 1, 1)
FORMS = {"BOOLEAN": "?", "INT": "i", "BIGINT": "q", "FLOAT": "f", "DOUBLE": "d", "DATE": "i", "TIME(3)": "i"}


def whole(body: bytes, kind: str, word: int) -> Any:
    """Return a decimal or a timestamp, as ``BinarySegmentUtils`` reads it."""
    name, _, parameters = kind.rstrip(")").partition("(")
    precision, scale = map(int, f"{parameters}, 0".split(", ")[:2])
    at, beside = word >> 32, word & 0xFFFFFFFF
    (itself,) = struct.unpack("<q", struct.pack("<Q", word))
    if name == "TIMESTAMP":
        if precision <= 3:
            return EPOCH + timedelta(milliseconds=itself)
        assert (at % 8, beside % 1000) == (0, 0)
        return EPOCH + timedelta(milliseconds=struct.unpack_from("<q", body, at)[0], microseconds=beside // 1000)
    if precision <= 18:
        return Decimal(itself).scaleb(-scale)
    assert at % 8 == 0
    content = body[at : at + beside]
    number = int.from_bytes(content, "big", signed=True)
    assert (len(content), body[at + beside : at + 16]) == (
        (number + (number < 0)).bit_length() // 8 + 1,
        bytes(16 - beside),
    )
    return Decimal(f"{number}E-{scale}")


def unpacked(content: bytes, kind: str) -> list[Any]:
    """Return the elements of an array, as ``BinaryArrayData`` reads them."""
    (size,) = struct.unpack_from(">i", content)
    body = content[4:]
    assert (size, size % 8) == (len(body), 0)
    (count,) = struct.unpack_from("<i", body)
    start = 4 + (count + 31) // 32 * 4
    found: list[Any] = []
    for number in range(count):
        if body[4 + number // 8] >> number % 8 & 1:
            found.append(None)
        elif kind == "STRING":
            (word,) = struct.unpack_from("<Q", body, start + 8 * number)
            at, length = word >> 32, word & 0xFFFFFFFF
            if word >> 63:
                at, length = start + 8 * number, word >> 56 & 127
            assert word >> 63 or at % 8 == 0
            found.append(body[at : at + length].decode())
        elif kind not in FORMS:
            found.append(whole(body, kind, struct.unpack_from("<Q", body, start + 8 * number)[0]))
        else:
            form = f"<{FORMS[kind]}"
            found.append(struct.unpack_from(form, body, start + struct.calcsize(form) * number)[0])
            if kind == "DATE":
                found[-1] = date.fromordinal(EPOCH.toordinal() + found[-1])
            elif kind == "TIME(3)":
                found[-1] = (EPOCH + timedelta(milliseconds=found[-1])).time()
    return found


@pytest.mark.parametrize("kind", ELEMENTS)
def test_each_array_is_read_back(kind: str) -> None:
    lists = pa.array(arrays(kind), pa.list_(ELEMENTS[kind]))
    for start in (0, 3):  # a slice begins in the middle of the buffers
        packed = pack(lists[start:], kind.partition("(")[0])
        packed.validate(full=True)
        assert [each and unpacked(each, kind) for each in packed.to_pylist()] == arrays(kind)[start:]
    assert pack(lists[:0], kind.partition("(")[0]).to_pylist() == []
    assert pack(lists[1:2], kind.partition("(")[0]).to_pylist() == [None]


def test_more_bytes_than_an_array_of_arrow_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_arrays, "_LARGEST", 80)
    with pytest.raises(OverflowError):
        pack(pa.array([["x"] * 9]), "STRING")
