"""Records of what a shard of windows did beside its releases: one for each repair, one for each window.

None holds a value of a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation

from anonymity.release import Releases
from anonymity.window.log import ACTIONS, Repairs
from operators.emit import times
from state.block import NO_TIME

_SHARD = {"shard": "INT", "event_time": "LONG"}

REPAIR_COLUMNS: Mapping[str, str] = _SHARD | {
    "window": "LONG",
    "group": "LONG",
    "neighbour": "LONG",
    "action": "STRING",
    "tuples_before": "LONG",
    "tuples_after": "LONG",
    "diversity_before": "LONG",
    "diversity_after": "LONG",
    "loss_change": "DOUBLE",
    "time_change": "DOUBLE",
    "inspected": "LONG",
}
"""Type in ``pyflink.common.Types`` by column; see ``anonymity.window.log.Actions``. ``event_time`` is epoch
milliseconds that the shard had reached when the window's releases left; None where it has none, or without event
time."""

WINDOW_COLUMNS: Mapping[str, str] = _SHARD | {
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
}
"""The same for windows; see ``anonymity.window.log.Windows``."""


def named(columns: Mapping[str, str]) -> dict[str, str]:
    """Type by the name of the column in Flink, which is its place: ``window`` is a word of SQL."""
    return {f"c{place}": kind for place, kind in enumerate(columns.values())}


def _type(columns: Mapping[str, str]) -> TypeInformation:
    return Types.ROW_NAMED(list(named(columns)), [getattr(Types, kind)() for kind in columns.values()])


REPAIRS_TYPE = _type(REPAIR_COLUMNS)
WINDOWS_TYPE = _type(WINDOW_COLUMNS)


def repair_rows(repairs: Repairs, releases: Releases) -> Iterator[list[Any]]:
    """One record a repair, in the order of ``REPAIR_COLUMNS``; ``releases`` are those of the same step."""
    actions, windows = repairs.actions, repairs.windows
    if not len(actions.window):
        return
    of = actions.window - windows.window[0]
    columns = {name: column.tolist() for name, column in vars(actions).items()} | {
        "action": [ACTIONS[action] for action in actions.action.tolist()],
        "shard": [repairs.shard] * len(of),
        "event_time": times(_reached(repairs, releases)[of]),
    }
    for values in zip(*(columns[name] for name in REPAIR_COLUMNS), strict=True):
        yield list(values)


def window_rows(repairs: Repairs, releases: Releases) -> Iterator[list[Any]]:
    """One record a window that closed, in the order of ``WINDOW_COLUMNS``; ``releases`` are those of the same step."""
    windows = repairs.windows
    columns = {name: column.tolist() for name, column in vars(windows).items()} | {
        "repairs_per_second": windows.repairs_per_second.tolist(),
        "shard": [repairs.shard] * len(windows),
        "event_time": times(_reached(repairs, releases)),
    }
    for values in zip(*(columns[name] for name in WINDOW_COLUMNS), strict=True):
        yield list(values)


def _reached(repairs: Repairs, releases: Releases) -> NDArray[np.int64]:
    """(windows,) event time of each window's releases, which leave in the order of the windows."""
    count = repairs.windows.releases
    found = np.full(len(count), NO_TIME)
    found[count > 0] = releases.event_time[np.cumsum(count)[count > 0] - 1]
    return found
