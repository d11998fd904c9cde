"""What windows did: one record a repair, one a window; counts and losses, never a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import record, zeros

ACTIONS = ("swap", "merge")
"""What a repair did; recorded as positions."""

SWAP, MERGE = range(2)

_ACTION = np.dtype(
    [
        (name, np.int64)
        for name in (
            "group",
            "neighbor",
            "action",
            "tuples_before",
            "tuples_after",
            "diversity_before",
            "diversity_after",
            "inspected",
        )
    ]
    + [("loss_change", np.float64), ("time_change", np.float64)]
)


def empty_actions(rows: int) -> NDArray[Any]:
    """Room for the repairs of one window, with the fields of ``Actions``."""
    return zeros(rows, _ACTION)


def empty_log() -> Any:
    """The record of one window, with fields of ``Windows``; ``satisfied`` are releases that have l values."""
    return record(
        "tuples groups violations unrepaired swaps merges releases satisfied carried target",
        "entropy_mean entropy_least",
    )


@dataclass(frozen=True)
class Actions:
    """Repairs of one step, as columns.

    Attributes
    ----------
    window : (repairs,) counts the windows of the shard from 0
    group, neighbor : (repairs,) numbers within the window: the group that lacked something, and its partner
    action : (repairs,) position in ``ACTIONS``
    tuples_before, tuples_after : (repairs,) size of the group
    diversity_before, diversity_after : (repairs,) its l-diversity, the least over the attributes
    loss_change : (repairs,) by how much the mean loss of both groups' tuples changed (Delta IL)
    time_change : (repairs,) modeled time, as a share of what grouping both groups' tuples took (Delta RT)
    inspected : (repairs,) neighbors that were looked at
    """

    window: NDArray[np.int64]
    group: NDArray[np.int64]
    neighbor: NDArray[np.int64]
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
    groups, violations : (windows,) provisional groups, and those of them that fell short of what was aimed at
    unrepaired : (windows,) groups that did so still after the repairs
    swaps, merges : (windows,) repairs
    releases, carried : (windows,) groups that left, and tuples that stayed for the next window
    lsr : (windows,) share of the releases that are l-diverse; 1 where there is none
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


class Closed(NamedTuple):
    """One window that closed, as the procedures wrote it down.

    Attributes
    ----------
    log, actions : the memory of the shard's arrays (``empty_log``, ``empty_actions``)
    nanoseconds : from what came after the last close to this one's releases
    """

    log: bytes
    actions: bytes
    nanoseconds: int


@dataclass(frozen=True)
class Repairs:
    """What one step of a shard of windows did beside its releases."""

    actions: Actions
    windows: Windows


def repairs_of(closed: Sequence[Closed], first: int) -> Repairs:
    """The windows of one step as columns, and their repairs; ``first`` is the number of the first of them."""
    number = np.arange(first, first + len(closed))
    actions = np.frombuffer(b"".join(window.actions for window in closed), _ACTION)
    logs = np.frombuffer(b"".join(window.log for window in closed), empty_log().dtype)
    releases = logs["releases"]
    told = {name: logs[name] for name in logs.dtype.names if name != "satisfied"}
    return Repairs(
        Actions(
            window=np.repeat(number, [len(window.actions) // _ACTION.itemsize for window in closed]),
            **{name: actions[name] for name in _ACTION.names or ()},
        ),
        Windows(
            window=number,
            lsr=np.divide(logs["satisfied"], releases, out=np.ones(len(closed)), where=releases > 0),
            milliseconds=np.array([window.nanoseconds for window in closed], np.float64) / 1e6,
            **told,
        ),
    )
