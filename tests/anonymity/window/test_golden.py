"""State of windows that any version has written loads in this one, and goes on (``tests/golden/make_windows.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from state.block import NO_TIME
from state.stored import Stored
from state.window import VERSION, Held, WindowState
from tests.golden.make import STEPS, files, read
from tests.golden.make_windows import HERE, SETTING, TAKEN, rest, restored
from tests.support.drive import columns_of
from tests.support.window_drive import take

SNAPSHOTS = sorted(HERE.glob("v*"))
of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    assert {folder.name for folder in SNAPSHOTS} == {f"v{version}" for version in range(1, VERSION + 1)}, (
        "make the snapshot of a new version: python -m tests.golden.make_windows"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    state = WindowState.from_bytes(read(folder).shard)
    counters = restored(read(folder)).counters
    assert len(state.carried) > 0
    assert counters.buffered > counters.carried
    assert counters.swaps > 0
    assert counters.merges > 0
    assert sum(counters.suppressed.values()) > 0
    assert counters.size != SETTING.parameters.tuples


@pytest.mark.parametrize("folder", [f for f in SNAPSHOTS if f.name != "v1"], ids=lambda folder: folder.name)
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(folder: Path) -> None:
    # Version 1 counted values for l, not people, and had released other groups by then.
    window, never_stored = restored(read(folder)), SETTING.window()
    outputs = [take(SETTING, never_stored, step) for step in STEPS]
    assert rest(window) == columns_of(outputs[TAKEN:])
    assert str(window.counters) == str(never_stored.counters)


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    released = rest(restored(read(folder)))
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )


def test_what_this_version_writes_is_what_its_snapshot_holds() -> None:
    stored = read(HERE / f"v{VERSION}")
    blocks = {key: Held.from_bytes(blob, SETTING.members).to_bytes() for key, blob in stored.entries["blocks"].items()}
    again = Stored(WindowState.from_bytes(stored.shard).to_bytes(), {"blocks": blocks})
    assert files(again) == files(stored), (
        "the stored format has changed: give it a new version (state.window.VERSION), read the old one as well, and "
        "make the new snapshot: python -m tests.golden.make_windows"
    )
    changes = restored(stored).advance(NO_TIME).changes
    assert changes is not None
    assert changes.shard == stored.shard
    assert changes.entries == {"blocks": {}}
