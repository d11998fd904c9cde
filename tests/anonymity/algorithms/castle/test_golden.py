"""State that any version has written loads in this one, and goes on (``tests/golden/make.py`` says what it is)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.state.castle import VERSION, CastleState, ClusteredTuples, Generalizations
from crenel.state.shard import StoredShard
from tests.golden import make
from tests.golden.make import HERE, TAKEN, files, read, rest, restored, setting_of, snapshot, steps_of, without_columns
from tests.support.drive import Setting, apply, columns_of

SNAPSHOTS = sorted(HERE.glob("v*"))


def counted_people(folder: Path) -> bool:
    """Return whether its version counts people for l; otherwise entries for reuse are forgotten where l is set."""
    return int(folder.name[1:].partition("-")[0]) >= 3


of_each_version = pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda folder: folder.name)


def uninterrupted(setting: Setting) -> tuple[Castle, dict[str, list[object]]]:
    """Return a shard that was never stored, and what it released after the snapshot was taken."""
    castle = setting.castle()
    outputs = [apply(setting, castle, step) for step in steps_of(setting.policy)]
    return castle, columns_of(outputs[TAKEN:])


def test_there_is_a_snapshot_of_each_version() -> None:
    since = {"": 1, "-noise": 2, "-within": 3}
    names = {f"v{version}{of}" for of, first in since.items() for version in range(first, VERSION + 1)}
    assert {folder.name for folder in SNAPSHOTS} == names, (
        "make the snapshot of a new version: python -m tests.golden.make"
    )


@of_each_version
def test_a_snapshot_holds_something_of_everything(folder: Path) -> None:
    stored = read(folder)
    castle = restored(stored, setting=setting_of(folder))
    assert all(len(held) > 1 for held in stored.entries.values())
    counters = castle.counters
    assert counters.buffered > len(stored.entries["gamma"])
    assert sum(counters.suppressed.values()) > 0
    assert all(counters.releases[kind] for kind in ("cluster", "merged", "split", "reused"))
    state = CastleState.from_bytes(stored.shard)
    noise = state.noise
    assert noise is not None or counted_people(folder) or len(state.gone) > 0
    assert (noise is not None) == folder.name.endswith("-noise")
    assert noise is None or (noise.used > 0 and noise.sampled_out > 0 and np.isfinite(noise.observed).all())
    within = folder.name.endswith("-within")
    kept = [Generalizations.from_bytes("omega", blob) for blob in stored.entries["omega"].values()]
    assert (state.linked > 0) == within
    assert all((entry.span[:, 0] <= entry.span[:, 1]).all() and bool(entry.span.size) == within for entry in kept)
    assert sum(map(len, files(stored).values())) < 100_000


@pytest.mark.parametrize("name", [f"v{VERSION}", f"v{VERSION}-noise", f"v{VERSION}-within"])
def test_a_snapshot_goes_on_as_the_shard_that_was_never_stored(name: str) -> None:
    setting = setting_of(HERE / name)  # with a shorter delay, under which more is reused
    setting = replace(setting, parameters=replace(setting.parameters, delay_tuples=20))
    castle = restored(snapshot(setting), setting=setting)  # as this code makes it: earlier code may split otherwise
    never_stored, released = uninterrupted(setting)
    reused = castle.counters.releases["reused"]
    assert rest(castle, setting) == released
    assert castle.counters.releases["reused"] > reused
    assert str(castle.counters) == str(never_stored.counters)
    assert castle.counters.delays.tolist() == never_stored.counters.delays.tolist()


@of_each_version
def test_a_snapshot_releases_what_it_released_when_it_was_made(folder: Path) -> None:
    setting = setting_of(folder)
    released = rest(restored(read(folder), setting=setting), setting)
    assert json.loads(json.dumps(released)) == json.loads((folder / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )


@pytest.mark.parametrize("name", [f"v{VERSION}", f"v{VERSION}-noise", f"v{VERSION}-within"])
def test_what_this_version_writes_is_what_its_snapshot_holds(name: str) -> None:
    stored, setting = read(HERE / name), setting_of(HERE / name)
    assert files(written_again(stored, setting)) == files(stored), (
        "the stored format has changed: give it a new version (state.shard.VERSION), read the old one as well, and "
        "make the new snapshot: python -m tests.golden.make"
    )
    again = restored(stored, setting=setting).push(setting.block([])).changes
    assert again is not None
    # Entries of which a part is forgotten are written anew.
    written = without_columns(again.shard, CastleState)
    states = [replace(CastleState.from_bytes(blob), entries=None) for blob in (written, stored.shard)]
    assert states[0].to_bytes() == states[1].to_bytes()


def written_again(stored: StoredShard, setting: Setting) -> StoredShard:
    """Return the entries, each read and written."""
    members, entries = setting.members, stored.entries
    return StoredShard(
        CastleState.from_bytes(stored.shard).to_bytes(),
        {
            "blocks": {
                key: ClusteredTuples.from_bytes(blob, members).to_bytes() for key, blob in entries["blocks"].items()
            },
            **{
                kind: {key: Generalizations.from_bytes(kind, b).to_bytes(kind) for key, b in entries[kind].items()}
                for kind in ("gamma", "omega")
            },
        },
    )


def test_a_snapshot_is_made_alike_each_time_and_never_anew(tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        make.main(folder)
        made.append({path.name: path.read_bytes() for path in folder.glob("v*/*")})
    assert made[0] == made[1]
    (tmp_path / "one" / f"v{VERSION}" / "shard.bin").write_bytes(b"as it was")
    with pytest.raises(SystemExit, match="there already"):
        make.main(tmp_path / "one")
    assert (tmp_path / "one" / f"v{VERSION}" / "shard.bin").read_bytes() == b"as it was"
