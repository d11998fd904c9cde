"""Scratch buffers of a window's partition, with its tuples in the order of each attribute."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch.procedures import BatchArrays
from crenel.anonymity.compiled.arrays import record, zeros
from crenel.anonymity.privacy_models.checks import Checks
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, empty_trial
from crenel.anonymity.space.domain import Boxes, Domain

WHOLE, BEFORE, AFTER = range(3)
"""Rows of ``PartitionBuffers.box``: around a part, around its first tuples, and around the rest."""


class PartitionBuffers(NamedTuple):
    """Window under partition.

    A part is a run of places, the same ones in each row of ``order``.

    Attributes
    ----------
    config : ``k``; ``by_loss``: cut by loss, else by width; ``counted``: the number of tuples does not suffice, so
        persons and values are counted; ``alone``: each subject has one tuple
    cut : best cut so far: its ``attribute``, its run of places from ``first`` to ``last``, and the total ``loss``
    points : (tuples,) the tuples as boxes of no width
    order : (attributes, tuples) the tuples in the order of each attribute, numbers before categories
    codes : (tuples, 1 + 2 columns) as ``crenel.anonymity.privacy_models.incremental_tally.put`` takes them
    here, there : tallies of the two sides of a cut
    box : (3,) ``WHOLE``, ``BEFORE``, ``AFTER``
    after : (tuples,) InfoLoss of all tuples from each place on
    inside : (tuples,) whether each tuple is in the run of the cut
    spare : (tuples,) scratch space
    width : (attributes,) share of each attribute that a part covers
    edge : (children + 1,) first places of a node's children
    child, onward : (children,) boxes around each child's tuples, and around those of the child and all behind it
    """

    config: Any
    cut: Any
    domain: Domain
    points: Boxes
    checks: Checks
    order: NDArray[np.int32]
    codes: NDArray[np.int32]
    here: IncrementalTally
    there: IncrementalTally
    box: Boxes
    after: NDArray[np.float64]
    inside: NDArray[np.bool_]
    spare: NDArray[np.int32]
    width: NDArray[np.float64]
    edge: NDArray[np.int64]
    child: Boxes
    onward: Boxes


def work_on(arrays: BatchArrays, *, by_loss: bool) -> PartitionBuffers:
    """Return the buffers of a window before its first cut."""
    points = arrays.tuples.points
    tuples, numeric = points.lower.shape
    columns = [*points.lower.T, *points.node.T]
    order = zeros((len(columns), tuples), np.int32)
    for a, column in enumerate(columns):
        order[a] = np.argsort(column, kind="stable")
    codes, alone = _codes(arrays)
    config = record("k by_loss counted alone")
    config.k, config.by_loss, config.alone = arrays.config.k, by_loss, alone
    config.counted = not alone or len(arrays.checks.address) > 0
    widths = np.diff(arrays.counter.tally.first).tolist()
    children = int(np.bincount(arrays.domain.parent).max(initial=0))

    def boxes(rows: int) -> Boxes:
        ends = np.zeros((2, rows, numeric))
        return Boxes(ends[0], ends[1], np.zeros((rows, points.node.shape[1]), np.int32))

    return PartitionBuffers(
        config=config,
        cut=record("attribute first last", "loss"),
        domain=arrays.domain,
        points=points,
        checks=arrays.checks,
        order=order,
        codes=codes,
        here=empty_trial(widths, tuples, arrays.checks),
        there=empty_trial(widths, tuples, arrays.checks),
        box=boxes(3),
        after=zeros(tuples),
        inside=zeros(tuples, np.bool_),
        spare=zeros(tuples, np.int32),
        width=np.zeros(len(columns)),
        edge=np.zeros(children + 1, np.int64),
        child=boxes(children),
        onward=boxes(children),
    )


def _codes(arrays: BatchArrays) -> tuple[NDArray[np.int32], bool]:
    """Return numbers of each tuple's person, values and pairs of both, and whether each person has one tuple."""
    tuples, columns = arrays.tuples.value.shape
    codes = zeros((tuples, 1 + 2 * columns), np.int32)
    codes[:, 0] = np.arange(tuples)
    codes[:, 1 : 1 + columns] = arrays.tuples.value
    if arrays.config.by_name:
        codes[:, 0] = np.unique(arrays.tuples.subject, return_inverse=True)[1]
    alone = not tuples or int(codes[:, 0].max()) + 1 == tuples
    for start, stop in () if alone else pairwise(arrays.counter.tally.first.tolist()):
        value = arrays.tuples.value[:, start:stop]
        pair = codes[:, :1] * np.int64(value.max(initial=0) + 1) + value
        codes[:, 1 + columns + start : 1 + columns + stop][value >= 0] = np.unique(
            pair[value >= 0], return_inverse=True
        )[1]
    return codes, alone
