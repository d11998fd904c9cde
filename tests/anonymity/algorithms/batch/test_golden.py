"""State of batches that any version has written loads in this one, and goes on (``tests/golden/make_batch.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crenel.state.batch import VERSION, BatchState
from crenel.state.block import NO_TIME, BufferedTuples
from crenel.state.shard import StoredShard
from tests.golden.make import TAKEN, files, read, setting_of, steps_of, without_columns
from tests.golden.make_batch import HERE, new_shard, rest, restored
from tests.support.drive import columns_of, taken

SNAPSHOTS = sorted(HERE.glob("v*"))
of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    since = {"": 1, "-within": 2}
    names = {f"v{version}{of}" for of, first in since.items() for version in range(first, VERSION + 1)}
    assert {folder.name for folder in SNAPSHOTS} == names, (
        "make the snapshot of a new version: python -m tests.golden.make_batch"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    stored = read(folder)
    counters = restored(folder, stored).counters
    assert counters.buffered > 0
    assert counters.released > 0
    assert len(stored.entries["blocks"]) > 1 or folder.name == "v1"
    state, within = BatchState.from_bytes(stored.shard), folder.name.endswith("-within")
    assert bool(state.counted) == (folder.name != "v1")
    assert (state.linked > 0, state.suppressed.get("linkable", 0) > 0) == (within, within)


@of_each_version
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(folder: Path) -> None:
    setting = setting_of(folder)
    shard, never_stored = restored(folder, read(folder)), new_shard(folder)
    outputs = [taken(setting, never_stored, step).releases for step in steps_of(setting.policy)]
    assert rest(folder, shard) == columns_of(outputs[TAKEN:])
    assert str(shard.counters) == str(never_stored.counters)


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    released = rest(folder, restored(folder, read(folder)))
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )


@pytest.mark.parametrize("name", [f"v{VERSION}", f"v{VERSION}-within"])
def test_what_this_version_writes_is_what_its_snapshot_holds(name: str) -> None:
    folder = HERE / name
    stored, members = read(folder), setting_of(folder).members
    blocks = {
        key: BufferedTuples.from_bytes(blob, members).to_bytes() for key, blob in stored.entries["blocks"].items()
    }
    again = StoredShard(BatchState.from_bytes(stored.shard).to_bytes(), {"blocks": blocks})
    assert files(again) == files(stored), (
        "the stored format has changed: give it a new version (state.batch.VERSION), read the old one as well, and "
        "make the new snapshot: python -m tests.golden.make_batch"
    )
    changes = restored(folder, stored).advance(NO_TIME).changes
    assert changes is not None
    assert without_columns(changes.shard, BatchState) == stored.shard
    assert changes.entries == {"blocks": {}}
