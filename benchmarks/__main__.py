"""Run the benchmarks: all of them, or those named.

They are ``core``, ``job``, ``where``, ``memory``, ``state``, ``restore``, ``window``, ``nearest``, ``below``,
``mondrian``, ``ola``, ``within``, ``latency``, ``scale``, ``timing``, ``lasting``, ``promises``, ``attack``,
``castleguard`` and ``kepsilon``; of the last two only the experiments on loss: ``python -m benchmarks.castleguard`` and
``python -m benchmarks.kepsilon`` run all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from benchmarks import (
    attack,
    core,
    job,
    lasting,
    lasting_further,
    latency,
    memory,
    mondrian,
    nearest,
    ola,
    promises,
    restore,
    scale,
    state,
    timing,
    where,
    window,
    within,
)
from benchmarks.below import tables as below
from benchmarks.castleguard import loss
from benchmarks.kepsilon import loss as loss_of_one_more
from benchmarks.table import Table

_FILES: dict[str, Callable[[], Iterable[Table]]] = {
    "core": core.tables,
    "job": job.tables,
    "memory": memory.tables,
    "state": state.tables,
    "restore": restore.tables,
    "window": window.tables,
    "nearest": nearest.tables,
    "below": below.tables,
    "mondrian": mondrian.tables,
    "ola": ola.tables,
    "within": within.tables,
    "where": where.tables,
    "latency": latency.tables,
    "scale": scale.tables,
    "timing": timing.tables,
    "lasting": lambda: [*lasting.tables(), *lasting_further.tables()],
    "promises": promises.tables,
    "attack": attack.tables,
    "castleguard": loss.tables,
    "kepsilon": loss_of_one_more.tables,
}


def main() -> None:
    """Print the tables of the named files."""
    names = sys.argv[1:] or list(_FILES)
    if unknown := [name for name in names if name not in _FILES]:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(_FILES)}")
    for name in names:
        for table in _FILES[name]():
            print(table, flush=True)


if __name__ == "__main__":
    main()
