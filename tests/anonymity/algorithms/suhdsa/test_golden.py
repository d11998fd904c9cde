"""State of windows that any version has written loads in this one, and goes on (``tests/golden/make_windows.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crenel.anonymity.algorithms.suhdsa.algorithm import SUHDSA
from crenel.state.block import NO_TIME, BufferedTuples
from crenel.state.codec import kind_of
from crenel.state.shard import StoredShard
from crenel.state.suhdsa import VERSION, SuhdsaState
from tests.golden.make import files, read, steps_of, without_columns
from tests.golden.make_windows import HERE, TAKEN, rest, restored, setting_of
from tests.support.drive import KEY, columns_of
from tests.support.window_drive import take

SNAPSHOTS = sorted(HERE.glob("v*"))
of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    since = {"": 1, "-within": 2}
    names = {f"v{version}{of}" for of, first in since.items() for version in range(first, VERSION + 1)}
    assert {folder.name for folder in SNAPSHOTS} == names, (
        "make the snapshot of a new version: python -m tests.golden.make_windows"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    state = SuhdsaState.from_bytes(read(folder).shard)
    setting = setting_of(folder)
    counters = restored(read(folder), setting).counters
    assert len(state.carried) > 0
    assert counters.buffered > counters.carried
    assert counters.swaps > 0
    assert counters.merges > 0
    assert sum(counters.suppressed.values()) > 0
    assert counters.size != setting.parameters.tuples
    within = folder.name.endswith("-within")
    assert (state.linked > 0, state.suppressed.get("linkable", 0) > 0) == (within, within)


@pytest.mark.parametrize("folder", [f for f in SNAPSHOTS if f.name != "v1"], ids=lambda folder: folder.name)
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(folder: Path) -> None:
    # Version 1 counted values for l, not people, and had released other groups by then.
    setting = setting_of(folder)
    window, never_stored = restored(read(folder), setting), setting.window()
    outputs = [take(setting, never_stored, step) for step in steps_of(setting.policy)]
    assert rest(window, setting) == columns_of(outputs[TAKEN:])
    assert str(window.counters) == str(never_stored.counters)


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    setting = setting_of(folder)
    released = rest(restored(read(folder), setting), setting)
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )


@pytest.mark.parametrize("name", [f"v{VERSION}", f"v{VERSION}-within"])
def test_what_this_version_writes_is_what_its_snapshot_holds(name: str) -> None:
    stored, setting = read(HERE / name), setting_of(HERE / name)
    blocks = {
        key: BufferedTuples.from_bytes(blob, setting.members).to_bytes()
        for key, blob in stored.entries["blocks"].items()
    }
    again = StoredShard(SuhdsaState.from_bytes(stored.shard).to_bytes(), {"blocks": blocks})
    assert files(again) == files(stored), (
        "the stored format has changed: give it a new version (state.window.VERSION), read the old one as well, and "
        "make the new snapshot: python -m tests.golden.make_windows"
    )
    changes = restored(stored, setting).advance(NO_TIME).changes
    assert changes is not None
    assert without_columns(changes.shard, SuhdsaState) == stored.shard
    assert changes.entries == {"blocks": {}}


def test_state_knows_suhdsa_by_its_former_name() -> None:
    assert (SUHDSA.name, SUHDSA.stored_as, SUHDSA.state) == ("suhdsa", "window", ("window", SuhdsaState))
    setting = setting_of(HERE)
    blob = SUHDSA.new(setting.terms(), 0, KEY).push(setting.block([])).changes
    assert blob is not None
    assert kind_of(blob.shard) == "window"
