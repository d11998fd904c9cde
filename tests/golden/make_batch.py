"""Golden snapshots of shards that are judged as a batch: ``python -m tests.golden.make_batch``.

As ``tests.golden.make`` has them of CASTLE. Version 1, of which nothing came with Crenel, was made by
``tests.seams.in_order``; the later ones are of Mondrian.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anonymity.algorithm import Algorithm, Shard, Terms
from anonymity.batch.windows import ClosedBy
from anonymity.mondrian.algorithm import MONDRIAN
from anonymity.mondrian.parameters import MondrianParameters
from anonymity.policy import Privacy
from state.batch import VERSION
from state.stored import Stored
from tests.golden.make import FINGERPRINT, SETTING, STEPS, TAKEN, refuse_anew, write
from tests.seams.in_order import IN_ORDER, InOrderParameters
from tests.support.drive import KEY, columns_of, taken, with_changes

HERE = Path(__file__).parent / "batch"


def made_of(folder: Path) -> tuple[Algorithm, Terms]:
    """What a snapshot was made of, by its name."""

    def terms(parameters: object, k: int) -> Terms:
        return Terms(SETTING.policy, Privacy(k, 2), parameters, SETTING.members, fingerprint=FINGERPRINT)

    if folder.name == "v1":
        return IN_ORDER, terms(InOrderParameters(40), 11)
    return MONDRIAN, terms(MondrianParameters(ClosedBy(90, 400_000)), 3)


def begun(folder: Path) -> Shard:
    """A shard of which nothing is stored."""
    algorithm, terms = made_of(folder)
    return algorithm.new(terms, 0, KEY)


def restored(folder: Path, stored: Stored) -> Shard:
    """The shard that was stored."""
    algorithm, terms = made_of(folder)
    return algorithm.restored(terms, stored, "")


def rest(shard: Shard) -> dict[str, list[Any]]:
    """What the steps after the snapshot release."""
    return columns_of([taken(SETTING, shard, step).releases for step in STEPS[TAKEN:]])


def main(parent: Path = HERE) -> None:
    """Make the snapshot of this version."""
    folder = parent / f"v{VERSION}"
    refuse_anew(folder)
    shard, stored = begun(folder), Stored(b"", {})
    for step in STEPS[:TAKEN]:
        changes = taken(SETTING, shard, step).changes
        assert changes is not None
        stored = with_changes(stored, changes)
    write(folder, stored, rest(restored(folder, stored)))


if __name__ == "__main__":
    main()
