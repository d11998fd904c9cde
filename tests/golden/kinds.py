"""Golden snapshots, one of each kind of state. ``python -m tests.golden.kinds NAME`` makes one of a new version."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from crenel.anonymity.algorithm import Shard
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.cells.contributions import CONTRIBUTIONS, Contributions
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.state.batch import BatchState
from crenel.state.block import BufferedTuples
from crenel.state.castle import CastleState, ClusteredTuples, Generalizations
from crenel.state.codec import arrays_of
from crenel.state.shard import ShardState, StoredShard
from crenel.state.suhdsa import SuhdsaState
from tests.golden import make, make_windows
from tests.golden.make import HERE, STEPS, TAKEN, TOWNS, fingerprint_of, read, write
from tests.support.drive import KEY, Setting, columns_of, taken
from tests.support.mondrian_drive import MondrianSetting
from tests.support.nearest_drive import NearestSetting
from tests.support.source import Advance, Finish, Forget, Step


@dataclass(frozen=True)
class CellsSetting(Setting):
    """Settings of cells."""


_CELLS = CellsSetting(
    replace(
        make.SETTING.policy,
        quasi_identifiers={
            "age": Numeric((0, 99)),
            "town": Categorical(TOWNS),
            "pay": Numeric((0, 1000)),
        },
        passthrough=(),
    ),
    Privacy(2),
    Cells(
        RegionTree.of(Cut(0, 50.0, Region(0.5, 0.5), Region(0.5, 0.5))),
        20.0,
        0.5,
        sample_rate=0.8,
        window=60_000,
        windows=2,
        horizon=180_000,
        lateness=10_000,
    ),
    (pa.string(),),
)
_FORGETS: list[Step] = [*STEPS[:27], Forget((3, 14, 15, 9)), STEPS[27], Forget((26, 5, 35, 8)), *STEPS[28:]]
_FORGETS.insert(34, Forget((9, 7, 9)))


@dataclass(frozen=True)
class Kind:
    """A kind of state.

    Attributes
    ----------
    setting, steps, taken : the stream, and how many of its steps the snapshot is taken after
    state : class of the shard's own blob
    written : by kind of entry: what reads a blob of the snapshot and writes it again
    clock : whether a clock shows the watermarks
    fingerprint : further arguments of ``fingerprint_of``; None: none is stored
    """

    setting: Setting
    state: type[ShardState]
    written: Mapping[str, Callable[[bytes], bytes]]
    steps: Sequence[Step] = tuple(STEPS)
    taken: int = TAKEN
    clock: bool = False
    fingerprint: Mapping[str, Any] | None = field(default_factory=dict)

    def run(self, stored: StoredShard | None = None) -> tuple[StoredShard, dict[str, list[Any]], Shard]:
        """Return state, releases and shard: of the steps until the snapshot, or from ``stored`` to their end."""
        of = self.setting
        terms = of.terms()
        if self.fingerprint is not None:
            terms = replace(terms, fingerprint=fingerprint_of(of.policy, **self.fingerprint))
        shard = of.algorithm.new(terms, 0, KEY) if stored is None else of.algorithm.restored(terms, stored, "")
        state, releases = stored or StoredShard(b"", {}), []
        for step in self.steps[: self.taken] if stored is None else self.steps[self.taken :]:
            if self.clock and not isinstance(step, Finish | Forget):
                first = STEPS[0]
                assert isinstance(first, Advance)
                shard.observe_clock(step.watermark, first.watermark)
            done = taken(of, shard, step)
            assert done.changes is not None
            state = state.after(done.changes)
            releases.append(done.releases)
        return state, columns_of(releases), shard


class _Stored(Protocol):
    """State that can be written as bytes."""

    def to_bytes(self) -> bytes: ...


def _blocks(members: pa.Schema, of: type[BufferedTuples] = BufferedTuples) -> dict[str, Callable[[bytes], bytes]]:
    def again(blob: bytes) -> bytes:
        stored: _Stored = of.from_bytes(blob, members)
        return stored.to_bytes()

    return {"blocks": again}


def _generalizations(*kinds: str) -> dict[str, Callable[[bytes], bytes]]:
    return {kind: lambda blob, kind=kind: Generalizations.from_bytes(kind, blob).to_bytes(kind) for kind in kinds}


def _contributions(blob: bytes) -> bytes:
    written = Contributions(len(STEPS), None, {})
    written.admit(**arrays_of(CONTRIBUTIONS, ("subject", "window"), blob, 1, ""))
    found = written.changes()[0]
    assert found is not None
    return found


_NEAREST = Nearest(Delay(50, 90_000), loss_window=8, reuse_limit=12)
_OF_CASTLE = _blocks(make.SETTING.members, ClusteredTuples) | _generalizations("gamma", "omega")
KINDS: dict[str, Kind] = {
    "castle/v1": Kind(make.SETTING, CastleState, _OF_CASTLE),
    "nearest/v1": Kind(
        NearestSetting(make.SETTING.policy, make.SETTING.privacy, _NEAREST, make.SETTING.types),
        CastleState,
        _blocks(make.SETTING.members, ClusteredTuples) | _generalizations("omega"),
    ),
    "suhdsa/v1": Kind(make_windows.SETTING, SuhdsaState, _blocks(make.SETTING.members)),
    "batch/v1": Kind(
        MondrianSetting(make.SETTING.policy, Privacy(3, 2), Mondrian(Window(90, 400_000)), make.SETTING.types),
        BatchState,
        _blocks(make.SETTING.members),
    ),
    "cells/v1": Kind(
        _CELLS,
        BatchState,
        _blocks(_CELLS.members) | {CONTRIBUTIONS: _contributions},
        taken=26,
        clock=True,
        fingerprint={"algorithm": Cells.name, "parameters": _CELLS.algorithm.fixed_settings},
    ),
    "forgotten/v1": Kind(make.SETTING, CastleState, _OF_CASTLE, tuple(_FORGETS), 30, fingerprint=None),
}
"""Kinds by the folder of the snapshot of their newest version."""


def stored(name: str) -> StoredShard:
    """Return a snapshot."""
    return read(HERE / name, tuple(KINDS[name].written))


if __name__ == "__main__":
    folder = HERE / sys.argv[1]
    if folder.exists():
        sys.exit(f"{folder} is there already, and what was stored once stays as it is: give the format a new version")
    made, _, _ = KINDS[sys.argv[1]].run()
    write(folder, made, KINDS[sys.argv[1]].run(made)[1])
