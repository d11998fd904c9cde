"""Earth Mover's Distance between a release and a reference (Li, Li and others, ICDE 2007, Section 5).

The column defines the ground distance of two values: equal for all pairs, by rank, or by the level of the lowest common
ancestor. The maximum is 1. A value absent from the reference has distance 1 from every other.

Any value of a person with several values may be picked. The share of a set of values in a release therefore has two
bounds: persons with no other value, and persons with at least one of them. The returned distance is an upper bound over
all picks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from crenel.anonymity.model.reference import Reference

EQUAL, ORDERED, HIERARCHICAL = range(3)
_KINDS = {"equal": EQUAL, "ordered": ORDERED, "hierarchical": HIERARCHICAL}


def table_of(reference: Reference) -> tuple[float, ...]:
    """Return a reference in the form that ``distance`` takes, beginning with the kind of distance.

    For ``EQUAL``, the shares follow. For ``ORDERED``, the number of values, the cumulative shares, and the sums of
    these before each value and in total. For ``HIERARCHICAL``, the numbers of values and nodes, the level of the root,
    and the cost of all edges for a release without any value. Then the leaf of each value, and four columns over the
    nodes: parent, level, length of the edge to the parent, and share below.
    """
    kind, shares = _KINDS[reference.distance], np.array(reference.shares)
    if kind == EQUAL:
        return (kind, *reference.shares)
    if kind == ORDERED:
        upto = np.cumsum(shares)
        return (kind, len(shares), *upto.tolist(), 0.0, *np.cumsum(upto).tolist())
    tree = reference.hierarchy
    if tree is None:
        raise ValueError("a hierarchical distance needs a hierarchy")
    leaves, level = [tree.labels.index(value) for value in reference.values], tree.levels()
    below = np.zeros(len(tree.labels))
    for leaf, share in zip(leaves, reference.shares, strict=True):
        node = leaf
        while node != tree.root:
            below[node] += share
            node = int(tree.parent[node])
    highest = int(level[tree.root])
    weight = (level[tree.parent] - level) / (2.0 * max(highest, 1))
    columns = (tree.parent, level, weight, below)
    flat_numbers = [number for column in columns for number in column.tolist()]
    return (kind, len(leaves), len(tree.labels), highest, float((weight * below).sum()), *leaves, *flat_numbers)


@register_jitable
def distance(persons: int, counts: Any, rows: Any, table: Any) -> float:
    """Return the distance of a set from a reference, from 0 to 1.

    Parameters
    ----------
    persons, counts, rows : as for ``PrivacyModel.lacking``
    table : result of ``table_of``
    """
    held, others = 0, 0
    for i in range(len(counts)):
        held += counts[i]
        others += counts[i] if rows[i] < 0 else 0
    if table[0] == EQUAL:
        return _equal(persons, held, counts, rows, table)
    most, least = min(others / persons, 1.0), max(1.0 - (held - others) / persons, 0.0)
    if most == 1.0:
        return 1.0
    if table[0] == ORDERED:
        return min(most + _ordered(persons, held, counts, rows, table, 1.0 - most, 1.0 - least), 1.0)
    return min(most + _hierarchical(persons, held, counts, rows, table, 1.0 - most, 1.0 - least), 1.0)


@register_jitable
def _equal(persons: int, held: int, counts: Any, rows: Any, table: Any) -> float:
    # Count all persons with values in excess, then subtract the reference's share of these values.
    excess, share = 0, 0.0
    if held == persons:  # nobody has several values
        for i in range(len(counts)):
            usual = table[1 + rows[i]] if rows[i] >= 0 else 0.0
            if counts[i] > usual * persons:
                excess += counts[i]
                share += usual
        return excess / persons - share
    # Values with the least reference share per person count first, until the counts reach the number of persons.
    price = np.zeros(len(counts))
    for i in range(len(counts)):
        price[i] = table[1 + rows[i]] / counts[i] if rows[i] >= 0 else 0.0
    for i in np.argsort(price, kind="mergesort"):
        part = min(counts[i], persons - excess)
        if price[i] * persons < 1.0:
            excess += part
            share += price[i] * part
    return excess / persons - share


@register_jitable
def _ordered(persons: int, held: int, counts: Any, rows: Any, table: Any, fewest: float, most: float) -> float:
    # ``fewest`` and ``most``: bounds of the release's share of values in the reference.
    values, total, before, begin = int(table[1]), 0.0, 0, 0
    if values < 2:
        return 0.0
    for i in range(len(counts) + 1):
        if i < len(counts) and rows[i] < 0:
            continue
        end = rows[i] if i < len(counts) else values - 1
        # Between two values of the release its cumulative share is constant, and that of the reference grows.
        high, low = min(before / persons, 1.0), max(1.0 - (held - before) / persons, 0.0)
        turn, stop = begin, end
        while turn < stop:
            middle = (turn + stop) // 2
            if table[2 + middle] * (fewest + most) <= high + low:
                turn = middle + 1
            else:
                stop = middle
        sums = 2 + values
        total += high * (turn - begin) - fewest * (table[sums + turn] - table[sums + begin])
        total += most * (table[sums + end] - table[sums + turn]) - low * (end - turn)
        begin = end
        before += counts[i] if i < len(counts) else 0
    return total / (values - 1)


@register_jitable
def _hierarchical(persons: int, held: int, counts: Any, rows: Any, table: Any, fewest: float, most: float) -> float:
    # On a tree, the amount moved across the edge above a node is the difference of the shares below it.
    values, nodes, highest = int(table[1]), int(table[2]), int(table[3])
    parents = 5 + values
    node, below, used = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64), 0
    for i in range(len(counts)):
        if rows[i] >= 0:
            node[used], below[used] = int(table[5 + rows[i]]), counts[i]
            used += 1
    order = np.argsort(node[:used], kind="mergesort")
    node, below = node[order], below[order]
    total = most * table[4]
    for level in range(highest):
        merged = 0
        for i in range(used):
            if int(table[parents + nodes + node[i]]) == level:
                usual, width = table[parents + 3 * nodes + node[i]], table[parents + 2 * nodes + node[i]]
                high, low = min(below[i] / persons, 1.0), max(1.0 - (held - below[i]) / persons, 0.0)
                total += width * (max(high - fewest * usual, most * usual - low) - most * usual)
                node[i] = int(table[parents + node[i]])
            if merged > 0 and node[merged - 1] == node[i]:
                below[merged - 1] += below[i]
            else:
                node[merged], below[merged] = node[i], below[i]
                merged += 1
        used = merged
    return total
