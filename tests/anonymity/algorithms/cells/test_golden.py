"""State of cells that any version has written loads in this one, and goes on (``tests/golden/make_cells.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crenel.anonymity.algorithm import Admission
from crenel.anonymity.algorithms.cells.contributions import CONTRIBUTIONS, Contributions
from crenel.state.batch import VERSION, BatchState
from crenel.state.block import BufferedTuples
from crenel.state.codec import arrays_of
from crenel.state.shard import StoredShard
from tests.golden.make import STEPS, files, read
from tests.golden.make_cells import ENTRIES, FIRST, HERE, KINDS, TAKEN, Run, context_of

SNAPSHOTS = sorted(HERE.glob("v*"))
of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    assert {f.name for f in SNAPSHOTS} == {f"v{v}-{kind}" for v in range(FIRST, VERSION + 1) for kind in KINDS}, (
        "make the snapshots of a new version: python -m tests.golden.make_cells"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    stored = read(folder, ENTRIES)
    state = BatchState.from_bytes(stored.shard)
    counted = {"late", "over_contribution"} | ({"synthetic"} if folder.name.endswith("noisy") else {"tails"})
    assert {name for name, amount in state.counted.items() if amount} >= counted
    assert len(stored.entries[CONTRIBUTIONS]) > 1
    if not folder.name.endswith("admission"):
        assert state.counted["windows"] > 1
        assert state.suppressed["too_few_subjects"] > 0
        assert len(stored.entries["blocks"]) > 1


@of_each_version
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(folder: Path) -> None:
    again, never_stored = Run(folder, read(folder, ENTRIES)), Run(folder)
    never_stored.take(STEPS[:TAKEN])
    assert again.take(STEPS[TAKEN:]) == never_stored.take(STEPS[TAKEN:])
    if isinstance(again.of, Admission):
        assert isinstance(never_stored.of, Admission)
        assert again.of.report == never_stored.of.report
    else:
        assert not isinstance(never_stored.of, Admission)
        assert str(again.of.counters) == str(never_stored.of.counters)


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    released = Run(folder, read(folder, ENTRIES)).take(STEPS[TAKEN:])
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before, with another sample, noise or bound of contributions: "
        "if that is meant, write released.json anew, and say so in CHANGELOG.md"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_this_version_writes_is_what_its_snapshot_holds(kind: str) -> None:
    folder = HERE / f"v{VERSION}-{kind}"
    stored, members = read(folder, ENTRIES), context_of(folder).members
    blocks = {
        key: BufferedTuples.from_bytes(blob, members).to_bytes() for key, blob in stored.entries["blocks"].items()
    }
    contributions = {}
    for key, blob in stored.entries[CONTRIBUTIONS].items():
        written = Contributions(len(STEPS), None, {})
        written.admit(**arrays_of(CONTRIBUTIONS, ("subject", "window"), blob, 1, ""))
        contributions[key] = written.changes()[0]
    shard = BatchState.from_bytes(stored.shard).to_bytes()
    again = StoredShard(shard, {"blocks": blocks, CONTRIBUTIONS: contributions})
    assert files(again) == files(stored), (
        "the stored format has changed: give it a new version (state.batch.VERSION), read the old one as well, and "
        "make the new snapshots: python -m tests.golden.make_cells"
    )
