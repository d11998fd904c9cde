"""Snapshots of shards with forgotten persons, which every later version loads (``tests/golden/make_forgotten.py``)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crenel.state.suhdsa import SuhdsaState
from tests.golden.make import files, read, without_columns
from tests.golden.make_forgotten import HERE, SETTINGS, STEPS, TAKEN, rest, snapshot
from tests.support.drive import columns_of
from tests.support.forgets import KeptAny

SNAPSHOTS = sorted(HERE.glob("*"))
of_each = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    assert {folder.name for folder in SNAPSHOTS} >= SETTINGS.keys(), (
        "make the snapshots of a new version: python -m tests.golden.make_forgotten"
    )


@of_each
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    setting = next(of for name, of in SETTINGS.items() if name.partition("-")[0] == folder.name.partition("-")[0])
    _, released = rest(setting, read(folder))
    assert released == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )
    assert 0 < setting.algorithm.restored(setting.terms(), read(folder), "").counters.forgotten


@pytest.mark.parametrize("name", SETTINGS)
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(name: str) -> None:
    setting, never_stored = SETTINGS[name], KeptAny(SETTINGS[name])
    outputs = [never_stored.take(step) for step in STEPS]
    shard, released = rest(setting, read(HERE / name))
    assert released == columns_of(outputs[TAKEN:])
    assert str(shard.shard.counters) == str(never_stored.shard.counters)
    assert len(never_stored.stored.entries["blocks"]) == 0


@pytest.mark.parametrize("name", SETTINGS)
def test_what_this_version_writes_is_what_its_snapshot_holds(name: str) -> None:
    stored, made = read(HERE / name), snapshot(SETTINGS[name])
    made = replace(made, shard=without_columns(made.shard, SETTINGS[name].algorithm.state[1]))
    assert files(made) == files(stored), (
        "the stored format has changed: give it a new version, read the old one as well, and make the new snapshot: "
        "python -m tests.golden.make_forgotten"
    )


def test_forgotten_tuples_of_an_open_window_are_noted() -> None:
    (folder,) = HERE.glob("window-*")
    assert len(SuhdsaState.from_bytes(read(folder).shard).gone) > 0
