"""Compiled reader of Avro records: values of a batch in slots, without an object per record or value.

The reader leaves no choice to a record: a length, a count or a branch that does not fit makes the record unreadable,
and time and memory are bounded by its bytes and its schema.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, inner_leaf
from crenel.operators.encode.avro.program import HAS_DEFAULT, SKIPPED, AvroProgram, ProgramStep
from crenel.operators.encode.slots import BatchSlots

_BOOLEAN, _INT, _LONG, _WHOLE_AS_REAL, _FLOAT, _DOUBLE = map(int, list(ProgramStep)[:6])
_BYTES, _FIXED, _ENUM, _UNION, _JUMP, _BLOCKS, _ITEM_END, _ARRAY, _ITEM, _DEFAULT, _UNFIT, _END = map(
    int, list(ProgramStep)[6:]
)
_SKIPPED, _HAS_DEFAULT = SKIPPED, HAS_DEFAULT
_LAST_BYTE = 63
"""Bits before the last byte of a whole number in its variable-length form."""


def fill(
    slots: BatchSlots, program: AvroProgram, rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> None:
    """Read records; ``rows``: (records,) their numbers; ``starts``, ``ends``: (rows,) position of each in the data."""
    loops = np.zeros((program.depth + 1, 2), np.int64)
    real = np.zeros(1, np.float64)
    tables = program.steps, program.item_slots
    _fill(slots, tables, rows, starts, ends, (loops, real, real.view(np.int64), real.view(np.uint8)))


@inner_leaf
def varint(data: NDArray[np.uint8], at: Int, end: Int) -> tuple[Int, Int]:
    """Return the bits of a number of variable length and the position behind it, which is negative without one."""
    number, shift = np.uint64(0), np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        if shift == _LAST_BYTE and byte > 1:
            break
        number |= (byte & np.uint64(127)) << shift
        if byte < 128:
            return np.int64(number), at
        shift += np.uint64(7)
        if shift > _LAST_BYTE:
            break
    return np.int64(0), np.int64(-1)


@inner_leaf
def zigzag(data: NDArray[np.uint8], at: Int, end: Int) -> tuple[Int, Int]:
    """Return a whole number and the position behind it, which is negative where there is none."""
    bits, at = varint(data, at, end)
    number = np.uint64(bits)
    return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at


@entry
def _fill(
    slots: BatchSlots,
    tables: tuple[NDArray[np.int64], NDArray[np.int64]],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    buffers: tuple[Any, ...],
) -> None:
    data, found, value, length, item_found, item_value, item_length, items, read = slots
    steps, item_slots = tables
    loops, real, bits, parts = buffers
    of_records = len(found)
    for row in rows:
        at, end = starts[row], ends[row]
        item: Int = np.int64(0)
        step, level = 0, -1
        while at >= 0:
            kind, slot, argument = steps[step, 0], steps[step, 1], steps[step, 2]
            step += 1
            stored: Int = np.int64(0)
            size: Int = np.int64(0)
            if kind == _END:
                break
            if kind == _JUMP:
                step = argument
                continue
            if kind == _UNION:
                branch, at = zigzag(data, at, end)
                if at >= 0 and 0 <= branch < argument:
                    step = steps[step + branch, 0]
                else:
                    at = -1
                continue
            if kind == _ARRAY:
                found[slot, row], value[slot, row], length[slot, row] = True, items[slot], 0
                continue
            if kind == _ITEM:
                item = items[slot]
                if item < item_found.shape[1]:
                    items[slot] += 1
                    length[slot, row] += 1
                    for place in range(item_slots[slot, 0], item_slots[slot, 1]):
                        item_found[place - of_records, item] = False
                        item_length[place - of_records, item] = 0
                else:
                    at = -1
                continue
            if kind == _DEFAULT:
                if slot >= of_records:
                    item_length[slot - of_records, item] = _HAS_DEFAULT
                else:
                    length[slot, row] = _HAS_DEFAULT
                continue
            if kind == _BLOCKS:
                count, at = zigzag(data, at, end)
                if at >= 0 and count < 0:  # the number of bytes of the block follows
                    count = -count
                    _, at = zigzag(data, at, end)
                if at < 0 or count == 0:
                    step = argument
                else:
                    level += 1
                    loops[level, 0], loops[level, 1] = count - 1, at
                continue
            if kind == _ITEM_END:
                # Items without bytes could be any number of them.
                if loops[level, 0] > 0 and at > loops[level, 1]:
                    loops[level, 0] -= 1
                    loops[level, 1] = at
                    step = argument
                else:
                    level -= 1
                    step = slot
                continue
            if kind == _BOOLEAN:
                if at < end and data[at] <= 1:
                    stored = np.int64(data[at])
                    at += 1
                else:
                    at = -1
            elif kind == _INT or kind == _LONG or kind == _WHOLE_AS_REAL:
                stored, at = zigzag(data, at, end)
                if kind == _INT and not (-2147483648 <= stored <= 2147483647):
                    at = -1
                elif kind == _WHOLE_AS_REAL:
                    real[0] = np.float64(stored)
                    stored = bits[0]
            elif kind == _FLOAT:
                if end - at >= 4:
                    number = np.uint32(0)
                    for part in range(4):
                        number |= np.uint32(data[at + part]) << np.uint32(8 * part)
                    at += 4
                    real[0] = float_of(number)
                    stored = bits[0]
                else:
                    at = -1
            elif kind == _DOUBLE:
                if end - at >= 8:
                    for part in range(8):
                        parts[part] = data[at + part]
                    at += 8
                    stored = bits[0]
                else:
                    at = -1
            elif kind == _BYTES:
                size, at = zigzag(data, at, end)
                stored = at
                at = at + size if at >= 0 and 0 <= size <= end - at else -1
            elif kind == _FIXED:
                stored, size = at, argument
                at = at + size if size <= end - at else -1
            elif kind == _ENUM:
                symbol, at = zigzag(data, at, end)
                if at >= 0 and 0 <= symbol < argument:
                    stored = steps[step + symbol, 0]
                    step += argument
                    if stored < 0:
                        at = -1
                else:
                    at = -1
            else:
                at = -1
            if slot >= of_records and at >= 0:
                item_found[slot - of_records, item] = True
                item_value[slot - of_records, item] = stored
                item_length[slot - of_records, item] = size
            elif slot != _SKIPPED and at >= 0:
                found[slot, row] = True
                value[slot, row] = stored
                length[slot, row] = size
        if at == end:
            read[row] = True
        else:
            found[:, row] = False


@inner_leaf
def float_of(number: np.uint32) -> Any:
    """Return the float64 of the bits of a float32."""
    sign = -1.0 if number >> np.uint32(31) else 1.0
    exponent = np.int64((number >> np.uint32(23)) & np.uint32(255))
    fraction = np.int64(number & np.uint32(0x7FFFFF))
    if exponent == 255:
        return sign * np.inf if fraction == 0 else np.nan
    if exponent == 0:
        return sign * fraction * 2.0**-149
    return sign * (fraction + 8388608) * 2.0 ** (exponent - 150)
