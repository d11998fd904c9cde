"""State of batches that any version has written loads in this one, and goes on (``tests/golden/make_batch.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from state.batch import VERSION, BatchState, Held
from state.block import NO_TIME
from state.stored import Stored
from tests.golden.make import SETTING, STEPS, TAKEN, files, read
from tests.golden.make_batch import HERE, begun, rest, restored
from tests.support.drive import columns_of, taken

SNAPSHOTS = sorted(HERE.glob("v*"))
of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    assert {folder.name for folder in SNAPSHOTS} == {f"v{version}" for version in range(1, VERSION + 1)}, (
        "make the snapshot of a new version: python -m tests.golden.make_batch"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    stored = read(folder)
    counters = restored(folder, stored).counters
    assert counters.buffered > 0
    assert counters.released > 0
    assert len(stored.entries["blocks"]) > 1 or folder.name == "v1"
    assert bool(BatchState.from_bytes(stored.shard).counted) == (folder.name != "v1")


@of_each_version
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(folder: Path) -> None:
    shard, never_stored = restored(folder, read(folder)), begun(folder)
    outputs = [taken(SETTING, never_stored, step).releases for step in STEPS]
    assert rest(shard) == columns_of(outputs[TAKEN:])
    assert str(shard.counters) == str(never_stored.counters)


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    released = rest(restored(folder, read(folder)))
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )


def test_what_this_version_writes_is_what_its_snapshot_holds() -> None:
    folder = HERE / f"v{VERSION}"
    stored = read(folder)
    blocks = {key: Held.from_bytes(blob, SETTING.members).to_bytes() for key, blob in stored.entries["blocks"].items()}
    again = Stored(BatchState.from_bytes(stored.shard).to_bytes(), {"blocks": blocks})
    assert files(again) == files(stored), (
        "the stored format has changed: give it a new version (state.batch.VERSION), read the old one as well, and "
        "make the new snapshot: python -m tests.golden.make_batch"
    )
    changes = restored(folder, stored).advance(NO_TIME).changes
    assert changes is not None
    assert changes.shard == stored.shard
    assert changes.entries == {"blocks": {}}
