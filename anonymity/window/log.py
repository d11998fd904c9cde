"""What windows did: one record a repair, one a window; counts and losses, never a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ACTIONS = ("swap", "merge")
"""What a repair did; recorded as positions."""


@dataclass(frozen=True)
class Actions:
    """Repairs of one step, as columns.

    Attributes
    ----------
    window : (repairs,) counts the windows of the shard from 0
    group, neighbour : (repairs,) numbers within the window: the group that lacked diversity, and its partner
    action : (repairs,) position in ``ACTIONS``
    tuples_before, tuples_after : (repairs,) size of the group
    diversity_before, diversity_after : (repairs,) its distinct sensitive values, the least over the attributes
    loss_change : (repairs,) by how much the mean loss of both groups' tuples changed (Delta IL)
    time_change : (repairs,) modelled time, as a share of what grouping both groups' tuples took (Delta RT)
    inspected : (repairs,) neighbours that were looked at
    """

    window: NDArray[np.int64]
    group: NDArray[np.int64]
    neighbour: NDArray[np.int64]
    action: NDArray[np.int64]
    tuples_before: NDArray[np.int64]
    tuples_after: NDArray[np.int64]
    diversity_before: NDArray[np.int64]
    diversity_after: NDArray[np.int64]
    loss_change: NDArray[np.float64]
    time_change: NDArray[np.float64]
    inspected: NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """Windows that closed in one step, as columns.

    Attributes
    ----------
    window : (windows,) counts the windows of the shard from 0
    tuples : (windows,) tuples held when it closed, carried ones among them
    groups, violations : (windows,) provisional groups, and those of them that lacked diversity
    unrepaired : (windows,) groups that lacked it still after the repairs
    swaps, merges : (windows,) repairs
    releases, carried : (windows,) groups that left, and tuples that stayed for the next window
    lsr : (windows,) share of the releases with l distinct values of each sensitive attribute; 1 where there is none
    entropy_mean, entropy_least : (windows,) bits, over the releases; of several attributes the least
    target : (windows,) l_t
    milliseconds : (windows,) from what came after the last close to this one's releases
    """

    window: NDArray[np.int64]
    tuples: NDArray[np.int64]
    groups: NDArray[np.int64]
    violations: NDArray[np.int64]
    unrepaired: NDArray[np.int64]
    swaps: NDArray[np.int64]
    merges: NDArray[np.int64]
    releases: NDArray[np.int64]
    lsr: NDArray[np.float64]
    carried: NDArray[np.int64]
    target: NDArray[np.int64]
    entropy_mean: NDArray[np.float64]
    entropy_least: NDArray[np.float64]
    milliseconds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.window)

    @property
    def repairs_per_second(self) -> NDArray[np.float64]:
        """rho: repairs for each second that a window took; 0 where it took no time."""
        seconds = self.milliseconds / 1000
        return np.divide(self.swaps + self.merges, seconds, out=np.zeros(len(self)), where=seconds > 0)


@dataclass(frozen=True)
class Repairs:
    """What one step of a shard of windows did beside its releases."""

    shard: int
    actions: Actions
    windows: Windows
