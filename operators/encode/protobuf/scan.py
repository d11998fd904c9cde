"""Compiled reader of messages of Protobuf: values of a batch in slots, without an object per record or value.

A message is readable if its bytes are fields to the last one, and no known field has a form of another type. Time is
bounded by its bytes and by the number of fields that are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, inner_leaf
from crenel.operators.encode.avro.scan import float_of, varint, zigzag
from crenel.operators.encode.protobuf.program import SKIPPED, Kind, ProtobufProgram, Wire
from crenel.operators.encode.slots import BatchSlots

_VARINT, _FIXED64, _SIZED, _GROUP, _GROUP_END, _FIXED32 = map(int, list(Wire))
_WHOLE, _WHOLE_32, _UNSIGNED, _UNSIGNED_32, _ZIGZAG, _ZIGZAG_32 = map(int, list(Kind)[:6])
_TRUTH, _REAL, _REAL_32, _BYTES, _MESSAGE = map(int, list(Kind)[6:])
_SKIPPED = SKIPPED
_LARGEST_TAG = (1 << 32) - 1
_DEEPEST = 100
"""Maximum nesting of unknown groups, as in Protobuf's own parsers, and of messages in a schema."""


def fill(
    slots: BatchSlots,
    program: ProtobufProgram,
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    """Read messages; ``rows``: (records,) their numbers; ``starts``, ``ends``: (rows,) position of each in the data."""
    stack = np.zeros((program.depth + 1, 2), np.int64)
    real = np.zeros(1, np.float64)
    tables = program.rows, program.messages, program.cleared, program.defaults, program.default_ends, program.item_slots
    groups = np.zeros(_DEEPEST, np.int64)
    _fill(slots, tables, rows, starts, ends, (stack, groups, real, real.view(np.int64)))


FRAME = 5
"""Bytes in front of a record that name its schema: a zero, and the number of four bytes. Indexes of messages follow."""

_FRAME = FRAME


@entry
def frames(
    data: NDArray[np.uint8], rows: NDArray[np.int64], ends: NDArray[np.int64], length: NDArray[np.int32]
) -> None:
    """Set the length of the frame of each record, with the indexes of its message; 0 where there is no frame.

    Parameters
    ----------
    rows : (records,) their numbers
    ends : (rows + 1,) record i is at ends[i] to ends[i + 1]
    length : (rows,) is set
    """
    for row in rows:
        start, end = ends[row], ends[row + 1]
        if end - start <= _FRAME or data[start] != 0:
            continue
        at: Int = start + _FRAME
        count, at = zigzag(data, at, end)
        if not 0 <= count <= _DEEPEST:
            continue
        while count > 0 and at >= 0:
            _, at = zigzag(data, at, end)
            count -= 1
        if at >= 0:
            length[row] = at - start


def frame_of(content: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the number of the schema, and the indexes of the message, of a frame.

    Examples
    --------
    >>> frame_of(bytes([0, 0, 0, 1, 2, 0])), frame_of(bytes([0, 0, 0, 1, 2, 4, 2, 6]))
    ((258, (0,)), (258, (1, 3)))
    """
    numbers, value, shift = [], 0, 0
    for byte in content[FRAME:]:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value >> 1 ^ -(value & 1))
            value = shift = 0
    return int.from_bytes(content[1:FRAME], "big"), tuple(numbers[1:]) or (0,)


@inner_leaf
def _fixed(data: NDArray[np.uint8], at: Int, size: Int) -> Int:
    """Return the bits of a number of fixed length."""
    number = np.uint64(0)
    for part in range(size):
        number |= np.uint64(data[at + part]) << np.uint64(8 * part)
    return np.int64(number)


@inner_leaf
def _skip(data: NDArray[np.uint8], wire: Int, number: Int, at: Int, end: Int, groups: NDArray[np.int64]) -> Int:
    """Return the position behind a value, which is negative where the value does not fit."""
    level: Int = np.int64(0)
    while True:
        if wire == _VARINT:
            _, at = varint(data, at, end)
        elif wire == _FIXED64:
            at = at + 8 if end - at >= 8 else np.int64(-1)
        elif wire == _FIXED32:
            at = at + 4 if end - at >= 4 else np.int64(-1)
        elif wire == _SIZED:
            size, at = varint(data, at, end)
            at = at + size if at >= 0 and 0 <= size <= end - at else np.int64(-1)
        elif wire == _GROUP and level < len(groups):
            groups[level] = number
            level += 1
        elif wire == _GROUP_END and level > 0 and groups[level - 1] == number:
            level -= 1
        else:
            return np.int64(-1)
        if at < 0 or level == 0:
            return at
        tag, at = varint(data, at, end)
        if at < 0 or not 8 <= tag <= _LARGEST_TAG:
            return np.int64(-1)
        wire, number = tag & 7, tag >> 3


@inner_leaf
def _add_item(
    array: Int,
    row: Int,
    value: NDArray[np.int64],
    length: NDArray[np.int32],
    item_found: NDArray[np.bool_],
    items: NDArray[np.int64],
    slots: NDArray[np.int64],
    of_records: Int,
) -> Int:
    """Return the number of a new item without values, which is negative where there is no room."""
    item: Int = items[array]
    if item >= item_found.shape[1]:
        return np.int64(-1)
    if length[array, row] == 0:
        value[array, row] = item
    items[array] += 1
    length[array, row] += 1
    for place in range(slots[array, 0], slots[array, 1]):
        item_found[place - of_records, item] = False
    return item


@entry
def _fill(
    slots: BatchSlots,
    tables: tuple[NDArray[np.int64], ...],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    buffers: tuple[Any, ...],
) -> None:
    data, found, value, length, item_found, item_value, item_length, items, read = slots
    fields, messages, cleared, defaults, default_ends, item_slots = tables
    stack, groups, real, bits = buffers
    of_records = len(found)
    for row in rows:
        at: Int = starts[row]
        end: Int = ends[row]
        stop: Int = np.int64(0)  # behind the packed values that are being read
        item: Int = np.int64(0)
        message: Int = np.int64(0)
        level: Int = np.int64(0)
        step: Int = np.int64(0)
        entered = True
        while at >= 0:
            limit: Int = stop
            if at >= stop:
                limit = end
                if entered:
                    for place in range(default_ends[message], default_ends[message + 1]):
                        slot = defaults[place]
                        if slot >= of_records:
                            if not item_found[slot - of_records, item]:
                                item_found[slot - of_records, item] = True
                                item_value[slot - of_records, item] = 0
                                item_length[slot - of_records, item] = 0
                        elif not found[slot, row]:
                            found[slot, row] = True
                            value[slot, row] = 0
                            length[slot, row] = 0
                    entered = False
                if at == end:
                    if level == 0:
                        break
                    level -= 1
                    message, end = stack[level, 0], stack[level, 1]
                    continue
                tag, at = varint(data, at, end)
                if at < 0 or not 8 <= tag <= _LARGEST_TAG:
                    at = np.int64(-1)
                    break
                wire, number = tag & 7, tag >> 3
                step = messages[message]
                last: Int = messages[message + 1]
                while step < last and fields[step, 0] != number:
                    step += 1
                if step == last:
                    at = _skip(data, wire, number, at, end, groups)
                    continue
                is_packed = fields[step, 1] != wire
                if is_packed and not (wire == _SIZED and fields[step, 7] >= 0 and fields[step, 2] < _BYTES):
                    at = np.int64(-1)
                    break
                for place in range(fields[step, 5], fields[step, 6]):
                    slot = cleared[place]
                    if slot >= of_records:
                        item_found[slot - of_records, item] = False
                    else:
                        found[slot, row] = False
                if is_packed or fields[step, 2] == _MESSAGE:
                    size, at = varint(data, at, end)
                    if at < 0 or not 0 <= size <= end - at:
                        at = np.int64(-1)
                        break
                    if is_packed:
                        stop = at + size
                        continue
                    if fields[step, 7] >= 0:
                        item = _add_item(fields[step, 7], row, value, length, item_found, items, item_slots, of_records)
                        if item < 0:
                            at = np.int64(-1)
                            break
                    stack[level, 0], stack[level, 1] = message, end
                    level += 1
                    message, end = fields[step, 3], at + size
                    entered = True
                    continue
                if fields[step, 3] == _SKIPPED:
                    at = _skip(data, wire, number, at, end, groups)
                    continue
            form, kind, slot = fields[step, 1], fields[step, 2], fields[step, 3]
            if fields[step, 7] >= 0:
                item = _add_item(fields[step, 7], row, value, length, item_found, items, item_slots, of_records)
                if item < 0:
                    at = np.int64(-1)
                    break
            stored: Int = np.int64(0)
            size = np.int64(0)
            if form == _VARINT:
                stored, at = varint(data, at, limit)
            elif form == _SIZED:
                size, at = varint(data, at, limit)
                stored = at
                at = at + size if at >= 0 and 0 <= size <= limit - at else np.int64(-1)
            else:
                width = 8 if form == _FIXED64 else 4
                if limit - at >= width:
                    stored = _fixed(data, at, width)
                    at += width
                else:
                    at = np.int64(-1)
            if at < 0:
                break
            there = True
            if kind == _WHOLE_32:
                stored = np.int64(np.int32(stored & 0xFFFFFFFF))
            elif kind == _UNSIGNED_32:
                stored &= 0xFFFFFFFF
            elif kind == _UNSIGNED:
                there = bool(stored >= 0)
            elif kind == _ZIGZAG or kind == _ZIGZAG_32:
                whole = np.uint64(stored) if kind == _ZIGZAG else np.uint64(stored & 0xFFFFFFFF)
                stored = np.int64(whole >> np.uint64(1)) ^ -np.int64(whole & np.uint64(1))
            elif kind == _TRUTH:
                stored = np.int64(stored != 0)
            elif kind == _REAL_32:
                real[0] = float_of(np.uint32(stored))
                stored = bits[0]
            if slot >= of_records:
                item_found[slot - of_records, item] = there
                item_value[slot - of_records, item] = stored
                item_length[slot - of_records, item] = size
            else:
                found[slot, row] = there
                value[slot, row] = stored
                length[slot, row] = size
        if at >= 0:
            read[row] = True
        else:
            found[:, row] = False
