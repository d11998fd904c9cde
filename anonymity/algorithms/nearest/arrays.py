"""Arrays of a nearest-release shard, shared with its compiled procedures."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer import arrays as castle
from crenel.anonymity.buffer.arrays import CastleArrays
from crenel.anonymity.compiled.arrays import LANES, extend, extended, full, record, with_room, zeros
from crenel.anonymity.compiled.random import RandomStream
from crenel.anonymity.model.delay import DelayedSettings
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, empty_trial
from crenel.anonymity.space.domain import NONE, Boxes, boxes

SIZE = 64
"""Maximum number of tuples in a cell."""

SPARSE = 5
"""Rebuild the cells when they outnumber full cells ``SPARSE``-fold; cuts alone reach at most four-fold."""


COHORT = 2
"""Maximum number of neighbors that join a group together, where one of them must add a lacking sensitive value."""


class TupleCells(NamedTuple):
    """Buffered tuples in cells of ``SIZE`` places.

    Attributes
    ----------
    now : ``used``: number of cells; ``root`` of the tree: number of a cut, or -1 - that of a cell; ``came``: number of
        tuples that arrived since the cells were rebuilt
    held : (cells,) number of tuples in each cell, at its first places
    slot : (places,) slot of the tuple at each place
    place : (slots,) place of the tuple in each slot, ``NONE`` where it is in no cell
    number, leaf : (numeric, places), (categorical, places) values and leaf nodes of the tuples
    lower, upper, first, last : (numeric, cells), (categorical, cells) range of values and of leaf nodes in each cell
    bound : (cells,) minimum growth of the group's loss by a tuple of each cell
    part : (categorical, cells) share of each attribute in ``bound``
    step, nonempty_bound : (cells,) scratch space; ``bound``, infinite where a cell is empty
    growth, growth_step : (SIZE,) growth of the group's loss by each tuple of a cell; scratch space
    attribute, cut : (cuts,) attribute and value of each cut; numeric attributes come first
    below, above : (cuts,) subtree below the cut and the other one, encoded as ``root``
    """

    now: Any
    held: NDArray[np.int64]
    slot: NDArray[np.int32]
    place: NDArray[np.int32]
    number: NDArray[np.float64]
    leaf: NDArray[np.int32]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    bound: NDArray[np.float64]
    part: NDArray[np.float64]
    step: NDArray[np.float64]
    nonempty_bound: NDArray[np.float64]
    growth: NDArray[np.float64]
    growth_step: NDArray[np.float64]
    attribute: NDArray[np.int64]
    cut: NDArray[np.float64]
    below: NDArray[np.int64]
    above: NDArray[np.int64]


class Line(NamedTuple):
    """Tuples side by side, in order of arrival.

    Attributes
    ----------
    slot : (places,) slot of the tuple at each place, ``NONE`` where it has departed
    number, leaf : (numeric, places), (categorical, places) values and leaf nodes of the tuples
    weight, bias : (places,) factor and addend that turn a tuple's growth of the group into its cost
    """

    slot: NDArray[np.int32]
    number: NDArray[np.float64]
    leaf: NDArray[np.int32]
    weight: NDArray[np.float64]
    bias: NDArray[np.float64]


class Isolation(NamedTuple):
    """Isolation of the buffered tuples, and the members of lowest cost; empty unless ``isolation_price`` is above 0.

    Attributes
    ----------
    now : ``begin``, ``end``: first place of the line in use, and the one after the last; ``alive``: number of tuples
        there; ``candidates``: number of those; ``touched``, ``dropped``: lengths of these lists in this step;
        ``price``: the parameter
    line : buffered tuples that may join a group; ``TupleCells.place`` holds the place of each
    candidates : those of lowest cost, from which the group chooses its members
    radius : (places,) isolation of each tuple of the line, 0 to 1; below 0 where it has departed
    by_position, by_time : (places,) deadline of each tuple, as a position and in epoch milliseconds
    cost, step, lowest : (places,) scratch space
    near, near_place : (neighbors,) smallest distances of a new tuple, ascending, and the places of the tuples
    entry : (slots,) number of the stored entry of the tuple's radius, ``NONE`` if there is none
    changed : (slots,) whether the radius differs from the stored entry
    touched : (slots,) tuples whose radius changed in this step, each once
    dropped : (slots,) stored entries of tuples that left the line in this step
    """

    now: Any
    line: Line
    candidates: Line
    radius: NDArray[np.float64]
    by_position: NDArray[np.float64]
    by_time: NDArray[np.float64]
    cost: NDArray[np.float64]
    step: NDArray[np.float64]
    lowest: NDArray[np.float64]
    near: NDArray[np.float64]
    near_place: NDArray[np.int64]
    entry: NDArray[np.int64]
    changed: NDArray[np.bool_]
    touched: NDArray[np.int32]
    dropped: NDArray[np.int64]


NEIGHBORS = 6
"""Number of nearest tuples whose distance gives a new tuple its radius."""


@extended
class NearestArrays(CastleArrays):
    """Arrays of one shard: those of ``CastleArrays``, with all tuples in one cluster, and the search structures.

    Attributes
    ----------
    cells : buffered tuples in cells of neighbors
    isolation : buffered tuples in a line, in place of the cells, where isolation has a price
    codes : (slots, 1 + columns) an unused column, then the number of each sensitive value, as ``trial`` takes them
    trial : tally of the group that grows
    group : (2 * slots,) slots of the group's members from the front, those of skipped cohorts from the end, and scratch
        space
    box : (3,) generalization of the group, the previous one, and that before a cohort
    choice : ``cohort``: number of tuples that join together where a value is lacking; ``skipped``: number of tuples in
        skipped cohorts
    """

    cells: TupleCells
    isolation: Isolation
    codes: NDArray[np.int32]
    trial: IncrementalTally
    group: NDArray[np.int64]
    box: Boxes
    choice: Any


A = TypeVar("A", bound=NearestArrays)


def empty_arrays(policy: Policy, privacy: Privacy, settings: Any, random: RandomStream) -> NearestArrays:
    """Return the arrays of a shard before its first tuple."""
    made = castle.empty_arrays(policy, privacy, settings, random)
    made.config.keep_all = True  # the procedures weigh reuse against a group
    arrays: NearestArrays = extend(NearestArrays, made, **_search(made, policy))
    arrays.isolation.now.price = settings.isolation_price
    return arrays


def with_slots(arrays: A, slots: int, policy: Policy, settings: DelayedSettings) -> A:
    """Return the arrays with at least ``slots`` slots; buffered tuples keep their slots."""
    before = len(arrays.group) // 2
    if slots <= before:
        return arrays
    larger = castle.with_slots(arrays, slots, policy, settings)
    made = extend(type(arrays), larger, **_search(larger, policy))
    made.codes[:before] = arrays.codes
    made.cells.place[:before] = arrays.cells.place
    priced = arrays.isolation.now.price > 0.0
    return extend(
        type(arrays), made, isolation=_longer(arrays.isolation, slots, policy) if priced else arrays.isolation
    )


def _search(shared: CastleArrays, policy: Policy) -> dict[str, Any]:
    slots = len(shared.tuples.position)
    return {
        "cells": empty_cells(slots, policy),
        "isolation": _isolation(0, policy),
        "codes": zeros((slots, 1 + sum(policy.widths)), np.int32),
        "trial": empty_trial(policy.widths, slots, shared.checks),
        "group": zeros(2 * slots, np.int64),
        "box": boxes(3, policy),
        "choice": _choice(shared),
    }


def _choice(shared: CastleArrays) -> Any:
    needed = max((int(values) - 1 for values in shared.checks.values), default=1)
    made = record("cohort skipped")
    made.cohort = min(COHORT, max((int(shared.config.k) - 1) // max(needed, 1), 1))
    return made


def _line(length: int, policy: Policy) -> Line:
    return Line(
        slot=zeros(length, np.int32),
        number=zeros((len(policy.numeric), length)),
        leaf=zeros((len(policy.categorical), length), np.int32),
        weight=zeros(length),
        bias=zeros(length),
    )


def _isolation(slots: int, policy: Policy, now: Any = None) -> Isolation:
    length = with_room(2 * slots) + LANES  # a line that is half empty moves up
    return Isolation(
        now=record("begin end alive candidates touched dropped", "price") if now is None else now,
        line=_line(length, policy),
        candidates=_line(length, policy),
        radius=zeros(length),
        by_position=zeros(length),
        by_time=zeros(length),
        cost=zeros(length),
        step=zeros(length),
        lowest=zeros(length),
        near=zeros(NEIGHBORS),
        near_place=zeros(NEIGHBORS, np.int64),
        entry=full(slots, NONE, np.int64),
        changed=zeros(slots, np.bool_),
        touched=zeros(slots, np.int32),
        dropped=zeros(slots, np.int64),
    )


def _longer(old: Isolation, slots: int, policy: Policy) -> Isolation:
    """Return the same isolation with room for more slots."""
    new = _isolation(slots, policy, old.now)
    for name in ("radius", "by_position", "by_time", "entry", "changed", "touched", "dropped"):
        held = getattr(old, name)
        getattr(new, name)[: len(held)] = held
    before: list[NDArray[Any]] = [*old.line]
    after: list[NDArray[Any]] = [*new.line]
    for shorter, longer in zip(before, after, strict=True):
        longer[..., : shorter.shape[-1]] = shorter
    return new


def empty_cells(slots: int, policy: Policy) -> TupleCells:
    """Return empty cells with room for as many tuples as there are slots."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    cells = with_room(_most(slots) + 2)
    now = record("used root came")
    now.used, now.root = 1, -1
    return TupleCells(
        now=now,
        held=zeros(cells, np.int64),
        slot=zeros(cells * SIZE, np.int32),
        place=zeros(slots, np.int32),
        number=zeros((numeric, cells * SIZE)),
        leaf=zeros((categorical, cells * SIZE), np.int32),
        lower=zeros((numeric, cells)),
        upper=zeros((numeric, cells)),
        first=zeros((categorical, cells), np.int32),
        last=zeros((categorical, cells), np.int32),
        bound=zeros(cells),
        part=zeros((categorical, cells)),
        step=zeros(cells),
        nonempty_bound=zeros(cells),
        growth=zeros(SIZE),
        growth_step=zeros(SIZE),
        attribute=zeros(cells, np.int64),
        cut=zeros(cells),
        below=zeros(cells, np.int64),
        above=zeros(cells, np.int64),
    )


def _most(slots: int) -> int:
    return SPARSE * (slots // SIZE + 1) + 4
