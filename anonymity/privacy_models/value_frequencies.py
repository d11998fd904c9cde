"""Frequencies of sensitive values in a shard's stream so far, the default reference of privacy models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.privacy_models.counting import Counts, empty_counts, number, numbered, unnumber
from crenel.state.columns import NO_FURTHER

MOST_SEEN = 4096
"""Maximum number of values per column with a count of their own; values that appear after them count as others."""

ENTRY_VALUES = 64
"""Number of values per stored entry."""


class ValueFrequencies(NamedTuple):
    """Value frequencies of all admitted tuples of a shard, for columns that are compared with the stream.

    Attributes
    ----------
    follows : (attributes,) whether the column is compared with the stream
    table : the row of each value, by attribute and code
    code : (attributes, rows) 64-bit codes in order of first appearance; 0 where the value is no longer counted (a code
        that is itself 0 counts as others)
    amount : (attributes, rows) tuples with each value
    used : (attributes,) number of rows
    total : (attributes,) all tuples, including those with other values
    changed : (attributes, rows / TOGETHER) whether an entry must be stored
    first : (attributes + 1,) first column of each attribute among the codes of a tuple, and the number of columns
    """

    follows: NDArray[np.bool_]
    table: Counts
    code: NDArray[np.uint64]
    amount: NDArray[np.int64]
    used: NDArray[np.int64]
    total: NDArray[np.int64]
    changed: NDArray[np.bool_]
    first: NDArray[np.int64]


def empty_seen(follows: Sequence[bool], widths: Sequence[int] = ()) -> ValueFrequencies:
    """Return frequencies of no tuples; ``widths``: maximum number of values that a tuple has of each; empty: one."""
    columns, rows = len(follows), MOST_SEEN if any(follows) else 0
    return ValueFrequencies(
        follows=np.array(follows, np.bool_),
        table=empty_counts(columns * rows),
        code=np.zeros((columns, rows), np.uint64),
        amount=np.zeros((columns, rows), np.int64),
        used=np.zeros(columns, np.int64),
        total=np.zeros(columns, np.int64),
        changed=np.zeros((columns, rows // ENTRY_VALUES), np.bool_),
        first=np.cumsum([0, *(widths or [1] * columns)]),
    )


@leaf
def add_value(seen: ValueFrequencies, codes: NDArray[np.uint64], slot: Int, first: Int) -> None:
    """Count an admitted tuple, once for each of its values.

    Parameters
    ----------
    codes : (slots, at least first + columns) codes of all tuples, the sensitive ones from column ``first`` on
    """
    for a in range(len(seen.follows)):
        if not seen.follows[a]:
            continue
        for c in range(first + seen.first[a], first + seen.first[a + 1]):
            code = codes[slot, c]
            if code == NO_FURTHER:
                break
            row = numbered(seen.table, np.int64(a), code)
            if row < 0 and code != 0 and seen.used[a] < MOST_SEEN:
                row = np.int64(seen.used[a])
                number(seen.table, np.int64(a), code, row)
                seen.code[a, row] = code
                seen.used[a] += 1
            seen.total[a] += 1
            seen.changed[a, 0] = True  # where the total is stored
            if row >= 0:
                seen.amount[a, row] += 1
                seen.changed[a, row // ENTRY_VALUES] = True


@leaf
def share_of(seen: ValueFrequencies, attribute: Int, row: Int) -> float:
    """Return the share of a row's value in the stream so far; 0 for other values, which have no row."""
    if row < 0:
        return 0.0
    return float(seen.amount[attribute, row] / seen.total[attribute])


@entry
def remove_value(seen: ValueFrequencies, codes: NDArray[np.uint64], k: Int) -> None:
    """Subtract the tuples of a forgotten person, as if they had never been admitted.

    Values left with fewer than k tuples count as others from then on. The owners of departed tuples are unknown, so no
    value may remain that a single person could account for.

    Parameters
    ----------
    codes : (tuples, columns) sensitive codes of the person's tuples
    k : minimum number of tuples of a value with a count of its own
    """
    for a in range(len(seen.follows)):
        if seen.follows[a]:
            for i in range(len(codes)):
                for c in range(seen.first[a], seen.first[a + 1]):
                    if codes[i, c] == NO_FURTHER:
                        break
                    row = numbered(seen.table, np.int64(a), codes[i, c])
                    seen.total[a] -= 1
                    if row >= 0:
                        seen.amount[a, row] -= 1
                        seen.changed[a, row // ENTRY_VALUES] = True
            for row in range(seen.used[a]):
                if seen.code[a, row] != 0 and seen.amount[a, row] < k:
                    unnumber(seen.table, np.int64(a), seen.code[a, row])
                    seen.code[a, row] = np.uint64(0)
                    seen.amount[a, row] = 0
                    seen.changed[a, row // ENTRY_VALUES] = True
            seen.changed[a, 0] = True


@entry
def name_rows(seen: ValueFrequencies) -> bool:
    """Index restored rows by their codes; return whether the codes of each column are distinct."""
    alone = True
    for a in range(len(seen.follows)):
        for row in range(seen.used[a]):
            if seen.code[a, row] != 0:
                alone &= number(seen.table, np.int64(a), seen.code[a, row], np.int64(row)) == row
    return alone
