"""Records of repairs and of closed windows, with counts and losses but no values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import record, zeros

ACTIONS = ("swap", "merge")
"""Kinds of repairs; records store positions here."""

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
    """Return an empty table for the repairs of one window, with the fields of ``Actions``."""
    return zeros(rows, _ACTION)


def empty_log() -> Any:
    """Return the record of one window, with fields of ``Windows``; ``satisfied`` counts releases with l values."""
    return record(
        "tuples groups violations unrepaired swaps merges releases satisfied carried target",
        "entropy_mean entropy_least",
    )


_LOG = empty_log().dtype


@dataclass(frozen=True)
class Actions:
    """Repairs of one step, as columns.

    Attributes
    ----------
    window : (repairs,) number of the window in the shard, from 0
    group, neighbor : (repairs,) numbers within the window of the group with a shortfall and of its partner
    action : (repairs,) position in ``ACTIONS``
    tuples_before, tuples_after : (repairs,) size of the group
    diversity_before, diversity_after : (repairs,) its l-diversity, the minimum over the attributes
    loss_change : (repairs,) change of the mean loss of both groups' tuples (Delta IL)
    time_change : (repairs,) modeled time, as a share of the time to group both groups' tuples (Delta RT)
    inspected : (repairs,) number of neighbors inspected
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
    window : (windows,) number of the window in the shard, from 0
    tuples : (windows,) number of tuples at the close, with carried ones
    groups, violations : (windows,) number of provisional groups, and of those that missed the aim
    unrepaired : (windows,) number of groups that missed the aim after the repairs
    swaps, merges : (windows,) number of repairs
    releases, carried : (windows,) number of releases, and of tuples carried to the next window
    lsr : (windows,) share of the releases that are l-diverse; 1 without releases
    entropy_mean, entropy_least : (windows,) bits, mean and minimum over the releases; of several attributes the minimum
    target : (windows,) l_t
    milliseconds : (windows,) time from the previous close, or from the start of the step, to the end of this close
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
        """Repairs per second of window time (rho); 0 where a window took no time."""
        seconds = self.milliseconds / 1000
        return np.divide(self.swaps + self.merges, seconds, out=np.zeros(len(self)), where=seconds > 0)


class Closed(NamedTuple):
    """Records of one closed window, as bytes.

    Attributes
    ----------
    log, actions : memory of the shard's arrays (``empty_log``, ``empty_actions``)
    nanoseconds : time from the previous close, or from the start of the step, to the end of this close
    """

    log: bytes
    actions: bytes
    nanoseconds: int


@dataclass(frozen=True)
class Repairs:
    """Repairs and closed windows of one step."""

    actions: Actions
    windows: Windows


def repairs_of(closed: Sequence[Closed], first: int) -> Repairs:
    """Return the windows of one step and their repairs as columns; ``first`` is the first window's number."""
    number = np.arange(first, first + len(closed))
    actions = np.frombuffer(b"".join(window.actions for window in closed), _ACTION)
    logs = np.frombuffer(b"".join(window.log for window in closed), _LOG)
    releases = logs["releases"]
    logged = {name: logs[name] for name in logs.dtype.names if name != "satisfied"}
    return Repairs(
        Actions(
            window=np.repeat(number, [len(window.actions) // _ACTION.itemsize for window in closed]),
            **{name: actions[name] for name in _ACTION.names or ()},
        ),
        Windows(
            window=number,
            lsr=np.divide(logs["satisfied"], releases, out=np.ones(len(closed)), where=releases > 0),
            milliseconds=np.array([window.nanoseconds for window in closed], np.float64) / 1e6,
            **logged,
        ),
    )
