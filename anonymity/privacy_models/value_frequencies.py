"""How common each sensitive value has been in a shard's stream so far: what promises compare with if nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, leaf
from crenel.anonymity.privacy_models.counting import Counts, empty_counts, number, numbered, unnumber

MOST_SEEN = 4096
"""Different values of a column that are counted one by one; those that come first after them count as others."""

TOGETHER = 64
"""Values that are stored in one entry."""


class Seen(NamedTuple):
    """All tuples that a shard has let in, by the values of the columns that are compared with them.

    Attributes
    ----------
    follows : (attributes,) whether a column is
    table : the row of each value, by attribute and code
    code : (attributes, rows) 64-bit codes, in the order in which they first came; 0: of a value that is not counted any
        more (a code that is 0 itself counts as others)
    amount : (attributes, rows) tuples that have each value
    used : (attributes,) rows
    total : (attributes,) tuples, those of others among them
    changed : (attributes, rows / TOGETHER) whether some rows are to be stored
    """

    follows: NDArray[np.bool_]
    table: Counts
    code: NDArray[np.uint64]
    amount: NDArray[np.int64]
    used: NDArray[np.int64]
    total: NDArray[np.int64]
    changed: NDArray[np.bool_]


def empty_seen(follows: Sequence[bool]) -> Seen:
    """Of no tuples."""
    columns, rows = len(follows), MOST_SEEN if any(follows) else 0
    return Seen(
        follows=np.array(follows, np.bool_),
        table=empty_counts(columns * rows),
        code=np.zeros((columns, rows), np.uint64),
        amount=np.zeros((columns, rows), np.int64),
        used=np.zeros(columns, np.int64),
        total=np.zeros(columns, np.int64),
        changed=np.zeros((columns, rows // TOGETHER), np.bool_),
    )


@leaf
def add_value(seen: Seen, codes: NDArray[np.uint64], slot: Int, first: Int) -> None:
    """Count a tuple that is let in.

    Parameters
    ----------
    codes : (slots, first + attributes or more) of all tuples, the sensitive ones from column ``first`` on
    """
    for a in range(len(seen.follows)):
        if seen.follows[a]:
            code = codes[slot, first + a]
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
                seen.changed[a, row // TOGETHER] = True


@leaf
def share_of(seen: Seen, attribute: Int, row: Int) -> float:
    """The share of the stream so far that has the value of a row; 0 of others, which have none."""
    if row < 0:
        return 0.0
    return float(seen.amount[attribute, row] / seen.total[attribute])


@entry
def remove_value(seen: Seen, codes: NDArray[np.uint64], k: Int) -> None:
    """Count tuples out again, as if they had never come; values that fewer than k tuples have count as others then.

    ``codes`` : (tuples, attributes) of those of a person who is forgotten; of what had left before nobody knows whose
    it was, so no value stays that may have been one person's
    """
    for a in range(len(seen.follows)):
        if seen.follows[a]:
            for i in range(len(codes)):
                row = numbered(seen.table, np.int64(a), codes[i, a])
                seen.total[a] -= 1
                if row >= 0:
                    seen.amount[a, row] -= 1
                    seen.changed[a, row // TOGETHER] = True
            for row in range(seen.used[a]):
                if seen.code[a, row] != 0 and seen.amount[a, row] < k:
                    unnumber(seen.table, np.int64(a), seen.code[a, row])
                    seen.code[a, row] = np.uint64(0)
                    seen.amount[a, row] = 0
                    seen.changed[a, row // TOGETHER] = True
            seen.changed[a, 0] = True


@entry
def name_rows(seen: Seen) -> bool:
    """Let the values of restored rows be found by their codes; whether no two of a column are the same."""
    alone = True
    for a in range(len(seen.follows)):
        for row in range(seen.used[a]):
            if seen.code[a, row] != 0:
                alone &= number(seen.table, np.int64(a), seen.code[a, row], np.int64(row)) == row
    return alone
