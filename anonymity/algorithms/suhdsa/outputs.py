"""Additional outputs of SUHDSA: one row per repair, and one per window.

No output contains a value of a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crenel.anonymity import algorithm
from crenel.anonymity.algorithm import Output
from crenel.anonymity.algorithms.suhdsa.log import ACTIONS, Repairs
from crenel.anonymity.buffer.releases import Releases
from crenel.state.block import NO_TIME

_SHARD = {"shard": "INT", "event_time": "LONG"}

REPAIRS = Output(
    algorithm.REPAIRS,
    _SHARD
    | {
        "window": "LONG",
        "group": "LONG",
        "neighbor": "LONG",
        "action": "STRING",
        "tuples_before": "LONG",
        "tuples_after": "LONG",
        "diversity_before": "LONG",
        "diversity_after": "LONG",
        "loss_change": "DOUBLE",
        "time_change": "DOUBLE",
        "inspected": "LONG",
    },
    {
        "shard": "number of the shard",
        "event_time": "of the newest record that the window published; null if it published none",
        "window": "number of the window within the shard",
        "group": "number of the group within the window",
        "neighbor": "number of the other group",
        "action": "``swap`` or ``merge``",
        "tuples_before": "number of records of the group",
        "tuples_after": "the same after the repair",
        "diversity_before": "diversity of the group",
        "diversity_after": "the same after the repair",
        "loss_change": "change of the loss of both groups",
        "time_change": "change of their modeled time",
        "inspected": "number of inspected neighbors",
    },
)
"""Output of repairs (``crenel.anonymity.algorithms.suhdsa.log.Actions``). ``event_time`` is that of the newest tuple
released by the window; None without releases or without event time."""

WINDOWS = Output(
    "windows",
    _SHARD
    | {
        "window": "LONG",
        "tuples": "LONG",
        "groups": "LONG",
        "violations": "LONG",
        "unrepaired": "LONG",
        "swaps": "LONG",
        "merges": "LONG",
        "releases": "LONG",
        "carried": "LONG",
        "lsr": "DOUBLE",
        "entropy_mean": "DOUBLE",
        "entropy_least": "DOUBLE",
        "target": "LONG",
        "milliseconds": "DOUBLE",
        "repairs_per_second": "DOUBLE",
    },
    {
        "shard": "number of the shard",
        "event_time": "of the newest record that the window published; null if it published none",
        "window": "number of the window within the shard",
        "tuples": "number of records",
        "groups": "number of groups",
        "violations": "number of groups that lacked diversity",
        "unrepaired": "number of those that stayed so",
        "swaps": "number of repairs by a swap",
        "merges": "number of repairs by a merge",
        "releases": "number of releases",
        "carried": "number of records carried to the next window",
        "lsr": "share of releases with l values",
        "entropy_mean": "mean entropy of the releases, in bits",
        "entropy_least": "minimum entropy of the releases, in bits",
        "target": "target l_t",
        "milliseconds": "processing time, which differs from run to run",
        "repairs_per_second": "by processing time",
    },
)
"""Output of windows (``crenel.anonymity.algorithms.suhdsa.log.Windows``), with the same ``event_time``."""


class Rows(Mapping[str, Sequence[Sequence[Any]]]):
    """Rows of one step by output, built when they are read.

    Parameters
    ----------
    shard : number of the shard
    repairs, releases : results of the step
    """

    def __init__(self, shard: int, repairs: Repairs, releases: Releases) -> None:
        self._shard, self._repairs, self._releases = shard, repairs, releases

    def __getitem__(self, output: str) -> list[tuple[Any, ...]]:
        return {REPAIRS.name: self._of_repairs, WINDOWS.name: self._of_windows}[output]()

    def __iter__(self) -> Iterator[str]:
        return iter((REPAIRS.name, WINDOWS.name))

    def __len__(self) -> int:
        return 2

    def _of_repairs(self) -> list[tuple[Any, ...]]:
        actions, windows = self._repairs.actions, self._repairs.windows
        if not len(actions.window):
            return []
        times = self._event_times()
        columns = {name: column.tolist() for name, column in vars(actions).items()} | {
            "action": [ACTIONS[action] for action in actions.action.tolist()],
            "shard": [self._shard] * len(actions.window),
            "event_time": [times[i] for i in (actions.window - windows.window[0]).tolist()],
        }
        return list(zip(*(columns[name] for name in REPAIRS.columns), strict=True))

    def _of_windows(self) -> list[tuple[Any, ...]]:
        windows = self._repairs.windows
        if not len(windows):
            return []
        columns = {name: column.tolist() for name, column in vars(windows).items()} | {
            "repairs_per_second": windows.repairs_per_second.tolist(),
            "shard": [self._shard] * len(windows),
            "event_time": self._event_times(),
        }
        return list(zip(*(columns[name] for name in WINDOWS.columns), strict=True))

    def _event_times(self) -> list[int | None]:
        """Return the event time of each window's newest release; releases are in the order of the windows."""
        count = self._repairs.windows.releases
        found = np.full(len(count), NO_TIME)
        starts = np.cumsum(count) - count
        if len(self._releases):
            found[count > 0] = np.maximum.reduceat(self._releases.event_time, starts[count > 0])
        return [None if time == NO_TIME else time for time in found.tolist()]
