"""Compiled scanner of JSON records: positions of the wanted members of flat objects, without an object per value.

A record is *plain* if it is one object of valid JSON, and if each wanted member is absent or has a value that the
scanner reads exactly as ``crenel.operators.encode.json_fields`` does. All other records are left to that module: with
escapes in names or wanted texts, with fractions or exponents where no DOUBLE is wanted, or that are no valid objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, inner_leaf
from crenel.operators.encode.slices import content_of, gather

TEXT, WHOLE, TRUTH, REAL = range(4)
"""Form of a wanted member: a text, a whole number, a Boolean, or the text of a number."""

_DIGITS = 18
"""Maximum number of digits of a number that any 64-bit integer can represent."""

_DEPTH = 30
"""Maximum nesting of a plain record, below the limits of all other parsers and of the bits of a stack."""

_VALUE, _VALUE_OR_END, _NAME, _NAME_OR_END, _NEXT, _DONE = range(6)
"""Tokens that may follow in a record."""


class Scanned(NamedTuple):
    """Wanted members of the records of a batch.

    Attributes
    ----------
    data : (bytes,) all records
    plain : (records,) whether a record is plain; all other arrays are undefined where it is not
    found : (members, records) whether a member has a value
    start, length : (members, records) position of the value in ``data``, without quotes
    whole : (members, records) value of a whole number, and 0 or 1 of a Boolean; 0 where there is none
    """

    data: NDArray[np.uint8]
    plain: NDArray[np.bool_]
    found: NDArray[np.bool_]
    start: NDArray[np.int32]
    length: NDArray[np.int32]
    whole: NDArray[np.int64]

    def texts(self, member: int) -> pa.StringArray:
        """Return (records,) the texts of a member, null where it has none."""
        return gather(self.data, self.found[member], self.start[member], self.length[member], pa.string())


def scan(records: pa.BinaryArray, members: Sequence[str], kinds: Sequence[int]) -> Scanned:
    """Scan records.

    Parameters
    ----------
    records : (rows,) bytes, null where a record is missing, which is not plain
    members : distinct names
    kinds : ``TEXT``, ``WHOLE``, ``TRUTH`` or ``REAL`` for each of them
    """
    rows = len(records)
    data, ends = content_of(records)
    encoded = [member.encode() for member in members]
    names = np.frombuffer(b"".join(encoded), np.uint8)
    name_ends = np.cumsum([0, *map(len, encoded)])
    shape = (len(members), rows)
    found, whole = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
    start, length = np.empty(shape, np.int32), np.empty(shape, np.int32)
    plain, high = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    out = plain, high, found, start, length, whole
    _scan(data, ends, (names, name_ends, np.array(kinds, np.int64)), out)
    if high.any():
        try:
            records.cast(pa.string())  # invalid UTF-8 is no JSON
        except pa.ArrowInvalid:
            plain &= ~high
    if records.null_count:
        plain &= records.is_valid().to_numpy(zero_copy_only=False)
    return Scanned(data, plain, found, start, length, whole)


def precompile() -> None:
    """Compile the scanner ahead of its first use."""
    scan(pa.array([b'{"a": ""}']), ("a",), (TEXT,)).texts(0)


@inner_leaf
def _behind_blanks(data: NDArray[np.uint8], at: Int, end: Int) -> Int:
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@inner_leaf
def _string(data: NDArray[np.uint8], at: Int, end: Int) -> tuple[Int, bool | np.bool_, bool | np.bool_]:
    """Return the position of the quote that ends a string, or -1; whether it has escapes, and other than ASCII."""
    escaped, high = False, np.uint8(0)
    while at < end:
        sign = data[at]
        if sign == 34:
            return at, escaped, high >= 128
        if sign < 32:
            break
        if sign == 92:
            escaped = True
            at += 1
            # \u has digits, and may be half of a character: only the other parser reads it.
            if at >= end or not (
                data[at] == 34
                or data[at] == 92
                or data[at] == 47
                or data[at] == 98
                or data[at] == 102
                or data[at] == 110
                or data[at] == 114
                or data[at] == 116
            ):
                break
        high |= sign
        at += 1
    return np.int64(-1), escaped, high >= 128


@inner_leaf
def _digits(data: NDArray[np.uint8], at: Int, end: Int) -> tuple[Int, Int]:
    """Return the position behind digits, and their number, which is undefined for more than ``_DIGITS``."""
    value = np.int64(0)
    while at < end and 48 <= data[at] <= 57:
        value = value * 10 + np.int64(data[at]) - 48
        at += 1
    return at, value


@inner_leaf
def _literal(data: NDArray[np.uint8], at: Int, end: Int) -> Int:
    """Return the position behind true, false or null, or -1."""
    if at + 4 <= end:
        a, b, c, d = data[at], data[at + 1], data[at + 2], data[at + 3]
        if a == 116 and b == 114 and c == 117 and d == 101:
            return at + 4
        if a == 110 and b == 117 and c == 108 and d == 108:
            return at + 4
        if a == 102 and b == 97 and c == 108 and d == 115 and at + 5 <= end and data[at + 4] == 101:
            return at + 5
    return np.int64(-1)


@inner_leaf
def _member(
    data: NDArray[np.uint8], begin: Int, end: Int, names: NDArray[np.uint8], name_ends: NDArray[np.int64], guess: Int
) -> Int:
    """Return the number of the member with a name, or -1; ``guess`` is looked at first."""
    members = len(name_ends) - 1
    for step in range(members):
        member = guess + step
        if member >= members:
            member -= members
        first = name_ends[member]
        if name_ends[member + 1] - first == end - begin:
            same = True
            for place in range(end - begin):
                if data[begin + place] != names[first + place]:
                    same = False
                    break
            if same:
                return member
    return np.int64(-1)


@entry
def _scan(
    data: NDArray[np.uint8],
    ends: NDArray[np.int32],
    members_of: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
    out: tuple[Any, ...],
) -> None:
    names, name_ends, kinds = members_of
    plain, high, found, start, length, whole = out
    members = len(kinds)
    for row in range(len(plain)):
        at: Int = np.int64(ends[row])
        member: Int = np.int64(-1)
        guess: Int = np.int64(0)
        value: Int = np.int64(0)
        end, depth, objects, expected = np.int64(ends[row + 1]), np.int64(0), np.int64(0), _VALUE
        while True:
            at = _behind_blanks(data, at, end)
            if at >= end:
                plain[row] = expected == _DONE
                break
            sign = data[at]
            if expected == _NEXT:
                is_object = (objects >> depth) & 1
                if sign == 44:
                    expected = _NAME if is_object else _VALUE
                elif sign == (125 if is_object else 93):
                    depth -= 1
                    expected = _NEXT if depth > 0 else _DONE
                else:
                    break
                at += 1
            elif expected == _NAME or expected == _NAME_OR_END:
                if sign == 34:
                    close, escaped, other = _string(data, at + 1, end)
                    if close < 0 or escaped:
                        break
                    high[row] |= other
                    if depth == 1:
                        member = _member(data, at + 1, close, names, name_ends, guess)
                        if member >= 0:
                            guess = member + 1 if member + 1 < members else np.int64(0)
                    at = _behind_blanks(data, close + 1, end)
                    if at >= end or data[at] != 58:
                        break
                    expected = _VALUE
                elif sign == 125 and expected == _NAME_OR_END:
                    depth -= 1
                    expected = _NEXT if depth > 0 else _DONE
                else:
                    break
                at += 1
            elif expected == _DONE:
                break
            else:
                is_wanted = depth == 1 and member >= 0
                if sign == 123 or (sign == 91 and depth > 0):
                    if is_wanted or depth == _DEPTH:
                        break
                    depth += 1
                    if sign == 123:
                        objects |= np.int64(1) << depth
                        expected = _NAME_OR_END
                    else:
                        objects &= ~(np.int64(1) << depth)
                        expected = _VALUE_OR_END
                    at += 1
                    continue
                if sign == 93 and expected == _VALUE_OR_END:
                    depth -= 1
                    expected = _NEXT
                    at += 1
                    continue
                if depth == 0:
                    break
                expected = _NEXT
                if sign == 34:
                    begin = at + 1
                    close, escaped, other = _string(data, begin, end)
                    if close < 0:
                        break
                    high[row] |= other
                    at = close + 1
                    if not is_wanted:
                        continue
                    size, value = close - begin, np.int64(0)
                    if kinds[member] == WHOLE:
                        last, value = _digits(data, begin, close)
                        if last < close or size == 0 or size > _DIGITS:
                            break
                    elif kinds[member] != TEXT or escaped:
                        break
                elif sign == 45 or 48 <= sign <= 57:
                    begin = at
                    first = at + 1 if sign == 45 else at
                    at, value = _digits(data, first, end)
                    count = at - first
                    if count == 0 or (data[first] == 48 and count > 1):
                        break
                    is_whole = True
                    if at < end and data[at] == 46:
                        is_whole = False
                        behind, _ = _digits(data, at + 1, end)
                        count += behind - at - 1
                        if behind == at + 1:
                            break
                        at = behind
                    # Longer numbers, and those with exponents, are read by the other parser, also where nobody wants
                    # them: not all of them are numbers to it.
                    if (at < end and (data[at] == 101 or data[at] == 69)) or count > _DIGITS:
                        break
                    if not is_wanted:
                        continue
                    if sign == 45:
                        if value == 0:
                            break
                        value = -value
                    if kinds[member] == TRUTH or not (is_whole or kinds[member] == REAL):
                        break
                    size = at - begin
                else:
                    begin = at
                    at = _literal(data, at, end)
                    if at < 0:
                        break
                    if not is_wanted:
                        continue
                    size, value = at - begin, np.int64(sign == 116)
                    if sign == 110 or kinds[member] == WHOLE:  # no whole number is written as a word
                        found[member, row], whole[member, row] = False, 0
                        continue
                    if kinds[member] == REAL:
                        break
                found[member, row], whole[member, row] = True, value
                start[member, row], length[member, row] = begin, size
