"""All that waits, by attribute, so laid out that a growing group is compared with all of it at vector speed.

As in ``anonymity.space.boxes_by_attribute`` the loops hold no branch. Where a group grows, only the attributes whose
interval or node has changed are looked at again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.arrays import zeros
from anonymity.compiled.jit import Int, leaf
from anonymity.policy import Policy
from anonymity.space.domain import Boxes, Domain


class Columns(NamedTuple):
    """The tuples that wait, at the places before ``now.waiting``, in no order.

    Attributes
    ----------
    slot : (places,) of the tuple at each place
    place : (slots,) of the tuple in each slot
    number : (numeric, places)
    leaf : (categorical, places) as nodes
    subject : (places,) keyed hashes
    growth : (places,) by how much the group's loss would grow; infinite for those that cannot come to it
    part : (categorical, places) what of it is an attribute's
    step : (places,) scratch
    """

    slot: NDArray[np.int32]
    place: NDArray[np.int32]
    number: NDArray[np.float64]
    leaf: NDArray[np.int32]
    subject: NDArray[np.uint64]
    growth: NDArray[np.float64]
    part: NDArray[np.float64]
    step: NDArray[np.float64]


def columns(slots: int, policy: Policy) -> Columns:
    """Room for as many tuples as there are slots."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    return Columns(
        slot=zeros(slots, np.int32),
        place=zeros(slots, np.int32),
        number=zeros((numeric, slots)),
        leaf=zeros((categorical, slots), np.int32),
        subject=zeros(slots, np.uint64),
        growth=zeros(slots),
        part=zeros((categorical, slots)),
        step=zeros(slots),
    )


def with_slots(held: Columns, slots: int, policy: Policy) -> Columns:
    """The same tuples with room for more."""
    larger, before = columns(slots, policy), len(held.slot)
    olds: list[NDArray[Any]] = [*held]
    news: list[NDArray[Any]] = [*larger]
    for old, new in zip(olds, news, strict=True):
        new[..., :before] = old
    return larger


@leaf
def enter(shard: Any, slot: Int) -> None:
    """Write a tuple that has just arrived, so that ``now.waiting`` counts it."""
    columns, tuples = shard.columns, shard.tuples
    place = shard.now.waiting - 1
    columns.slot[place], columns.place[slot] = slot, place
    for a in range(columns.number.shape[0]):
        columns.number[a, place] = tuples.numeric[slot, a]
    for a in range(columns.leaf.shape[0]):
        columns.leaf[a, place] = tuples.leaf[slot, a]
    columns.subject[place] = tuples.subject[slot]


@leaf
def drop(shard: Any, slot: Int) -> None:
    """Take out a tuple that is about to depart, so that ``now.waiting`` still counts it; the last takes its place."""
    columns = shard.columns
    place, last = columns.place[slot], shard.now.waiting - 1
    moved = columns.slot[last]
    columns.slot[place], columns.place[moved] = moved, place
    for a in range(columns.number.shape[0]):
        columns.number[a, place] = columns.number[a, last]
    for a in range(columns.leaf.shape[0]):
        columns.leaf[a, place] = columns.leaf[a, last]
    columns.subject[place] = columns.subject[last]


@leaf
def measure(domain: Domain, columns: Columns, box: Boxes, row: Int, count: Int) -> None:
    """Write to ``growth`` by how much a box grows to enclose each of the first tuples (CASTLE, Definition 3.4)."""
    growth, stop = columns.growth, np.uint64(count)
    for i in range(np.uint64(0), stop):
        growth[i] = 0.0
    for a in range(box.lower.shape[1]):
        lower, upper, scale, number = box.lower[row, a], box.upper[row, a], domain.scale[a], columns.number
        if scale > 0.0:
            for i in range(np.uint64(0), stop):
                below, above = lower - number[a, i], number[a, i] - upper
                growth[i] += ((below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)) * scale
    for a in range(box.node.shape[1]):
        part, step = columns.part, columns.step
        _ancestor_losses(domain, columns, np.int64(box.node[row, a]), a, count)
        for i in range(np.uint64(0), stop):
            part[a, i] = step[i]
            growth[i] += step[i]


@leaf
def measure_again(domain: Domain, columns: Columns, box: Boxes, before: Int, after: Int, count: Int) -> None:
    """Bring ``growth`` up to date where a box has grown from row ``before`` to row ``after``."""
    growth, stop = columns.growth, np.uint64(count)
    for a in range(box.lower.shape[1]):
        lower, upper = box.lower[before, a], box.upper[before, a]
        low, high, scale, number = box.lower[after, a], box.upper[after, a], domain.scale[a], columns.number
        if scale > 0.0 and low < lower:
            for i in range(np.uint64(0), stop):
                old, new = lower - number[a, i], low - number[a, i]
                growth[i] += ((new if new > 0.0 else 0.0) - (old if old > 0.0 else 0.0)) * scale
        if scale > 0.0 and high > upper:
            for i in range(np.uint64(0), stop):
                old, new = number[a, i] - upper, number[a, i] - high
                growth[i] += ((new if new > 0.0 else 0.0) - (old if old > 0.0 else 0.0)) * scale
    for a in range(box.node.shape[1]):
        if box.node[after, a] != box.node[before, a]:
            part, step = columns.part, columns.step
            _ancestor_losses(domain, columns, np.int64(box.node[after, a]), a, count)
            for i in range(np.uint64(0), stop):
                growth[i] += step[i] - part[a, i]
                part[a, i] = step[i]


@leaf
def _ancestor_losses(domain: Domain, columns: Columns, node: Int, attribute: Int, count: Int) -> None:
    """Write to ``step`` by how much a node's loss is less than that of the lowest one above it and each tuple."""
    step, leaf_of, stop = columns.step, columns.leaf, np.uint64(count)
    least = domain.loss[node]
    top = domain.loss[domain.root[attribute]] - least
    for i in range(np.uint64(0), stop):
        step[i] = top
    while node != domain.root[attribute]:
        first, last, loss = domain.first[node], domain.last[node], domain.loss[node] - least
        for i in range(np.uint64(0), stop):
            inside = (first <= leaf_of[attribute, i]) & (leaf_of[attribute, i] <= last)
            lower = loss if inside else top
            step[i] = lower if lower < step[i] else step[i]
        node = np.int64(domain.parent[node])


@leaf
def exclude(columns: Columns, subject: Int, count: Int) -> None:
    """Let no tuple of a subject come to the group."""
    growth, of, stop = columns.growth, columns.subject, np.uint64(count)
    for i in range(np.uint64(0), stop):
        growth[i] = np.inf if of[i] == subject else growth[i]


@leaf
def least(columns: Columns, count: Int) -> float:
    """The least growth there is."""
    growth = columns.growth
    one = two = three = four = np.inf
    whole = count - count % 4
    for i in range(0, whole, 4):
        one = growth[i] if growth[i] < one else one
        two = growth[i + 1] if growth[i + 1] < two else two
        three = growth[i + 2] if growth[i + 2] < three else three
        four = growth[i + 3] if growth[i + 3] < four else four
    for i in range(whole, count):
        one = min(one, growth[i])
    return min(min(one, two), min(three, four))
