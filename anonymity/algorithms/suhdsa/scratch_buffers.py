"""Scratch of the procedures that close a window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.parameters import WindowParameters
from crenel.anonymity.compiled.arrays import zeros
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import Boxes, boxes


class Work(NamedTuple):
    """Scratch of one closing.

    Attributes
    ----------
    next : (slots,) next member of a tuple's group, or of its pattern
    code : (slots, 1 + 2 sensitive) numbers within the window, from 0: of the subject, of the values, and of the pairs
        of both
    table : (a power of two,) open addressing, for patterns and codes
    tuples : (slots,) how many have a code; all 0 between uses
    stamp : (slots,) where a code was last seen
    free : (slots,) patterns in no group yet
    first, last, size : (slots,) of a pattern: its first and last tuple, how many it has
    distance : (slots,) from the group that grows to each free pattern
    near, near_distance : (neighbors,) nearest groups
    fit : (slots,) distance of a tuple to the group it would move to
    values : (slots,) of one column
    leaves : (nodes of all hierarchies,) how many have a leaf; all 0 between uses
    box : two boxes
    """

    next: NDArray[np.int32]
    code: NDArray[np.int32]
    table: NDArray[np.int32]
    tuples: NDArray[np.int32]
    stamp: NDArray[np.int32]
    free: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    size: NDArray[np.int32]
    distance: NDArray[np.float64]
    near: NDArray[np.int32]
    near_distance: NDArray[np.float64]
    fit: NDArray[np.float64]
    values: NDArray[np.float64]
    leaves: NDArray[np.int32]
    box: Boxes


def empty_work(slots: int, policy: Policy, window: WindowParameters, nodes: int) -> Work:
    """For ``slots`` tuples; ``nodes`` are those of all hierarchies."""
    near = min(window.neighbors, max(slots, 1))
    return Work(
        next=zeros(slots, np.int32),
        code=zeros((slots, 1 + 2 * len(policy.sensitive)), np.int32),
        table=zeros(1 << max(4, (2 * slots - 1).bit_length()), np.int32),
        tuples=zeros(slots, np.int32),
        stamp=zeros(slots, np.int32),
        free=zeros(slots, np.int32),
        first=zeros(slots, np.int32),
        last=zeros(slots, np.int32),
        size=zeros(slots, np.int32),
        distance=zeros(slots),
        near=zeros(near, np.int32),
        near_distance=zeros(near),
        fit=zeros(slots),
        values=zeros(slots),
        leaves=zeros(nodes, np.int32),
        box=boxes(2, policy),
    )
