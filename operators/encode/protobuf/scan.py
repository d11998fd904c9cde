"""Compiled reader of messages of Protobuf: values of a batch in slots, without an object per record or value.

A message is readable if its bytes are fields to the last one, and no known field has a form of another type. Time is
bounded by its bytes and by the number of fields that are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, inner_leaf
from crenel.operators.encode.avro.scan import Slots, float_of, varint
from crenel.operators.encode.protobuf.program import SKIPPED, Kind, Program, Wire

_VARINT, _FIXED64, _SIZED, _GROUP, _GROUP_END, _FIXED32 = map(int, list(Wire))
_WHOLE, _WHOLE_32, _UNSIGNED, _UNSIGNED_32, _ZIGZAG, _ZIGZAG_32 = map(int, list(Kind)[:6])
_TRUTH, _REAL, _REAL_32, _BYTES, _MESSAGE = map(int, list(Kind)[6:])
_SKIPPED = SKIPPED
_LARGEST_TAG = (1 << 32) - 1
_DEEPEST = 100
"""Maximum nesting of unknown groups, as in Protobuf's own parsers."""


def fill(
    slots: Slots, program: Program, rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> None:
    """Read messages; ``rows``: (records,) their numbers; ``starts``, ``ends``: (rows,) position of each in the data."""
    stack = np.zeros((program.depth + 1, 2), np.int64)
    real = np.zeros(1, np.float64)
    tables = program.rows, program.messages, program.cleared, program.defaults, program.default_ends
    groups = np.zeros(_DEEPEST, np.int64)
    _fill(*slots, *tables, rows, starts, ends, stack, groups, real, real.view(np.int64))


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


@entry
def _fill(
    data: NDArray[np.uint8],
    found: NDArray[np.bool_],
    value: NDArray[np.int64],
    length: NDArray[np.int32],
    read: NDArray[np.bool_],
    fields: NDArray[np.int64],
    messages: NDArray[np.int64],
    cleared: NDArray[np.int64],
    defaults: NDArray[np.int64],
    default_ends: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    stack: NDArray[np.int64],
    groups: NDArray[np.int64],
    real: NDArray[np.float64],
    bits: NDArray[np.int64],
) -> None:
    for row in rows:
        at: Int = starts[row]
        end: Int = ends[row]
        message: Int = np.int64(0)
        level: Int = np.int64(0)
        entered = True
        while at >= 0:
            if entered:
                for place in range(default_ends[message], default_ends[message + 1]):
                    slot = defaults[place]
                    if not found[slot, row]:
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
            step: Int = messages[message]
            last: Int = messages[message + 1]
            while step < last and fields[step, 0] != number:
                step += 1
            if step == last:
                at = _skip(data, wire, number, at, end, groups)
                continue
            if fields[step, 1] != wire:
                at = np.int64(-1)
                break
            for place in range(fields[step, 5], fields[step, 6]):
                found[cleared[place], row] = False
            kind, slot = fields[step, 2], fields[step, 3]
            if kind == _MESSAGE:
                size, at = varint(data, at, end)
                if at < 0 or not 0 <= size <= end - at:
                    at = np.int64(-1)
                    break
                stack[level, 0], stack[level, 1] = message, end
                level += 1
                message, end = slot, at + size
                entered = True
                continue
            if slot == _SKIPPED:
                at = _skip(data, wire, number, at, end, groups)
                continue
            stored: Int = np.int64(0)
            size = np.int64(0)
            if wire == _VARINT:
                stored, at = varint(data, at, end)
            elif wire == _SIZED:
                size, at = varint(data, at, end)
                stored = at
                at = at + size if at >= 0 and 0 <= size <= end - at else np.int64(-1)
            else:
                width = 8 if wire == _FIXED64 else 4
                if end - at >= width:
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
            found[slot, row] = there
            value[slot, row] = stored
            length[slot, row] = size
        if at >= 0:
            read[row] = True
        else:
            found[:, row] = False
