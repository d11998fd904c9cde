"""Stored state of each kind, and of an earlier version, loads and goes on as it did (``tests/golden/kinds.py``)."""

from __future__ import annotations

import json

import pytest

from crenel.state.codec import StateError, pack, unpack
from crenel.state.operator import ChainState
from tests.golden.kinds import EARLIER, KINDS, stored
from tests.golden.make import HERE

CHAIN = ChainState(bytes(range(32)), 4711, 3, "00112233445566ff")


@pytest.mark.parametrize("name", [*KINDS, *EARLIER])
def test_a_snapshot_releases_what_it_released_when_it_was_made(name: str) -> None:
    kind = (KINDS | EARLIER)[name]
    assert all(len(held) > (name != "batch/v1") for held in stored(name).entries.values())  # something of everything
    _, released, shard = kind.run(stored(name))
    assert json.loads(json.dumps(released)) == json.loads((HERE / name / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )
    assert len(released["release_id"]) > 5
    assert shard.counters.buffered == 0


@pytest.mark.parametrize("name", KINDS)
def test_what_this_version_writes_is_what_its_snapshot_holds(name: str) -> None:
    kind, found = KINDS[name], stored(name)
    message = (
        "the stored format has changed: give it a new version, read the old one too, and make a snapshot of the new"
    )
    state = kind.state.from_bytes(found.shard)
    assert state.to_bytes() == found.shard, message
    assert unpack(kind.state.KIND, found.shard, newest=kind.state.VERSION)[0] == kind.state.VERSION, message
    for entries, again in kind.written.items():
        assert {key: again(blob) for key, blob in found.entries[entries].items()} == found.entries[entries], message
    # Most snapshots do not hold the schema of the published columns.
    blobs = (found.shard, kind.run()[0].shard)
    columns = [unpack(kind.state.KIND, blob, newest=kind.state.VERSION)[1].keys() - {"members"} for blob in blobs]
    assert columns[0] == columns[1], message


def test_the_position_of_a_chain() -> None:
    blob = (HERE / "chain" / f"v{ChainState.VERSION}" / "chain.bin").read_bytes()
    assert (ChainState.from_bytes(blob), CHAIN.to_bytes()) == (CHAIN, blob)
    for bad, message in (
        (blob[:-1], "chain state of key 7"),
        (pack("chain", 3, {}), "format version 3 is unknown"),
        (pack("chain", 1, {"head": b""}), "'numbers' is missing"),
    ):
        with pytest.raises(StateError, match=message):
            ChainState.from_bytes(bad, "key 7")
