"""Scratch buffers of the procedures that close a window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaSettings
from crenel.anonymity.compiled.arrays import zeros
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import Boxes, boxes


class Work(NamedTuple):
    """Scratch buffers of one window close.

    Attributes
    ----------
    next : (slots,) next member of a tuple's group, or of its pattern
    code : (slots, 1 + 2 sensitive) numbers within the window, from 0: of the subject, of the values, and of the pairs
        of both
    tuples : (slots,) number of tuples with each code; all 0 between uses
    stamp : (slots,) last group with each code
    free : (slots,) patterns without a group
    first, last, size : (slots,) first tuple, last tuple and size of each pattern
    distance : (slots,) distance from the growing group to each free pattern
    near, near_distance : (neighbors,) nearest groups and their distances
    fit : (slots,) distance of a tuple to the group it would move to
    values : (slots,) values of one column
    leaves : (nodes of all hierarchies,) number of tuples with each leaf; all 0 between uses
    box : two boxes
    """

    next: NDArray[np.int32]
    code: NDArray[np.int32]
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


def empty_work(slots: int, policy: Policy, settings: SuhdsaSettings, nodes: int) -> Work:
    """Return empty buffers for ``slots`` tuples; ``nodes`` is the number of nodes in all hierarchies."""
    near = min(settings.neighbors, max(slots, 1))
    return Work(
        next=zeros(slots, np.int32),
        code=zeros((slots, 1 + 2 * len(policy.sensitive)), np.int32),
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
