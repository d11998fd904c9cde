"""Golden snapshots of shards with forgotten persons: ``python -m tests.golden.make_forgotten``.

Of the stream of ``tests.golden.make``, in which some are forgotten before the snapshot is taken, and some after it.
There is one of each kind of state: the additions are stored only where a person was forgotten.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.algorithms.mondrian.algorithm import MondrianParameters
from crenel.anonymity.model.privacy import Privacy
from crenel.state import batch, castle, suhdsa
from crenel.state.shard import StoredShard
from tests.golden import make, make_windows
from tests.golden.make import refuse_anew, write
from tests.support.drive import Setting, columns_of
from tests.support.forgets import KeptAny
from tests.support.mondrian_drive import MondrianSetting
from tests.support.source import Forget, Step

HERE = Path(__file__).parent / "forgotten"
SETTINGS: dict[str, Setting] = {
    # The second of this version: since then CASTLE chooses otherwise where it splits clusters of persons.
    f"castle-v{castle.VERSION}-2": make.SETTING,
    f"window-v{suhdsa.VERSION}": make_windows.SETTING,
    f"mondrian-v{batch.VERSION}": MondrianSetting(
        make.SETTING.policy, Privacy(3, 2), MondrianParameters(ClosedBy(90, 400_000)), make.SETTING.types
    ),
}
STEPS: list[Step] = [*make.STEPS[:27], Forget((3, 14, 15, 9)), make.STEPS[27], Forget((26, 5, 35, 8)), *make.STEPS[28:]]
STEPS.insert(34, Forget((9, 7, 9)))
TAKEN = 30


def snapshot(setting: Setting) -> StoredShard:
    """Return the stored state after ``TAKEN`` steps."""
    shard = KeptAny(setting)
    for step in STEPS[:TAKEN]:
        shard.take(step)
    return shard.stored


def rest(setting: Setting, stored: StoredShard) -> tuple[KeptAny, dict[str, list[Any]]]:
    """Return the shard that was stored, at its end, and what the steps after the snapshot release."""
    shard = KeptAny(setting)
    shard.stored = stored
    shard.restore()
    return shard, columns_of([shard.take(step) for step in STEPS[TAKEN:]])


def main(parent: Path = HERE) -> None:
    """Make the snapshots of these versions."""
    for name, setting in SETTINGS.items():
        refuse_anew(parent / name)
        stored = snapshot(setting)
        write(parent / name, stored, rest(setting, stored)[1])


if __name__ == "__main__":
    main()
