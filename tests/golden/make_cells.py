"""Golden snapshots of cells, as ``tests.golden.make`` has them of CASTLE: ``python -m tests.golden.make_cells``.

There are three of each version: ``vN-sampled``, ``vN-noisy``, and ``vN-admission`` of the first of two stages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from crenel.anonymity.algorithm import Admission, Shard, ShardContext
from crenel.anonymity.algorithms.cells.algorithm import CELLS
from crenel.anonymity.algorithms.cells.parameters import CellsParameters
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.state.batch import VERSION
from crenel.state.shard import StoredShard
from tests.golden import make
from tests.golden.make import STEPS, TOWNS, fingerprint_of, refuse_anew, write
from tests.support.drive import KEY, Setting, columns_of, taken
from tests.support.source import Advance, Finish, Push, Step

HERE = Path(__file__).parent / "cells"
FIRST = 2
"""The version of the batch format in which the first ones were made."""
KINDS = ("sampled", "noisy", "admission")
ENTRIES = ("blocks", "contributions")
TAKEN = 26

_AGES = RegionTree.of(Cut(0, 50.0, Region(0.5, 0.5), Region(0.5, 0.5)))
_TIMES = {"window": 60_000, "windows": 2, "horizon": 180_000, "lateness": 10_000}
_SAMPLED = CellsParameters(0.8, _AGES, 20.0, 0.5, **_TIMES)
_NOISY = CellsParameters(None, _AGES, 4.0, 0.3, **_TIMES, release="noisy")
_POLICY = replace(
    make.SETTING.policy,
    quasi_identifiers=(Numeric("age", (0, 99)), Categorical("town", TOWNS), Numeric("pay", (0, 1000))),
    passthrough=(),
)


def context_of(folder: Path) -> ShardContext:
    """Return the settings of a snapshot by its name."""
    parameters = _NOISY if folder.name.endswith("noisy") else _SAMPLED
    fixed = CELLS.fixed_parameters(parameters)
    return ShardContext(
        _POLICY,
        Privacy(2),
        parameters,
        pa.schema([("illness", pa.string())]),
        fingerprint=fingerprint_of(_POLICY, algorithm=CELLS.name, parameters=fixed),
        admissions=2 if folder.name.endswith("admission") else 0,
    )


def new(folder: Path) -> Shard | Admission:
    """Return a shard or admission of which nothing is stored."""
    context = context_of(folder)
    assert CELLS.admission is not None
    return (CELLS.admission if context.admissions else CELLS).new(context, 0, KEY)


def restored(folder: Path, stored: StoredShard) -> Shard | Admission:
    """Return the shard or admission that was stored."""
    context = context_of(folder)
    assert CELLS.admission is not None
    return (CELLS.admission if context.admissions else CELLS).restored(context, stored, "")


class Run:
    """A shard or admission with its state and results.

    Attributes
    ----------
    stored : what is stored of it
    """

    def __init__(self, folder: Path, stored: StoredShard | None = None) -> None:
        context = context_of(folder)
        self.of = new(folder) if stored is None else restored(folder, stored)
        self.stored = stored or StoredShard(b"", {})
        self._setting = Setting(context.policy, context.privacy, context.parameters, (pa.string(),))

    def take(self, steps: list[Step]) -> dict[str, list[Any]]:
        """Take steps by a clock that shows their watermarks; return the releases, or the shards of admitted tuples."""
        first = STEPS[0]
        assert isinstance(first, Advance)
        releases, shards = [], list[int]()
        for step in steps:
            if not isinstance(step, Finish):
                self.of.observe_clock(step.watermark, first.watermark)
            if isinstance(self.of, Admission):
                if isinstance(step, Push):
                    admitted = self.of.admit(self._setting.block(step.rows))
                    shards += admitted.shard.tolist()
                    self.stored = self.stored.after(admitted.changes)
            else:
                done = taken(self._setting, self.of, step)
                assert done.changes is not None
                self.stored = self.stored.after(done.changes)
                releases.append(done.releases)
        return columns_of(releases) if releases else {"shard": shards}


def main(parent: Path = HERE) -> None:
    """Make the snapshots of this version."""
    for kind in KINDS:
        folder = parent / f"v{VERSION}-{kind}"
        refuse_anew(folder)
        run = Run(folder)
        run.take(STEPS[:TAKEN])
        write(folder, run.stored, Run(folder, run.stored).take(STEPS[TAKEN:]))


if __name__ == "__main__":
    main()
