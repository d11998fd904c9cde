"""Stream and settings of the golden snapshots, which every later version must be able to load (``kinds.py``).

A snapshot is what lies in managed state after ``TAKEN`` of ``STEPS``, a file an entry, and beside it what the rest of
the steps released when it was made. Nothing here may change: all snapshots are of this one stream.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.castle.shard import CastleShard
from crenel.anonymity.buffer.stored_clusters import ENTRIES
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.fingerprint import Fingerprint, _short, fingerprint
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.secret import SubjectKey
from crenel.state.shard import StoredShard
from tests.support.drive import Kept, Setting, apply, columns_of
from tests.support.source import IDENTITY, Advance, Finish, Push, Row, Step

HERE = Path(__file__).parent
TOWNS = from_paths([(f"{side}-{i}", side, "*") for side in ("north", "south") for i in range(3)])
SETTING = Setting(
    Policy(
        {"age": Numeric((0, 99)), "town": Categorical(TOWNS), "pay": Numeric()},
        sensitive=("illness",),
        passthrough=(IDENTITY,),
        subject="person",
        event_time="at",
    ),
    Privacy(3, 2),
    Castle(Delay(50, 90_000), max_clusters=8, loss_window=8, reuse_limit=12),
    (pa.string(), pa.int64()),
)


def fingerprint_of(policy: Policy, **of: Any) -> Fingerprint:
    """Return the parts of stored state that one of these policies shares; ``of``: more arguments of ``fingerprint``."""
    types = {"illness": "STRING", IDENTITY: "BIGINT"}
    of_members = {name: types[name] for name in policy.members}
    found = fingerprint(policy, Shards(), SubjectKey.of(b"golden"), of_members, **of)
    for attribute in policy.numeric:
        # The snapshots were made of domains of whole numbers, and settings hold them as decimals, as files always did.
        if attribute.domain is not None:
            place = f"policy.quasi_identifiers.{attribute.name}.domain"
            found[place] = _short([int(end) for end in attribute.domain])
    return found


FINGERPRINT = fingerprint_of(SETTING.policy)


def _steps() -> list[Step]:
    chance = Random(1)

    def below(bound: int) -> int:
        return int(chance.random() * bound)  # what other methods draw differs between versions of Python

    steps: list[Step] = []
    start = 1_700_000_000_000
    for first in range(0, 300, 15):
        rows = [
            Row(
                (float(below(4) * 25 + below(9)), TOWNS.labels[below(6)], below(80) * 12.5),
                (("flu", "cold", "gout", None)[below(4)], row),
                subject=below(60),
                event_time=start + 2000 * row - (75_000 if below(8) == 0 else below(9000)),
            )
            for row in range(first, first + 15)
        ]
        watermark = start + 2000 * first - 10_000
        steps += [Advance(watermark), Push(tuple(rows), watermark)]
    return [*steps, Finish()]


STEPS = _steps()
TAKEN = 28


def snapshot(setting: Setting) -> StoredShard:
    """Return the stored state after ``TAKEN`` steps."""
    shard = Kept(setting, fingerprint_of(setting.policy))
    for step in STEPS[:TAKEN]:
        shard.take(step)
    return shard.stored


def restored(stored: StoredShard, where: str = "", setting: Setting = SETTING) -> CastleShard:
    """Return the shard that was stored."""
    return setting.again(stored, fingerprint_of(setting.policy), where)


def rest(castle: CastleShard, setting: Setting = SETTING) -> dict[str, list[Any]]:
    """Return the releases of the steps after the snapshot."""
    return columns_of([apply(setting, castle, step) for step in STEPS[TAKEN:]])


def files(stored: StoredShard) -> dict[str, bytes]:
    """Return a snapshot's files by name."""
    entries = {f"{kind}-{key}.bin": blob for kind, held in stored.entries.items() for key, blob in held.items()}
    return {"shard.bin": stored.shard, **entries}


def read(folder: Path, kinds: Sequence[str] = ENTRIES) -> StoredShard:
    """Return the snapshot in a folder; ``kinds``: of its entries."""
    entries = {
        kind: {int(path.stem.removeprefix(f"{kind}-")): path.read_bytes() for path in folder.glob(f"{kind}-*.bin")}
        for kind in kinds
    }
    return StoredShard((folder / "shard.bin").read_bytes(), entries)


def write(folder: Path, stored: StoredShard, released: dict[str, list[Any]]) -> None:
    """Write a snapshot, and what the steps after it released."""
    folder.mkdir(parents=True)
    for name, blob in files(stored).items():
        (folder / name).write_bytes(blob)
    lines = ",\n".join(f'"{name}": {json.dumps(column)}' for name, column in released.items())
    (folder / "released.json").write_text(f"{{\n{lines}\n}}\n", "ascii")
