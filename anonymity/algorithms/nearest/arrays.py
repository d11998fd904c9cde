"""Arrays of a nearest-release shard, shared with its compiled procedures."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer import arrays as castle
from crenel.anonymity.buffer.arrays import CastleArrays
from crenel.anonymity.buffer.delay import DelayParameters
from crenel.anonymity.compiled.arrays import extend, extended, record, with_room, zeros
from crenel.anonymity.compiled.random import RandomStream
from crenel.anonymity.compiled.reference import by_reference
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, empty_trial
from crenel.anonymity.space.domain import Boxes, boxes

SIZE = 64
"""Maximum number of tuples in a cell."""

SPARSE = 5
"""Rebuild the cells when they outnumber full cells ``SPARSE``-fold; cuts alone reach at most four-fold."""


class Cells(NamedTuple):
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


@extended
class NearestArrays(CastleArrays):
    """Arrays of one shard: those of ``CastleArrays``, with all tuples in one cluster, and the search structures.

    Attributes
    ----------
    cells : buffered tuples in cells of neighbors
    codes : (slots, 1 + columns) an unused column, then the number of each sensitive value, as ``trial`` takes them
    trial : tally of the group that grows
    group : (2 * slots,) slots of the group's members, and as much scratch space
    box : (2,) generalization of the group, and the previous one
    """

    cells: Cells
    codes: NDArray[np.int32]
    trial: IncrementalTally
    group: NDArray[np.int64]
    box: Boxes


share = by_reference(NearestArrays)
"""Return ``NearestArrays`` in their pass-by-reference form, valid while the arrays are kept."""

A = TypeVar("A", bound=NearestArrays)


def empty_arrays(policy: Policy, privacy: Privacy, parameters: DelayParameters, random: RandomStream) -> NearestArrays:
    """Return the arrays of a shard before its first tuple."""
    made = castle.empty_arrays(policy, privacy, parameters, random)
    made.config.keep_all = True  # the procedures weigh reuse against a group
    return extend(NearestArrays, made, **_search(made, policy))


def with_slots(arrays: A, slots: int, policy: Policy, parameters: DelayParameters) -> A:
    """Return the arrays with at least ``slots`` slots; buffered tuples keep their slots."""
    before = len(arrays.group) // 2
    if slots <= before:
        return arrays
    larger = castle.with_slots(arrays, slots, policy, parameters)
    made = extend(type(arrays), larger, **_search(larger, policy))
    made.codes[:before] = arrays.codes
    made.cells.place[:before] = arrays.cells.place
    return made


def _search(shared: CastleArrays, policy: Policy) -> dict[str, Any]:
    slots = len(shared.tuples.position)
    return {
        "cells": empty_cells(slots, policy),
        "codes": zeros((slots, 1 + sum(policy.widths)), np.int32),
        "trial": empty_trial(policy.widths, slots, shared.checks),
        "group": zeros(2 * slots, np.int64),
        "box": boxes(2, policy),
    }


def empty_cells(slots: int, policy: Policy) -> Cells:
    """Return empty cells with room for as many tuples as there are slots."""
    numeric, categorical = len(policy.numeric), len(policy.categorical)
    cells = with_room(_most(slots) + 2)
    now = record("used root came")
    now.used, now.root = 1, -1
    return Cells(
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
