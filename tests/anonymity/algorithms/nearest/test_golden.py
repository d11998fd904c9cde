"""State of nearest release that any version has written loads in this one (``tests/golden/make_nearest.py``)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crenel.anonymity.algorithms.nearest.stored_radii import RADII
from crenel.state.block import NO_TIME
from crenel.state.castle import VERSION, CastleState
from crenel.state.radii import Radii
from tests.golden.make import TAKEN, read, rest, restored, steps_of, without_columns
from tests.golden.make_nearest import FIRST, HERE, KINDS, setting
from tests.support.drive import apply, columns_of

SNAPSHOTS = sorted(HERE.glob("v*"))
of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def test_there_is_a_snapshot_of_each_version() -> None:
    assert {f.name for f in SNAPSHOTS} == {f"v{v}{kind}" for v in range(FIRST, VERSION + 1) for kind in KINDS}, (
        "make the snapshots of a new version: python -m tests.golden.make_nearest"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    stored = read(folder)
    counters = restored(stored, setting=setting(folder)).counters
    assert counters.buffered > 0
    assert counters.releases["cluster"] > 0
    assert counters.releases["reused"] > 0
    assert {kind for kind, held in stored.entries.items() if held} == {"blocks", "omega"}


@of_each_version
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(folder: Path) -> None:
    of = setting(folder)
    shard, never_stored = restored(read(folder), setting=of), of.castle()
    outputs = [apply(of, never_stored, step) for step in steps_of(of.policy)]
    assert rest(shard, of) == columns_of(outputs[TAKEN:])
    assert str(shard.counters) == str(never_stored.counters)


@of_each_version
def test_a_snapshot_from_before_prices_goes_on_with_one(folder: Path) -> None:
    of = setting(folder)
    of = replace(of, parameters=replace(of.parameters, isolation_price=0.55))
    shard = restored(read(folder), setting=of)
    changes = shard.advance(NO_TIME).changes
    assert changes is not None
    (entry,) = (Radii.from_bytes(blob) for blob in changes.entries[RADII].values() if blob)
    assert len(entry.radius) == shard.counters.buffered
    assert min(entry.radius) < 1.0
    rest(shard, of)
    assert shard.counters.buffered == 0


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    released = rest(restored(read(folder), setting=setting(folder)), setting(folder))
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_this_version_writes_is_what_its_snapshot_holds(kind: str) -> None:
    folder = HERE / f"v{VERSION}{kind}"
    stored = read(folder)
    changes = restored(stored, setting=setting(folder)).advance(NO_TIME).changes
    assert changes is not None
    assert without_columns(changes.shard, CastleState) == stored.shard, (
        "the stored format has changed: give it a new version (state.castle.VERSION), read the old one as well, and "
        "make the new snapshots: python -m tests.golden.make_nearest"
    )
