"""Golden snapshots of shards that are judged as a batch: ``python -m tests.golden.make_batch``.

As ``tests.golden.make`` has them of CASTLE. Version 1, of which nothing came with Crenel, was made by
``examples.own_algorithm``; the later ones are of Mondrian, and there is a second one of each, ``vN-within``,
with noised attributes and confidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.algorithms.mondrian.algorithm import MONDRIAN, MondrianParameters
from crenel.anonymity.model.privacy import Confidence, NoiseWithin, Privacy
from crenel.state.batch import VERSION
from crenel.state.shard import StoredShard
from examples.own_algorithm import IN_ORDER, InOrderParameters
from tests.golden.make import TAKEN, fingerprint_of, refuse_anew, setting_of, steps_of, write
from tests.support.drive import KEY, columns_of, taken

HERE = Path(__file__).parent / "batch"


def made_of(folder: Path) -> tuple[Algorithm, ShardContext]:
    """Return the settings of a snapshot by its name."""
    of = setting_of(folder)

    def terms(parameters: object, k: int) -> ShardContext:
        noise = NoiseWithin(1.25, (0.7, 0.3), confidence=Confidence(0.9, 2)) if of.policy.noised else None
        return ShardContext(
            of.policy, Privacy(k, 2, (), noise), parameters, of.members, fingerprint=fingerprint_of(of.policy)
        )

    if folder.name == "v1":
        return IN_ORDER, terms(InOrderParameters(40), 11)
    return MONDRIAN, terms(MondrianParameters(ClosedBy(90, 400_000)), 3)


def new_shard(folder: Path) -> Shard:
    """Return a shard of which nothing is stored."""
    algorithm, terms = made_of(folder)
    return algorithm.new(terms, 0, KEY)


def restored(folder: Path, stored: StoredShard) -> Shard:
    """Return the shard that was stored."""
    algorithm, terms = made_of(folder)
    return algorithm.restored(terms, stored, "")


def rest(folder: Path, shard: Shard) -> dict[str, list[Any]]:
    """Return the releases of the steps after the snapshot."""
    setting = setting_of(folder)
    return columns_of([taken(setting, shard, step).releases for step in steps_of(setting.policy)[TAKEN:]])


def main(parent: Path = HERE) -> None:
    """Make the snapshots of this version."""
    for folder in (parent / f"v{VERSION}", parent / f"v{VERSION}-within"):
        refuse_anew(folder)
        setting = setting_of(folder)
        shard, stored = new_shard(folder), StoredShard(b"", {})
        for step in steps_of(setting.policy)[:TAKEN]:
            changes = taken(setting, shard, step).changes
            assert changes is not None
            stored = stored.after(changes)
        write(folder, stored, rest(folder, restored(folder, stored)))


if __name__ == "__main__":
    main()
