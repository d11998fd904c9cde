"""Mapping from the numbers of buffered sensitive values to the rows of reference distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full
from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.privacy_models.counting import numbered
from crenel.anonymity.privacy_models.value_frequencies import ValueFrequencies, empty_seen

UNKNOWN = -1
"""The row of a value that is absent from the reference."""


class Lookup(NamedTuple):
    """References of all sensitive columns.

    Attributes
    ----------
    codes : (attributes, values) 64-bit codes of each reference, rising
    rows : (attributes, values) the row in the reference of each code
    share : (attributes, values) share of each row
    held : (attributes,) number of codes; 0 where the column is compared with the stream so far, ``UNKNOWN`` where with
        nothing
    row : (attributes, numbers) the row of the value with each number, ``UNKNOWN`` where it has none; empty where no
        column is compared
    seen : frequencies in the stream so far, whose rows ``row`` holds for columns compared with it
    """

    codes: NDArray[np.uint64]
    rows: NDArray[np.int32]
    share: NDArray[np.float64]
    held: NDArray[np.int64]
    row: NDArray[np.int32]
    seen: ValueFrequencies


def lookup_of(references: Sequence[Reference | None], widths: Sequence[int] = ()) -> Lookup:
    """Return the references of the attributes, without numbers.

    ``widths``: the maximum number of values that a tuple has of each; empty: one.

    Raises
    ------
    ValueError
        A reference has no codes.
    """
    most = max((len(reference.values) for reference in references if reference), default=0)
    made = Lookup(
        codes=np.zeros((len(references), most), np.uint64),
        rows=np.zeros((len(references), most), np.int32),
        share=np.zeros((len(references), most)),
        held=np.full(len(references), UNKNOWN, np.int64),
        row=np.zeros((len(references), 0), np.int32),
        seen=empty_seen([reference is not None and reference.of_stream for reference in references], widths),
    )
    for a, reference in enumerate(references):
        if reference is None:
            continue
        if len(reference.codes) != len(reference.values):
            raise ValueError("a reference needs the code of each of its values")
        codes = np.array(reference.codes, np.uint64)
        order = np.argsort(codes)
        made.codes[a, : len(codes)], made.rows[a, : len(codes)], made.held[a] = codes[order], order, len(codes)
        made.share[a, : len(codes)] = reference.shares
    return made


def with_numbers(lookup: Lookup, numbers: int) -> Lookup:
    """Return the same references with room for ``numbers`` numbers; assigned ones stay."""
    if (lookup.held < 0).all():
        return lookup
    row = full((len(lookup.held), numbers), UNKNOWN, np.int32)
    row[:, : lookup.row.shape[1]] = lookup.row
    return lookup._replace(row=row)


@entry
def renumber(lookup: Lookup, number: NDArray[np.int32], codes: NDArray[np.uint64], slots: NDArray[np.int32]) -> None:
    """Record anew the values behind the numbers of some tuples; ``number`` and ``codes`` are (slots, columns)."""
    for i in range(len(slots)):
        for a in range(len(lookup.held)):
            for c in range(lookup.seen.first[a], lookup.seen.first[a + 1]):
                if number[slots[i], c] >= 0:
                    note_number(lookup, np.int64(a), np.int64(number[slots[i], c]), codes[slots[i], c])


def shares_of(lookup: Lookup, attribute: int) -> NDArray[np.float64]:
    """Return (rows,) the share of each row in the distribution that the column is compared with."""
    if not lookup.seen.follows[attribute]:
        return lookup.share[attribute]
    seen = lookup.seen
    shares: NDArray[np.float64] = seen.amount[attribute, : int(seen.used[attribute])] / max(seen.total[attribute], 1)
    return shares


@leaf
def note_number(lookup: Lookup, attribute: Int, number: Int, code: Int) -> None:
    """Record the value to which a number was assigned."""
    held = lookup.held[attribute]
    if held < 0:
        return
    if lookup.seen.follows[attribute]:
        lookup.row[attribute, number] = numbered(lookup.seen.table, attribute, code)
        return
    begin, end = np.int64(0), np.int64(held)
    while begin < end:
        middle = (begin + end) // 2
        if lookup.codes[attribute, middle] < code:
            begin = middle + 1
        else:
            end = middle
    is_known = begin < held and lookup.codes[attribute, begin] == code
    lookup.row[attribute, number] = lookup.rows[attribute, begin] if is_known else UNKNOWN
